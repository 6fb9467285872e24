"""AIPerf's records as a log: one request a record, without the warm-up, and what failed counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.aiperf_results import AIPERF_RESULTS
from pipelines.traces.formats.sglang_results import SGLANG_RESULTS
from pipelines.traces.formats.vllm_results import VLLM_RESULTS
from pipelines.traces.log import Log, LogOptions, chosen_format, read_as
from pipelines.traces.log_file import LogFile

START = 1795967458860775817


def record(start_ns: object = START, prompt: object = 62, unit: str = "tokens", **others: Any) -> dict[str, Any]:
    return {
        "metadata": {"x_request_id": "secret", "request_start_ns": start_ns, "benchmark_phase": "profiling"}
        | others.pop("metadata", {}),
        "metrics": {
            "time_to_first_token": {"value": 203.5, "unit": "ms"},
            "input_sequence_length": {"value": prompt, "unit": unit},
            "output_sequence_length": {"value": 32, "unit": "tokens"},
        },
        "error": None,
        **others,
    }


def read(path: Path, *records: dict[str, Any]) -> Log:
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    file = LogFile(path, "profile_export.jsonl")
    assert AIPERF_RESULTS.detect(file.head)
    return read_as(file, AIPERF_RESULTS, LogOptions(on_invalid="drop"))


def test_nanoseconds_and_sequence_lengths_are_read(tmp_path: Path) -> None:
    log = read(tmp_path / "log", record(), record(START + 7, 5))
    assert log.rows.rows() == [(0, 62, 32), (7, 5, 32)]
    assert log.warnings == ()


def test_the_warm_up_is_left_out_and_counted(tmp_path: Path) -> None:
    warm_up = record(START - 10, metadata={"benchmark_phase": "warmup"})
    log = read(tmp_path / "log", warm_up, record(), warm_up)
    assert log.rows_read == log.rows.height == 1
    assert log.warnings == ("2 records of the warm-up left out: no requests of the workload",)


def test_failed_and_cancelled_requests_are_invalid(tmp_path: Path) -> None:
    failed = record(error={"code": 500, "message": "secret"}, metrics={"error_isl": {"value": 62, "unit": "tokens"}})
    log = read(tmp_path / "log", record(), failed, record(metadata={"was_cancelled": True}))
    assert log.rows.height == 1
    assert log.invalid.by_code() == {"failed": 2}
    assert "secret" not in str(log.invalid.problems("log"))


def test_what_cannot_be_read_is_invalid(tmp_path: Path) -> None:
    log = read(tmp_path / "log", record(), record(None), record(prompt=0), record(unit="characters"))
    assert log.invalid.by_code() == {"prompt_tokens_not_tokens": 1, "prompt_tokens_zero": 1, "time_empty": 1}


def test_the_real_records_are_read(shared: Path) -> None:
    file = LogFile(shared / "benchmarks/controlled/aiperf0130_osl32_profile_export.jsonl", "log")
    log = read_as(file, AIPERF_RESULTS, LogOptions())
    assert log.rows.height == 30
    assert log.rows["timestamp_ns"][1] == 1795967458948974519 - START
    assert set(log.rows["prompt_tokens"]) == {62}
    assert set(log.rows["output_tokens"]) == {32}


@pytest.mark.parametrize(
    "name",
    [
        "aiperf/qwen_concurrency4_profile_export_aiperf.json",
        "controlled/aiperf0130_osl1_profile_export_aiperf.json",
        "controlled/aiperf0130_osl32_profile_export_aiperf.csv",
    ],
)
def test_real_aggregates_are_refused_and_the_file_with_the_requests_named(shared: Path, name: str) -> None:
    file = LogFile(shared / "benchmarks" / name, "log")
    assert AIPERF_RESULTS.detect(file.head)
    with pytest.raises(DeclarationProblems, match=r"read profile_export\.jsonl"):
        read_as(file, AIPERF_RESULTS, LogOptions())


@pytest.mark.parametrize(
    "name",
    [
        "guidellm/v0_3_benchmarks_stripped.json",
        "controlled/guidellm081_osl32.json",
        "inference-perf/vllm_stage_0_lifecycle_metrics.json",
        "controlled/inferenceperf070_osl32_stage_0_lifecycle_metrics.json",
        "llm-d/benchmark_report_v0_2_1.yaml",
    ],
)
def test_results_of_other_tools_are_not_recognised(shared: Path, name: str) -> None:
    file = LogFile(shared / "benchmarks" / name, "log")
    assert not any(one.detect(file.head) for one in (AIPERF_RESULTS, VLLM_RESULTS, SGLANG_RESULTS))
    with pytest.raises(DeclarationProblems, match="the format is not recognised"):
        chosen_format(file, None)
