"""The frames of a plan without Dagster: small cohorts from symbols and lists of requests, whole plans from files.

Inputs are named by the symbols of docs/arithmetic.md; where a test says nothing, a number is round enough to work with by hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from pipelines.declarations import load_declarations
from pipelines.frames.inputs import Inputs, InputTable
from pipelines.frames.replay_scope import FINALISTS
from pipelines.frames.requests import Requests
from pipelines.gates.decision import decide
from pipelines.gates.judge import bucket_requests, judge
from pipelines.gates.replayed import beside_replays
from pipelines.gates.rules import (
    exceptions_frame,
    gates_frame,
    part_weights,
    preference_frame,
    reads_a_date,
    rule_set_frame,
)
from pipelines.planning.acceptance import judge_decision
from pipelines.planning.replaying import ReplayAsked, replayed
from pipelines.planning.search import Asked, kept_scenarios
from pipelines.planning.speaking import Decided, changes
from pipelines.receipts.plan import PlanFrames
from pipelines.topologies.constants import declared_rate_rps
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.matrix import scenario_matrix
from pipelines.topologies.question import Workload
from pipelines.topologies.scenarios import scenario_frame
from pipelines.traces.edges import bucket_edges
from pipelines.traces.freeze import frozen_cohort, inputs_frame, read_cohort_requests
from pipelines.traces.workload import bucket_frame, output_stratum_frame, stratum_frame, window_frame

NS_PER_S = 10**9
FINGERPRINT = "f" * 64
UNIT_WEIGHTS = {"pools": 1.0, "queues": 1.0, "state_transfers": 1.0, "failure_edges": 1.0}


@dataclass(frozen=True)
class Ranged:
    """A declared value with the ends of its range."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class _Row:
    path: str
    unit: str
    default: float | str | None
    hurts: str | None = None


