"""The scenarios of an inventory: which there are, in which order, how many, and what one occupies (docs/formats.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from .names import TOPOLOGIES
from .parameters import Inputs
from .scenario import Knobs

KEPT_AT_MOST = 1000
"""Of more scenarios, a receipt holds those that a reader needs."""
_SIZE = "([1-9][0-9]{0,8})"
_NAME = re.compile(
    rf"([a-z]+)(?:/t([1-9][0-9]{{0,14}}))?(?:/n{_SIZE})?(?:/c([1-9][0-9]{{0,14}}))?(?:/p{_SIZE}/d{_SIZE})?"
)


@dataclass(frozen=True)
class Inventory:
    """GPUs, those of one worker of each pool, and what the compared topologies vary beside their pools."""

    gpus: int
    mixed: int
    prefill: int
    decode: int
    compared: tuple[str, ...]
    budgets: tuple[int, ...]
    thresholds: tuple[int, ...]
    routed_budgets: tuple[int | None, ...]

    def gpus_of(self, knobs: Knobs) -> int:
        """GPUs that a scenario occupies."""
        each = {"mixed": self.mixed, "prefill": self.prefill, "decode": self.decode}
        return sum(size * each[pool] for pool, size in knobs.pools.items())

    def scenarios(self) -> Iterator[Knobs]:
        """Every scenario, in matrix order."""
        workers = range(1, self.gpus // self.mixed + 1)
        if "aggregated" in self.compared:
            yield from (Knobs("aggregated", n) for n in workers)
        if "chunked" in self.compared:
            yield from (Knobs("chunked", n, chunk_tokens=budget) for n in workers for budget in self.budgets)
        if "disaggregated" in self.compared:
            pairs = self._pairs(self.gpus)
            yield from (Knobs("disaggregated", workers_prefill=p, workers_decode=d) for p, d in pairs)
        if "routed" in self.compared:
            for threshold in self.thresholds:
                for n in workers:
                    for budget in self.routed_budgets:
                        pairs = self._pairs(self.gpus - n * self.mixed)
                        yield from (Knobs("routed", n, p, d, budget, threshold) for p, d in pairs)

    def _pairs(self, gpus: int) -> Iterator[tuple[int, int]]:
        """Sizes of the two pools of a separated path on so many GPUs."""
        for p in range(1, gpus // self.prefill + 1):
            for d in range(1, (gpus - p * self.prefill) // self.decode + 1):
                yield p, d

    @cached_property
    def pairs(self) -> int:
        """How many sizes the pools of a separated path may have."""
        return count_pairs(self.gpus, self.prefill, self.decode)

    @cached_property
    def triples(self) -> int:
        """How many sizes the three pools of a routed scenario may have."""
        left = (self.gpus - n * self.mixed for n in range(1, self.gpus // self.mixed + 1))
        return sum(count_pairs(gpus, self.prefill, self.decode) for gpus in left)

    def count(self) -> int:
        """Return how many scenarios there are, without listing them."""
        workers = self.gpus // self.mixed
        total = workers * ("aggregated" in self.compared)
        total += workers * len(self.budgets) * ("chunked" in self.compared)
        total += self.pairs if "disaggregated" in self.compared else 0
        if "routed" in self.compared and self.thresholds:
            total += self.triples * len(self.thresholds) * len(self.routed_budgets)
        return total

    def paths(self) -> int:
        """Return how many paths there are: sizes and budgets of mixed pools, pairs of sizes of separated ones."""
        routed = len(self.thresholds) * ("routed" in self.compared)
        mixed = ("aggregated" in self.compared) + len(self.budgets) + routed * len(self.routed_budgets)
        separated = ("disaggregated" in self.compared) + routed
        return self.gpus // self.mixed * mixed + (self.pairs * separated if separated else 0)

    @property
    def least_gpus(self) -> int:
        """GPUs of the largest of the smallest scenarios of the compared topologies."""
        least = {"disaggregated": self.prefill + self.decode, "routed": self.mixed + self.prefill + self.decode}
        return max(least.get(name, self.mixed) for name in self.compared)

    def parse(self, name: str) -> Knobs | None:
        """Return the scenario of this name, or None where the inventory has none."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        threshold, n, budget, p, d = (int(digits) if digits else None for digits in found.groups()[1:])
        knobs = Knobs(found[1], n, p, d, budget, threshold)
        return knobs if self.has(knobs) else None

    def has(self, knobs: Knobs) -> bool:
        """Whether the inventory has a scenario."""
        if knobs.topology not in self.compared or not self._has_knobs(knobs):
            return False
        return all(size >= 1 for size in knobs.pools.values()) and self.gpus_of(knobs) <= self.gpus

    def _has_knobs(self, knobs: Knobs) -> bool:
        """Whether these are the pools, the budget and the threshold of the topology."""
        pools = {"aggregated": ["mixed"], "chunked": ["mixed"], "disaggregated": ["prefill", "decode"]}
        if list(knobs.pools) != pools.get(knobs.topology, ["mixed", "prefill", "decode"]):
            return False
        budgets: dict[str, Sequence[int | None]] = {"chunked": self.budgets, "routed": self.routed_budgets}
        thresholds: dict[str, Sequence[int | None]] = {"routed": self.thresholds}
        return (
            knobs.chunk_tokens in budgets.get(knobs.topology, (None,))
            and knobs.threshold_tokens in thresholds.get(knobs.topology, (None,))
        )  # fmt: skip

    def neighbours(self, knobs: Knobs) -> list[Knobs]:
        """The scenarios with one worker less and one more in each pool, as far as the inventory goes."""
        sizes = knobs.pools.items()
        changed = [resized(knobs, pool, size + step) for pool, size in sizes for step in (-1, 1)]
        return [other for other in changed if self.has(other)]

    def baselines(self, knobs: Knobs) -> list[Knobs]:
        """The aggregated and chunked scenarios that occupy as many GPUs as a separated one, or the most below."""
        gpus = self.gpus_of(knobs)
        found = [*self.baseline("aggregated", gpus), *self.baseline("chunked", gpus)]
        return [other for other in found if self.has(other)]

    def baseline(self, topology: str, gpus: int) -> list[Knobs]:
        """The scenarios of a compared topology of mixed workers that make up so many GPUs, be they more than there are."""
        n = gpus // self.mixed
        if n < 1 or topology not in self.compared:
            return []
        if topology == "aggregated":
            return [Knobs("aggregated", n)]
        return [Knobs("chunked", n, chunk_tokens=budget) for budget in self.budgets]

    def single_workers(self) -> list[Knobs]:
        """Every scenario of one worker per pool."""
        found = [Knobs("aggregated", 1), *(Knobs("chunked", 1, chunk_tokens=budget) for budget in self.budgets)]
        found.append(Knobs("disaggregated", workers_prefill=1, workers_decode=1))
        found += [Knobs("routed", 1, 1, 1, budget, t) for t in self.thresholds for budget in self.routed_budgets]
        return [knobs for knobs in found if self.has(knobs)]


