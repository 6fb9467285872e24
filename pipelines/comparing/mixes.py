"""Two receipts mixed: some of the parts that differ as NEW has them, the others as OLD has them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from pipelines.comparing.differences import table_order
from pipelines.comparing.steps import COMPARED, REQUESTS, RULES, edges_named
from pipelines.frames.inputs import BOUNDS, InputTable
from pipelines.gates.replayed import by_closed_forms
from pipelines.gates.rules import applicable
from pipelines.planning.room import scenario_count
from pipelines.receipts.reopened import Reopened
from pipelines.receipts.rules import RuleFrames
from pipelines.topologies.constants import CONCURRENCY_INPUT, HIT_RATIO_INPUT, gpus_per_worker
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.memory import TOKENS_INPUT, UNIFORM, kv_memory_bytes
from pipelines.topologies.question import Workload

Parts = frozenset[str]

MOST_SCENARIOS = 500_000
"""As many paths as a cohort may span (docs/formats.md); here of scenarios, but for routed, whose paths are counted."""
MOST_EACH = 20_000
"""Scenarios that can be looked at one by one: in closed loops, and under gates that weigh buckets or figures together."""
MOST_BESIDE_BASELINES = 1000

_AFFINE = {"prefill": ("tokens_per_second", "overhead"), "decode": ("tokens_per_second", "step_overhead")}


class UnplannableError(Exception):
    """A mix that no plan can be made of; says why."""


@dataclass(frozen=True)
class Sides:
    """Both receipts, reopened."""

    old: Reopened
    new: Reopened

    @cached_property
    def _rows(self) -> tuple[dict[str, dict[str, object]], dict[str, dict[str, object]]]:
        return InputTable.of(self.old.inputs).rows, InputTable.of(self.new.inputs).rows

    @cached_property
    def _order(self) -> list[str]:
        old, new = self._rows
        return table_order(list(old), list(new))

    def inputs(self, parts: Parts) -> InputTable:
        """The inputs with the paths among ``parts`` as NEW has them."""
        old, new = self._rows
        mixed = {path: (new if path in parts else old).get(path) for path in self._order}
        return InputTable({path: row for path, row in mixed.items() if row is not None})

    def mix(self, parts: Parts) -> "Mix":
        """What a plan is made from, ``parts`` as NEW has them, by the closed forms: a receipt holds no requests to replay.

        UnplannableError where that makes no cohort.
        """
        requests = self.new if REQUESTS in parts else self.old
        rules = (self.new if RULES in parts else self.old).rules
        judged = replace(rules, gates=by_closed_forms(rules.gates))
        made = Mix(self.inputs(parts), requests.workload, requests.frozen, judged, REQUESTS in parts, RULES in parts)
        made.check()
        return made


@dataclass(frozen=True)
class Mix:
    """What a plan is made from, and of which receipt requests and rules are."""

    inputs: InputTable
    workload: Workload
    frozen: Mapping[str, Any]
    rules: RuleFrames
    new_requests: bool
    new_rules: bool

    @cached_property
    def numbers(self) -> tuple[tuple[object, ...], ...]:
        """What of the inputs arithmetic can read: all but ranges, provenance, sources and notes."""
        return tuple((path, row["value"], row["conservative"], row["text"]) for path, row in self.inputs.rows.items())

    @cached_property
    def thresholds(self) -> list[int]:
        """The routing thresholds that leave both paths requests."""
        return self.workload.thresholds(self.inputs)

    def check(self) -> None:
        """UnplannableError where the arithmetic would take what is declared for something else, or has no scenario."""
        _check_edges(self)
        _check_hits(self)
        _check_memory(self.inputs)
        _check_pools(self.inputs)
        _check_links(self.inputs)
        _check_growth(self.inputs)
        _check_scenarios(self)


def _check_edges(mix: Mix) -> None:
    """A threshold or a bucket objective within a bucket would be taken for one at its end."""
    named = edges_named({path: row["text"] for path, row in mix.inputs.rows.items()})
    missing = [edge for edge in named if edge not in mix.frozen["bucket_edges_tokens"]]
    if missing:
        raise UnplannableError(f"no bucket of these requests ends at {missing[0]} tokens")


def _check_hits(mix: Mix) -> None:
    whole = mix.workload.whole
    declared = mix.inputs.has(HIT_RATIO_INPUT) and any(
        mix.inputs.number(HIT_RATIO_INPUT, bound) > 0 for bound in BOUNDS
    )
    if declared and whole["uncached_tokens_mean"] < whole["prompt_tokens_mean"]:
        raise UnplannableError(f"these requests state cached tokens, and {HIT_RATIO_INPUT} would count hits twice")


def _check_memory(inputs: InputTable) -> None:
    if inputs.has(TOKENS_INPUT) and inputs.word("model.kv_allocation") != UNIFORM:
        raise UnplannableError(f"{TOKENS_INPUT} gives every layer the full length, and model.kv_allocation does not")
    if any(kv_memory_bytes(inputs, bound) <= 0 for bound in BOUNDS):
        raise UnplannableError("no memory is left for the KV cache")


def _check_pools(inputs: InputTable) -> None:
    """What a separate pool cannot take over from the mixed one."""
    for phase, names in _AFFINE.items():
        block = f"separated.{phase}"
        own = [name for name in names if inputs.has(f"{block}.{name}")]
        curve = inputs.has(f"{block}.curve")
        each = gpus_per_worker(inputs)
        if each[phase] != each["mixed"] and not (
            (curve or len(own) == len(names)) and inputs.has(f"{block}.kv_memory_per_worker")
        ):
            raise UnplannableError(
                f"{block} has other workers than the mixed pool, and no rates or no memory of its own"
            )
        if not curve and 0 < len(own) < len(names) and inputs.has(f"service.{phase}.curve"):
            raise UnplannableError(f"{block} has {own[0]} alone, and service.{phase}.curve has none to take over")


def _check_links(inputs: InputTable) -> None:
    links, each = "network.links", "network.links_per_transfer"
    if inputs.has(links) and inputs.has(each) and inputs.number(links, "conservative") < inputs.number(each):
        raise UnplannableError(f"{each} are more links than there are")


def _check_growth(inputs: InputTable) -> None:
    """Without it, every gate on what a transfer takes of it would be refused."""
    separating = [name for name in inputs.words(COMPARED) if TOPOLOGIES[name].separates]
    if separating and not inputs.has("objectives.ttft_growth"):
        raise UnplannableError(f"objectives.ttft_growth is not declared, and {separating[0]} is compared")


def _check_scenarios(mix: Mix) -> None:
    workers = int(mix.inputs.number("inventory.gpus")) // min(gpus_per_worker(mix.inputs).values())
    if workers > MOST_SCENARIOS:  # before anything is counted, which takes a number for each
        raise UnplannableError(f"{workers:,} workers are too many to evaluate")
    counts = {name: _count(mix, name) for name in mix.inputs.words(COMPARED)}
    for name, count in counts.items():
        if not count:
            why = "no threshold leaves requests on both paths" if TOPOLOGIES[name].routes and not mix.thresholds else ""
            raise UnplannableError(f"no scenario of {name}: {why or 'none fits the inventory'}")
    blocking = applicable(mix.rules.gates, mix.inputs).filter(pl.col("applies"))
    weighing = blocking.filter(
        pl.col("blocking") & (pl.col("aggregate").is_not_null() | pl.col("limit_metric").is_not_null())
    )
    limits = [
        (True, MOST_SCENARIOS, "to evaluate"),
        (mix.inputs.has(CONCURRENCY_INPUT), MOST_EACH, "for a closed loop"),
        (not weighing.is_empty(), MOST_EACH, "to look at one by one, which a gate needs"),
        (blocking["limit_baseline"].is_not_null().any(), MOST_BESIDE_BASELINES, "to hold against baselines"),
    ]
    for concerned, most, why in limits:
        total = sum(_paths(mix, name) if most == MOST_SCENARIOS else count for name, count in counts.items())
        if concerned and total > most:
            raise UnplannableError(f"{total:,} scenarios are too many {why}")


def _count(mix: Mix, topology: str) -> int:
    return scenario_count(mix.inputs, topology, len(mix.thresholds))


def _paths(mix: Mix, topology: str) -> int:
    """Scenarios, or of a topology that routes those of either path alone: the paths are searched, not their pairs."""
    if not TOPOLOGIES[topology].routes:
        return _count(mix, topology)
    alone = _count(mix, "aggregated") + _count(mix, "disaggregated")
    return alone * len(mix.thresholds)