_ROWS: dict[str, _Row] = {
    "rate": _Row("requests.rate", "requests/s", None, "high"),
    "concurrency": _Row("requests.concurrency", "count", None, "high"),
    "ca2": _Row("requests.arrival_scv", "ratio", None, "high"),
    "layers": _Row("model.layers", "count", 10.0),
    "kv_heads": _Row("model.kv_heads", "count", 5.0),
    "head_dim": _Row("model.head_dim", "count", 50.0),
    "cache": _Row("model.cache", "text", None),
    "kv_dtype": _Row("model.kv_dtype", "text", "bf16"),
    "layout_factor": _Row("model.layout_factor", "ratio", 1.0, "high"),
    "tensor_parallel": _Row("model.tensor_parallel", "count", 1.0),
    "block_tokens": _Row("model.block_tokens", "count", 1.0),
    "allocation": _Row("model.kv_allocation", "text", "uniform"),
    "dispatch": _Row("service.dispatch", "text", "least_loaded"),
    "when_full": _Row("service.when_memory_is_full", "text", None),
    "swap": _Row("service.swap_bandwidth", "B/s", None, "low"),
    "first_token": _Row("service.first_token_source", "text", "decode"),
    "a": _Row("service.admission", "s", 0.002, "high"),
    "psi": _Row("service.mixed_step_penalty", "ratio", 0.0, "high"),
    "discipline_p": _Row("service.prefill.discipline", "text", "fifo"),
    "r_p": _Row("service.prefill.tokens_per_second", "tokens/s", 10_000.0, "low"),
    "d": _Row("service.prefill.overhead", "s", 0.01, "high"),
    "q": _Row("service.prefill.seconds_per_token_squared", "s/token^2", 0.0, "high"),
    "eta": _Row("service.prefill.prefix_hit_ratio", "ratio", 0.0, "low"),
    "prefill_curve": _Row("service.prefill.curve", "text", None),
    "u_p": _Row("service.prefill.utilization_ceiling", "ratio", 0.8, "low"),
    "discipline_d": _Row("service.decode.discipline", "text", "fifo"),
    "r_d": _Row("service.decode.tokens_per_second", "tokens/s", 2000.0, "low"),
    "t0": _Row("service.decode.step_overhead", "s", 0.01, "high"),
    "gamma": _Row("service.decode.seconds_per_context_token", "s/token", 0.0, "high"),
    "decode_curve": _Row("service.decode.curve", "text", None),
    "slots": _Row("service.decode.max_sequences", "count", 7.0, "low"),
    "u_d": _Row("service.decode.utilization_ceiling", "ratio", 0.9, "low"),
    "gpus_p": _Row("separated.prefill.gpus_per_worker", "count", None),
    "r_pp": _Row("separated.prefill.tokens_per_second", "tokens/s", None, "low"),
    "d_p": _Row("separated.prefill.overhead", "s", None, "high"),
    "q_p": _Row("separated.prefill.seconds_per_token_squared", "s/token^2", None, "high"),
    "curve_p": _Row("separated.prefill.curve", "text", None),
    "u_pp": _Row("separated.prefill.utilization_ceiling", "ratio", None, "low"),
    "kv_memory_p": _Row("separated.prefill.kv_memory_per_worker", "B", None, "low"),
    "gpus_d": _Row("separated.decode.gpus_per_worker", "count", None),
    "r_dd": _Row("separated.decode.tokens_per_second", "tokens/s", None, "low"),
    "t0_d": _Row("separated.decode.step_overhead", "s", None, "high"),
    "gamma_d": _Row("separated.decode.seconds_per_context_token", "s/token", None, "high"),
    "curve_d": _Row("separated.decode.curve", "text", None),
    "slots_d": _Row("separated.decode.max_sequences", "count", None, "low"),
    "u_dd": _Row("separated.decode.utilization_ceiling", "ratio", None, "low"),
    "kv_memory_d": _Row("separated.decode.kv_memory_per_worker", "B", None, "low"),
    "gpus": _Row("inventory.gpus", "count", 4.0),
    "gpus_per_worker": _Row("inventory.gpus_per_worker", "count", 1.0),
    "kv_memory": _Row("inventory.kv_memory_per_worker", "B", 1e9, "low"),
    "kv_tokens": _Row("inventory.kv_tokens_per_worker", "count", None, "low"),
    "gpu_memory": _Row("inventory.gpu_memory", "B", None, "low"),
    "utilization": _Row("inventory.memory_utilization", "ratio", None, "low"),
    "weights": _Row("inventory.weights_per_worker", "B", None, "high"),
    "activations": _Row("inventory.activations_per_worker", "B", None, "high"),
    "price": _Row("inventory.gpu_hour_price", "price/h", None),
    "links": _Row("network.links", "count", 1.0, "low"),
    "links_per_transfer": _Row("network.links_per_transfer", "count", 1.0),
    "sharing": _Row("network.link_sharing", "text", "shared"),
    "line_rate": _Row("network.line_rate", "B/s", 1e12),
    "w": _Row("network.effective_bandwidth", "B/s", 1e9, "low"),
    "competing": _Row("network.competing_traffic", "ratio", 0.0, "high"),
    "registration": _Row("network.registration", "s", 0.001, "high"),
    "synchronization": _Row("network.synchronization", "s", 0.002, "high"),
    "receiver_visibility": _Row("network.receiver_visibility", "s", 0.002, "high"),
    "handover": _Row("network.router_handover", "s", 0.0, "high"),
    "per_descriptor": _Row("network.seconds_per_descriptor", "s", 0.0, "high"),
    "regions": _Row("network.regions_per_block", "count", 2.0, "high"),
    "relayout": _Row("network.relayout_factor", "ratio", 1.0, "high"),
    "at_destination": _Row("network.prefix_at_destination", "ratio", 0.0, "low"),
    "phi": _Row("network.overlap", "ratio", 0.0, "low"),
    "u_l": _Row("network.utilization_ceiling", "ratio", 0.7, "low"),
    "curve": _Row("network.transfer_curve", "text", None),
    "ttft": _Row("objectives.ttft", "s", 0.2),
    "tpot": _Row("objectives.tpot", "s", 0.02),
    "e2e": _Row("objectives.e2e", "s", None),
    "ttft_1000": _Row("objectives.buckets.1000.ttft", "s", None),
    "tpot_1000": _Row("objectives.buckets.1000.tpot", "s", None),
    "e2e_1000": _Row("objectives.buckets.1000.e2e", "s", None),
    "ttft_4000": _Row("objectives.buckets.4000.ttft", "s", None),
    "stall": _Row("objectives.stall", "s", 0.5),
    "ttft_growth": _Row("objectives.ttft_growth", "s", 0.1),
    "reserve": _Row("objectives.transfer_reserve", "ratio", None),
    "attainment": _Row("objectives.attainment", "ratio", 0.9),
    "compared": _Row("topologies.compared", "text", "aggregated chunked disaggregated"),
    "chunk_tokens": _Row("topologies.chunked.chunk_tokens", "text", "512"),
    "thresholds": _Row("topologies.routed.threshold_tokens", "text", None),
    "routed_chunks": _Row("topologies.routed.chunk_tokens", "text", None),
}
KAPPA = 10_000.0
"""KV bytes per token of the default shape: 2 x 10 layers x 5 heads x 50 x 2 bytes."""

