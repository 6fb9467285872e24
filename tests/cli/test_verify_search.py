"""Of more than a thousand scenarios the verifier sees those that are kept; with the declarations, which ones have to be."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.verify_declared import compared, read_declared
from pipelines.frames.canonical import canonical_bytes
from pipelines.receipts.build import build_receipt
from tests.plans import plan_of


@pytest.fixture(scope="module")
def large(project: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """A cohort of 600 GPUs, and its receipt."""
    place = tmp_path_factory.mktemp("large") / "cohort"
    shutil.copytree(project / "cohorts" / "moderate-chat", place)
    file = place / "cohort.yaml"
    text = file.read_text().replace("gpus: 4", "gpus: 600")
    head, _ = text.split("topologies:")
    file.write_text(f"{head}topologies:\n  aggregated: {{}}\n  chunked: {{chunk_tokens: [512, 2048]}}\n")
    body, _ = build_receipt(plan_of(place, project / "rules"))
    return str(place), json.loads(canonical_bytes(body))


def test_what_is_kept_is_searched_for_again(large: tuple[str, dict[str, Any]], project: Path) -> None:
    place, receipt = large
    assert receipt["search"]["scenarios"] == 1800 > receipt["search"]["kept"]
    declared = read_declared(place, str(project / "rules"))
    assert compared(receipt, declared, is_whole=True).disagreements == []
    chosen = receipt["decision"]["scenario"]
    without = receipt | {"scenarios": [row for row in receipt["scenarios"] if row["scenario"] != chosen]}
    (found,) = compared(without, declared, is_whole=True).disagreements
    assert found["where"] == "scenarios"
    assert set(found["declared"]) - set(found["receipt"]) == {chosen}
