"""Results of vllm bench serve as a log: arrivals and lengths of the requests that were sent."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.sglang_results import SGLANG_RESULTS
from pipelines.traces.formats.vllm_results import VLLM_RESULTS
from pipelines.traces.log import Log, LogOptions, read_as
from pipelines.traces.log_file import LogFile

RUN = {
    "date": "20261129-155435",
    "backend": "vllm",
    "model_id": "m",
    "tokenizer_id": "t",
    "num_prompts": 3,
    "request_rate": "inf",
    "max_concurrency": None,
    "duration": 6.5,
    "completed": 3,
    "total_input_tokens": 60,
}
DETAILS = {
    "input_lens": [10, 20, 30],
    "output_lens": [1, 2, 3],
    "ttfts": [0.2, 0.2, 0.2],
    "itls": [[], [0.02], [0.02, 0.02]],
    "start_times": [3599.75, 3600.0, 3600.000000001],
    "generated_texts": ["secret", "secret", "secret"],
    "errors": ["", "", ""],
}

Write = Callable[[Any], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(result: Any) -> Path:
        path = tmp_path / "results.json"
        path.write_text(result if isinstance(result, str) else json.dumps(result))
        return path

    return written


def read(path: Path, *, drop: bool = False) -> Log:
    file = LogFile(path, "results.json")
    assert VLLM_RESULTS.detect(file.head)
    assert not SGLANG_RESULTS.detect(file.head)
    return read_as(file, VLLM_RESULTS, LogOptions(on_invalid="drop" if drop else "reject"))


def refusal(path: Path) -> str:
    with pytest.raises(DeclarationProblems) as caught:
        read(path)
    return str(caught.value)


@pytest.mark.parametrize("indent", [None, 2])
def test_start_times_are_arrivals_and_lengths_are_read(write: Write, indent: int | None) -> None:
    log = read(write(json.dumps(RUN | DETAILS, indent=indent)))
    assert log.rows["timestamp_ns"].to_list() == [0, 250_000_000, 250_000_001]
    assert log.rows["prompt_tokens"].to_list() == [10, 20, 30]
    assert log.rows["output_tokens"].to_list() == [1, 2, 3]
    assert log.rows.columns == ["timestamp_ns", "prompt_tokens", "output_tokens"]
    assert log.warnings == ()


def test_a_compressed_result_is_read(write: Write) -> None:
    path = write(RUN | DETAILS)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert read(path).rows.height == 3


@pytest.mark.parametrize("starts", [None, [0.0, 0.0, 0.0]])
def test_without_start_times_it_is_a_log_of_lengths(write: Write, starts: list[float] | None) -> None:
    log = read(write(RUN | DETAILS | {"start_times": starts}))
    assert not log.is_timed
    assert "requests.arrivals" in log.warnings[0]


def test_one_missing_start_is_no_request_at_time_0(write: Write) -> None:
    log = read(write(RUN | DETAILS | {"start_times": [3599.5, 0.0, 3600.0]}), drop=True)
    assert log.rows["timestamp_ns"].to_list() == [0, 500_000_000]
    assert log.invalid.by_code() == {"time_empty": 1}


def test_failed_requests_are_invalid_and_their_text_stays_behind(write: Write) -> None:
    failed = {"errors": ["", "Traceback secret", ""], "output_lens": [1, 0, 0]}
    path = write(RUN | DETAILS | failed)
    log = read(path, drop=True)
    assert log.rows["prompt_tokens"].to_list() == [10]
    assert log.invalid.by_code() == {"failed": 2}
    assert refusal(path) == (
        "results.json:2:1: a request that failed in 2 rows (rows 2, 3); expected requests that were served (hint: requests that "
        "failed or were cancelled are no part of a cohort: on_invalid: drop leaves such rows out and counts them)"
    )


def test_a_limit_on_concurrency_is_said(write: Write) -> None:
    assert "max_concurrency" in read(write(RUN | DETAILS | {"max_concurrency": 4})).warnings[0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"output_lens": None}, "not a list"),
        ({"input_lens": {"a": 1}}, "not a list"),
        ({"errors": ["", ""]}, "input_lens and output_lens and start_times and errors differ in length"),
        ({"input_lens": [], "output_lens": [], "start_times": [], "errors": []}, "no requests"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(write: Write, change: dict[str, object], expected: str) -> None:
    assert expected in refusal(write(RUN | DETAILS | change))


def test_aggregates_alone_are_refused_with_the_flag_that_is_needed(write: Write) -> None:
    assert "run vllm bench serve with --save-result --save-detailed" in refusal(write(RUN))


def test_results_of_embeddings_have_no_output_tokens(write: Write) -> None:
    assert "no output_lens" in refusal(write(RUN | {"input_lens": [1], "errors": [""]}))


def test_several_runs_in_one_file_are_refused(write: Write) -> None:
    line = json.dumps(RUN | DETAILS)
    message = refusal(write(f"{line}\n{line}\n"))
    assert message.startswith("results.json:2:1: 2 runs, one a line; expected one")


def test_a_result_that_is_cut_off_is_refused(write: Write) -> None:
    path = write(json.dumps(RUN | DETAILS)[:-9])
    with pytest.raises(DeclarationProblems, match="not a JSON object"):
        read_as(LogFile(path, "results.json"), VLLM_RESULTS, LogOptions())


def test_the_real_result_is_read(shared: Path) -> None:
    log = read(shared / "benchmarks/controlled/vllm0330_osl32_rate5_detailed.json")
    assert log.rows.height == 30
    assert log.rows["prompt_tokens"].sum() == 1463
    assert log.rows["output_tokens"].to_list() == [32] * 30
    assert log.rows["timestamp_ns"][1] == 3599_910567270 - 3599_702820528


@pytest.mark.parametrize("name", ["vllm092_osl32_rate5", "vllm0330_osl32_rate5", "vllm0330_osl32_inf_maxconc4"])
def test_real_aggregates_are_refused(shared: Path, name: str) -> None:
    assert "--save-detailed" in refusal(shared / f"benchmarks/controlled/{name}.json")
