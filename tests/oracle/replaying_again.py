"""Fills the replay of a receipt whose requests are known, with the verifier's own replay, as a planner would write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.oracle.deciding import Choice
from pipelines.oracle.findings import round_significant
from pipelines.oracle.names import BOUNDS
from pipelines.oracle.parameters import Inputs
from pipelines.oracle.recomputing import Plan
from pipelines.oracle.replayed import SAMPLE, first_of_sample, service_of
from pipelines.oracle.replayed_members import figures_of, worst_minute_of
from pipelines.oracle.replayed_shapes import COUNTS
from pipelines.oracle.replaying_scenarios import Outcome, Replayer, Service
from pipelines.oracle.requests_file import Columns, Row, requests_from
from pipelines.oracle.scenario import Knobs
from pipelines.oracle.ticking import ticks_per_second

Receipt = dict[str, Any]
LOGS: dict[tuple[Any, ...], Sequence[Row]] = {}
"""Requests in order of arrival, by what a workload says of all of them."""
_OUTCOMES: dict[tuple[str, str, str], Outcome] = {}


def log_key(workload: Receipt) -> tuple[Any, ...]:
    whole = workload["buckets"][0]
    return tuple(whole[name] for name in ("requests", "prompt_tokens_m2", "uncached_tokens_m2", "prompt_output_mean"))


def empty_replay(inputs: Inputs, which: str, reason: str | None) -> Receipt:
    return {
        "which": which,
        "reason": reason,
        "when_memory_is_full": inputs.when_memory_is_full,
        "window_s": 60,
        "ticks_per_second": None,
        "sample": None,
        "scenarios": [],
    }


def replay_of(plan: Plan, choice: Choice | None, which: str) -> Receipt | None:
    """The replay of the speaking scenarios, or of all; None where the requests are not known."""
    workload, inputs = plan.receipt["workload"], plan.inputs
    if workload["kind"] != "open":
        return empty_replay(inputs, which, "closed_loop" if workload["kind"] == "closed" else "no_arrivals")
    rows = LOGS.get(log_key(workload))
    if rows is None:
        return None
    columns = requests_from(rows)
    ticks = ticks_per_second(rows[-1][0])
    sample = _sample(rows, columns)
    speaking = None if choice is None else {candidate.name for candidate in choice.speaking}
    scenarios = [row for row in plan.receipt["scenarios"] if speaking is None or row["scenario"] in speaking]
    return {
        **empty_replay(inputs, which, None),
        "ticks_per_second": dict.fromkeys(BOUNDS, ticks),
        "sample": {"first": first_of_sample(columns), "requests": [list(row) for row in sample]},
        "scenarios": [
            _scenario(plan, row, bound, {"whole": rows, "sample": sample}, ticks)
            for row in scenarios
            for bound in BOUNDS
        ],
    }


def _sample(rows: Sequence[Row], columns: Columns) -> list[Row]:
    first = first_of_sample(columns)
    at = rows[first][0]
    return [(arrival - at, p, h, o) for arrival, p, h, o in rows[first : first + SAMPLE]]


def _scenario(plan: Plan, row: Receipt, bound: str, logs: dict[str, Sequence[Row]], ticks: int) -> Receipt:
    found: Receipt = {"scenario": row["scenario"], "bound": bound, "reason": None}
    found |= dict.fromkeys(("figures", "worst_minute", "whole", "sample"))
    if row["bounds"][bound]["status"] == "refused":
        return found | {"reason": "refused"}
    knobs = plan.inventory.parse(row["scenario"])
    assert knobs is not None
    service = service_of(plan.inputs, bound, plan.receipt["workload"]["bucket_edges_tokens"])
    if not Replayer(logs["whole"], service, ticks).fits(knobs):
        return found | {"reason": "kv_memory"}
    outcomes = {name: _outcome(rows, service, knobs, ticks) for name, rows in logs.items()}
    whole = outcomes["whole"]
    figures = {name: digits(value) for name, value in figures_of(whole, plan.inputs).items()}
    found |= {name: result_of(outcome) for name, outcome in outcomes.items()}
    return found | {"figures": figures, "worst_minute": worst_minute_of(whole)}


def _outcome(rows: Sequence[Row], service: Service, knobs: Knobs, ticks: int) -> Outcome:
    key = (str(hash(tuple(rows))), repr(service), f"{knobs.name} {ticks}")
    if key not in _OUTCOMES:
        _OUTCOMES[key] = Replayer(rows, service, ticks).outcome(knobs)
    return _OUTCOMES[key]


def digits(value: float | None) -> float | None:
    return round_significant(value, 10) if isinstance(value, float) else value


def result_of(outcome: Outcome) -> Receipt:
    """`R` of an outcome."""
    counts, sums, ticks, moving = outcome.counts(), outcome.sums(), outcome.ticks_per_s, outcome.moving
    links = None if moving is None or moving.links is None else digits(moving.links.prefill / ticks)
    return {
        **{name: counts[name] for name in COUNTS},
        **{f"{name}_s": digits(sums[name] / ticks) for name in ("ttft", "generation", "stall", "end")},
        "swapped_bytes": digits(float(sums["swapped_bytes"])),
        "peak_transfer_queue": moving and moving.peak_transfers,
        "peak_decode_queue": moving and moving.peak_arrived,
        "link_s": links,
        "pools": [
            {"pool": name, "prefill_s": digits(pool.prefill / ticks), "decode_s": digits(pool.decode / ticks),
             "swap_s": digits(pool.swap / ticks), "peak_kv_bytes": pool.peak}
            for name, pool in outcome.pools().items()
        ],
    }  # fmt: skip
