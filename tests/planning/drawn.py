"""Small cohorts and rules drawn at random: every kind of gate, in every order of preference, on inventories of a few workers."""

import itertools
import random
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from pipelines.frames.inputs import InputTable
from pipelines.frames.metrics import BY_CLOSED_FORMS
from pipelines.gates.decision import decide, standing
from pipelines.gates.judge import bucket_requests, judge
from pipelines.gates.rules import part_weights
from pipelines.planning.search import Asked
from pipelines.planning.speaking import Decided
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.matrix import scenario_matrix
from pipelines.topologies.question import Workload
from pipelines.topologies.scenarios import scenario_frame
from tests.gates.boards import gates, preference
from tests.plans import FINGERPRINT, Ranged, in_pairs, inputs_frame_of, workload_of

EDGES = (1000, 4000)
ORDERS = tuple(itertools.permutations(("operating_parts", "gpus", "margin")))
_TRANSFERS = ("transfer_worst", "transfer_envelope_share")
_LIMITS = {
    "ttft_worst": (0.2, 0.5, 1.0, 2.0),
    "tpot_worst": (0.011, 0.013, 0.016, 0.02),
    "e2e_worst": (1.0, 2.0, 4.0),
    "stall": (0.05, 0.3, 0.8),
    "transfer_worst": (0.03, 0.06),
    "transfer_envelope_share": (0.3, 0.6),
    "goodput": (0.5, 0.8, 0.95),
    "pressure": (0.0, 0.5, 0.8, 1.0),
    "headroom": (0.0, 0.2, 0.5),
    "gpus": (3.0, 4.0, 5.0),
    "operating_parts": (4.0, 11.0, 16.0),
}
_USUAL = {"goodput": "gte", "headroom": "gte"}
_OBJECTIVES = {
    "ttft_worst": "ttft",
    "tpot_worst": "tpot",
    "e2e_worst": "e2e",
    "stall": "stall",
    "goodput": "attainment",
}


def requests_of(draw: random.Random, count: int = 15) -> pl.DataFrame:
    """Prompts on both sides of :data:`EDGES`, two at a time a second apart."""
    prompts = [draw.choice([100, 400, 900, 1000, 1500, 3000, 5000]) for _ in range(count - 2)]
    return in_pairs(*[(prompt, draw.choice([1, 2, 20, 90])) for prompt in (*prompts, 200, 4500)])


def inputs_of(draw: random.Random, **fixed: Any) -> pl.DataFrame:
    """All topologies on some GPUs; service, links and objectives as ``draw`` has it, but for what is ``fixed``."""

    def some(value: float, *others: float) -> float:
        return draw.choice([value, *others])

    given: dict[str, Any] = {
        "compared": "aggregated chunked disaggregated routed",
        "chunk_tokens": draw.choice(["512", "256 1024"]),
        "thresholds": draw.choice(["1000", "4000", "1000 4000"]),
        "routed_chunks": draw.choice([None, "512", "6 1024"]),
        "gpus": some(4, 5, 6),
        "rate": Ranged(some(0.5, 1.5, 4.0), high=some(4.5, 6.0)),
        "ca2": Ranged(some(1.0, 0.4, 2.0), high=some(2.5, 4.0)),
        "r_p": Ranged(some(10_000.0, 20_000.0), low=some(9000.0, 5000.0)),
        "psi": some(0.0, 0.2),
        "q": some(0.0, 1e-9),
        "slots": some(7.0, 60.0),
        "dispatch": draw.choice(["least_loaded", "round_robin"]),
        "discipline_p": draw.choice(["fifo", "shortest_first"]),
        "first_token": draw.choice(["decode", "prefill"]),
        "sharing": draw.choice(["shared", "per_prefill_worker", "per_decode_worker"]),
        "w": Ranged(some(1e9, 5e9), low=8e8),
        "ttft": some(0.6, 1.0, 3.0),
        "tpot": some(0.013, 0.02, 0.05),
        "e2e": draw.choice([None, 2.0, 6.0]) if draw.random() < 0.7 else None,
        "stall": draw.choice([None, 0.5, 1.0]),
        "ttft_growth": some(0.05, 0.1),
    }
    if draw.random() < 0.4:
        given |= {"ttft_1000": some(0.2, 0.5), "tpot_1000": some(0.012, 0.02), "ttft_4000": some(0.5, 0.8)}
        given |= {"e2e_1000": some(1.0, 3.0)} if given["e2e"] else {}
    if draw.random() < 0.4:
        each = draw.choice([(1, 2), (2, 1), (2, 3)])
        given |= {"gpus_p": each[0], "gpus_d": each[1], "gpus": 7, "gpus_per_worker": draw.choice([1, 2])}
        given |= {"r_pp": 15_000.0, "d_p": 0.01, "kv_memory_p": 1e9, "r_dd": 3000.0, "t0_d": 0.01, "kv_memory_d": 2e9}
    return inputs_frame_of(**(given | fixed))


