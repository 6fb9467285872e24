"""How much a cohort asks for: its compared topologies exist in the inventory, and what they span can be evaluated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from pipelines.declarations.compared import chunk_budgets, compared, listed_tokens
from pipelines.declarations.documents import Document
from pipelines.declarations.problems import Problem
from pipelines.declarations.quantities import Readings
from pipelines.declarations.typed import Cohort, Rules
from pipelines.frames.metrics import METRICS

MAX_PATHS = 500_000
"""Every pool size, chunk budget and pair of pools of a path is evaluated once, under either bound."""
MAX_ALL_KEPT = 1000
"""So many scenarios are all kept, and their baselines with them (pipelines/planning/search.py), and all can be replayed."""
MAX_CLOSED_SCENARIOS = 20_000
"""Where scenarios have to be looked at one by one: in closed loops, whose rates are solved, and with gates that weigh paths together."""

_POOLS: Mapping[str, tuple[str, ...]] = {
    "aggregated": ("mixed",),
    "chunked": ("mixed",),
    "disaggregated": ("prefill", "decode"),
    "routed": ("mixed", "prefill", "decode"),
}
_HINT = "plan for a slice of the fleet, with its share of the requests"


@dataclass(frozen=True)
class _Inventory:
    """GPUs that there are, and those of one worker of each pool."""

    gpus: int
    each: Mapping[str, int]

    def needs(self, topology: str) -> int:
        """GPUs of the smallest scenario."""
        return sum(self.each[pool] for pool in _POOLS[topology])

    def mixed(self, beside: int = 0) -> int:
        """Sizes of the mixed pool, where ``beside`` GPUs are taken."""
        return max(0, (self.gpus - beside) // self.each["mixed"])

    def pairs(self, beside: int = 0) -> int:
        """Pairs of prefill and decode workers, where ``beside`` GPUs are taken."""
        return pairs(self.gpus - beside, self.each["prefill"], self.each["decode"])


def search_problems(document: Document, readings: Readings) -> Iterator[Problem]:
    """Topologies without a scenario, and more scenarios than can be evaluated."""
    inventory = _inventory(readings)
    if inventory is None:
        return
    none = [name for name in compared(document) if inventory.needs(name) > inventory.gpus]
    if none:
        yield document.problem("inventory.gpus", _too_few(inventory, none[-1]))
        return
    paths = _paths(document, inventory)
    if paths > MAX_PATHS:
        message = f"{inventory.gpus} GPUs make {paths} paths (pool sizes and chunk budgets of each part of a topology)"
        yield document.problem("inventory.gpus", f"{message}; expected at most {MAX_PATHS}", _HINT)
    elif document.has("requests.arrivals.concurrency") and _scenarios(document, inventory) > MAX_CLOSED_SCENARIOS:
        message = f"{inventory.gpus} GPUs make more than {MAX_CLOSED_SCENARIOS} scenarios; expected at most that"
        yield document.problem("inventory.gpus", f"{message} in a closed loop", _HINT)


def weighed_problems(cohort: Cohort, document: Document, rules: Rules) -> Iterator[Problem]:
    """More scenarios than can be replayed, held against baselines, or looked at one by one, where a gate asks for that."""
    here = [gate for gate in rules.gates if gate.concerns(cohort.name)]
    whole = [
        (gate, "holds them against baselines" if gate.limit_baseline else "is on a figure of the replay")
        for gate in here
        if gate.limit_baseline is not None or METRICS[gate.metric].replayed
    ]
    weighing = [
        gate for gate in here if gate.blocking and (gate.aggregate is not None or gate.limit_metric is not None)
    ]
    values = {row.path: row.value for row in cohort.inputs}
    mixed = int(values["inventory.gpus_per_worker"])
    each = {"mixed": mixed} | {
        pool: int(values.get(f"separated.{pool}.gpus_per_worker", mixed)) for pool in ("prefill", "decode")
    }
    inventory = _Inventory(int(values["inventory.gpus"]), each)
    if whole and _scenarios(document, inventory) > MAX_ALL_KEPT:
        gate, does = whole[0]
        why = f"gate {gate.id} of {gate.file} {does}"
        message = f"{inventory.gpus} GPUs make more than {MAX_ALL_KEPT} scenarios, and {why}"
        yield document.problem("inventory.gpus", f"{message}; expected at most that", _HINT)
    elif weighing and _scenarios(document, inventory) > MAX_CLOSED_SCENARIOS:
        gate = weighing[0]
        why = f"gate {gate.id} of {gate.file} has to be judged on each"
        message = (
            f"{inventory.gpus} GPUs make more than {MAX_CLOSED_SCENARIOS} scenarios, and {why}; expected at most that"
        )
        yield document.problem("inventory.gpus", message, f"{_HINT}, or a metric of scenarios in the gate")


def _inventory(readings: Readings) -> _Inventory | None:
    gpus, mixed = readings.get("inventory.gpus"), readings.get("inventory.gpus_per_worker")
    if gpus is None or mixed is None:
        return None
    prefill, decode = (readings.get(f"separated.{pool}.gpus_per_worker", mixed) for pool in ("prefill", "decode"))
    each = {"mixed": int(mixed.value), "prefill": int(prefill.value), "decode": int(decode.value)}
    return _Inventory(int(gpus.value), each)


def _too_few(inventory: _Inventory, topology: str) -> str:
    if topology in ("aggregated", "chunked"):
        each = inventory.each["mixed"]
        return f"{_gpus_are(inventory.gpus)} less than one worker of {each}; expected gpus ≥ gpus_per_worker"
    workers = [f"a {pool} worker of {inventory.each[pool]}" for pool in _POOLS[topology]]
    return (
        f"{_gpus_are(inventory.gpus)} less than {', '.join(workers[:-1])} and {workers[-1]}; "
        f"expected {inventory.needs(topology)} or more, because topologies.{topology} needs one of each"
    )


def _gpus_are(number: int) -> str:
    return f"{number} GPU is" if number == 1 else f"{number} GPUs are"


def _paths(document: Document, inventory: _Inventory) -> int:
    """Pool sizes and chunk budgets of each path; each threshold of routed has two paths of its own."""
    names, budgets = compared(document), len(chunk_budgets(document))
    paths = inventory.mixed() * (("aggregated" in names) + budgets)
    if "disaggregated" in names:
        paths += inventory.pairs()
    if "routed" in names:
        short = inventory.mixed(inventory.needs("disaggregated")) * _lanes(document)
        paths += _thresholds(document) * (short + inventory.pairs(inventory.each["mixed"]))
    return paths


def _scenarios(document: Document, inventory: _Inventory) -> int:
    """How many scenarios there are; where they are too many, any number that is."""
    names = compared(document)
    scenarios = inventory.mixed() * (("aggregated" in names) + len(chunk_budgets(document)))
    if "disaggregated" in names:
        scenarios += inventory.pairs()
    if "routed" in names:
        of_a_triple = _thresholds(document) * _lanes(document)
        for workers in count(1):
            found = inventory.pairs(workers * inventory.each["mixed"])
            scenarios += found * of_a_triple
            if not found or not of_a_triple or scenarios > MAX_CLOSED_SCENARIOS:
                break
    return scenarios


def _thresholds(document: Document) -> int:
    return len(listed_tokens(document, "topologies.routed.threshold_tokens"))


def _lanes(document: Document) -> int:
    """How the short prompts of routed are served: whole, or with each chunk budget."""
    return 1 + len(listed_tokens(document, "topologies.routed.chunk_tokens"))


def pairs(gpus: int, one: int, other: int) -> int:
    """How many pairs of whole numbers P, D from 1 on have ``P·one + D·other ≤ gpus``.

    >>> pairs(4, 1, 1), pairs(8, 1, 4), pairs(4, 4, 1)
    (6, 4, 0)
    """
    most = (gpus - other) // one
    return _floor_sum(most, other, one, gpus - most * one) if most > 0 else 0


def _floor_sum(terms: int, divisor: int, step: int, offset: int) -> int:
    """``Σ floor((step·i + offset)/divisor)`` over i from 0 to terms − 1, in as many steps as Euclid's algorithm takes.

    >>> _floor_sum(4, 3, 2, 1) == sum((2 * i + 1) // 3 for i in range(4))
    True
    """
    total = 0
    while terms > 0:
        total += (step // divisor) * (terms * (terms - 1) // 2) + (offset // divisor) * terms
        step, offset = step % divisor, offset % divisor
        highest = step * terms + offset
        terms, offset = divmod(highest, divisor)
        step, divisor = divisor, step
        if not divisor:
            break
    return total
