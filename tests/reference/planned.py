"""What the planner says of a case of the simulation, on the same requests at the same rate."""

from dataclasses import dataclass
from functools import cache

import polars as pl

from pipelines.frames.inputs import InputTable
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.question import Workload
from pipelines.topologies.scenarios import named
from pipelines.traces import bucket_frame, output_stratum_frame, stratum_frame
from plans import FINGERPRINT, inputs_frame_of, requests_of
from tests.reference.cases import TAIL, WARM_UP, Case, arrivals, service

NEVER = 1e6
"""An objective in seconds that everything meets."""


@dataclass(frozen=True)
class Planned:
    """Means in seconds, the stall bound, the share that meets the objectives, and the regimes that the planner names."""

    ttft_s: float
    tpot_s: float
    stall_s: float
    met: float
    screening: tuple[str, ...]


@cache
def workload(case: Case) -> Workload:
    """The requests between warm-up and tail, as the planner reads them."""
    every = arrivals(case)
    kept = every[int(WARM_UP * len(every)) : int((1 - TAIL) * len(every))]
    requests = requests_of(*((one.arrival, one.prompt, one.output) for one in kept))
    edges = (case.layout.threshold,) if case.layout.topology == "routed" else ()
    frames = Workload(
        bucket_frame(requests, edges, kind="open", rate_rps=None),
        stratum_frame(requests, edges),
        output_stratum_frame(requests, edges),
    )
    return frames


def planned(case: Case, rate_rps: float, ttft_s: float = NEVER, tpot_s: float = NEVER) -> Planned | None:
    """The planner's figures for ``case`` at ``rate_rps``, with these objectives; None where it refuses them."""
    costs, layout = service(case), case.layout
    frames = workload(case)
    inputs = InputTable.of(_inputs(case, costs, rate_rps, ttft_s, tpot_s))
    knobs = {
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
    frame = evaluate(layout.topology, FINGERPRINT, scenario, inputs, frames)
    rows = frame.filter(pl.col("bound") == "nominal").to_dicts()
    if any(row["status"] == "refused" for row in rows):
        return None
    counts = {row["bucket"]: (row["requests"], row["output_tokens_mean"] - 1) for row in frames.buckets.to_dicts()}
    total = sum(counts[row["bucket"]][0] for row in rows)
    ttft = sum(counts[row["bucket"]][0] * row["ttft_s"] for row in rows) / total
    steps = sum(counts[row["bucket"]][0] * counts[row["bucket"]][1] for row in rows)
    after = sum(counts[row["bucket"]][0] * (row["e2e_s"] - row["ttft_s"]) for row in rows)
    return Planned(ttft, after / steps, rows[0]["stall_s"], rows[0]["goodput"], tuple(rows[0]["screening"].split()))


def _inputs(case: Case, costs, rate_rps: float, ttft_s: float, tpot_s: float) -> pl.DataFrame:
    layout = case.layout
    bandwidth = 131072 / costs.transfer_token if costs.transfer_token else 25e9
    return inputs_frame_of(
        rate=rate_rps,
        ca2=1.0,
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
        slots=1e6,
        u_d=0.99,
        u_l=0.99,
        kv_memory=1e18,
        links=float(layout.channels),
        w=bandwidth,
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
