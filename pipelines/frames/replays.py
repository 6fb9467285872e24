"""What the replay of a trace through scenarios came to (docs/replay.md, What comes out)."""

from typing import Any

import pandera.polars as pa
import polars as pl

MIXED, PREFILL, DECODE = "mixed", "prefill", "decode"
POOLS = (MIXED, PREFILL, DECODE)
WHOLE, SAMPLE = "whole", "sample"
PARTS = (WHOLE, SAMPLE)
"""The whole trace, or the sample that the verifier replays."""
REASONS = ("refused", "kv_memory")
"""Why a scenario is not replayed."""
COHORT_REASONS = ("closed_loop", "no_arrivals")
"""Why no scenario of a cohort is."""

COUNTS = (
    "requests",
    "output_tokens",
    "unfinished",
    "met_ttft",
    "met_tpot",
    "met_e2e",
    "met_stall",
    "met_modeled",
    "met",
    "met_tokens",
    "generation_steps",
    "preemptions",
    "recomputed_tokens",
    "peak_queue",
    "peak_transfer_queue",
    "peak_decode_queue",
)
TIMES = ("ttft_s", "generation_s", "stall_s", "end_s", "link_s")
OF_POOL = ("prefill_s", "decode_s", "swap_s", "peak_kv_bytes")
FIGURES = (
    "replayed_goodput",
    "replayed_goodput_tokens",
    "replayed_modeled_goodput",
    "replayed_met_rps",
    "replayed_ttft_mean_s",
    "replayed_tpot_mean_s",
    "replayed_stall_s",
    "replayed_time_above_ceiling_s",
    "replayed_peak_queue",
    "replayed_peak_kv",
    "replayed_preemptions",
    "gpu_seconds_busy",
)
"""Of the whole trace, to the exported digits; all modeled."""
WORST_MINUTE = ("minute", "requests", "met")


def _column(unit: str, meaning: str, **checks: Any) -> Any:
    return pa.Field(nullable=True, description=meaning, metadata={"unit": unit, "meaning": meaning}, **checks)


