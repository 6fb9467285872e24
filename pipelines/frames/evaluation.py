"""What one topology's evaluation yields: a row per scenario, bound and prompt bucket."""

from typing import Any

import pandera.polars as pa

LANES = (
    "admission_s",
    "prefill_wait_s",
    "prefill_execution_s",
    "transfer_wait_s",
    "kv_movement_s",
    "decode_wait_s",
    "first_decode_step_s",
    "remaining_generation_s",
)
"""The eight intervals of a request, in the order in which it meets them. They add up to its end-to-end latency."""

LOADS = (
    "mixed",
    "prefill_lane",
    "slots_mixed",
    "kv_mixed",
    "prefill",
    "decode",
    "link",
    "slots_decode",
    "kv_prefill",
    "kv_decode",
    "staging",
)
"""Everything that can be full, in the order in which a refusal is looked for."""


def _lane(meaning: str) -> Any:
    return pa.Field(nullable=True, ge=0, metadata={"unit": "s", "meaning": f"{meaning} (modeled mean)"})


def _load(resource: str) -> Any:
    return pa.Field(nullable=True, metadata={"unit": "ratio", "meaning": f"utilization of {resource}, 1 = saturated"})


class ScenarioColumns(pa.DataFrameModel):
    """The columns that an evaluation and the scenario matrix share: who, with which knobs, how loaded, refused or not."""

    fingerprint: str = pa.Field(metadata={"unit": "", "meaning": "SHA-256 of the frozen cohort"})
    scenario: str = pa.Field(metadata={"unit": "", "meaning": "topology with its pool sizes and knobs"})
    topology: str = pa.Field(metadata={"unit": "", "meaning": "aggregated, chunked, disaggregated or routed"})
    place: int = pa.Field(ge=0, metadata={"unit": "", "meaning": "position of the scenario in the matrix"})
    threshold_tokens: int = pa.Field(
        nullable=True, metadata={"unit": "tokens", "meaning": "prompts from this length on take the separated path"}
    )
    workers_mixed: int = pa.Field(
        nullable=True, metadata={"unit": "count", "meaning": "workers that serve both phases"}
    )
    workers_prefill: int = pa.Field(nullable=True, metadata={"unit": "count", "meaning": "prefill workers"})
    workers_decode: int = pa.Field(nullable=True, metadata={"unit": "count", "meaning": "decode workers"})
    chunk_tokens: int = pa.Field(nullable=True, metadata={"unit": "tokens", "meaning": "token budget of one step"})
    gpus: int = pa.Field(ge=1, metadata={"unit": "count", "meaning": "GPUs that the scenario occupies"})
    bound: str = pa.Field(isin=["nominal", "conservative"], metadata={"unit": "", "meaning": "which end of the inputs"})
    rate_rps: float = pa.Field(
        gt=0, metadata={"unit": "requests/s", "meaning": "rate of all requests that the scenario is evaluated at"}
    )
    status: str = pa.Field(
        isin=["evaluated", "refused"], metadata={"unit": "", "meaning": "refused rows have no latency"}
    )
    refusal_kind: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "typed reason of the refusal"})
    refusal_resource: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "load that refused the scenario"})
    refusal_figure: float = pa.Field(nullable=True, metadata={"unit": "", "meaning": "its figure"})
    refusal_limit: float = pa.Field(nullable=True, metadata={"unit": "", "meaning": "the limit that it reached"})
    load_mixed: float = _load("the mixed pool")
    load_prefill_lane: float = _load("the prefill lane of a chunked pool")
    load_slots_mixed: float = _load("the sequence slots of a mixed worker")
    load_kv_mixed: float = _load("KV memory of a mixed worker")
    load_prefill: float = _load("the prefill pool")
    load_decode: float = _load("the decode pool")
    load_link: float = _load("the transfer links")
    load_slots_decode: float = _load("the sequence slots of a decode worker")
    load_kv_prefill: float = _load("KV memory of a prefill worker")
    load_kv_decode: float = _load("KV memory of a decode worker")
    load_staging: float = _load("free decode slots by transfers in flight")
    pressure: float = pa.Field(nullable=True, metadata={"unit": "ratio", "meaning": "largest load over its ceiling"})
    tightest: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "the load with that pressure"})
    headroom: float = pa.Field(nullable=True, metadata={"unit": "ratio", "meaning": "1 - pressure"})
    decode_batch: float = pa.Field(
        nullable=True, metadata={"unit": "count", "meaning": "mean decoding sequences per worker"}
    )
    stall_s: float = pa.Field(
        nullable=True, ge=0, metadata={"unit": "s", "meaning": "longest gap between tokens (modeled)"}
    )
    goodput: float = pa.Field(
        nullable=True,
        ge=0,
        le=1,
        metadata={"unit": "ratio", "meaning": "share of requests that meet their latency objectives (modeled)"},
    )
    cost_per_million_tokens: float = pa.Field(
        nullable=True,
        ge=0,
        metadata={
            "unit": "price",
            "meaning": "of a million output tokens whose requests met their objectives (modeled)",
        },
    )
    screening: str = pa.Field(
        metadata={"unit": "", "meaning": "regimes in which the closed forms are known to be off, space-separated"}
    )
    dominant_queue: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "the longest wait: prefill, transfer, decode"}
    )

    class Config:
        """No other columns."""

        strict = True


class Evaluation(ScenarioColumns):
    """Lanes per scenario, bound and prompt bucket. All latencies are modeled means in seconds, absent where refused."""

    bucket: str = pa.Field(metadata={"unit": "tokens", "meaning": "range of prompt lengths"})
    admission_s: float = _lane("admission")
    prefill_wait_s: float = _lane("wait for prefill")
    prefill_execution_s: float = _lane("prefill execution")
    transfer_wait_s: float = _lane("wait for a link")
    kv_movement_s: float = _lane("KV movement that is not hidden behind prefill")
    decode_wait_s: float = _lane("wait for a decode slot and the next step")
    first_decode_step_s: float = _lane("first decode step")
    remaining_generation_s: float = _lane("remaining generation")
    ttft_s: float = _lane("time to first token")
    tpot_s: float = _lane("time per output token; absent where no request has two")
    e2e_s: float = _lane("end-to-end latency")
