"""Scenarios that are replayed because somebody names them, and what the replay of one came to in full (docs/replay.md, By hand)."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.frames.inputs import InputTable
from pipelines.gates.rules import part_weights
from pipelines.gates.wording import refusal
from pipelines.planning.replay_spaces import Trace
from pipelines.planning.room import scenario_count
from pipelines.replay.costs import Knobs
from pipelines.replay.figures import replay_row
from pipelines.replay.plan import KV_MEMORY, REFUSED
from pipelines.replay.run import Outcome, Path, replay
from pipelines.topologies.constants import gpus_per_worker
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.matrix import scenario_matrix
from pipelines.topologies.scenarios import CHUNKS_INPUT, KNOBS, ROUTED_CHUNKS_INPUT, named, scenario_frame

_COUNT = r"([1-9][0-9]{0,8})"
_FORMS = {
    "aggregated": (rf"aggregated/n{_COUNT}", ("workers_mixed",)),
    "chunked": (rf"chunked/n{_COUNT}/c{_COUNT}", ("workers_mixed", "chunk_tokens")),
    "disaggregated": (rf"disaggregated/p{_COUNT}/d{_COUNT}", ("workers_prefill", "workers_decode")),
    "routed": (
        rf"routed/t{_COUNT}/n{_COUNT}(?:/c{_COUNT})?/p{_COUNT}/d{_COUNT}",
        ("threshold_tokens", "workers_mixed", "chunk_tokens", "workers_prefill", "workers_decode"),
    ),
}
_MOST_NAMES = 50_000
"""A topology of more scenarios is not searched for names that are near: there are too many that are."""
_NEAR = 3


@dataclass(frozen=True)
class OneReplay:
    """A scenario on the whole trace. Where it is not replayed, the ``reason`` (and in words, why the closed forms refuse it)."""

    scenario: str
    knobs: Mapping[str, Any]
    parts: float
    reason: str | None = None
    refusal: str | None = None
    row: Mapping[str, Any] | None = None
    paths: tuple[Path, ...] = ()
    outcome: Outcome | None = None


def knobs_of(name: str) -> dict[str, Any] | None:
    """The knobs in the name of a scenario; None where it is no such name.

    >>> knobs_of("disaggregated/p2/d1")
    {'topology': 'disaggregated', 'workers_prefill': 2, 'workers_decode': 1}
    """
    for topology, (form, names) in _FORMS.items():
        match = re.fullmatch(form, name)
        if match:
            found = {knob: int(digits) for knob, digits in zip(names, match.groups(), strict=True) if digits}
            return {"topology": topology} | found
    return None


def why_unknown(trace: Trace, name: str) -> str | None:
    """Why the cohort has no scenario of this name; None where it has."""
    inputs, knobs = trace.inputs, knobs_of(name)
    if knobs is None:
        return "not the name of a scenario; expected one as in aggregated/n2 or disaggregated/p2/d1"
    topology = knobs["topology"]
    compared = inputs.words("topologies.compared")
    if topology not in compared:
        return f"the cohort does not compare {topology}; expected {', '.join(compared)}"
    for knob, known in _known(trace, topology):
        if knobs.get(knob) is not None and knobs[knob] not in known:
            what = {"chunk_tokens": "chunk budget", "threshold_tokens": "threshold"}[knob]
            return f"the cohort has no {what} of {knobs[knob]} tokens for {topology}; expected {_listed(known)}"
    used = sum((knobs.get(f"workers_{pool}") or 0) * each for pool, each in gpus_per_worker(inputs).items())
    return f"needs {used} GPUs; expected at most the {trace.gpus} of the inventory" if used > trace.gpus else None


def _known(trace: Trace, topology: str) -> Iterator[tuple[str, list[int]]]:
    """The knobs of a topology that have declared values."""
    path = ROUTED_CHUNKS_INPUT if topology == "routed" else CHUNKS_INPUT
    yield "chunk_tokens", [int(word) for word in trace.inputs.words(path)]
    yield "threshold_tokens", trace.workload.thresholds(trace.inputs) if topology == "routed" else []


def _listed(known: Sequence[int]) -> str:
    return ", ".join(str(one) for one in known) or "none"


def nearest_names(trace: Trace, name: str) -> list[str]:
    """The names of scenarios that are most like this one, the nearest first."""
    return difflib.get_close_matches(name, list(_names(trace)), n=_NEAR, cutoff=0.5)


def _names(trace: Trace) -> Iterator[str]:
    inputs = trace.inputs
    thresholds = trace.workload.thresholds(inputs)
    for topology in inputs.words("topologies.compared"):
        if scenario_count(inputs, topology, len(thresholds)) <= _MOST_NAMES:
            yield from scenario_frame(inputs, thresholds, [topology])["scenario"]


def replayed_by_name(trace: Trace, preference: pl.DataFrame, names: Sequence[str]) -> Iterator[OneReplay]:
    """Scenarios that there are, one after the other, with the details of their requests."""
    weights = part_weights(preference)
    for row in _by_closed_forms(trace.inputs, trace, names, weights).iter_rows(named=True):
        knobs = {name: row[name] for name in ("topology", *KNOBS, "gpus")}
        if row["status"] == REFUSED:
            why = refusal(row).removeprefix("refused: ")
            yield OneReplay(row["scenario"], knobs, row["operating_parts"], REFUSED, why)
        else:
            yield replayed_scenario(trace, knobs, row["operating_parts"], details=True)


def _by_closed_forms(
    inputs: InputTable, trace: Trace, names: Sequence[str], weights: Mapping[str, float]
) -> pl.DataFrame:
    """The rows of the scenario matrix, in the order of ``names``."""
    scenarios = named(inputs, [knobs_of(name) or {} for name in names])
    topologies = scenarios["topology"].unique(maintain_order=True)
    frames = [evaluate(topology, "", scenarios, inputs, trace.workload) for topology in topologies]
    return scenario_matrix(frames, inputs, weights).filter(pl.col("bound") == trace.bound)


def replayed_scenario(trace: Trace, knobs: Mapping[str, Any], parts: float, *, details: bool = False) -> OneReplay:
    """One scenario that is not refused, on the whole trace."""
    own = Knobs(knobs["topology"], *(knobs[name] for name in KNOBS))
    scenario = named(trace.inputs, [knobs])["scenario"].item()
    if not trace.costs.fits(own):
        return OneReplay(scenario, knobs, parts, KV_MEMORY)
    paths = trace.costs.paths(own)
    outcome = replay(paths, trace.costs.setting, details=details)
    row = replay_row(outcome, trace.costs, gpus_per_worker(trace.inputs), figures=True)
    return OneReplay(scenario, knobs, parts, row=row, paths=paths, outcome=outcome)
