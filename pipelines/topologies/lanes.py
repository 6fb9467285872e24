"""The eight lanes of each bucket, the latencies they add up to, and goodput (docs/arithmetic.md, sections 5 and 7)."""

from typing import Any

import polars as pl

from pipelines.frames.evaluation import LANES
from pipelines.topologies.phases import Phases, Span, Stratum

TO_FIRST_TOKEN = {"prefill": LANES[:3], "decode": LANES[:7]}
"""The lanes up to the first token, by the phase that emits it."""

ADDITIVITY = 1e-9
"""Relative difference at which a sum of lanes is called wrong: far above the error of adding eight doubles."""


def dominant_queue() -> pl.Expr:
    """The phase with the longest mean wait; the first of prefill, transfer, decode if equal."""
    prefill, transfer, decode = (pl.col(f"{phase}_wait_s") for phase in ("prefill", "transfer", "decode"))
    return (
        pl.when((prefill >= transfer) & (prefill >= decode))
        .then(pl.lit("prefill"))
        .when(transfer >= decode)
        .then(pl.lit("transfer"))
        .otherwise(pl.lit("decode"))
    )


def lane_seconds(phases: Phases, bucket: dict[str, Any], span: Span) -> dict[str, pl.Expr]:
    """Seconds of each lane of the bucket's mean request, in order."""
    first_by_prefill = phases.first_token == "prefill"
    later_tokens = bucket["output_tokens_mean"] - 1
    first_step = bucket["multi_token_share"] if first_by_prefill else 1.0
    # answers of one and two tokens leave nothing; the difference of two rounded moments may fall just below
    remaining = max(0.0, later_tokens - first_step) if first_by_prefill else later_tokens
    own = {
        "admission_s": pl.col("a"),
        "prefill_execution_s": phases.execution_s(span),
        "kv_movement_s": phases.movement_s(span),
        "first_decode_step_s": pl.col("t") * first_step,
        "remaining_generation_s": pl.col("t") * remaining,
    }
    return {lane: own.get(lane, pl.col(lane)) for lane in LANES}


def mean_e2e_s(phases: Phases, buckets: list[dict[str, Any]], spans: dict[str, Span]) -> pl.Expr:
    """E[E2E] in seconds over all requests: the sum over buckets of N_k/N times their E2E."""
    requests = sum(bucket["requests"] for bucket in buckets)
    return pl.sum_horizontal(
        [
            pl.sum_horizontal(lane_seconds(phases, bucket, spans[bucket["bucket"]]).values())
            * (bucket["requests"] / requests)
            for bucket in buckets
        ]
    )


def bucket_lanes(frame: pl.DataFrame, phases: Phases, bucket: dict[str, Any], span: Span) -> pl.DataFrame:
    """``frame`` with the bucket's lanes, TTFT, TPOT, E2E (s) and ``met``.

    ``met`` is the share of the cohort that lies in the bucket and meets both objectives.
    """
    later_tokens = bucket["output_tokens_mean"] - 1
    frame = frame.with_columns(bucket=pl.lit(bucket["bucket"]), **lane_seconds(phases, bucket, span)).with_columns(
        ttft_s=pl.sum_horizontal(TO_FIRST_TOKEN[phases.first_token]),
        e2e_s=pl.sum_horizontal(LANES),
    )
    # not E2E - TTFT, which loses digits where waits are long
    after_first = pl.sum_horizontal(lane for lane in LANES if lane not in TO_FIRST_TOKEN[phases.first_token])
    tpot = after_first / later_tokens if later_tokens > 0 else pl.lit(None, pl.Float64)
    frame = frame.with_columns(tpot_s=tpot)
    return frame.with_columns(met=pl.sum_horizontal([_met(phases, stratum) for stratum in span.strata]))


def _met(phases: Phases, stratum: Stratum) -> pl.Expr:
    """Share of the cohort in ``stratum`` that meets both objectives: v_s·met_s."""
    alone = Span(stratum.prompts, (stratum,))
    own = {"prefill_execution_s": phases.execution_s(alone), "kv_movement_s": phases.movement_s(alone)}
    ttft = pl.sum_horizontal([own.get(lane, pl.col(lane)) for lane in TO_FIRST_TOKEN[phases.first_token]])
    wait, probability = pl.col("queue_wait_s"), pl.col("queue_probability")
    slack = pl.col("ttft_objective") - (ttft - wait)
    in_time = pl.when(wait > 0).then(1 - probability * (-probability * slack / wait).exp()).otherwise(1.0)
    late = (slack < 0) | (pl.col("tpot_s") > pl.col("tpot_objective")).fill_null(False)
    return stratum.share * pl.when(late).then(0.0).otherwise(in_time)


def check_lanes_add_up(evaluation: pl.DataFrame, first_token: str) -> None:
    """ArithmeticError, naming the first scenario, unless TTFT and E2E are the sums of their lanes."""
    for total, lanes in (("ttft_s", TO_FIRST_TOKEN[first_token]), ("e2e_s", LANES)):
        gap = (pl.sum_horizontal(lanes) - pl.col(total)).abs() > ADDITIVITY * pl.col(total).abs()
        wrong = evaluation.filter((pl.col("status") == "evaluated") & (gap | pl.col(total).is_null()))
        if not wrong.is_empty():
            row = wrong.row(0, named=True)
            raise ArithmeticError(
                f"{row['scenario']} ({row['bound']}, {row['bucket']}): lanes do not add up to {total}"
            )
