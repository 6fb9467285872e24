"""Cohort x scenarios -> lanes: all scenarios of one topology, both bounds, every bucket, without a loop over scenarios."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipelines.arithmetic.numbers import Bools, Floats
from pipelines.frames.digits import WORKLOAD_DIGITS, significant
from pipelines.frames.evaluation import LANES, LOADS, Evaluation
from pipelines.frames.inputs import BOUNDS, InputTable
from pipelines.topologies.closed_loop import solved_rates
from pipelines.topologies.constants import PRICE_INPUT
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.figures import QUEUES, TO_FIRST_TOKEN, Figures, Latencies
from pipelines.topologies.paths.path import Sizes
from pipelines.topologies.question import Layout, Question, Workload, sizes_of

ADDITIVITY = 1e-9
"""Relative difference at which a sum of lanes is called wrong: far above the error of adding eight doubles."""

_ROWS = 4096
"""Rows that are evaluated at once: their arrays of strata fit a cache."""

_SECONDS_PER_HOUR, _MILLION = 3600.0, 1e6


@dataclass(frozen=True)
class Evaluated:
    """Rows of one layout under one bound: their rates Λ (requests/s) and figures."""

    rates: Floats
    figures: Figures


def figures_of(question: Question, layout: Layout, sizes: Sizes, rows: int, rates: Floats | None = None) -> Figures:
    """The figures of ``rows`` rows of ``layout``, at ``rates`` where the cohort has none of its own."""
    paths = question.paths(layout, sizes, rates)
    return Figures(tuple(Latencies(path, question.objectives(path.requests)) for path in paths), rows)


def evaluated(question: Question, layout: Layout, sizes: Sizes, rows: int) -> Evaluated:
    """The same, in a closed loop at the rate that each row sustains."""
    concurrency = question.arrivals.concurrency
    if concurrency is None:
        declared = question.arrivals.rate
        assert declared is not None
        return Evaluated(np.broadcast_to(np.asarray(declared), (rows,)), figures_of(question, layout, sizes, rows))

    def respond(places: NDArray[np.int64], rates: Floats) -> tuple[Bools, Floats, Floats]:
        figures = figures_of(question.at_rows(places), layout, sizes.at(places), len(places), rates)
        return figures.judged.refused, mean_e2e_s(figures), figures.judged.pressure

    rates = solved_rates(np.broadcast_to(np.asarray(concurrency), (rows,)).copy(), respond)
    return Evaluated(rates, figures_of(question, layout, sizes, rows, rates))


def mean_e2e_s(figures: Figures) -> Floats:
    """E[E2E] in seconds over all requests of the cohort."""
    shares = np.concatenate([one.path.requests.shares for one in figures.paths])
    mean: Floats = (figures.beside("e2e") * shares).sum(axis=1)
    return mean


def layouts(scenarios: pl.DataFrame) -> Iterator[tuple[Layout, pl.DataFrame]]:
    """The scenarios of each layout, in the order of their first ones."""
    keys = ["topology", "threshold_tokens", pl.col("chunk_tokens").is_not_null().alias("chunked")]
    for (topology, threshold, chunked), own in scenarios.group_by(keys, maintain_order=True):
        yield Layout(TOPOLOGIES[str(topology)], None if threshold is None else int(str(threshold)), bool(chunked)), own


def evaluate(
    topology: str,
    fingerprint: str,
    scenarios: pl.DataFrame,
    inputs: InputTable,
    workload: Workload,
) -> pl.DataFrame:
    """Evaluate every scenario of ``topology`` under both bounds: an :class:`Evaluation` frame, one row per scenario, bound and bucket.

    Latencies are unrounded seconds. In a closed loop each scenario and bound is evaluated at the rate that it sustains.
    Raises ArithmeticError if lanes do not add up to the latencies derived without them.
    """
    own = scenarios.filter(pl.col("topology") == topology)
    if own.is_empty():
        return _nothing()
    frames = []
    for bound in BOUNDS:
        question = Question(inputs, workload, bound)
        for layout, rows in ((layout, part) for layout, every in layouts(own) for part in every.iter_slices(_ROWS)):
            with np.errstate(all="ignore"):  # rows at or above a ceiling have no meaning, and are refused
                found = evaluated(question, layout, sizes_of(rows), rows.height)
                frame = _frame(rows, question, found).with_columns(fingerprint=pl.lit(fingerprint))
            check_lanes_add_up(frame, found.figures)
            frames.append(frame)
    stacked = pl.concat(frames).sort("place", pl.col("bound") == "conservative", maintain_order=True)
    return Evaluation.validate(stacked.select(list(Evaluation.to_schema().columns)))


def _nothing() -> pl.DataFrame:
    """No rows: a topology that is not compared may lack the inputs that it needs."""
    schema = {name: column.dtype.type for name, column in Evaluation.to_schema().columns.items()}
    return Evaluation.validate(pl.DataFrame(schema=schema))


def _exported_rates(rates: Floats) -> pl.Series:
    """Λ of each row in requests/s, to the digits of a workload figure."""
    known = {rate: significant(rate, WORKLOAD_DIGITS) for rate in set(rates.tolist())}
    return pl.Series([known[rate] for rate in rates.tolist()], dtype=pl.Float64)


def _frame(rows: pl.DataFrame, question: Question, found: Evaluated) -> pl.DataFrame:
    """One row per scenario and bucket; refused rows without latencies."""
    figures = found.figures
    labels = [bucket.label for one in figures.paths for bucket in one.path.requests.buckets]
    scenario = rows.with_columns(
        bound=pl.lit(question.bound),
        rate_rps=_exported_rates(found.rates),
        **_refusals(figures, labels),
        **_scenario_figures(rows, question, found),
    )
    shown = ~np.repeat(figures.judged.refused, len(labels))

    def of_buckets(values: Floats) -> pl.Series:
        return _absent(np.broadcast_to(values, (figures.rows, len(labels))).ravel(), shown)

    lanes = {lane: of_buckets(figures.lane(lane)) for lane in LANES}
    sums = {f"{name}_s": of_buckets(figures.beside(name)) for name in ("ttft", "tpot", "e2e")}
    every = np.repeat(np.arange(figures.rows), len(labels))
    return scenario[every].with_columns(bucket=pl.Series(labels * figures.rows), **lanes, **sums)


def _absent(values: Floats, shown: Bools) -> pl.Series:
    """``values`` where they are ``shown`` and numbers, absent elsewhere."""
    return pl.Series(np.where(shown, values, np.nan), dtype=pl.Float64).fill_nan(None)


def _refusals(figures: Figures, labels: list[str]) -> dict[str, pl.Series]:
    """Status, refusal, loads and pressure of every row; a load after the one that refuses is absent."""
    judged = figures.judged
    resources = [load.resource for load in judged.loads]
    places = judged.refusing.tolist()
    by_memory = [None if load.by_memory is None else load.by_memory.tolist() for load in judged.loads]

    def kind(row: int, place: int) -> str | None:
        if place < 0:
            return None
        memory = by_memory[place] if place < len(by_memory) else None
        return "kv_memory" if memory is not None and memory[row] else judged.kind(place)

    def resource(row: int, place: int) -> str | None:
        if place < 0:
            return None
        return resources[place] if place < len(resources) else labels[judged.floor_bucket[row]]

    loads = {f"load_{name}": pl.Series([None] * figures.rows, dtype=pl.Float64) for name in LOADS}
    for place, name in enumerate(resources):
        loads[f"load_{name}"] = pl.Series(judged.utilization[:, place], dtype=pl.Float64).fill_nan(None)
    return loads | {
        "status": pl.Series(["evaluated" if place < 0 else "refused" for place in places]),
        "refusal_kind": pl.Series([kind(*at) for at in enumerate(places)], dtype=pl.String),
        "refusal_resource": pl.Series([resource(*at) for at in enumerate(places)], dtype=pl.String),
        "refusal_figure": pl.Series(judged.figure, dtype=pl.Float64).fill_nan(None),
        "refusal_limit": pl.Series(judged.limit, dtype=pl.Float64).fill_nan(None),
        "pressure": pl.Series(judged.pressure, dtype=pl.Float64),
        "tightest": pl.Series([resources[place] for place in judged.tightest.tolist()]),
        "headroom": pl.Series(1 - judged.pressure, dtype=pl.Float64),
    }


def _scenario_figures(rows: pl.DataFrame, question: Question, found: Evaluated) -> dict[str, pl.Series]:
    """What a row has once, not per bucket; absent where it is refused."""
    figures, shown = found.figures, ~found.figures.judged.refused
    queues = [QUEUES[place] for place in figures.dominant_queue.tolist()]
    return {
        "decode_batch": _absent(figures.batch, shown),
        "stall_s": _absent(figures.stall, shown),
        "goodput": _absent(figures.goodput, shown),
        "dominant_queue": pl.Series(
            [name if is_shown else None for name, is_shown in zip(queues, shown, strict=True)], dtype=pl.String
        ),
        "cost_per_million_tokens": _absent(_cost(rows, question, found), shown),
        "screening": pl.Series(figures.screening()),
    }


def _cost(rows: pl.DataFrame, question: Question, found: Evaluated) -> Floats:
    """Price of a million output tokens that met their objectives, absent (NaN) where no price is declared or none meets."""
    if not question.inputs.has(PRICE_INPUT):
        return np.full(rows.height, np.nan)
    price = question.inputs.number(PRICE_INPUT, question.bound)
    met = found.rates * found.figures.tokens_met
    spent = rows["gpus"].to_numpy() * price / _SECONDS_PER_HOUR * _MILLION
    cost: Floats = np.divide(spent, met, out=np.full(rows.height, np.nan), where=met > 0)
    return cost


def check_lanes_add_up(evaluation: pl.DataFrame, figures: Figures) -> None:
    """ArithmeticError, naming the first scenario, unless TTFT and E2E of every row are the sums of its lanes."""
    for one in figures.paths:
        labels = [bucket.label for bucket in one.path.requests.buckets]
        own = evaluation.filter((pl.col("status") == "evaluated") & pl.col("bucket").is_in(labels))
        for total, lanes in (("ttft_s", TO_FIRST_TOKEN[one.path.first_token]), ("e2e_s", LANES)):
            gap = (pl.sum_horizontal(lanes) - pl.col(total)).abs() > ADDITIVITY * pl.col(total).abs()
            wrong = own.filter(gap | pl.col(total).is_null())
            if not wrong.is_empty():
                row = wrong.row(0, named=True)
                raise ArithmeticError(
                    f"{row['scenario']} ({row['bound']}, {row['bucket']}): lanes do not add up to {total}"
                )