HURTFUL_END = {symbol: row.hurts for symbol, row in _ROWS.items() if row.hurts is not None}
"""The end of its range that the conservative bound takes, by symbol (docs/arithmetic.md, section 1)."""


def inputs_frame_of(**overrides: float | str | Ranged | None) -> pl.DataFrame:
    """An inputs table by the symbols of docs/arithmetic.md; None leaves the row out, as if it were not declared.

    Arrivals are the trace's unless ``rate`` or ``concurrency`` is given; then they are Poisson unless ``ca2`` is.
    """
    unknown = set(overrides) - set(_ROWS)
    assert not unknown, unknown
    if overrides.keys() & {"rate", "concurrency"}:
        overrides = {"ca2": 1.0} | overrides
    rows = [_input(row, overrides.get(symbol, row.default)) for symbol, row in _ROWS.items()]
    schema = {name: column.dtype.type for name, column in Inputs.to_schema().columns.items()}
    return Inputs.validate(pl.DataFrame([row for row in rows if row is not None], schema=schema))


def _input(row: _Row, given: float | str | Ranged | None) -> dict[str, Any] | None:
    if given is None:
        return None
    about = {"path": row.path, "unit": row.unit, "provenance": "supplied"}
    if isinstance(given, str):
        return about | {"text": given}
    ranged = given if isinstance(given, Ranged) else Ranged(float(given))
    hurtful = {"low": ranged.low, "high": ranged.high, None: None}[row.hurts]
    ends = {"value": ranged.value, "low": ranged.low, "high": ranged.high}
    return about | ends | {"conservative": ranged.value if hurtful is None else hurtful}


def requests_of(*rows: tuple[float, int, int], cached: Mapping[int, int] | None = None) -> pl.DataFrame:
    """A requests frame of (arrival in s, prompt tokens, output tokens), in any order.

    ``cached`` says how many tokens of each prompt of some length the prefix cache holds: none, where it does not say.
    """
    hits = cached or {}
    ordered = sorted((round(at * NS_PER_S), prompt, hits.get(prompt, 0), output) for at, prompt, output in rows)
    schema = {name: column.dtype.type for name, column in Requests.to_schema().columns.items()}
    return pl.DataFrame(ordered, schema=schema, orient="row")