def inventory_of(inputs: Inputs, thresholds: tuple[int, ...]) -> Inventory:
    """Read the inventory, with the thresholds that leave requests on either side."""
    return Inventory(
        inputs.gpus,
        inputs.gpus_per_worker("mixed"),
        inputs.gpus_per_worker("prefill"),
        inputs.gpus_per_worker("decode"),
        inputs.compared,
        tuple(sorted(inputs.chunk_tokens)) if "chunked" in inputs.compared else (),
        tuple(sorted(thresholds)),
        (None, *sorted(inputs.routed_chunk_tokens)),
    )


def resized(knobs: Knobs, pool: str, workers: int) -> Knobs:
    """Return the scenario with another size of one pool."""
    if pool == "mixed":
        return replace(knobs, workers_mixed=workers)
    return replace(knobs, workers_prefill=workers) if pool == "prefill" else replace(knobs, workers_decode=workers)


def matrix_order(knobs: Knobs) -> tuple[int, ...]:
    """Sort key of a scenario's place in the matrix."""
    parts = (
        knobs.threshold_tokens,
        knobs.workers_mixed,
        knobs.chunk_tokens,
        knobs.workers_prefill,
        knobs.workers_decode,
    )
    return (TOPOLOGIES.index(knobs.topology), *(part or 0 for part in parts))


def count_pairs(gpus: int, first: int, second: int) -> int:
    """Count `(P, D)`, each at least 1, with `P·first + D·second ≤ gpus`: `Σ_P floor((gpus - P·first)/second)`.

    >>> count_pairs(4, 1, 1), count_pairs(9, 1, 4), count_pairs(3, 2, 2)
    (6, 6, 0)
    """
    most = (gpus - second) // first
    if most < 1:
        return 0
    # counted from the last P on: floor((gpus - most·first + i·first)/second) for i = 0 .. most - 1
    return floor_sum(most, second, first, gpus - most * first)


def floor_sum(terms: int, modulus: int, step: int, start: int) -> int:
    """`Σ_{i < terms} floor((step·i + start)/modulus)`, as Euclid divides.

    >>> floor_sum(4, 3, 2, 1), sum((2 * i + 1) // 3 for i in range(4))
    (4, 4)
    """
    total = 0
    while True:
        total += (terms - 1) * terms // 2 * (step // modulus) + terms * (start // modulus)
        step, start = step % modulus, start % modulus
        reach = step * terms + start
        if reach < modulus:
            return total
        terms, start = divmod(reach, modulus)
        modulus, step = step, modulus
