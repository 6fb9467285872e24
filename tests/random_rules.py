"""Rules that nobody wrote: gates by bucket, relative to metrics, on the decision, waived or for other cohorts, beside the shipped ones."""

import random
import shutil
from pathlib import Path
from typing import Any

import yaml

_WORST = {
    "ttft_worst": (0.2, 1.0, 5.0),
    "tpot_worst": (0.012, 0.02, 0.05),
    "e2e_worst": (3.0, 20.0),
    "stall": (0.05, 1.0),
}
_BY_BUCKET = {"ttft": (0.1, 1.0, 5.0), "tpot": (0.012, 0.03), "e2e": (2.0, 20.0), "prefill_wait": (0.01, 1.0)}
_MOVED = {"transfer": (0.01, 0.1), "transfer_worst": (0.02, 0.2), "decode_wait": (1e-4, 0.1)}
_SEPARATED = ["disaggregated", "routed"]
_AGREED = {"ttft_worst": "ttft", "tpot_worst": "tpot", "ttft": "ttft", "tpot": "tpot"}


def write_random_rules(seed: int, shipped: Path, directory: Path, cohort: str) -> Path:
    """The shipped rules and some that ``seed`` draws, most of them informing, for the cohort of this name or for others."""
    draw = random.Random(f"rules {seed}")
    shutil.copytree(shipped, directory, ignore=shutil.ignore_patterns("tests"))
    gates = [_gate(draw, number, cohort) for number in range(draw.randint(2, 5))]
    gates += [_spare(draw)] if draw.random() < 0.5 else []
    _write(directory / "drawn.yaml", "Capacity", {"gates": gates})
    on_decision = [_on_decision(draw, number) for number in range(draw.randint(0, 3))]
    if on_decision:
        _write(directory / "evidence.yaml", "Provenance", {"gates": on_decision})
    waivers = [
        _waiver(draw, gate, cohort) for gate in (*gates, *on_decision) if gate["blocking"] and draw.random() < 0.5
    ]
    if draw.random() < 0.5:
        waivers.append(_waiver(draw, {"id": "transfer_envelope"}, cohort) | {"where": {"topology": ["disaggregated"]}})
    if waivers:
        _write(directory / "exceptions.yaml", "Exceptions", {"exceptions": waivers})
    return directory


def _write(file: Path, kind: str, content: dict[str, Any]) -> None:
    about = {"apiVersion": "phaseledger/v1", "kind": kind, "metadata": {"name": "drawn", "owner": "nobody"}}
    file.write_text(yaml.safe_dump(about | content, sort_keys=False, allow_unicode=True))


def _where(draw: random.Random, gate: dict[str, Any], cohort: str, *, moves: bool) -> None:
    where: dict[str, Any] = {}
    if (isinstance(gate["limit"], dict) and "baseline" in gate["limit"]) or moves:
        where["topology"] = draw.choice([_SEPARATED, ["disaggregated"]])
    elif draw.random() < 0.3:
        where["topology"] = draw.choice([["aggregated", "chunked"], ["chunked"], ["disaggregated"]])
    if "aggregate" in gate and draw.random() < 0.5:
        where["bucket"] = draw.choice([["longest"], ["shortest"], ["shortest", "longest"]])
    if draw.random() < 0.2:
        where["cohort"] = draw.choice([[cohort], ["another"], ["another", cohort]])
    if where:
        gate["where"] = where


def _gate(draw: random.Random, number: int, cohort: str) -> dict[str, Any]:
    metric = draw.choice([*_WORST, *_BY_BUCKET, *_BY_BUCKET, *_MOVED])
    limits = (_WORST | _BY_BUCKET | _MOVED)[metric]
    gate: dict[str, Any] = {
        "id": f"drawn_{number}",
        "metric": metric,
        "bound": draw.choice(["nominal", "conservative"]),
    }
    if metric in _BY_BUCKET or metric in ("transfer", "decode_wait"):
        gate["aggregate"] = draw.choice(["worst", "request_weighted", "share"])
    gate |= {"op": draw.choice(["lte", "lte", "lt", "gte", "gt"]), "limit": f"{draw.choice(limits)!r} s"}
    if gate.get("aggregate") == "share":
        gate |= {
            "within": gate["limit"],
            "op": draw.choice(["gte", "gt", "lte"]),
            "limit": draw.choice([0.3, 0.9, 1.0]),
        }
        if metric in _AGREED and draw.random() < 0.5:
            gate["within"] = {"objective": _AGREED[metric]}
    elif draw.random() < 0.3:
        other = draw.choice([name for name in ("ttft_worst", "tpot_worst", "stall") if name != metric])
        gate["limit"] = {"metric": other, "times": draw.choice([0.5, 1.0, 3.0, 40.0])}
    elif metric not in _MOVED and draw.random() < 0.3:
        gate["limit"] = {"baseline": draw.choice(["aggregated", "chunked"]), "times": draw.choice([0.8, 1.0, 1.5])}
    elif metric in _AGREED and draw.random() < 0.4:
        gate["limit"] = {"objective": _AGREED[metric]}
    blocking = draw.random() < 0.4
    gate |= {"severity": "error" if blocking else draw.choice(["error", "warn"]), "blocking": blocking}
    if draw.random() < 0.3:
        gate["message"] = "{gate} of {scenario}: {figure}, {limit} — {owner}"
    _where(draw, gate, cohort, moves=metric in ("transfer", "transfer_worst"))
    return gate


def _on_decision(draw: random.Random, number: int) -> dict[str, Any]:
    metric = draw.choice(["unobserved_share", "unobserved_inputs", "evidence_age"])
    limit: Any = {"unobserved_share": draw.choice([0.0, 0.5, 1.0]), "unobserved_inputs": draw.choice([0, 5, 90])}.get(
        metric, "90 days"
    )
    gate: dict[str, Any] = {
        "id": f"evidence_{number}",
        "metric": metric,
        "op": draw.choice(["lte", "lt"]),
        "limit": limit,
    }
    if draw.random() < 0.6:
        gate["where"] = {
            "input": draw.choice([["service.*"], ["network.effective_bandwidth", "*.overhead"], ["requests.trace"]])
        }
    return gate | {"severity": "error", "blocking": draw.random() < 0.5}


def _spare(draw: random.Random) -> dict[str, Any]:
    gate = {
        "id": "spare",
        "metric": "critical_pools",
        "op": draw.choice(["lte", "lt"]),
        "limit": draw.choice([0, 1, 2]),
    }
    return gate | {"severity": "error", "blocking": draw.random() < 0.5}


def _waiver(draw: random.Random, gate: dict[str, Any], cohort: str) -> dict[str, Any]:
    found = {"gate": gate["id"], "reason": "drawn", "owner": "nobody"}
    if "where" not in gate and draw.random() < 0.3:
        found["where"] = {"cohort": [draw.choice([cohort, "another"])]}
    return found | {"expires": draw.choice(["2026-11-29", "2026-11-30", "2027-06-01"])}
