"""Which scenarios of a cohort are kept: all of them, or of very many those that the decision needs (docs/arithmetic.md, section 10)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from pipelines.frames.canonical import digest
from pipelines.frames.changes import SearchSpace
from pipelines.frames.inputs import InputTable
from pipelines.gates.rules import applicable, part_weights, preferred_keys
from pipelines.planning.enumerated import speaking_by_enumeration
from pipelines.planning.frontier import FIGURES, Candidate, thinned
from pipelines.planning.margins import Gate, Rows, blocking_on, examines
from pipelines.planning.pairs import Best, best_pair, level_minima, nothing_beside
from pipelines.planning.room import scenario_count
from pipelines.planning.sides import Side, decomposes, side
from pipelines.topologies.constants import CONCURRENCY_INPUT, MIXED, gpus_per_worker
from pipelines.topologies.declared import TOPOLOGIES, Topology
from pipelines.topologies.question import Layout, Workload, sizes_of
from pipelines.topologies.scenarios import ROUTED_CHUNKS_INPUT, named, scenario_frame

KEEP_ALL = 1000
"""Up to so many scenarios, all of them are kept."""


@dataclass(frozen=True)
class Asked:
    """A cohort and the rules that it is judged by."""

    inputs: InputTable
    workload: Workload
    gates: pl.DataFrame
    preference: pl.DataFrame

    @cached_property
    def thresholds(self) -> list[int]:
        """The routing thresholds that leave both paths requests."""
        return self.workload.thresholds(self.inputs)

    @cached_property
    def rules(self) -> list[Gate]:
        """The gates with their limits on this cohort."""
        return list(applicable(self.gates, self.inputs).iter_rows(named=True))

    @property
    def gpus(self) -> int:
        """The inventory."""
        return int(self.inputs.number("inventory.gpus"))


def kept_scenarios(asked: Asked, keep_all: int = KEEP_ALL) -> pl.DataFrame:
    """The kept scenarios in matrix order: a :class:`SearchSpace` frame."""
    names = asked.inputs.words("topologies.compared")
    searched = sum(scenario_count(asked.inputs, name, len(asked.thresholds)) for name in names)
    if searched <= keep_all:
        kept = scenario_frame(asked.inputs, asked.thresholds)
    elif asked.inputs.has(CONCURRENCY_INPUT) or not all(
        decomposes(gate) for name in names for gate in blocking_on(asked.rules, name)
    ):
        kept = _around(asked, speaking_by_enumeration(asked.inputs, asked.workload, asked.gates, asked.preference))
    else:
        kept = _around(asked, _found(asked, [TOPOLOGIES[name] for name in names]))
    rules = searched_by(asked.gates, asked.preference) if searched > kept.height else ""
    return SearchSpace.validate(kept.with_columns(searched=pl.lit(searched, pl.Int64), rules=pl.lit(rules)))


def searched_by(gates: pl.DataFrame, preference: pl.DataFrame) -> str:
    """Digest of the rules that decide which scenarios are kept, where not all are."""
    return digest(json.loads(json.dumps([gates.to_dicts(), preference.to_dicts()])))


@dataclass(frozen=True)
class _Space:
    """All scenarios of one topology at one threshold: the rows of a short path, where it routes, and those of the other."""

    topology: Topology
    threshold: int | None
    short: pl.DataFrame | None
    short_side: Side
    long: pl.DataFrame
    long_side: Side

    def knobs(self, short: int, long: int) -> dict[str, Any]:
        """The knobs of the scenario that two rows make."""
        row = self.long.row(long, named=True)
        if self.short is not None:
            row |= {name: value for name, value in self.short.row(short, named=True).items() if value is not None}
        return row | {"topology": self.topology.name, "threshold_tokens": self.threshold}


def _spaces(asked: Asked, topology: Topology, gates: Sequence[Gate]) -> Iterator[_Space]:
    """The scenarios of ``topology``, threshold by threshold."""
    parts = topology.operating_parts(part_weights(asked.preference))
    if not topology.routes:
        rows = scenario_frame(asked.inputs, (), [topology.name])
        layout = Layout(topology, None, topology.name == "chunked")
        yield _Space(topology, None, None, nothing_beside(len(gates)), rows, _side(asked, layout, rows, gates, parts))
        return
    budgets = asked.inputs.words(ROUTED_CHUNKS_INPUT)
    whole = scenario_frame(asked.inputs, (), ["aggregated"]).with_columns(lane=pl.lit(0, pl.Int64))
    lanes = [
        whole.with_columns(chunk_tokens=pl.lit(int(budget), pl.Int64), lane=pl.lit(place + 1, pl.Int64))
        for place, budget in enumerate(budgets)
    ]
    short = pl.concat([whole, *lanes]).sort("workers_mixed", "lane", maintain_order=True)
    long = scenario_frame(asked.inputs, (), ["disaggregated"])
    for threshold in asked.thresholds:
        # each path on its own: a topology of that one path, which serves what it serves of the routed one
        first, second = (Topology(**vars(topology) | {"paths": (path,)}) for path in topology.paths)
        of_short = [
            _side(asked, Layout(first, threshold, chunked), own, gates, parts)
            for chunked in (False, True)
            for own in [short.filter(pl.col("chunk_tokens").is_not_null() == chunked)]
            if not own.is_empty()
        ]
        order = pl.concat(
            [short.filter(pl.col("chunk_tokens").is_null()), short.filter(pl.col("chunk_tokens").is_not_null())]
        )
        joined = of_short[0] if len(of_short) == 1 else of_short[0].beside(of_short[1])
        yield _Space(
            topology,
            threshold,
            order.select("workers_mixed", "chunk_tokens"),
            joined,
            long.select("workers_prefill", "workers_decode"),
            _side(asked, Layout(second, threshold, False), long, gates, parts),
        )


def _side(asked: Asked, layout: Layout, rows: pl.DataFrame, gates: Sequence[Gate], parts: float) -> Side:
    gpus = rows["gpus"].cast(pl.Float64).to_numpy()
    lane = rows["lane"] if "lane" in rows.columns else pl.Series([0] * rows.height)
    count = len(asked.inputs.words(ROUTED_CHUNKS_INPUT)) + 1
    code = (
        (rows["workers_mixed"] * count + lane if "lane" in rows.columns else rows["place"]).cast(pl.Float64).to_numpy()
    )
    return side(asked.inputs, asked.workload, Rows(layout, sizes_of(rows), gpus, parts), code, gates, FIGURES)


def _found(asked: Asked, topologies: Sequence[Topology]) -> pl.DataFrame:
    """The speaking scenarios and the frontier of all ``topologies``, with ``speaks``."""
    speaking, candidates = [], []
    prefer = preferred_keys(asked.preference)
    for topology in topologies:
        gates = blocking_on(asked.rules, topology.name)
        parts = topology.operating_parts(part_weights(asked.preference))
        best: tuple[Best, dict[str, Any]] | None = None
        for place, space in enumerate(_spaces(asked, topology, gates)):
            own = best_pair(
                space.short_side,
                space.long_side,
                gates,
                prefer,
                parts,
                asked.gpus,
                place,
                examined=examines(asked.rules, topology.name),
            )
            if best is None or own.key < best[0].key:
                best = own, space.knobs(own.short, own.long)
            candidates += [
                Candidate(
                    figure,
                    parts,
                    minimum.gpus,
                    minimum.value,
                    (topology.order, place, minimum.code),
                    space.knobs(*minimum.pair),
                )
                for figure_place, figure in enumerate(FIGURES)
                for minimum in level_minima(space.short_side, space.long_side, figure_place, asked.gpus)
            ]
        assert best is not None
        speaking.append(best[1])
    knobs = [row | {"speaks": True} for row in speaking] + [row | {"speaks": False} for row in thinned(candidates)]
    return named(asked.inputs, knobs)


def _around(asked: Asked, found: pl.DataFrame) -> pl.DataFrame:
    """What was found, with the neighbours of the speaking scenarios, their baselines, and the scenarios of one worker per pool."""
    each, rows = gpus_per_worker(asked.inputs), found.drop("speaks").to_dicts()
    pools = [f"workers_{pool}" for pool in each]
    near = found.filter("speaks").drop("speaks").to_dicts()
    near += [
        row | {pool: row[pool] + step}
        for row in near
        for pool in pools
        if row[pool] is not None
        for step in (-1, 1)
        if row[pool] + step >= 1
    ]
    rows += near
    for row in near:
        gpus = sum((row[f"workers_{pool}"] or 0) * count for pool, count in each.items())
        if TOPOLOGIES[row["topology"]].separates and gpus <= asked.gpus and gpus >= each[MIXED]:
            rows += _of_one_pool(asked, gpus // each[MIXED])
    rows += _single_workers(asked)
    kept = named(asked.inputs, rows).unique("scenario", keep="first", maintain_order=True)
    return _in_order(kept.filter(pl.col("gpus") <= asked.gpus), asked.inputs)


def _of_one_pool(asked: Asked, workers: int) -> list[dict[str, Any]]:
    """The aggregated and chunked scenarios of so many workers."""
    budgets = [int(word) for word in asked.inputs.words("topologies.chunked.chunk_tokens")]
    return [{"topology": "aggregated", "workers_mixed": workers}] + [
        {"topology": "chunked", "workers_mixed": workers, "chunk_tokens": budget} for budget in budgets
    ]


def _single_workers(asked: Asked) -> list[dict[str, Any]]:
    names = asked.inputs.words("topologies.compared")
    rows = [row for row in _of_one_pool(asked, 1) if row["topology"] in names]
    pools = {"workers_prefill": 1, "workers_decode": 1}
    if "disaggregated" in names:
        rows.append({"topology": "disaggregated"} | pools)
    if "routed" in names:
        lanes = [None, *(int(word) for word in asked.inputs.words(ROUTED_CHUNKS_INPUT))]
        rows += [
            {"topology": "routed", "threshold_tokens": edge, "workers_mixed": 1, "chunk_tokens": lane} | pools
            for edge in asked.thresholds
            for lane in lanes
        ]
    return rows


def _in_order(rows: pl.DataFrame, inputs: InputTable) -> pl.DataFrame:
    """``rows`` in matrix order, with their place in it."""
    order = {name: place for place, name in enumerate(inputs.words("topologies.compared"))}
    first = pl.col("topology").replace_strict(order, return_dtype=pl.Int64)
    knobs = ("threshold_tokens", "workers_mixed", "chunk_tokens", "workers_prefill", "workers_decode")
    ordered = rows.sort(first, *knobs, nulls_last=False)
    return (
        ordered.drop("place").with_row_index("place").with_columns(pl.col("place").cast(pl.Int64)).select(rows.columns)
    )
