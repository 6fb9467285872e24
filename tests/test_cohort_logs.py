"""The bundled request logs are what their generator writes, and have the shapes that their cohorts are about."""

from pathlib import Path

import pytest

from cohorts.generate import COHORTS, log_text
from pipelines.traces import LogOptions, bucket_frame, read_log
from pipelines.traces.requests import plain_requests

NAMES = list(COHORTS)


@pytest.mark.parametrize("name", NAMES)
def test_generating_a_log_again_gives_the_same_bytes(name: str, project: Path) -> None:
    assert (project / "cohorts" / name / "requests.csv").read_bytes() == log_text(COHORTS[name]).encode()


@pytest.mark.parametrize("name", NAMES)
def test_a_log_is_small_and_reads_without_a_problem(name: str, project: Path) -> None:
    path = project / "cohorts" / name / "requests.csv"
    assert path.stat().st_size < 1_000_000
    assert read_log(path, LogOptions()).format == "azure-llm"


@pytest.mark.parametrize("name", ["moderate-chat", "overloaded"])
def test_steady_logs_arrive_like_independent_requests(name: str, project: Path) -> None:
    row = bucket_frame(plain_requests(read_log(project / "cohorts" / name / "requests.csv", LogOptions())), []).row(
        0, named=True
    )
    recipe = COHORTS[name]
    assert row["rate_rps"] == pytest.approx(recipe.steady.rate_rps, rel=0.05)
    assert row["arrival_scv"] == pytest.approx(1, abs=0.15)
    assert row["prompt_tokens_max"] <= recipe.steady.prompt.high


@pytest.mark.parametrize("name", ["bursty-documents", "slow-link"])
def test_documents_come_in_bursts_between_short_chats(name: str, project: Path) -> None:
    requests = plain_requests(read_log(project / "cohorts" / name / "requests.csv", LogOptions()))
    _, chats, documents = bucket_frame(requests, [4_000]).iter_rows(named=True)
    assert documents["arrival_scv"] > 5
    assert chats["arrival_scv"] == pytest.approx(1, abs=0.2)
    assert chats["requests"] > 3 * documents["requests"]