class Replays(pa.DataFrameModel):
    """One row per replayed scenario, bound and part: the whole trace, then the sample; a clock of whole ticks, to the exported digits.

    A scenario that is not replayed has one row, of the whole, with the ``reason``.
    """

    scenario: str = pa.Field(metadata={"unit": "", "meaning": "topology with its pool sizes and knobs"})
    bound: str = pa.Field(isin=["nominal", "conservative"], metadata={"unit": "", "meaning": "bound of the inputs"})
    part: str = pa.Field(isin=PARTS, metadata={"unit": "", "meaning": "the whole trace, or the verifier's sample"})
    reason: str = _column("", "why it is not replayed", isin=REASONS)
    ticks_per_second: pl.Int64 = pa.Field(ge=10**9, metadata={"unit": "1/s", "meaning": "T: resolution of the clock"})
    requests: pl.Int64 = _column("count", "requests that are replayed", ge=1)
    output_tokens: pl.Int64 = _column("tokens", "their output tokens", ge=1)
    unfinished: pl.Int64 = _column("count", "requests that the clock ended before", ge=0)
    met_ttft: pl.Int64 = _column("count", "requests that meet their TTFT objective (modeled)", ge=0)
    met_tpot: pl.Int64 = _column("count", "requests that meet their TPOT objective (modeled)", ge=0)
    met_e2e: pl.Int64 = _column("count", "requests that meet their E2E objective (modeled)", ge=0)
    met_stall: pl.Int64 = _column("count", "requests that meet the stall objective (modeled)", ge=0)
    met_modeled: pl.Int64 = _column("count", "requests that meet TTFT, TPOT and E2E (modeled)", ge=0)
    met: pl.Int64 = _column("count", "requests that meet all objectives (modeled)", ge=0)
    met_tokens: pl.Int64 = _column("tokens", "output tokens of those", ge=0)
    generation_steps: pl.Int64 = _column("count", "output tokens after the first", ge=0)
    preemptions: pl.Int64 = _column("count", "requests preempted for memory", ge=0)
    recomputed_tokens: pl.Int64 = _column("tokens", "tokens prefilled again", ge=0)
    peak_queue: pl.Int64 = _column("count", "most requests that wait for prefill", ge=0)
    peak_transfer_queue: pl.Int64 = _column("count", "most requests that wait for a link", ge=0)
    peak_decode_queue: pl.Int64 = _column("count", "most sequences that wait for a decode slot", ge=0)
    swapped_bytes: float = _column("B", "cache moved between GPU and host", ge=0)
    ttft_s: float = _column("s", "sum of TTFT (modeled)", ge=0)
    generation_s: float = _column("s", "sum of the time after the first token (modeled)", ge=0)
    stall_s: float = _column("s", "longest time between two tokens of a request (modeled)", ge=0)
    end_s: float = _column("s", "end of the last request (modeled)", ge=0)
    link_s: float = _column("s", "how long channels were kept (modeled)", ge=0)
    mixed_prefill_s: float = _column("s", "prefill of the mixed pool (modeled)", ge=0)
    mixed_decode_s: float = _column("s", "decode of the mixed pool (modeled)", ge=0)
    mixed_swap_s: float = _column("s", "swapping of the mixed pool (modeled)", ge=0)
    mixed_peak_kv_bytes: float = _column("B", "most cache on a mixed worker", ge=0)
    prefill_prefill_s: float = _column("s", "prefill of the prefill pool (modeled)", ge=0)
    prefill_decode_s: float = _column("s", "decode of the prefill pool: none", ge=0)
    prefill_swap_s: float = _column("s", "swapping of the prefill pool: none", ge=0)
    prefill_peak_kv_bytes: float = _column("B", "most cache on a prefill worker", ge=0)
    decode_prefill_s: float = _column("s", "prefill done again by the decode pool (modeled)", ge=0)
    decode_decode_s: float = _column("s", "decode of the decode pool (modeled)", ge=0)
    decode_swap_s: float = _column("s", "swapping of the decode pool (modeled)", ge=0)
    decode_peak_kv_bytes: float = _column("B", "most cache on a decode worker", ge=0)
    replayed_goodput: float = _column("ratio", "share of requests that meet all objectives (modeled)", ge=0, le=1)
    replayed_goodput_tokens: float = _column("ratio", "share of output tokens of those (modeled)", ge=0, le=1)
    replayed_modeled_goodput: float = _column("ratio", "share that meets TTFT, TPOT and E2E (modeled)", ge=0, le=1)
    replayed_met_rps: float = _column("requests/s", "requests that meet all objectives (modeled)", ge=0)
    replayed_ttft_mean_s: float = _column("s", "mean TTFT (modeled)", ge=0)
    replayed_tpot_mean_s: float = _column("s", "time after the first token over tokens after it (modeled)", ge=0)
    replayed_stall_s: float = _column("s", "longest time between two tokens of a request (modeled)", ge=0)
    replayed_time_above_ceiling_s: float = _column("s", "windows with a pool at or above its ceiling (modeled)", ge=0)
    replayed_peak_queue: float = _column("count", "most requests that wait for prefill (modeled)", ge=0)
    replayed_peak_kv: float = _column("ratio", "most cache on a worker, of its memory (modeled)", ge=0)
    replayed_preemptions: float = _column("count", "requests preempted for memory (modeled)", ge=0)
    gpu_seconds_busy: float = _column("s", "GPU-seconds that pools work (modeled)", ge=0)
    minute: pl.Int64 = _column("count", "the worst minute, from 0; none where all requests meet", ge=0)
    minute_requests: pl.Int64 = _column("count", "requests that arrive in it", ge=1)
    minute_met: pl.Int64 = _column("count", "those that meet all objectives (modeled)", ge=0)

    class Config:
        """No other columns."""

        strict = True


class ReplaySample(pa.DataFrameModel):
    """The requests of the sample, in order of arrival; none where the cohort is not replayed."""

    request: pl.Int64 = pa.Field(ge=0, metadata={"unit": "", "meaning": "its number in the requests frame, from 0"})
    arrival_ns: pl.Int64 = pa.Field(ge=0, metadata={"unit": "ns", "meaning": "time since the first of the sample"})
    prompt_tokens: pl.Int64 = pa.Field(ge=1, metadata={"unit": "tokens", "meaning": "prompt tokens"})
    cached_prompt_tokens: pl.Int64 = pa.Field(
        ge=0, metadata={"unit": "tokens", "meaning": "those that the cache holds"}
    )
    output_tokens: pl.Int64 = pa.Field(ge=1, metadata={"unit": "tokens", "meaning": "generated tokens"})

    class Config:
        """No other columns."""

        strict = True
