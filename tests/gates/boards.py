"""Scenario matrices, gates and preferences written down by hand, for verdicts and decisions that depend on nothing else."""

from typing import Any

import numpy as np
import polars as pl

from pipelines.declarations import TOPOLOGIES
from pipelines.frames.inputs import InputTable
from pipelines.frames.matrix import Gates, Preference, ScenarioMatrix
from pipelines.frames.metrics import METRICS
from pipelines.gates.aggregates import BucketRequests
from pipelines.gates.decision import decide
from pipelines.gates.judge import judge
from pipelines.topologies.matrix import LATENCIES
from tests.plans import FINGERPRINT, UNIT_WEIGHTS, inputs_frame_of

INPUTS = InputTable.of(inputs_frame_of())
"""Objectives: ttft 0.2 s, tpot 0.02 s, stall 0.5 s, ttft_growth 0.1 s, attainment 0.9."""

BUCKETS = BucketRequests(["[1,1000)", "[1000,4000)", "[4000,inf)"], np.array([6.0, 3.0, 1.0]))

_PARTS = {"aggregated": 3.0, "chunked": 4.0, "disaggregated": 11.0, "routed": 16.0}


def _schema(model: Any) -> dict[str, Any]:
    return {name: column.dtype.type for name, column in model.to_schema().columns.items()}


def refused_by(resource: str, figure: float, limit: float = 0.8, kind: str = "utilization") -> dict[str, Any]:
    """What a row has that is refused."""
    reason = {"refusal_kind": kind, "refusal_resource": resource, "refusal_figure": figure, "refusal_limit": limit}
    return {"status": "refused", **reason, "pressure": figure / limit}


def board(*scenarios: dict[str, Any]) -> pl.DataFrame:
    """A matrix of the given scenarios, in order; ``worse`` holds what differs under the conservative bound.

    The judged figures are the worst ones, and have no objective of their own, unless a scenario says otherwise.
    """
    rows = []
    for place, given in enumerate(scenarios):
        worse = given.get("worse", {})
        for bound, figures in (("nominal", {}), ("conservative", worse)):
            row = _row(place, bound, {name: value for name, value in given.items() if name != "worse"} | figures)
            rows.append(row)
    return ScenarioMatrix.validate(pl.DataFrame(rows, schema=_schema(ScenarioMatrix)))


def _row(place: int, bound: str, figures: dict[str, Any]) -> dict[str, Any]:
    topology = figures["scenario"].partition("/")[0]
    row = {
        "fingerprint": FINGERPRINT,
        "topology": topology,
        "place": place,
        "gpus": 1,
        "bound": bound,
        "rate_rps": 2.0,
        "status": "evaluated",
        "pressure": 0.5,
        "tightest": "mixed",
        "operating_parts": _PARTS[topology],
        "screening": "",
    } | figures
    judged = {f"{name}_judged_s": row.get(f"{name}_worst_s") for name in LATENCIES}
    return judged | row | {"headroom": 1 - row["pressure"]}


def gates(*declared: dict[str, Any]) -> pl.DataFrame:
    """Gates with what they say, or else blocking ``ttft_worst lte`` 0.2 s on the nominal bound of every topology."""
    rows = []
    for number, said in enumerate(declared):
        row = {
            "gate": f"g{number}",
            "file": "rules.yaml",
            "kind": "LatencyObjective",
            "metric": "ttft_worst",
            "topologies": " ".join(TOPOLOGIES),
            "bound": "nominal",
            "op": "lte",
            "limit": None if {"objective", "limit_metric", "limit_baseline"} & set(said) else 0.2,
            "scope": "scenario",
            "here": True,
            "waived": "",
            "severity": "error",
            "blocking": True,
            "owner": "tests",
        } | said
        unit = "ratio" if row.get("aggregate") == "share" else METRICS[row["metric"]].unit
        rows.append(row | {"unit": unit})
    return Gates.validate(pl.DataFrame(rows, schema=_schema(Gates)))


def preference(*prefer: str) -> pl.DataFrame:
    """The decision rule with these ranking keys, most important first."""
    rows: list[tuple[str, str, float]] = [("prefer", name, float(rank)) for rank, name in enumerate(prefer)]
    rows += [("weight", name, weight) for name, weight in UNIT_WEIGHTS.items()]
    return Preference.validate(pl.DataFrame(rows, schema=_schema(Preference), orient="row"))


def judged(matrix: pl.DataFrame, rules: pl.DataFrame, inputs: InputTable = INPUTS) -> pl.DataFrame:
    """The verdicts of ``rules`` on ``matrix``, on the buckets of :data:`BUCKETS`."""
    return judge(matrix, rules, inputs, BUCKETS)


def verdicts_on(matrix: pl.DataFrame, *declared: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(scenario, gate, verdict) of all that are judged."""
    return judged(matrix, gates(*declared)).select("scenario", "gate", "verdict").rows()


def decided(
    matrix: pl.DataFrame,
    *declared: dict[str, Any],
    prefer: tuple[str, ...] = ("operating_parts", "gpus", "margin"),
) -> dict[str, tuple[str, str, str]]:
    """Scenario, standing and reason by topology."""
    names = " ".join(name for name in TOPOLOGIES if name in set(matrix["topology"]))
    inputs = InputTable.of(inputs_frame_of(compared=names))
    rules = gates(*declared)
    frame = decide(matrix, judged(matrix, rules, inputs), preference(*prefer), inputs, rules)
    return {row[0]: row[1:] for row in frame.select("topology", "scenario", "standing", "reason").rows()}
