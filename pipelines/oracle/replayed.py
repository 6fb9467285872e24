"""Checks the replay that a receipt states: what was replayed, on which clock, and the sample again (docs/replay.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from .deciding import Choice
from .findings import Ledger
from .judging import is_replayed
from .measuring import digest_of
from .names import BOUNDS
from .objectives import objectives_of
from .parameters import HIT_RATIO, WHEN_FULL, Inputs
from .recomputing import Plan
from .replayed_members import compare_figures, compare_result
from .replayed_whole import Whole, check_whole, may_fit
from .replaying_scenarios import Outcome, Replayer, Service
from .requests_file import Columns, Row, requests_from
from .scenario import Knobs
from .ticking import NS_PER_S, ticks_per_second

CHECK = "replay"
FORMAT = "docs/formats.md, Replay"
PAGE = "docs/replay.md, {}"
SAMPLE = 256
"""Requests of a sample at most."""
SAMPLE_NS = 2**53
"""They come within so many nanoseconds of the first: numbers of a receipt are exact up to here."""
MINUTE_NS = 60 * NS_PER_S
NOT_REPLAYED = {"closed": "closed_loop", "rate": "no_arrivals"}
"""Why nothing is replayed of a workload without arrivals of its own, by its kind."""
MOST_STEPS = {"the sample": 200_000_000, "all requests": 20_000_000}
"""Tokens and pieces of prompts that are replayed again one by one."""
_NEAR = Fraction(1, 10**10)
"""By this share a duration of 12 digits may be another, and `T` with it."""


def check_replay(ledger: Ledger, plan: Plan, choice: Choice, columns: Columns | None) -> None:
    """Check everything that is said of the replay; what all requests give is computed again where they are given."""
    found, inputs = plan.receipt["replay"], plan.inputs
    policy = inputs.when_memory_is_full
    ledger.same(CHECK, "replay.when_memory_is_full", found["when_memory_is_full"], policy, WHEN_FULL)
    gates = [gate for gate in plan.receipt["rules"]["gates"] if gate["applies"] and is_replayed(gate)]
    every = found["which"] == "all"
    ledger.holds(
        CHECK, "replay.which", every or not gates, found["which"], "all: a gate is on a replayed figure", FORMAT
    )
    if not _check_reason(ledger, plan):
        return
    if not _check_sample(ledger, plan, columns):
        return
    whole = columns if columns is not None else _complete(plan)
    grounds = {bound: _ground_of(ledger, plan, bound, whole) for bound in BOUNDS}
    names = [row["scenario"] for row in plan.receipt["scenarios"]]
    if not every:
        speaking = {candidate.name for candidate in choice.speaking}
        names = [name for name in names if name in speaking]
    places = [(row["scenario"], row["bound"]) for row in found["scenarios"]]
    expected = [(name, bound) for name in names for bound in BOUNDS]
    if ledger.listed(CHECK, "replay.scenarios", places, expected, FORMAT):
        _check_rows(ledger, plan, found["scenarios"], grounds)


def _check_reason(ledger: Ledger, plan: Plan) -> bool:
    """Check why nothing is replayed; say whether something is, and is to be."""
    found = plan.receipt["replay"]
    reason, expected = found["reason"], NOT_REPLAYED.get(plan.receipt["workload"]["kind"])
    ledger.same(CHECK, "replay.reason", reason, expected, PAGE.format("What is replayed"))
    there = reason is None
    for name in ("ticks_per_second", "sample"):
        ledger.holds(
            CHECK, f"replay.{name}", (found[name] is not None) == there, found[name], f"reason {reason}", FORMAT
        )
    if not there:
        ledger.same(CHECK, "replay.scenarios", found["scenarios"], [], FORMAT)
    return there and expected is None and found["sample"] is not None and found["ticks_per_second"] is not None


def _check_sample(ledger: Ledger, plan: Plan, columns: Columns | None) -> bool:
    """Check that the sample is one of this log; say whether it can be replayed."""
    workload, sample = plan.receipt["workload"], plan.receipt["replay"]["sample"]
    rows, first, where = rows_of(sample), sample["first"], "replay.sample"
    why = PAGE.format("The sample")
    number = min(SAMPLE, workload["requests"])
    cut_off = len(rows) < number and Fraction(workload["duration_s"]) * NS_PER_S * (1 + _NEAR) >= SAMPLE_NS
    ledger.holds(CHECK, f"{where}.requests", len(rows) == number or cut_off, len(rows), number, why)
    ledger.holds(
        CHECK, f"{where}.first", first + number <= workload["requests"], first, "so many requests from it on", why
    )
    usable = all(0 <= h < p and o >= 1 for _, p, h, o in rows) and all(a <= b for a, b in pairwise(rows))
    ledger.holds(
        CHECK, f"{where}.requests", usable, len(rows), "requests in order, cached tokens below the prompt's", why
    )
    ledger.same(CHECK, f"{where}.requests[0]", rows[0][0], 0, "the sample begins at 0")
    largest = workload["buckets"][0]
    maxima = {
        "prompt_tokens_max": max(p for _, p, _, _ in rows),
        "uncached_tokens_max": max(p - h for _, p, h, _ in rows),
        "output_tokens_max": max(o for _, _, _, o in rows),
    }
    for name, most in maxima.items():
        ledger.holds(CHECK, f"{where}.requests", most <= largest[name], most, f"at most {largest[name]}: {name}")
    last = Fraction(rows[-1][0], NS_PER_S) <= Fraction(workload["duration_s"]) * (1 + _NEAR)
    ledger.holds(CHECK, f"{where}.requests", last, rows[-1][0], "within the duration of the log", why)
    if columns is not None:
        _check_origin(ledger, rows, first, columns)
    elif len(rows) == workload["requests"] and usable:
        found, expected = workload["requests_sha256"], digest_of(requests_from(rows))
        ledger.same(CHECK, f"{where}.requests", expected, found, "the whole log: its SHA-256")
    return usable


def rows_of(sample: Mapping[str, Any]) -> list[Row]:
    """The requests of a sample."""
    return [(a, p, h, o) for a, p, h, o in sample["requests"]]


def _check_origin(ledger: Ledger, rows: Sequence[Row], first: int, columns: Columns) -> None:
    """Check that a sample is what the log has at the busiest minute."""
    expected = first_of_sample(columns)
    why = PAGE.format("The sample")
    ledger.same(CHECK, "replay.sample.first", first, expected, why)
    cut = slice(expected, expected + SAMPLE)
    at = columns.arrivals[expected]
    own = zip(columns.arrivals[cut], columns.prompts[cut], columns.cached[cut], columns.outputs[cut], strict=True)
    wanted = [(arrival - at, p, h, o) for arrival, p, h, o in own if arrival - at < SAMPLE_NS]
    ledger.listed(CHECK, "replay.sample.requests", list(rows), wanted, why)


def first_of_sample(columns: Columns) -> int:
    """Number of the first request of the minute with the most tokens; earlier where too few follow."""
    tokens: dict[int, int] = {}
    firsts: dict[int, int] = {}
    for place, (arrival, p, o) in enumerate(zip(columns.arrivals, columns.prompts, columns.outputs, strict=True)):
        minute = (arrival - columns.arrivals[0]) // MINUTE_NS
        tokens[minute] = tokens.get(minute, 0) + p + o
        firsts.setdefault(minute, place)
    busiest = max(tokens, key=lambda minute: (tokens[minute], -minute))
    return max(0, min(firsts[busiest], len(columns) - SAMPLE))


def _complete(plan: Plan) -> Columns | None:
    """The log, where the sample is all of it."""
    rows = rows_of(plan.receipt["replay"]["sample"])
    whole = len(rows) == plan.receipt["workload"]["requests"] and rows[0][0] == 0
    return requests_from(rows) if whole else None


@dataclass(frozen=True)
class _Ground:
    """What is replayed again under one bound: the sample, and all requests where they are known."""

    service: Service
    sample: Replayer
    whole: Replayer | None
    minutes: int
    """Most minutes of the log."""


def service_of(inputs: Inputs, bound: str, edges: Sequence[int]) -> Service:
    """Read what a replay reads at one bound."""
    setting, stall = inputs.setting(bound), inputs.nominal("objectives.stall")
    ratio = float(inputs.at(HIT_RATIO, bound))
    return Service(setting.mixed, setting.separated, objectives_of(inputs.rows), edges, stall, ratio)


def _ground_of(ledger: Ledger, plan: Plan, bound: str, columns: Columns | None) -> _Ground:
    """Check `T` of a bound, and prepare what is replayed with it."""
    workload, sample = plan.receipt["workload"], rows_of(plan.receipt["replay"]["sample"])
    rows: list[Row] | None = None
    if columns is not None:
        at = columns.arrivals[0]
        each = zip(columns.arrivals, columns.prompts, columns.cached, columns.outputs, strict=True)
        rows = [(arrival - at, p, h, o) for arrival, p, h, o in each]
    spans = _spans(workload, rows)
    known = sorted({ticks_per_second(span) for span in spans})
    where, found = f"replay.ticks_per_second.{bound}", plan.receipt["replay"]["ticks_per_second"][bound]
    ledger.holds(CHECK, where, found in known, found, known[0], PAGE.format("The clock"))
    ticks = found if found in known else known[0]
    service = service_of(plan.inputs, bound, workload["bucket_edges_tokens"])
    return _Ground(
        service,
        Replayer(sample, service, ticks),
        None if rows is None else Replayer(rows, service, ticks),
        max(spans) // MINUTE_NS + 1,
    )


def _spans(workload: Mapping[str, Any], rows: Sequence[Row] | None) -> tuple[int, int]:
    """The shortest and the longest span of the log (ns) that what is known of it leaves open."""
    if rows is not None:
        return rows[-1][0], rows[-1][0]
    span = Fraction(workload["duration_s"]) * NS_PER_S
    return int(span * (1 - _NEAR)), int(span * (1 + _NEAR)) + 1


def _check_rows(ledger: Ledger, plan: Plan, rows: Sequence[Mapping[str, Any]], grounds: Mapping[str, _Ground]) -> None:
    """Check each scenario under each bound."""
    status = {
        (row["scenario"], bound): row["bounds"][bound]["status"]
        for row in plan.receipt["scenarios"]
        for bound in BOUNDS
    }
    budget = _Budget()
    for row in rows:
        knobs, ground = plan.inventory.parse(row["scenario"]), grounds[row["bound"]]
        where = f"replay.scenarios[{row['scenario']}/{row['bound']}]"
        if knobs is None:
            continue
        if not _check_why(ledger, plan, where, row, knobs, status[row["scenario"], row["bound"]], ground):
            continue
        whole = Whole(plan.receipt["workload"], plan.inputs, knobs, ground.service, ground.minutes)
        check_whole(ledger, where, row, whole)
        outcome = budget.outcome("the sample", ground.sample, knobs)
        if outcome is not None:
            compare_result(ledger, f"{where}.sample", row["sample"], outcome)
        outcome = budget.outcome("all requests", ground.whole, knobs) if ground.whole is not None else None
        if outcome is not None:
            compare_result(ledger, f"{where}.whole", row["whole"], outcome)
            compare_figures(ledger, where, row, outcome, plan.inputs)
    ledger.notes += budget.notes()


class _Budget:
    """Replays as long as it does not take too many steps, and counts what it did not replay."""

    def __init__(self) -> None:
        """Nothing is replayed yet."""
        self._left = dict(MOST_STEPS)
        self._skipped: dict[str, int] = {}

    def outcome(self, what: str, replayer: Replayer, knobs: Knobs) -> Outcome | None:
        """Replay a scenario; None where that would take too long."""
        steps = replayer.steps(knobs)
        if steps <= self._left[what]:
            self._left[what] -= steps
            return replayer.outcome(knobs)
        self._skipped[what] = self._skipped.get(what, 0) + 1
        return None

    def notes(self) -> list[str]:
        """What was not replayed again, and why."""
        return [
            f"{n} replays of {what} were not repeated: more than {MOST_STEPS[what]} steps in all"
            for what, n in self._skipped.items()
        ]


def _check_why(
    ledger: Ledger,
    plan: Plan,
    where: str,
    row: Mapping[str, Any],
    knobs: Knobs,
    status: str,
    ground: _Ground,
) -> bool:
    """Check why a scenario was not replayed, and that it then has no figure; say whether it was."""
    why = PAGE.format("What is replayed")
    if status == "refused":
        ledger.same(CHECK, f"{where}.reason", row["reason"], "refused", why)
    else:
        fits = may_fit(plan.receipt["workload"], ground.service, knobs)
        if fits is None and ground.whole is not None:
            fits = ground.whole.fits(knobs)
        if fits is None and not ground.sample.fits(knobs):
            fits = False
        possible = {True: (None,), False: ("kv_memory",), None: (None, "kv_memory")}[fits]
        ledger.holds(CHECK, f"{where}.reason", row["reason"] in possible, row["reason"], possible[0], why)
    replayed = row["reason"] is None and status != "refused"
    members = ("figures", "whole", "sample") if replayed else ("figures", "worst_minute", "whole", "sample")
    there = [
        ledger.holds(
            CHECK, f"{where}.{name}", (row[name] is not None) == replayed, row[name], f"reason {row['reason']}"
        )
        for name in members
    ]
    return replayed and all(there)
