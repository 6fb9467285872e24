"""Cohorts of every kind of request, planned from end to end: what the receipt says of them, and that the verifier agrees."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from tests.conftest import Command

SUPPLIED = {"provenance": "supplied"}


@pytest.fixture(scope="session")
def base(project: Path) -> dict[str, Any]:
    """The declaration of moderate-chat."""
    return yaml.safe_load((project / "cohorts" / "moderate-chat" / "cohort.yaml").read_text())


def planned_workload(
    base: dict[str, Any],
    phaseledger: Command,
    directory: Path,
    requests: dict[str, Any],
    **changed: Any,
) -> dict[str, Any]:
    """Plan moderate-chat with other requests; the receipt. Planning includes the verifier, and is repeated on its own here."""
    cohort = copy.deepcopy(base)
    cohort["metadata"]["name"] = f"requests-{directory.name.replace('_', '-')[:40].strip('-')}"
    cohort["requests"] = requests
    for path, value in changed.items():
        block, key = path.split("__")[:-1], path.split("__")[-1]
        place = cohort
        for name in block:
            place = place[name]
        place[key] = value
    (directory / "cohort.yaml").write_text(yaml.safe_dump(cohort, sort_keys=False))
    run = phaseledger("plan", directory, "--out", directory / "out", "--quiet")
    assert run.code in (0, 1), run.err
    verified = phaseledger("verify", directory / "out" / "receipt.json")
    assert verified.code == 0, verified.out + verified.err
    receipt: dict[str, Any] = json.loads((directory / "out" / "receipt.json").read_text())
    return receipt


def rates_of(receipt: dict[str, Any]) -> dict[str, set[float]]:
    """The rates at which scenarios were evaluated, by bound."""
    rows = receipt["scenarios"]
    return {bound: {row["bounds"][bound]["rate_rps"] for row in rows} for bound in ("nominal", "conservative")}


def test_classes_at_a_declared_rate(base: dict[str, Any], phaseledger: Command, tmp_path: Path) -> None:
    receipt = planned_workload(
        base,
        phaseledger,
        tmp_path,
        {
            "classes": [
                {"weight": 30, "prompt_tokens": 400, "output_tokens": 100},
                {"weight": 10, "prompt_tokens": 3000, "cached_prompt_tokens": 1000, "output_tokens": 50},
            ],
            "classes_from": SUPPLIED,
            "arrivals": {"rate": {"value": "2/s", "high": "3/s", **SUPPLIED}},
            "bucket_edges_tokens": [512],
        },
    )
    workload = receipt["workload"]
    assert (workload["kind"], workload["format"], workload["requests"], workload["duration_s"]) == (
        "rate",
        "classes",
        4,
        None,
    )
    assert rates_of(receipt) == {"nominal": {2.0}, "conservative": {3.0}}
    every, short, long = workload["buckets"]
    assert (every["rate_rps"], short["rate_rps"], long["rate_rps"]) == (2.0, 1.5, 0.5)
    assert (long["prompt_tokens_mean"], long["uncached_tokens_mean"]) == (3000, 2000)
    assert every["attention_mean"] == (3 * 400**2 + 3000**2 - 1000**2) / 4
    scv = next(row for row in receipt["inputs"] if row["path"] == "requests.arrival_scv")
    assert (scv["value"], scv["note"]) == (1, "not declared: default")


def test_a_closed_loop(base: dict[str, Any], phaseledger: Command, tmp_path: Path) -> None:
    receipt = planned_workload(
        base,
        phaseledger,
        tmp_path,
        {
            "classes": [{"weight": 1, "prompt_tokens": 800, "output_tokens": 200}],
            "classes_from": SUPPLIED,
            "arrivals": {"concurrency": {"value": 8, **SUPPLIED}},
        },
    )
    assert receipt["workload"]["kind"] == "closed"
    assert receipt["workload"]["buckets"][0]["rate_rps"] is None
    for row in receipt["scenarios"]:
        bound = row["bounds"]["nominal"]
        if bound["status"] == "evaluated":
            assert bound["rate_rps"] * bound["lanes"][0]["e2e_s"] == pytest.approx(8, rel=1e-6)  # Little's law


def test_invalid_rows_are_dropped_and_counted_where_that_is_declared(
    base: dict[str, Any], phaseledger: Command, tmp_path: Path, project: Path
) -> None:
    header, *rows = (project / "cohorts" / "moderate-chat" / "requests.csv").read_text().splitlines()
    rows[10] = rows[10].rsplit(",", 1)[0] + ",0"
    rows[20] = rows[20].rsplit(",", 1)[0] + ",0"
    rows[30] = "," + rows[30].split(",", 1)[1]
    (tmp_path / "log.csv").write_text("\n".join([header, *rows]) + "\n")
    trace = {"file": "log.csv", **SUPPLIED}
    receipt = planned_workload(base, phaseledger, tmp_path, {"trace": trace | {"on_invalid": "drop"}})
    workload = receipt["workload"]
    assert (workload["rows_read"], workload["rows_dropped"], workload["requests"]) == (len(rows), 3, len(rows) - 3)
    assert workload["dropped"] == [{"kind": "output_tokens_zero", "rows": 2}, {"kind": "time_empty", "rows": 1}]
    cohort = tmp_path / "cohort.yaml"
    cohort.write_text(cohort.read_text().replace("on_invalid: drop", "on_invalid: reject"))
    refused = phaseledger("plan", tmp_path, "--out", tmp_path / "other")
    assert refused.code == 2
    assert "log.csv:12:1: GeneratedTokens: a token count of 0 in 2 rows (rows 12, 22)" in refused.err
    assert "log.csv:32:1: TIMESTAMP: an empty timestamp in 1 row (row 32)" in refused.err
    assert not (tmp_path / "other").exists()


def test_hits_of_a_real_log_relieve_prefill(
    base: dict[str, Any], phaseledger: Command, tmp_path: Path, shared: Path
) -> None:
    shutil.copy(shared / "traces" / "mooncake_fast25_conversation.jsonl", tmp_path / "log.jsonl")
    requests: dict[str, Any] = {
        "trace": {"file": "log.jsonl", "spread_ties": "3 s", **SUPPLIED},
        "slice": {"thin": {"keep": 1, "of": 4}},
        "bucket_edges_tokens": {"quantiles": 4},
    }
    (tmp_path / "without").mkdir()
    shutil.copy(tmp_path / "log.jsonl", tmp_path / "without" / "log.jsonl")
    cached = planned_workload(
        base, phaseledger, tmp_path, requests | {"prefix_cache": {"capacity": "unlimited", "scope": "shared"}}
    )
    plain = planned_workload(base, phaseledger, tmp_path / "without", requests)
    cache = cached["workload"]["prefix_cache"]
    every, bare = cached["workload"]["buckets"][0], plain["workload"]["buckets"][0]
    assert cache["block_tokens"] == 512
    assert 0 < cache["hit_ratio"] < 1
    assert cache["hit_ratio"] == pytest.approx(
        1 - every["uncached_tokens_mean"] / every["prompt_tokens_mean"], abs=1e-11
    )
    assert bare["uncached_tokens_mean"] == bare["prompt_tokens_mean"] == every["prompt_tokens_mean"]
    assert [step["step"] for step in cached["workload"]["steps"]] == ["spread_ties", "thin"]
    assert cached["workload"]["requests"] == (12_031 + 3) // 4
    assert len(cached["workload"]["bucket_edges_tokens"]) == 3
    assert cached["fingerprint"] != plain["fingerprint"]
    load = [
        row["bounds"]["nominal"]["loads"][0]["utilization"] for row in (cached["scenarios"][0], plain["scenarios"][0])
    ]
    assert load[0] < load[1]


def test_the_same_requests_in_csv_and_parquet_have_one_fingerprint(
    base: dict[str, Any], phaseledger: Command, tmp_path: Path, project: Path
) -> None:
    table = pl.read_csv(project / "cohorts" / "moderate-chat" / "requests.csv")
    at_us = table["TIMESTAMP"].str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us").dt.epoch("us")
    moved = pl.DataFrame(
        {"ts": at_us, "in": table["ContextTokens"], "out": table["GeneratedTokens"], "user": "someone"}
    )
    columns = {"arrival": "ts", "unit": "us", "prompt_tokens": "in", "output_tokens": "out"}
    fingerprints, digests = set(), set()
    for suffix, write in (
        ("csv", lambda path: shutil.copy(project / "cohorts" / "moderate-chat" / "requests.csv", path)),
        ("parquet", moved.sample(fraction=1.0, shuffle=True, seed=1).write_parquet),
        ("jsonl", moved.write_ndjson),
    ):
        directory = tmp_path / suffix
        directory.mkdir()
        write(directory / f"log.{suffix}")
        known = {} if suffix == "csv" else {"format": "generic", "columns": columns}
        requests = {"trace": {"file": f"log.{suffix}", **known, **SUPPLIED}, "bucket_edges_tokens": [512, 2048]}
        receipt = planned_workload(base, phaseledger, directory, requests)
        fingerprints.add(receipt["fingerprint"])
        digests.add(receipt["workload"]["requests_sha256"])
    assert len(fingerprints) == len(digests) == 1


def test_a_declared_hit_ratio_at_its_two_ends(
    base: dict[str, Any], phaseledger: Command, tmp_path: Path, project: Path
) -> None:
    shutil.copy(project / "cohorts" / "moderate-chat" / "requests.csv", tmp_path / "requests.csv")
    receipt = planned_workload(
        base,
        phaseledger,
        tmp_path,
        {"trace": {"file": "requests.csv", **SUPPLIED}},
        service__prefill__prefix_hit_ratio={"value": 0.5, "low": 0.25, **SUPPLIED},
    )
    means = {row["bound"]: row["prefill_mean_s"] for row in receipt["service"] if row["bucket"] == "all"}
    mean_prompt = receipt["workload"]["buckets"][0]["uncached_tokens_mean"]
    assert means["nominal"] == pytest.approx(0.008 + 0.5 * mean_prompt / 12_000, rel=1e-9)
    assert means["conservative"] == pytest.approx(0.012 + 0.75 * mean_prompt / 10_500, rel=1e-9)


def test_everything_that_is_wrong_is_reported_together(
    base: dict[str, Any], phaseledger: Command, tmp_path: Path
) -> None:
    """A faulty cohort, a faulty rules directory and a faulty log, in one run."""
    cohort = copy.deepcopy(base)
    cohort["inventory"]["gpus"] = 0
    cohort["requests"] = {"trace": {"file": "log.csv", **SUPPLIED}}
    (tmp_path / "cohort.yaml").write_text(yaml.safe_dump(cohort))
    (tmp_path / "log.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2026-01-01 00:00:00,1,-1\n")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "gates.yaml").write_text("kind: Nothing\n")
    run = phaseledger("plan", tmp_path, "--rules", tmp_path / "rules", "--out", tmp_path / "out")
    assert run.code == 2
    files = {line.split(":")[0].rsplit("/", 1)[-1] for line in run.err.splitlines()[:-1]}
    assert files == {"cohort.yaml", "gates.yaml", "log.csv"}
    assert not (tmp_path / "out").exists()
