"""`trace describe` on every real log, against a second reading: standard library only, row by row, sums in fractions."""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Command

Request = tuple[Fraction, int, int]
"""Arrival in seconds, prompt tokens, output tokens."""


def azure(path: Path) -> Iterator[Request]:
    epoch = datetime(2023, 11, 16)
    for row in csv.DictReader(path.read_text().splitlines()):
        whole, _, fraction = row["TIMESTAMP"].partition(".")
        seconds = (datetime.strptime(whole, "%Y-%m-%d %H:%M:%S") - epoch).total_seconds()
        at = Fraction(int(seconds)) + Fraction(int(fraction or 0), 10 ** len(fraction or "0"))
        yield at, int(row["ContextTokens"]), int(row["GeneratedTokens"])


def mooncake(path: Path) -> Iterator[Request]:
    for line in path.read_text().splitlines():
        record = json.loads(line)
        yield Fraction(record["timestamp"], 1000), record["input_length"], record["output_length"]


def llmservingsim(path: Path) -> Iterator[Request]:
    for line in path.read_text().splitlines():
        record = json.loads(line)
        yield Fraction(record["arrival_time_ns"], 10**9), record["input_toks"], record["output_toks"]


def splitwise(path: Path) -> Iterator[Request]:
    for row in csv.DictReader(path.read_text().splitlines()):
        yield Fraction(row["arrival_timestamp"]), int(row["prompt_size"]), int(row["token_size"])


def srt_slurm(path: Path) -> Iterator[Request]:
    """Milliseconds; a later turn as early as it can be, its delay after the turn before it arrived."""
    last: dict[str, Fraction] = {}
    for line in path.read_text().splitlines():
        record = json.loads(line, parse_float=Fraction)
        at = last[record["session_id"]] + record["delay"] if "delay" in record else record["timestamp"]
        last[record["session_id"]] = Fraction(at)
        yield Fraction(at) / 1000, record["input_length"], record["output_length"]


LOGS: dict[str, tuple[str, Callable[[Path], Iterator[Request]]]] = {
    "azure_2023_code.csv": ("azure-llm", azure),
    "mooncake_fast25_conversation.jsonl": ("mooncake", mooncake),
    "llmservingsim_example.jsonl": ("llmservingsim", llmservingsim),
    "splitwise_sim_test.csv": ("splitwise-sim", splitwise),
    "srt_slurm_sample.jsonl": ("srt-slurm", srt_slurm),
}


def described(phaseledger: Command, path: Path) -> dict[str, Any]:
    run = phaseledger("trace", "describe", path, "--format", "json")
    assert run.code == 0, run.err
    found: dict[str, Any] = json.loads(run.out)
    return found


def figure(value: Fraction | int) -> float:
    """As a workload figure is exported: twelve significant digits."""
    return float(f"{float(value):.11e}")


@pytest.mark.parametrize("name", LOGS)
def test_a_real_log(name: str, phaseledger: Command, shared: Path) -> None:
    format_name, read = LOGS[name]
    found = described(phaseledger, shared / "traces" / name)
    requests = sorted(read(shared / "traces" / name))
    count, times = len(requests), [at for at, _, _ in requests]
    duration = times[-1] - times[0]
    assert (found["format"], found["requests"], found["rows_read"], found["rows_invalid"]) == (
        format_name,
        count,
        count,
        0,
    )
    assert found["duration_s"] == figure(duration)
    assert found["rate_rps"] == figure((count - 1) / duration)
    for kind, values in (("prompt", [p for _, p, _ in requests]), ("output", [o for _, _, o in requests])):
        tokens = found["tokens"][kind]
        assert (tokens["sum"], tokens["min"], tokens["max"]) == (sum(values), min(values), max(values))
        assert tokens["mean"] == figure(Fraction(sum(values), count))
        assert tokens["m2"] == figure(Fraction(sum(value * value for value in values), count))
    assert found["tokens"]["prompt_output_mean"] == figure(Fraction(sum(p * o for _, p, o in requests), count))
    gaps = [later - earlier for earlier, later in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    assert found["arrival_scv"] == figure(sum(gap * gap for gap in gaps) / len(gaps) / mean**2 - 1)


@pytest.mark.parametrize("name", ["azure_2023_code.csv", "mooncake_fast25_conversation.jsonl"])
def test_windows_of_a_real_log(name: str, phaseledger: Command, shared: Path) -> None:
    found = described(phaseledger, shared / "traces" / name)
    times = sorted(at for at, _, _ in LOGS[name][1](shared / "traces" / name))
    assert [window["window_s"] for window in found["windows"]] == [1, 10, 60]
    for window in found["windows"]:
        length = window["window_s"]
        windows = (times[-1] - times[0]) // length
        counts = Counter((at - times[0]) // length for at in times)
        inside = [counts.get(place, 0) for place in range(windows)]
        mean = Fraction(sum(inside), windows)
        variance = Fraction(sum(n * n for n in inside), windows) - mean**2
        assert window["windows"] == windows
        assert window["dispersion"] == figure(variance / mean)
        assert window["peak_rps"] == figure(Fraction(max(inside), length))


def test_hits_of_a_real_log(phaseledger: Command, shared: Path) -> None:
    """Blocks are prefix-chained: a set of those seen before says how long the known prefix is."""
    path = shared / "traces" / "mooncake_fast25_conversation.jsonl"
    seen: set[int] = set()
    hit = total = 0
    for line in path.read_text().splitlines():  # sorted as it stands
        record = json.loads(line)
        known = 0
        for block in record["hash_ids"]:
            if block not in seen:
                break
            known += 1
        hit += min(known * 512, record["input_length"] - 1)
        total += record["input_length"]
        seen |= set(record["hash_ids"])
    cache = described(phaseledger, path)["prefix_cache"]
    assert cache == {"block_tokens": 512, "hit_ratio": figure(Fraction(hit, total))}


def test_a_real_log_of_rates(phaseledger: Command, shared: Path) -> None:
    path = shared / "traces" / "servegen_reason_r1_chunk0_trace.csv"
    found = described(phaseledger, path)
    rows = [row for row in csv.reader(path.read_text().splitlines()) if row]
    rates = [Fraction(row[1]) for row in rows]
    windows = found["rate_windows"]
    assert (found["format"], found["requests"]) == ("servegen", None)
    assert (windows["windows"], windows["window_s"]) == (len(rows), 600)
    assert windows["nonempty_windows"] == sum(rate > 0 for rate in rates)
    assert windows["expected_requests"] == pytest.approx(float(600 * sum(rates)), rel=1e-11)
    assert found["duration_s"] == 600 * len(rows)
    assert found["rate_rps"] == pytest.approx(float(sum(rates) / len(rates)), rel=1e-11)
    assert windows["peak_rps"] == pytest.approx(float(max(rates)), rel=1e-11)
