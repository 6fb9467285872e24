"""Texts and identifiers of a log go nowhere: not into what is printed, converted, stored or exported, whatever its format."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.fuzz_readers import READERS
from benchmarks.log_samples import CANARY, LENGTHS, SAMPLES
from tests.conftest import Command

COLUMNS = ["--columns", "arrival=at,unit=s,prompt_tokens=prompt,output_tokens=output"]
CASES = [(name, place) for name in READERS for place in range(len(SAMPLES.get(name, ())))]
NOT_CONVERTED = {("vidur", 1), ("vllm-results", 1), ("sglang-results", 0), ("servegen", 0)}
"""Logs without arrivals, and one that is refused whole where a window cannot be read."""


def written(tmp_path: Path, name: str, data: bytes) -> tuple[Path, list[str | Path]]:
    """The log on disk, and the options that reading it takes."""
    path = tmp_path / "log"
    path.write_bytes(data)
    options: list[str | Path] = ["--as", name]
    if name == "generic":
        options += COLUMNS
    if name == "servegen":
        lengths = tmp_path / "lengths.json"
        lengths.write_bytes(LENGTHS)
        options += ["--lengths", lengths]
    return path, options


def damaged(data: bytes) -> bytes:
    """The log with a line of text in its middle and one at its end; Parquet and documents stay as they are."""
    if data.startswith(b"PAR1") or data.rstrip().count(b"\n") < 3 or data.startswith(b"{\n"):
        return data
    lines = data.splitlines(keepends=True)
    text = f"{CANARY} said, {CANARY}\n".encode()
    return b"".join([*lines[:2], text, *lines[2:], text])


@pytest.mark.parametrize(("name", "place"), CASES)
def test_nothing_that_is_said_or_converted_holds_a_text(
    name: str, place: int, phaseledger: Command, tmp_path: Path
) -> None:
    log, options = written(tmp_path, name, damaged(SAMPLES[name][place]))
    for call in (
        ("trace", "describe", log, *options),
        ("trace", "describe", log, *options, "--format", "json"),
        ("trace", "convert", log, tmp_path / "out.csv", *options, "--on-invalid", "drop"),
        ("trace", "convert", log, tmp_path / "rejected.jsonl", *options, "--on-invalid", "reject"),
    ):
        run = phaseledger(*call)
        assert run.code in (0, 2), run.err
        assert "Traceback" not in run.err
        assert CANARY not in run.out + run.err, (call, run)
    for converted in (tmp_path / "out.csv", tmp_path / "rejected.jsonl"):
        assert not converted.exists() or CANARY not in converted.read_text()
    assert (tmp_path / "out.csv").exists() != ((name, place) in NOT_CONVERTED)


@pytest.mark.parametrize("name", ["otel-genai", "srt-slurm", "aiperf-results"])
def test_nothing_that_a_plan_stores_holds_a_text(
    name: str, phaseledger: Command, project: Path, tmp_path: Path, dagster_home: Path
) -> None:
    base = yaml.safe_load((project / "cohorts" / "moderate-chat" / "cohort.yaml").read_text())
    cohort: dict[str, Any] = copy.deepcopy(base)
    cohort["metadata"]["name"] = f"private-{name}"
    cohort["requests"] = {"trace": {"file": "log", "on_invalid": "drop", "provenance": "supplied"}}
    (tmp_path / "cohort.yaml").write_text(yaml.safe_dump(cohort))
    (tmp_path / "log").write_bytes(damaged(SAMPLES[name][-1]))
    run = phaseledger("plan", tmp_path, "--out", tmp_path / "out")
    assert run.code in (0, 1), run.err
    assert json.loads((tmp_path / "out" / "receipt.json").read_text())["workload"]["rows_dropped"] >= 2
    assert CANARY not in run.out + run.err
    files = [path for place in (tmp_path / "out", dagster_home) for path in place.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]
