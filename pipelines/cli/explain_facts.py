"""What ``phaseledger explain`` says of a receipt, as one object: docs/explain.md lists its members."""

import itertools
from collections.abc import Iterator
from typing import Any

from pipelines.cli.explain_changes import changes, uncertainty
from pipelines.cli.explain_lanes import comparisons
from pipelines.cli.explain_reading import BOUNDS, CONCURRENCY_INPUT, Receipt
from pipelines.cli.explain_replay import replay
from pipelines.cli.explain_rules import decided
from pipelines.cli.explain_words import is_floor, refused, why_refused
from pipelines.cli.replay_words import ATTAINMENT_INPUT, replay_doubts

Json = dict[str, Any]

QUEUES = ("prefill", "transfer", "decode")
_KNOBS = ("threshold_tokens", "workers_mixed", "workers_prefill", "workers_decode", "chunk_tokens")
_OF_METRIC = {"ttft_worst": "ttft", "tpot_worst": "tpot", "e2e_worst": "e2e"}


def facts(receipt: Receipt) -> Json:
    """Everything that the page says, in its order."""
    return {
        "question": _question(receipt),
        "decision": decided(receipt),
        "compared": [_compared(receipt, row) for row in receipt.speaking],
        "lanes": comparisons(receipt),
        "not_chosen": [
            _not_chosen(receipt, row) for row in receipt.json["rejected"] if row["topology"] in receipt.topologies
        ],
        "refused": _refused(receipt),
        "queues": [_queues(receipt, row["scenario"], bound) for row in receipt.speaking for bound in BOUNDS],
        "uncertainty": uncertainty(receipt),
        "changes": changes(receipt),
        "frontier": _frontier(receipt),
        "replay": replay(receipt),
        "truth_boundary": {name: receipt.json["truth_boundary"][name] for name in ("statement", "latency_label")},
    }


def _question(receipt: Receipt) -> Json:
    of = receipt.json["workload"]
    total = of["buckets"][0]
    buckets = ("bucket", "requests", "rate_rps", "prompt_tokens_mean", "output_tokens_mean")
    concurrency = receipt.inputs.get(CONCURRENCY_INPUT)
    objectives = [row for row in receipt.json["inputs"] if row["path"].startswith("objectives.")]
    return {
        "cohort": receipt.json["cohort"]["name"],
        "title": receipt.json["cohort"]["title"],
        "fingerprint": receipt.json["fingerprint"],
        "requests": of["requests"],
        "format": of["format"],
        "provenance": of["provenance"],
        "arrivals": of["kind"],
        "rate_rps": total["rate_rps"],
        "concurrency": None if concurrency is None else concurrency["value"],
        "arrival_scv": total["arrival_scv"],
        "duration_s": of["duration_s"],
        "rows_dropped": of["rows_dropped"],
        "buckets": [{name: row[name] for name in buckets} for row in of["buckets"][1:]],
        "gpus": receipt.input("inventory.gpus")["value"],
        "objectives": [{name: row[name] for name in ("path", "unit", "value")} for row in objectives],
        "scenarios": receipt.json["search"]["scenarios"],
        "kept": receipt.json["search"]["kept"],
        "warnings": of["warnings"] + _of_replay(receipt),
    }


def _of_replay(receipt: Receipt) -> list[str]:
    """What the replay says against the chosen scenario, as the plan did."""
    chosen, promised = receipt.json["decision"]["scenario"], receipt.input(ATTAINMENT_INPUT)["value"]
    rows = [
        {"scenario": chosen, "standing": "chosen", "replay": row}
        for row in receipt.json["replay"]["scenarios"]
        if (row["scenario"], row["bound"]) == (chosen, "nominal")
    ]
    return replay_doubts(promised, rows)


def _compared(receipt: Receipt, row: Json) -> Json:
    """A topology by the scenario that speaks for it, with each figure against its limit."""
    scenario = receipt.scenario(row["scenario"])
    parts = {
        kind: len(names)
        for one in receipt.json["topologies"]
        if one["topology"] == row["topology"]
        for kind, names in one["parts"].items()
    }
    return {
        "topology": row["topology"],
        "scenario": row["scenario"],
        "standing": receipt.standing(row["topology"], row["scenario"]),
        "gpus": scenario["gpus"],
        "operating_parts": scenario["operating_parts"],
        "parts": parts,
        "knobs": {name: scenario[name] for name in _KNOBS if scenario[name] is not None},
        "margin": row["margin"],
        "cost_per_million_tokens": scenario["bounds"]["nominal"]["cost_per_million_tokens"],
        "figures": [_figure(receipt, scenario, verdict) for verdict in scenario["verdicts"]],
    }


