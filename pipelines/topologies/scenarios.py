"""The search space: every pool split, chunk budget and routing threshold that the inventory admits, one row per scenario."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from pipelines.frames.inputs import InputTable
from pipelines.topologies.constants import DECODE, MIXED, PREFILL, gpus_per_worker

KNOBS = ("threshold_tokens", "workers_mixed", "workers_prefill", "workers_decode", "chunk_tokens")
CHUNKS_INPUT = "topologies.chunked.chunk_tokens"
ROUTED_CHUNKS_INPUT = "topologies.routed.chunk_tokens"


def _counts(name: str, most: int) -> pl.DataFrame:
    return pl.DataFrame({name: range(1, most + 1)}, schema={name: pl.Int64})


def _crossed(*frames: pl.DataFrame) -> pl.DataFrame:
    found = frames[0]
    for frame in frames[1:]:
        found = found.join(frame, how="cross", maintain_order="left_right")
    return found


def scenario_frame(
    inputs: InputTable, thresholds: Sequence[int] = (), topologies: Sequence[str] | None = None
) -> pl.DataFrame:
    """All scenarios of the cohort's compared topologies, or of ``topologies``, in matrix order (docs/formats.md, Scenarios).

    ``thresholds`` are those that leave both paths requests.
    """
    gpus, each = int(inputs.number("inventory.gpus")), gpus_per_worker(inputs)
    mixed, prefill, decode = (_counts(f"workers_{pool}", gpus // each[pool]) for pool in (MIXED, PREFILL, DECODE))
    budgets = _budgets(inputs, CHUNKS_INPUT)
    lanes = pl.concat(
        [pl.DataFrame({"chunk_tokens": [None]}, schema=budgets.schema), _budgets(inputs, ROUTED_CHUNKS_INPUT)]
    )
    edges = pl.DataFrame({"threshold_tokens": list(thresholds)}, schema={"threshold_tokens": pl.Int64})
    pools = "p{}/d{}"
    spaces = {
        "aggregated": mixed.with_columns(scenario=pl.format("aggregated/n{}", "workers_mixed")),
        "chunked": _crossed(mixed, budgets).with_columns(
            scenario=pl.format("chunked/n{}/c{}", "workers_mixed", "chunk_tokens")
        ),
        "disaggregated": _crossed(prefill, decode).with_columns(
            scenario=pl.format(f"disaggregated/{pools}", "workers_prefill", "workers_decode")
        ),
    }
    names = inputs.words("topologies.compared") if topologies is None else topologies
    if "routed" in names:
        spaces["routed"] = _crossed(edges, mixed, lanes, prefill, decode).with_columns(scenario=_routed_name())
    used = pl.sum_horizontal([pl.col(f"workers_{pool}").fill_null(0) * count for pool, count in each.items()])
    knobs = pl.DataFrame(schema=dict.fromkeys(KNOBS, pl.Int64))
    frames = [spaces[name].with_columns(topology=pl.lit(name)) for name in names]
    return (
        pl.concat([knobs, *frames], how="diagonal_relaxed")
        .with_columns(gpus=used)
        .filter(pl.col("gpus") <= gpus)
        .with_row_index("place")
        .select("scenario", "topology", pl.col("place").cast(pl.Int64), *KNOBS, "gpus")
    )


def _budgets(inputs: InputTable, path: str) -> pl.DataFrame:
    return pl.DataFrame({"chunk_tokens": [int(word) for word in inputs.words(path)]}, schema={"chunk_tokens": pl.Int64})


def _routed_name() -> pl.Expr:
    pools = ("workers_prefill", "workers_decode")
    return (
        pl.when(pl.col("chunk_tokens").is_null())
        .then(pl.format("routed/t{}/n{}/p{}/d{}", "threshold_tokens", "workers_mixed", *pools))
        .otherwise(pl.format("routed/t{}/n{}/c{}/p{}/d{}", "threshold_tokens", "workers_mixed", "chunk_tokens", *pools))
    )


def named(inputs: InputTable, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Scenarios of the given ``topology`` and knobs, with their names and GPUs; other keys are kept, ``place`` is theirs among ``rows``."""
    knobs: dict[str, type[pl.DataType]] = dict.fromkeys(KNOBS, pl.Int64)
    more: dict[str, type[pl.DataType]] = {"speaks": pl.Boolean} if rows and "speaks" in rows[0] else {}
    frame = pl.DataFrame(
        [{name: row.get(name) for name in ("topology", *knobs, *more)} for row in rows],
        schema={"topology": pl.String, **knobs, **more},
    )
    name = (
        pl.when(pl.col("topology") == "aggregated")
        .then(pl.format("aggregated/n{}", "workers_mixed"))
        .when(pl.col("topology") == "chunked")
        .then(pl.format("chunked/n{}/c{}", "workers_mixed", "chunk_tokens"))
        .when(pl.col("topology") == "disaggregated")
        .then(pl.format("disaggregated/p{}/d{}", "workers_prefill", "workers_decode"))
        .otherwise(_routed_name())
    )
    used = pl.sum_horizontal(
        [pl.col(f"workers_{pool}").fill_null(0) * count for pool, count in gpus_per_worker(inputs).items()]
    )
    return (
        frame.with_columns(scenario=name, gpus=used)
        .with_row_index("place")
        .select("scenario", "topology", pl.col("place").cast(pl.Int64), *KNOBS, "gpus", *more)
    )
