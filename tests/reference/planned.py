"""What the planner says of a case of the simulation, on the same requests at the same rate."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import polars as pl

from pipelines.frames.inputs import BOUNDS, InputTable
from pipelines.frames.requests import Requests
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.question import Workload
from pipelines.topologies.scenarios import named
from pipelines.traces import bucket_frame, output_stratum_frame, stratum_frame
from tests.plans import FINGERPRINT, NS_PER_S, inputs_frame_of
from tests.reference.cases import KV_BYTES, TAIL, WARM_UP, Case, arrivals, service
from tests.reference.engine import Costs, Request
from tests.reference.simulation import Layout

Objectives = tuple[float, float]
"""TTFT and TPOT in seconds."""
NEVER = 1e6
"""An objective in seconds that everything meets."""
ANY_BANDWIDTH = 25e9
"""Bandwidth (B/s) of links that nothing crosses."""


@dataclass(frozen=True)
class Planned:
    """Means in seconds, the stall bound, the share that meets the objectives, and the regimes that the planner names."""

    ttft_s: float
    tpot_s: float
    stall_s: float
    met: float
    screening: tuple[str, ...]


def workload(case: Case) -> Workload:
    """The requests between warm-up and tail, as the planner reads them.

    A case draws the same requests at any rate, only further apart, and rate and variation are declared: so those at
    one request a second serve all costs, loads and layouts.
    """
    threshold = case.layout.threshold if case.layout.topology == "routed" else 0
    return _workload(replace(case, service="", load=0.0, rate=1.0, slots=0, layout=Layout("")), threshold)


@cache
def _workload(case: Case, threshold: int) -> Workload:
    every = arrivals(case)
    requests = frame_of(every[int(WARM_UP * len(every)) : len(every) - int(TAIL * len(every))])
    edges = (threshold,) if threshold else ()
    buckets = bucket_frame(requests, edges, kind="open", rate_rps=None)
    return Workload(buckets, stratum_frame(requests, edges), output_stratum_frame(requests, edges))


def frame_of(requests: list[Request]) -> pl.DataFrame:
    """Requests in order of arrival as a requests frame."""
    schema = {name: column.dtype.type for name, column in Requests.to_schema().columns.items()}
    columns = {
        "arrival_ns": [round(one.arrival * NS_PER_S) for one in requests],
        "prompt_tokens": [one.prompt for one in requests],
        "cached_prompt_tokens": [one.hit for one in requests],
        "output_tokens": [one.output for one in requests],
    }
    return pl.DataFrame(columns, schema=schema)


def arrival_scv(case: Case) -> float:
    """ca² of the arrivals: that of the log, or of a Poisson stream."""
    return workload(case).buckets["arrival_scv"][0] if case.arrivals == "log" else 1.0


def planned(case: Case, rate_rps: float, ttft_s: float = NEVER, tpot_s: float = NEVER) -> Planned | None:
    """The planner's figures for ``case`` at ``rate_rps``, with these objectives; None where it refuses them."""
    return planned_twice(case, rate_rps, (ttft_s, tpot_s), (ttft_s, tpot_s))[0]


def planned_twice(
    case: Case, rate_rps: float, first: Objectives, second: Objectives
) -> tuple[Planned | None, Planned | None]:
    """The same with one pair of objectives and with another, in one evaluation.

    The planner works out every scenario under two bounds. Nothing here has a range, so the bounds differ in nothing but
    the objectives that they are given.
    """
    inputs = _inputs(case, service(case), rate_rps, first)
    for name, value in zip(("ttft", "tpot"), second, strict=True):
        own = pl.when(pl.col("path") == f"objectives.{name}").then(value)
        inputs = inputs.with_columns(conservative=own.otherwise("conservative"))
    frame = evaluated(case, InputTable.of(inputs))
    one, other = (frame.filter(pl.col("bound") == bound).to_dicts() for bound in BOUNDS)
    return figures(case, one), figures(case, other)


def figures(case: Case, rows: list[dict[str, Any]]) -> Planned | None:
    """Means over all requests from rows of one bucket each; None where they are refused."""
    if any(row["status"] == "refused" for row in rows):
        return None
    counts = {
        row["bucket"]: (row["requests"], row["output_tokens_mean"] - 1) for row in workload(case).buckets.to_dicts()
    }
    total = sum(counts[row["bucket"]][0] for row in rows)
    ttft = sum(counts[row["bucket"]][0] * row["ttft_s"] for row in rows) / total
    steps = sum(counts[row["bucket"]][0] * counts[row["bucket"]][1] for row in rows)
    after = sum(counts[row["bucket"]][0] * (row["e2e_s"] - row["ttft_s"]) for row in rows)
    return Planned(ttft, after / steps, rows[0]["stall_s"], rows[0]["goodput"], tuple(rows[0]["screening"].split()))


def evaluated(case: Case, inputs: InputTable) -> pl.DataFrame:
    """The planner's rows of the case's layout: one a bound and bucket."""
    layout = case.layout
    knobs: dict[str, dict[str, int | None]] = {
        "aggregated": {"workers_mixed": layout.workers},
        "chunked": {"workers_mixed": layout.workers, "chunk_tokens": layout.budget},
        "disaggregated": {"workers_prefill": layout.prefill_workers, "workers_decode": layout.decode_workers},
    }
    own = knobs.get(layout.topology) or {
        "threshold_tokens": layout.threshold,
        "workers_mixed": layout.workers,
        "workers_prefill": layout.prefill_workers,
        "workers_decode": layout.decode_workers,
        "chunk_tokens": layout.budget or None,
    }
    scenario = named(inputs, [{"topology": layout.topology} | own])
    return evaluate(layout.topology, FINGERPRINT, scenario, inputs, workload(case))


def _inputs(case: Case, costs: Costs, rate_rps: float, objectives: Objectives) -> pl.DataFrame:
    layout, (ttft_s, tpot_s) = case.layout, objectives
    return inputs_frame_of(
        rate=rate_rps,
        ca2=arrival_scv(case),
        dispatch="round_robin" if layout.round_robin else "least_loaded",
        discipline_p="shortest_first" if layout.shortest_first else "fifo",
        first_token=layout.first_token_source,
        a=0.0,
        d=costs.d,
        r_p=costs.r_p,
        q=costs.q,
        u_p=0.99,
        t0=costs.t0,
        r_d=costs.r_d,
        gamma=costs.gamma,
        slots=float(costs.slots),
        u_d=0.99,
        u_l=0.99,
        kv_memory=1e18,
        links=float(layout.channels),
        w=KV_BYTES / costs.transfer_token if costs.transfer_token else ANY_BANDWIDTH,
        registration=costs.transfer,
        synchronization=0.0,
        receiver_visibility=0.0,
        ttft=ttft_s,
        tpot=tpot_s,
        layers=32.0,
        kv_heads=8.0,
        head_dim=128.0,
        compared=layout.topology,
        thresholds=str(layout.threshold) if layout.topology == "routed" else None,
    )
