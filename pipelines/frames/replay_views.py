"""What the replay of one scenario came to, request by request and minute by minute (docs/replay.md, By hand)."""

from typing import Any

import pandera.polars as pa
import polars as pl

MODELED = "modeled"
"""What every row of requests is labelled with where it leaves the project."""


def _lane(meaning: str) -> Any:
    about = {"unit": "s", "meaning": f"{meaning} (modeled); absent where the request is not complete"}
    return pa.Field(nullable=True, ge=0, metadata=about)


def _met(objective: str) -> Any:
    return pa.Field(metadata={"unit": "", "meaning": f"whether it meets its {objective} objective (modeled)"})


def _share(meaning: str) -> Any:
    return pa.Field(nullable=True, ge=0, metadata={"unit": "ratio", "meaning": f"{meaning} (modeled)"})


class ReplayedRequests(pa.DataFrameModel):
    """One row per request of a replayed scenario, in order of the log; times are unrounded. The lanes add up to E2E."""

    request: pl.Int64 = pa.Field(ge=0, metadata={"unit": "", "meaning": "its number in the requests frame, from 0"})
    arrival_ns: pl.Int64 = pa.Field(ge=0, metadata={"unit": "ns", "meaning": "time since the first arrival"})
    prompt_tokens: pl.Int64 = pa.Field(ge=1, metadata={"unit": "tokens", "meaning": "prompt tokens"})
    cached_prompt_tokens: pl.Int64 = pa.Field(
        ge=0, metadata={"unit": "tokens", "meaning": "those that the cache holds"}
    )
    output_tokens: pl.Int64 = pa.Field(ge=1, metadata={"unit": "tokens", "meaning": "generated tokens"})
    admission_s: float = _lane("admission")
    prefill_wait_s: float = _lane("wait for prefill")
    prefill_execution_s: float = _lane("prefill execution")
    transfer_wait_s: float = _lane("wait for a link")
    kv_movement_s: float = _lane("KV movement that is not hidden behind prefill")
    decode_wait_s: float = _lane("wait for the first decode step")
    first_decode_step_s: float = _lane("first decode step")
    remaining_generation_s: float = _lane("remaining generation")
    ttft_s: float = _lane("time to first token")
    tpot_s: float = _lane("time per output token after the first; absent where there is one token")
    e2e_s: float = _lane("end-to-end latency")
    stall_s: float = _lane("longest time between two tokens")
    preemptions: pl.Int64 = pa.Field(
        nullable=True, ge=0, metadata={"unit": "count", "meaning": "how often it was preempted for memory"}
    )
    met_ttft: bool = _met("TTFT")
    met_tpot: bool = _met("TPOT")
    met_e2e: bool = _met("E2E")
    met_stall: bool = _met("stall")

    class Config:
        """No other columns."""

        strict = True


class ReplayedWindows(pa.DataFrameModel):
    """One row per window of 60 seconds of a replayed scenario; rounded to the exported digits. Pools that it does not have are absent."""

    minute: pl.Int64 = pa.Field(ge=0, metadata={"unit": "count", "meaning": "number of the window, from 0"})
    requests: pl.Int64 = pa.Field(ge=0, metadata={"unit": "count", "meaning": "requests that arrive in it"})
    met: pl.Int64 = pa.Field(ge=0, metadata={"unit": "count", "meaning": "those that meet all objectives (modeled)"})
    goodput: float = _share("met over requests; absent where none arrives")
    mixed_utilization: float = _share("work of the mixed pool that begins in it, over its workers' time")
    prefill_utilization: float = _share("work of the prefill pool that begins in it, over its workers' time")
    decode_utilization: float = _share("work of the decode pool that begins in it, over its workers' time")
    link_utilization: float = _share("time that channels are kept from in it on, over that of all channels")
    above_ceiling: bool = pa.Field(
        metadata={"unit": "", "meaning": "whether a pool, or the links, is at its ceiling or above"}
    )

    class Config:
        """No other columns."""

        strict = True
