"""The search space: every pool split and chunk budget that the inventory admits, one row per scenario."""

import polars as pl

from pipelines.frames.inputs import InputTable

KNOBS = ("workers_mixed", "workers_prefill", "workers_decode", "chunk_tokens")


def scenario_frame(inputs: InputTable) -> pl.DataFrame:
    """All scenarios of the cohort's compared topologies, in matrix order (docs/formats.md, Scenarios)."""
    per_worker = int(inputs.number("inventory.gpus_per_worker"))
    workers = int(inputs.number("inventory.gpus")) // per_worker
    counts = pl.DataFrame({"n": range(1, workers + 1)}, schema={"n": pl.Int64})
    chunks = [int(word) for word in inputs.words("topologies.chunked.chunk_tokens")]
    spaces = {
        "aggregated": counts.select(workers_mixed="n", scenario=pl.format("aggregated/n{}", "n")),
        "chunked": counts.join(
            pl.DataFrame({"c": chunks}, schema={"c": pl.Int64}), how="cross", maintain_order="left_right"
        ).select(workers_mixed="n", chunk_tokens="c", scenario=pl.format("chunked/n{}/c{}", "n", "c")),
        "disaggregated": counts.join(counts, how="cross", maintain_order="left_right", suffix="_d")
        .filter(pl.col("n") + pl.col("n_d") <= workers)
        .select(workers_prefill="n", workers_decode="n_d", scenario=pl.format("disaggregated/p{}/d{}", "n", "n_d")),
    }
    frames = [spaces[name].with_columns(topology=pl.lit(name)) for name in inputs.words("topologies.compared")]
    knobs = pl.DataFrame(schema=dict.fromkeys(KNOBS, pl.Int64))
    used = pl.sum_horizontal("workers_mixed", "workers_prefill", "workers_decode")
    return (
        pl.concat([knobs, *frames], how="diagonal_relaxed")
        .with_row_index("place")
        .select("scenario", "topology", pl.col("place").cast(pl.Int64), *KNOBS, (used * per_worker).alias("gpus"))
    )
