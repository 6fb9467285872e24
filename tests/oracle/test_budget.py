"""The transfer budget (docs/arithmetic.md section 8) on the example workload, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pipelines.oracle import budget as bd
from pipelines.oracle.curves import Curve
from pipelines.oracle.findings import Ledger, round_significant
from tests.oracle.example import EXAMPLE, LONG, MEMORY, SHORT, evaluator
from tests.oracle.filling import bandwidth_at_limit, budget_row, bytes_at_limit, largest_prompt, staging_of

ROW = {"topology": "disaggregated", "workers_prefill": 1, "workers_decode": 1}
LINK = (0.103**2 + 0.303**2) / (2 * (1 - 0.406))
SHORT_BUCKET, LONG_BUCKET = EXAMPLE.buckets


def close(value: object) -> object:
    return pytest.approx(value, rel=1e-9)


def envelope(**changes: Any) -> bd.Envelope:
    found = bd.envelope_of(evaluator(**{"ttft": 10.0} | changes), ROW)
    assert found is not None
    return found


def faults(check: Any, found: float | None, of: bd.Envelope, *bucket: Any) -> list[str]:
    ledger = Ledger()
    check(ledger, "figure", found, of, *bucket)
    return [item.where for item in ledger.disagreements]


def test_what_a_bucket_uses() -> None:
    row = budget_row(replace(envelope(), seconds=0.375), LONG_BUCKET, 0.5)
    assert row["used_s"] == close(LINK + 0.303)
    assert row["envelope_share"] == close((LINK + 0.303) / 0.5)
    assert row["limit_share"] == close((LINK + 0.303) / 0.5 / 0.75)
    assert row["bytes_mean"] == 3e8
    assert (envelope().bytes_mean(SHORT), envelope().bytes_mean(LONG), envelope().bytes_mean("all")) == (1e8, 3e8, 2e8)


def test_bytes_at_the_envelope() -> None:
    expected = 1e9 * (0.5 - LINK - 0.003)
    assert bytes_at_limit(envelope(), SHORT_BUCKET) == close(expected)
    # all of the payload is streamed while prefill runs, of 0.06 s: so much more fits
    assert bytes_at_limit(envelope(overlap=1.0), SHORT_BUCKET) == close(expected + 0.06e9)


@pytest.mark.parametrize("changes", [{}, {"overlap": 0.5}, {"handover_s": 0.05, "competing_traffic": 0.25}])
def test_figures_that_are_a_little_off_are_noticed(changes: dict[str, float]) -> None:
    of = envelope(**changes)
    size, bandwidth = bytes_at_limit(of, LONG_BUCKET), bandwidth_at_limit(of, LONG_BUCKET)
    prompt = largest_prompt(of)
    assert size is not None
    assert bandwidth is not None
    assert prompt is not None
    assert faults(bd.check_bytes, size, of, LONG_BUCKET) == []
    assert faults(bd.check_bandwidth, bandwidth, of, LONG_BUCKET) == []
    assert faults(bd.check_prompt, prompt, of) == []
    for share in (1e-8, -1e-8, 1e-3, -1e-3):
        assert faults(bd.check_bytes, round_significant(size * (1 + share), 10), of, LONG_BUCKET), share
        assert faults(bd.check_bandwidth, round_significant(bandwidth * (1 + share), 10), of, LONG_BUCKET), share
    for tokens in (prompt - 1, prompt + 1, 0, bd.LARGEST_PROMPT):
        assert faults(bd.check_prompt, tokens, of), tokens
    assert faults(bd.check_bytes, None, of, LONG_BUCKET)
    assert faults(bd.check_bandwidth, None, of, LONG_BUCKET)
    assert faults(bd.check_bandwidth, 0.0, of, LONG_BUCKET)
    assert faults(bd.check_prompt, None, of)


def test_bandwidth_at_the_envelope() -> None:
    """Transfers of 0.003 + 0.1/x and 0.003 + 0.3/x s at x GB/s, in a queue of two a second."""

    def used(x: float) -> float:
        short, long = 0.003 + 0.1 / x, 0.003 + 0.3 / x
        return (short**2 + long**2) / (2 * (1 - (short + long))) + long

    found = bandwidth_at_limit(envelope(), LONG_BUCKET)
    assert found is not None
    assert used(found / 1e9) == close(0.5)


def test_bandwidth_where_the_link_saturates_before_the_envelope_is_used() -> None:
    # 2 (0.003 + 0.2/x) = 0.7
    found = bandwidth_at_limit(envelope(ttft_growth_s=50.0), LONG_BUCKET)
    assert found == close(1e9 * 0.2 / 0.347)
    assert faults(bd.check_bandwidth, found, envelope(ttft_growth_s=50.0), LONG_BUCKET) == []


def test_no_bandwidth_is_enough_for_overheads_beyond_the_envelope() -> None:
    of = envelope(ttft_growth_s=0.003)
    row = budget_row(of, SHORT_BUCKET, 0.003)
    assert (row["bytes_at_limit"], row["bandwidth_at_limit_bytes_per_s"]) == (None, None)
    assert row["largest_prompt_tokens"] == 0
    assert row["limit_share"] > 1
    assert faults(bd.check_bytes, None, of, SHORT_BUCKET) == []
    assert faults(bd.check_bandwidth, None, of, SHORT_BUCKET) == []
    assert faults(bd.check_prompt, 0, of) == []
    assert faults(bd.check_bytes, 1e6, of, SHORT_BUCKET)


def test_the_largest_prompt() -> None:
    assert largest_prompt(envelope()) == math.floor((0.497 - LINK) / 1e-4)
    # in blocks of 100 tokens, whose mean has 49.5 more
    waits = envelope(block_tokens=100)
    assert largest_prompt(waits) == math.floor((0.497 - waits.transit.wait_s) / 1e-2) * 100
    # all of the payload is hidden, up to prefill: 0.01 s and 50 us per token
    hidden = largest_prompt(envelope(overlap=1.0))
    assert hidden == math.floor((0.507 - LINK) / 5e-5)


def test_any_prompt_fits_where_transfers_hide_behind_prefill() -> None:
    of = envelope(overlap=1.0, prefill_tokens_per_s=8000.0)
    assert largest_prompt(of) is None
    assert faults(bd.check_prompt, None, of) == []


def test_a_curve_has_no_bandwidth_to_vary() -> None:
    of = envelope(curve=Curve(((1e7, 0.01), (4e8, 0.4))), bandwidth_bytes_per_s=None)
    assert faults(bd.check_bandwidth, None, of, LONG_BUCKET) == []
    assert faults(bd.check_bandwidth, 1e9, of, LONG_BUCKET)
    # 1 GB/s, along the last piece beyond its end
    assert bytes_at_limit(of, LONG_BUCKET) == close(1e9 * (0.5 - of.transit.wait_s))


def test_a_curve_that_is_level_at_its_end_takes_any_size() -> None:
    of = envelope(curve=Curve(((1e7, 0.1), (4e8, 0.1))), bandwidth_bytes_per_s=None)
    row = budget_row(of, LONG_BUCKET, 0.5)
    assert (row["bytes_at_limit"], row["largest_prompt_tokens"]) == (None, None)
    assert faults(bd.check_bytes, None, of, LONG_BUCKET) == []


def test_staging() -> None:
    of = envelope()
    step = 0.011 / 0.958
    decode_wait = (1 - (1 - 0.042) ** 11) * step / 2
    assert staging_of(of) == close(
        {"in_flight_sequences": 2 * (LINK + 0.203), "free_sequences": 64 - 42 * step,
         "in_flight_bytes": 1e5 * 2 * (2000 * LINK + 506),
         "free_bytes": MEMORY - 1e5 * 2 * (2000 * decode_wait + step * 42270.5)}
    )  # fmt: skip


def test_a_refused_scenario_has_no_budget() -> None:
    assert bd.envelope_of(evaluator(link_ceiling=0.4), ROW) is None