def in_pairs(*lengths: tuple[int, int], cached: Mapping[int, int] | None = None) -> pl.DataFrame:
    """Requests of (prompt, output) tokens that arrive two at a time, a second apart; ``cached`` as in :func:`requests_of`.

    An odd number of them makes gaps of 0 and 1 s in equal parts: two requests a second, and ca² = 1.
    """
    return requests_of(*((place // 2, prompt, output) for place, (prompt, output) in enumerate(lengths)), cached=cached)


def workload_of(requests: pl.DataFrame, edges: Sequence[int] = (), inputs: InputTable | None = None) -> Workload:
    """Buckets and strata of the requests; with the arrivals that ``inputs`` declare, if they do."""
    if inputs is None or not inputs.has("requests.arrival_scv"):
        return _workload(tuple(requests.rows()), tuple(edges), "open", None)
    rate = declared_rate_rps(inputs)
    return _workload(tuple(requests.rows()), tuple(edges), "closed" if rate is None else "rate", rate)


@lru_cache(maxsize=64)
def _workload(rows: tuple[tuple[int, ...], ...], edges: tuple[int, ...], kind: str, rate_rps: float | None) -> Workload:
    requests = pl.DataFrame(rows, schema=requests_of().schema, orient="row")
    return Workload(
        bucket_frame(requests, edges, kind=kind, rate_rps=rate_rps),
        stratum_frame(requests, edges),
        output_stratum_frame(requests, edges),
    )


def evaluation_of(
    topology: str, inputs: pl.DataFrame, requests: pl.DataFrame, edges: Sequence[int] = ()
) -> pl.DataFrame:
    """All scenarios of ``topology`` on the requests, cut into prompt buckets at ``edges``."""
    table = InputTable.of(inputs)
    workload = workload_of(requests, edges, table)
    return evaluate(topology, FINGERPRINT, scenario_frame(table, workload.thresholds(table)), table, workload)


def evaluations_of(inputs: pl.DataFrame, requests: pl.DataFrame, edges: Sequence[int] = ()) -> list[pl.DataFrame]:
    """:func:`evaluation_of` every topology; those that are not compared have no rows."""
    return [evaluation_of(topology, inputs, requests, edges) for topology in TOPOLOGIES]


def matrix_of(
    inputs: pl.DataFrame,
    requests: pl.DataFrame,
    edges: Sequence[int] = (),
    weights: Mapping[str, float] = UNIT_WEIGHTS,
) -> pl.DataFrame:
    """The scenario matrix of all compared topologies."""
    return scenario_matrix(evaluations_of(inputs, requests, edges), InputTable.of(inputs), weights)


def row_of(frame: pl.DataFrame, scenario: str, bound: str = "nominal", bucket: str | None = None) -> dict[str, Any]:
    """The one row of ``scenario`` under ``bound``, and of ``bucket`` where there are several."""
    found = frame.filter((pl.col("scenario") == scenario) & (pl.col("bound") == bound))
    return (found if bucket is None else found.filter(pl.col("bucket") == bucket)).row(0, named=True)


def plan_of(
    cohort_path: Path, rules_directory: Path, as_of: date = date(2026, 11, 30), replay_which: str = FINALISTS
) -> PlanFrames:
    """Everything that a plan of these declarations computes, up to its receipt."""
    cohort, rules = load_declarations(cohort_path, rules_directory)
    found, inputs = read_cohort_requests(cohort), inputs_frame(cohort)
    frozen, table = frozen_cohort(cohort, found, inputs), InputTable.of(inputs)
    edges = bucket_edges(found.requests, cohort.bucket_edges_tokens, cohort.forced_edges_tokens)
    buckets = bucket_frame(found.requests, edges, kind=cohort.kind, rate_rps=declared_rate_rps(table))
    strata, windows = stratum_frame(found.requests, edges), window_frame(found.requests, edges, kind=cohort.kind)
    workload = Workload(buckets, strata, output_stratum_frame(found.requests, edges))
    day = as_of if reads_a_date(rules, cohort.name) else None
    gates, preference = gates_frame(rules, cohort.name, day), preference_frame(rules)
    exceptions, rule_set = exceptions_frame(rules, cohort.name, day), rule_set_frame(rules, day)
    scenarios, fingerprint = kept_scenarios(Asked(table, workload, gates, preference)), frozen["fingerprint"].item()
    evaluations = [evaluate(name, fingerprint, scenarios, table, workload) for name in TOPOLOGIES]
    matrix = scenario_matrix(evaluations, table, part_weights(preference))
    replay = replayed(ReplayAsked(table, workload, found.requests, matrix, gates, preference, replay_which))
    verdicts = judge(beside_replays(matrix, replay.replays), gates, table, bucket_requests(buckets))
    decision = decide(matrix, verdicts, preference, table, gates)
    provenance = frozen["provenance"].item()
    found_changes = changes(Decided(table, workload, gates, decision, matrix, preference, provenance))
    return PlanFrames(
        inputs=inputs,
        frozen=frozen,
        buckets=buckets,
        strata=strata,
        outputs=workload.outputs,
        windows=windows,
        evaluations=evaluations,
        matrix=matrix,
        gates=gates,
        exceptions=exceptions,
        rule_set=rule_set,
        preference=preference,
        verdicts=verdicts,
        decision=decision,
        acceptance=judge_decision(
            gates, rule_set, table, decision, frozen.row(0, named=True), found_changes.workers_less
        ),
        searched=scenarios["searched"][0],
        speaking=found_changes.speaking,
        sensitivity=found_changes.sensitivity,
        break_even=found_changes.break_even,
        workers_less=found_changes.workers_less,
        replays=replay.replays,
        replay_sample=replay.sample,
        replay_scope=replay.scope,
    )