def rules_of(draw: random.Random, inputs: pl.DataFrame) -> list[dict[str, Any]]:
    """One to five gates that all topologies have, or that name those which have their figure."""
    found: list[dict[str, Any]] = []
    for metric in draw.sample(list(BY_CLOSED_FORMS), draw.choice([1, 2, 3, 5])):
        usual = _USUAL.get(metric, "lte")
        op = usual if draw.random() < 0.7 else draw.choice(["lte", "lt", "gte", "gt"])
        rule: dict[str, Any] = {"metric": metric, "op": op, "bound": draw.choice(["nominal", "conservative"])}
        objective = _OBJECTIVES.get(metric)
        if objective is not None and draw.random() < 0.6 and f"objectives.{objective}" in set(inputs["path"]):
            rule |= {"objective": objective}
        else:
            rule |= {"limit": draw.choice(_LIMITS[metric])}
        if metric in _TRANSFERS:
            rule |= {"topologies": "disaggregated routed"}
        elif draw.random() < 0.2:
            rule |= {"topologies": draw.choice(["aggregated chunked", "routed", "disaggregated routed"])}
        rule |= {"blocking": draw.random() < 0.9}
        found.append(rule)
    return found


def other_rules_of(draw: random.Random) -> list[dict[str, Any]]:
    """Gates that weigh buckets or figures of both paths together, and gates that are waived for some topologies."""
    found: list[dict[str, Any]] = [
        {
            "metric": "ttft_worst",
            "limit": draw.choice([0.5, 2.0]),
            "waived": draw.choice(["", "chunked", "aggregated routed"]),
        },
        {
            "metric": "pressure",
            "op": "lt",
            "limit": 1.0,
            "bound": "conservative",
            "waived": draw.choice(["", "routed"]),
        },
    ]
    metric = draw.choice(["ttft", "tpot", "e2e", "prefill_wait", "decode_wait"])
    by_bucket: dict[str, Any] = {"metric": metric, "aggregate": draw.choice(["worst", "request_weighted", "share"])}
    by_bucket |= {"buckets": draw.choice([None, "longest", "shortest longest"]), "limit": draw.choice([0.02, 0.3, 2.0])}
    if by_bucket["aggregate"] == "share":
        by_bucket |= {"within": by_bucket["limit"], "op": "gte", "limit": draw.choice([0.3, 0.9])}
    relative = {
        "metric": "stall",
        "limit_metric": draw.choice(["tpot_worst", "ttft_worst"]),
        "limit_times": draw.choice([1.0, 30.0]),
    }
    against = {"metric": "tpot_worst", "limit_baseline": draw.choice(["aggregated", "chunked"]), "limit_times": 1.1}
    against |= {"topologies": "disaggregated routed"}
    return [*found, *draw.sample([by_bucket, relative, against], draw.choice([1, 2, 3]))]


