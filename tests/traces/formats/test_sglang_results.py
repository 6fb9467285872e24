"""Results of sglang.bench_serving as a log: lengths of the requests that were sent, and arrivals where they are stated."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.sglang_results import SGLANG_RESULTS
from pipelines.traces.formats.vllm_results import VLLM_RESULTS
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile

RUN = {
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": float("inf"),
    "max_concurrency": 16,
    "duration": 149.1,
    "completed": 2,
    "total_input_tokens": 30,
    "total_output_tokens": 11,
    "total_output_tokens_retokenized": 11,
}
DETAILS = {
    "input_lens": [10, 20, 30],
    "output_lens": [5, 6, 0],
    "generated_texts": ["secret", "secret", ""],
    "errors": ["", None, "secret"],
}


def read(path: Path, *runs: dict[str, Any]) -> Log:
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    file = LogFile(path, "run.jsonl")
    assert SGLANG_RESULTS.detect(file.head)
    assert not VLLM_RESULTS.detect(file.head)
    return read_as(file, SGLANG_RESULTS, LogOptions(on_invalid="drop"))


def test_one_run_is_a_log_of_lengths_though_its_rate_is_no_json(tmp_path: Path) -> None:
    log = read(tmp_path / "run.jsonl", RUN | DETAILS)
    assert not log.is_timed
    assert log.rows.rows() == [(10, 5), (20, 6)]
    assert log.invalid.by_code() == {"failed": 1}
    assert "requests.arrivals" in log.warnings[0]


def test_start_times_and_successes_are_read_where_a_version_writes_them(tmp_path: Path) -> None:
    stated = {
        "start_times": [1.5, 2.0, 2.5],
        "successes": [True, False, True],
        "output_lens": [5, 6, 7],
        "errors": None,
    }
    log = read(tmp_path / "run.jsonl", RUN | DETAILS | stated)
    assert log.rows.rows() == [(0, 10, 5), (1_000_000_000, 30, 7)]


def test_runs_without_details_are_refused_with_the_flag_that_is_needed(tmp_path: Path) -> None:
    for runs in ([RUN], [RUN, RUN]):
        with pytest.raises(DeclarationProblems, match=r"run sglang\.bench_serving with --output-details"):
            read(tmp_path / "run.jsonl", *runs)


def test_several_runs_with_details_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationProblems, match="2 runs, one a line; expected one"):
        read(tmp_path / "run.jsonl", RUN | DETAILS, RUN | DETAILS)


@pytest.mark.parametrize(
    "name",
    [
        "sglang/datacrunch_h200_llama_3_3_70b_online_output.jsonl",
        "sglang/infera_pd_mori_1p1d_dsr1_conc16_isl1024_osl1024.json",
        "controlled/sglang0523_osl32_rate5.jsonl",
    ],
)
def test_real_aggregates_are_recognised_and_refused(shared: Path, name: str) -> None:
    file = LogFile(shared / "benchmarks" / name, "run.jsonl")
    assert SGLANG_RESULTS.detect(file.head)
    with pytest.raises(DeclarationProblems, match="--output-details"):
        read_as(file, SGLANG_RESULTS, LogOptions())
