"""Each way to declare a model, KV memory and a network that docs/formats.md shows is read."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.declarations import Cohort, load_cohort

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
}


def shown(project: Path, section: str) -> list[dict[str, Any]]:
    """The YAML documents of a section of the page."""
    page = (project / "docs" / "formats.md").read_text(encoding="utf-8")
    block = re.search(rf"^### {section}\n.*?```yaml\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    assert block is not None
    return list(yaml.safe_load_all(block.group(1)))


def declared_with(project: Path, directory: Path, changes: dict[str, Any]) -> Cohort:
    """The good cohort with the blocks of ``changes`` in place of its own."""
    good = project / "tests" / "declarations" / "good"
    cohort = yaml.safe_load((good / "cohort.yaml").read_text(encoding="utf-8"))
    shutil.copy(good / cohort["requests"]["trace"]["file"], directory)
    (directory / "config.json").write_text(json.dumps(LLAMA))
    (directory / "transfers.csv").write_text("bytes,transfer_ms\n1000000,0.5\n100000000,1.5\n")
    (directory / "cohort.yaml").write_text(yaml.safe_dump(cohort | changes, sort_keys=False))
    return load_cohort(directory)


@pytest.mark.parametrize("way", range(3))
def test_a_model(way: int, project: Path, tmp_path: Path) -> None:
    documents = shown(project, "The model")
    assert len(documents) == 3
    paths = {row.path for row in declared_with(project, tmp_path, documents[way]).inputs}
    assert ("model.layers" in paths, "model.cache" in paths) == (way == 0, way > 0)


@pytest.mark.parametrize("way", range(3))
def test_kv_memory(way: int, project: Path, tmp_path: Path) -> None:
    documents = shown(project, "KV memory")
    assert len(documents) == 3
    paths = {row.path for row in declared_with(project, tmp_path, documents[way]).inputs}
    ways = ("kv_memory_per_worker", "kv_tokens_per_worker", "gpu_memory")
    assert [f"inventory.{name}" in paths for name in ways] == [place == way for place in range(3)]


def test_a_network(project: Path, tmp_path: Path) -> None:
    (document,) = shown(project, "The network")
    model, *_ = shown(project, "The model")
    in_blocks = {"model": model["model"] | {"block_tokens": 16}}
    inputs = {row.path: row.value for row in declared_with(project, tmp_path, document | in_blocks).inputs}
    assert {f"network.{name}" for name in document["network"]} <= set(inputs)
    assert inputs["network.transfer_curve"] == "1000000:0.0005 100000000:0.0015"