def asked_of(seed: int, *rules: dict[str, Any], **fixed: Any) -> Asked:
    """The cohort of ``seed`` under ``rules``, or else under those that it draws."""
    draw = random.Random(seed)
    inputs, requests = inputs_of(draw, **fixed), requests_of(draw)
    declared = list(rules) or rules_of(draw, inputs)
    table = InputTable.of(inputs)
    return Asked(table, workload_of(requests, EDGES, table), gates(*declared), preference(*draw.choice(ORDERS)))


def said(asked: Asked) -> dict[str, Any]:
    """What a disagreement is reported with: the rules, the preference and the inputs that are not usual."""
    usual = {row["path"]: row for row in inputs_frame_of().iter_rows(named=True)}
    inputs = {path: row for path, row in asked.inputs.rows.items() if usual.get(path) != row}
    return {"gates": asked.rules, "preference": asked.preference.rows(), "inputs": inputs}


@dataclass(frozen=True)
class Judged:
    """Scenarios of a cohort, evaluated and judged one after another."""

    matrix: pl.DataFrame
    verdicts: pl.DataFrame

    @property
    def standing(self) -> pl.DataFrame:
        """One row per scenario, with whether it passes."""
        return standing(self.matrix, self.verdicts)

    @property
    def passing(self) -> set[str]:
        """The names of those that pass."""
        return set(self.standing.filter("passes")["scenario"])

    def passes(self, scenario: str) -> bool:
        """Whether one passes."""
        return scenario in self.passing

    def margin(self, scenario: str) -> float | None:
        """Its smallest margin over blocking gates; None where one is refused, or none has any."""
        own = self.verdicts.filter((pl.col("scenario") == scenario) & pl.col("blocking"))
        if (own["verdict"] == "refused").any():
            return None
        least: float | None = own["margin"].min()
        return least

    def unmet(self, scenario: str) -> tuple[str, str]:
        """The first blocking gate that it does not pass, and the verdict of that."""
        own = self.verdicts.filter(
            (pl.col("scenario") == scenario) & pl.col("blocking") & (pl.col("verdict") != "pass")
        )
        row = own.row(0, named=True)
        return row["gate"], row["verdict"]


def judged(asked: Asked, scenario: str | None = None, topology: str | None = None) -> Judged:
    """All scenarios, or one by name, or those of a topology, by what a plan does: no vectors of changes, no search."""
    scenarios = scenario_frame(asked.inputs, asked.thresholds)
    against = asked.gates["limit_baseline"].drop_nulls().unique().to_list()
    if scenario is not None:
        scenarios = scenarios.filter((pl.col("scenario") == scenario) | pl.col("topology").is_in(against))
    names = asked.inputs.words("topologies.compared") if topology is None else sorted({topology, *against})
    evaluations = [evaluate(name, FINGERPRINT, scenarios, asked.inputs, asked.workload) for name in names]
    matrix = scenario_matrix(evaluations, asked.inputs, part_weights(asked.preference))
    return Judged(matrix, judge(matrix, asked.gates, asked.inputs, bucket_requests(asked.workload.buckets)))


def decided(asked: Asked, provenance: str = "supplied") -> Decided:
    """The decision over all scenarios."""
    board = judged(asked)
    decision = decide(board.matrix, board.verdicts, asked.preference, asked.inputs, asked.gates)
    return Decided(asked.inputs, asked.workload, asked.gates, decision, board.matrix, asked.preference, provenance)


def edited(asked: Asked, path: str, factor: float) -> Asked:
    """The same cohort with another value, low, high and conservative end of one input; of an open trace, with another rate."""
    if path not in asked.inputs.rows:
        assert path == "requests.rate"
        buckets = asked.workload.buckets.with_columns(pl.col("rate_rps") * factor)
        return replace(asked, workload=Workload(buckets, asked.workload.strata, asked.workload.outputs))
    row = asked.inputs.rows[path]
    ends = {name: row[name] * factor for name in ("value", "low", "high", "conservative") if row[name] is not None}
    return replace(asked, inputs=InputTable(asked.inputs.rows | {path: row | ends}))