def _figure(receipt: Receipt, scenario: Json, verdict: Json) -> Json:
    gate = receipt.gate(verdict["gate"])
    of = scenario["bounds"][verdict["bound"]]
    name = _OF_METRIC.get(gate["metric"])
    judged = name is not None and gate["limit_source"] == f"objectives.{name}"
    bucket = (
        None
        if name is None or gate["aggregate"] is not None
        else of.get(f"{name}_judged_bucket" if judged else f"{name}_worst_bucket")
    )
    return (
        {name: gate[name] for name in ("metric", "unit", "op", "blocking")}
        | {name: verdict[name] for name in ("gate", "bound", "figure", "limit", "margin", "verdict", "waived")}
        | {"bucket": bucket, "by_bucket": gate["aggregate"], "judged_by_bucket": judged}
    )


def _not_chosen(receipt: Receipt, row: Json) -> Json:
    """Why a topology was not chosen; a refusal of its scenario in words."""
    refusal = receipt.scenario(row["scenario"])["bounds"]["nominal"]["refusal"]
    reason = row["reason"] if refusal is None else f"refused: {why_refused(refusal)}"
    return {name: row[name] for name in ("topology", "scenario", "status")} | {"reason": reason}


def _refused(receipt: Receipt) -> list[Json]:
    """Kept scenarios that are refused, those of one reason together; the conservative bound where the nominal one is fine."""
    groups: dict[tuple[Any, ...], list[tuple[str, float]]] = {}
    kept = [row for row in receipt.json["scenarios"] if row["topology"] in receipt.topologies]
    for row, bound in itertools.product(kept, BOUNDS):
        refusal = row["bounds"][bound]["refusal"]
        if refusal is not None and (bound == "nominal" or row["bounds"]["nominal"]["refusal"] is None):
            key = (row["topology"], bound, refusal["kind"], refusal["resource"], refusal["limit"])
            groups.setdefault(key, []).append((row["scenario"], refusal["figure"]))
    order = {name: place for place, name in enumerate(receipt.topologies)}
    return [
        _group(receipt, key, found)
        for key, found in sorted(groups.items(), key=lambda one: (BOUNDS.index(one[0][1]), order[one[0][0]]))
    ]


def _group(receipt: Receipt, key: tuple[Any, ...], found: list[tuple[str, float]]) -> Json:
    topology, bound, kind, resource, limit = key
    figures = [figure for _, figure in found]
    return {
        "topology": topology,
        "bound": bound,
        "kind": kind,
        "resource": resource,
        "limit": limit,
        "figure_least": min(figures),
        "figure_most": max(figures),
        "scenarios": [name for name, _ in found],
        "of": sum(row["topology"] == topology for row in receipt.json["scenarios"]),
        "more_workers_help": not is_floor(kind),
        "reason": refused(kind, resource, limit, min(figures), max(figures)),
    }


def _queues(receipt: Receipt, name: str, bound: str) -> Json:
    """Which queue dominates a scenario, how long its wait is, and how near which ceiling is."""
    of = receipt.scenario(name)["bounds"][bound]
    tightest = next((row for row in of["loads"] if row["resource"] == of["tightest"]), None)
    return {
        "scenario": name,
        "bound": bound,
        "status": of["status"],
        "dominant_queue": of["dominant_queue"],
        "waits": {f"{queue}_s": _longest(of["lanes"], queue) for queue in QUEUES},
        "tightest": of["tightest"],
        "utilization": None if tightest is None else tightest["utilization"],
        "ceiling": None if tightest is None else tightest["ceiling"],
        "pressure": of["pressure"],
        "headroom": of["headroom"],
    }


def _longest(lanes: list[Json], queue: str) -> float | None:
    """The mean wait of a queue: all buckets of a path have the same, and of two paths it is the larger."""
    return max((row[f"{queue}_wait_s"] for row in lanes), default=None)


def _frontier(receipt: Receipt) -> list[Json]:
    """By figure and operating parts, what each number of GPUs could promise."""

    def step(row: Json) -> tuple[str, float]:
        return row["figure"], row["operating_parts"]

    def steps() -> Iterator[Json]:
        for (figure, parts), rows in itertools.groupby(receipt.json["search"]["frontier"], key=step):
            kept = [{name: row[name] for name in ("scenario", "gpus", "value_s")} for row in rows]
            yield {"figure": figure, "operating_parts": parts, "steps": kept}

    return list(steps())
