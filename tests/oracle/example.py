"""A workload small enough to work by hand: prompts of 1000 and 3000 tokens, answers of 11 and 31, in all four pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipelines.oracle.cache import Cache
from pipelines.oracle.objectives import Objectives
from pipelines.oracle.parameters import Parameters, Setting
from pipelines.oracle.topologies import Evaluator
from pipelines.oracle.traffic import Moments, OutputStratum, Requests, Stratum, Traffic


def _prompts_of(requests: int, lengths: tuple[int, ...], bucket: str) -> Moments:
    def prompt(power: int) -> float:
        return sum(float(length) ** power for length in lengths) / len(lengths)

    # answers of 11 and 31 tokens after either prompt: E[o] = 21, E[o²] = (121 + 961)/2 = 541
    return Moments(
        requests=requests,
        p1=prompt(1),
        p2=prompt(2),
        u1=prompt(1),
        u2=prompt(2),
        z1=prompt(2),
        z2=prompt(4),
        uz=prompt(3),
        pu=prompt(2),
        pz=prompt(3),
        p_max=max(lengths),
        u_max=max(lengths),
        z_max=max(lengths) ** 2,
        o1=21,
        o2=541,
        po=21 * prompt(1),
        o_max=31,
        multi_token_share=1,
        bucket=bucket,
    )


SHORT, LONG = "[1,2048)", "[2048,inf)"
WHOLE = _prompts_of(4, (1000, 3000), "all")
CACHED = replace(
    WHOLE,
    u1=800,
    u2=(400**2 + 1200**2) / 2,
    z1=5 * 640_000,
    z2=(1 + 9**2) * 640_000**2 / 2,
    uz=(400 + 1200 * 9) * 640_000 / 2,
    pu=(1000 * 400 + 3000 * 1200) / 2,
    pz=(1000 + 3000 * 9) * 640_000 / 2,
    u_max=1200,
    z_max=9 * 640_000,
)
"""The same prompts, of which 600 and 1800 tokens are cached: z = 1000² - 600², and nine times that."""
EXAMPLE = Traffic(
    rate_rps=2.0,
    arrival_scv=1.0,
    requests=Requests(
        whole=WHOLE,
        buckets=(_prompts_of(2, (1000,), SHORT), _prompts_of(2, (3000,), LONG)),
        strata=tuple(
            Stratum(bucket, 2, 0.5, p, p, p**2, p**2, p**2, p**2) for bucket, p in ((SHORT, 1000.0), (LONG, 3000.0))
        ),
        cohort=4,
        outputs=tuple(OutputStratum(bucket, 1, o) for bucket in (SHORT, LONG) for o in (11.0, 31.0)),
    ),
)


def with_whole(whole: Moments) -> Traffic:
    """The example with other moments of all requests."""
    return replace(EXAMPLE, requests=replace(EXAMPLE.requests, whole=whole))


MEMORY = 2e10
"""Room for 99 sequences of the about 2000 tokens that one holds while it decodes: more than the 64 slots."""


def parameters(**changes: Any) -> Parameters:
    """Round numbers: 20000 prompt tokens/s, 1000 tokens/s, steps of 10 ms, 100 kB per token, 20 GB of memory, 1 GB/s."""
    base = Parameters(
        admission_s=0.002,
        prefill_overhead_s=0.01,
        prefill_tokens_per_s=20000.0,
        prefill_s_per_token2=0.0,
        prefill_ceiling=0.8,
        step_overhead_s=0.01,
        decode_tokens_per_s=1000.0,
        decode_s_per_context_token=0.0,
        max_sequences=64,
        decode_ceiling=0.9,
        kv_memory_bytes=MEMORY,
        cache=Cache(1e5),
        round_robin=False,
        decode_emits_first_token=True,
        links=1,
        bandwidth_bytes_per_s=1e9,
        transfer_overhead_s=0.003,
        overlap=0.0,
        link_ceiling=0.7,
        ttft_growth_s=0.5,
    )
    of = replace(base, **changes)
    return of if "kv_memory_prefill_bytes" in changes else replace(of, kv_memory_prefill_bytes=of.kv_memory_bytes)


def setting(**changes: Any) -> Setting:
    """The same of all pools, and objectives of 0.5 s and 50 ms."""
    objectives = {"ttft": changes.pop("ttft", 0.5), "tpot": changes.pop("tpot", 0.05)}
    if "e2e" in changes:
        objectives["e2e"] = changes.pop("e2e")
    of_edges, price = changes.pop("of_edges", ()), changes.pop("price", None)
    of = parameters(**changes)
    return Setting(of, of, Objectives(objectives, of_edges), price)


def evaluator(traffic: Traffic = EXAMPLE, **changes: Any) -> Evaluator:
    return Evaluator(setting(**changes), traffic)
