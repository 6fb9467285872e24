"""What ``phaseledger gates`` reports of a receipt, as one object: docs/gates.md lists its members."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pipelines.cli.explain_reading import BOUNDS, Receipt
from pipelines.cli.gates_places import Place, Places
from pipelines.cli.gates_summary import summary
from pipelines.declarations.gates import matches
from pipelines.frames.inputs import InputTable
from pipelines.gates.wording import refusal, worded
from pipelines.planning.reliance import TRACE, inputs_read

Json = dict[str, Any]

_OF_GATE = ("kind", "scope", "overrides", "owner", "severity", "blocking")
_JUDGED = ("metric", "aggregate", "buckets", "unit")
_EXCEPTION = ("gate", "file", "topologies", "cohorts", "reason", "owner", "expires", "standing")


@dataclass(frozen=True)
class GatesReport:
    """Reads verdicts out of a receipt, with the places of its gates where the rules are at hand."""

    receipt: Receipt
    places: Places

    def facts(self, *, every: bool) -> Json:
        """The report on what speaks for the decision, or on ``every`` scenario."""
        of, decision = self.receipt.json, self.receipt.json["decision"]
        speaking = [decision["scenario"]] if decision["scenario"] else [row["scenario"] for row in of["rejected"]]
        names = [row["scenario"] for row in of["scenarios"]] if every else speaking
        found = {
            "cohort": of["cohort"]["name"],
            "title": of["cohort"]["title"],
            "fingerprint": of["fingerprint"],
            "seal": of["seal"],
            "versions": {name: of["versions"][name] for name in ("product", "arithmetic")},
            "latency_label": of["truth_boundary"]["latency_label"],
            "as_of": of["as_of"],
            "outcome": decision["outcome"],
            "topology": decision["topology"],
            "scenario": decision["scenario"],
            "reason": decision["reason"],
            "accepted": decision["accepted"],
            "objections": self._objections(),
            "scenarios": [self._scenario(name, speaks=name in speaking) for name in names],
            "decision": {"verdicts": self._on_decision(), "not_judged": self._not_judged("decision", set(), None)},
            "decision_rule": self._rule(),
            "exceptions": [self._exception(row) for row in of["rules"]["exceptions"]],
        }
        return found | {"summary": summary(found)}

    @cached_property
    def _inputs(self) -> InputTable:
        return InputTable({row["path"]: row for row in self.receipt.json["inputs"]})

    @cached_property
    def _read(self) -> dict[tuple[str, str], list[Json]]:
        return {}

    def _scenario(self, name: str, *, speaks: bool) -> Json:
        row = self.receipt.scenario(name)
        rejected = {one["scenario"]: one["status"] for one in self.receipt.json["rejected"]}
        standing = "chosen" if name == self.receipt.chosen else rejected.get(name, "other")
        judged = {one["gate"] for one in row["verdicts"]}
        refused = {bound: row["bounds"][bound]["refusal"] for bound in BOUNDS}
        return {
            "scenario": name,
            "topology": row["topology"],
            "standing": standing,
            "speaks": speaks,
            "passes": row["passes"],
            "refused": {bound: why and refusal(_prefixed(why)) for bound, why in refused.items()},
            "verdicts": [self._verdict(row, one, speaks=speaks) for one in row["verdicts"]],
            "not_judged": self._not_judged("scenario", judged, row["topology"]),
        }

    def _verdict(self, scenario: Json, verdict: Json, *, speaks: bool) -> Json:
        """A verdict on a scenario with everything that a reader needs to act on it."""
        gate, topology = self.receipt.gate(verdict["gate"]), scenario["topology"]
        said = verdict | {name: gate[name] for name in ("metric", "unit", "op")}
        said |= {"scenario": scenario["scenario"], "topology": topology}
        return self._row(gate, said, speaks=speaks) | {"rests_on": self._rests_on(gate, topology), "inputs": None}

    def _on_decision(self) -> list[Json]:
        rows = []
        for verdict in self.receipt.json["decision"]["verdicts"]:
            gate = self.receipt.gate(verdict["gate"])
            said = verdict | {name: gate[name] for name in ("metric", "unit", "op")}
            said |= {"inputs": " ".join(verdict["inputs"]), "scenario": None, "topology": None, "bound": None}
            counted = [
                dict(row) for row in self.receipt.json["decision"]["rests_on"] if _counts(gate["inputs"], row["path"])
            ]
            rows.append(self._row(gate, said, speaks=True) | {"rests_on": counted, "inputs": verdict["inputs"]})
        return rows

    def _row(self, gate: Json, said: Json, *, speaks: bool) -> Json:
        """What a verdict on a scenario and one on the decision have in common."""
        return (
            {"gate": gate["id"]}
            | {name: gate[name] for name in _OF_GATE}
            | _placed(gate["file"], self.places.of_gate(gate))
            | {"waived": said["waived"], "exception": self._waiver(said) if said["waived"] else None}
            | {name: said[name] for name in ("scenario", "topology", "bound")}
            | {name: gate[name] for name in _JUDGED}
            | {"figure": said["figure"], "op": gate["op"], "limit": said["limit"]}
            | {name: gate[name] for name in ("limit_source", "limit_times", "within", "within_source")}
            | {"margin": said["margin"], "verdict": said["verdict"], "effect": _effect(gate, said, speaks=speaks)}
            | {"words": worded(said, gate), "rationale": gate["rationale"]}
        )

    def _rests_on(self, gate: Json, topology: str) -> list[Json]:
        """The inputs that the figure of a gate on a scenario of this topology reads, and the log."""
        key = (gate["id"], topology)
        if key not in self._read:
            provenance = self.receipt.json["workload"]["provenance"]
            paths = inputs_read(self._inputs, [_resolved(gate)], [topology])
            rows = [{"path": path, "provenance": self._inputs.provenance(path)} for path in paths]
            self._read[key] = [*rows, {"path": TRACE, "provenance": provenance}]
        return self._read[key]

    def _waiver(self, said: Json) -> Json | None:
        """The exception that waives a verdict; of several, the one that holds longest."""
        holding = [
            row
            for row in self.receipt.json["rules"]["exceptions"]
            if row["gate"] == said["gate"] and row["standing"] == "holds" and _covers(row, said["topology"])
        ]
        longest = max(holding, key=lambda row: str(row["expires"]), default=None)
        return None if longest is None else self._exception(longest)

    def _exception(self, row: Json) -> Json:
        named = {name: row[name] for name in _EXCEPTION if name not in ("gate", "file")}
        return {"gate": row["gate"]} | _placed(row["file"], self.places.of_exception(row)) | named

    def _not_judged(self, scope: str, judged: set[str], topology: str | None) -> list[Json]:
        """The gates that say nothing of a scenario, or of the decision, and why."""
        own = judged if scope == "scenario" else {row["gate"] for row in self.receipt.json["decision"]["verdicts"]}
        return [
            {"gate": gate["id"]}
            | {name: gate[name] for name in _OF_GATE}
            | _placed(gate["file"], self.places.of_gate(gate))
            | {"reason": _why_not(gate, self.receipt.json["cohort"]["name"], topology)}
            for gate in self.receipt.json["rules"]["gates"]
            if gate["scope"] == scope and gate["id"] not in own
        ]

    def _rule(self) -> Json:
        rule = self.receipt.json["rules"]["decision"]
        shown = {name: rule[name] for name in ("overrides", "prefer")}
        return _placed(rule["file"], self.places.of_decision(rule)) | shown

    def _objections(self) -> list[Json]:
        """What stands against the decision, in words and with its place; expired exceptions in their order."""
        expired = [row for row in self.receipt.json["rules"]["exceptions"] if row["standing"] == "expired"]
        found = []
        for one in self.receipt.json["decision"]["objections"]:
            own = [row for row in expired if row["gate"] == one["gate"]] if one["kind"] == "exception" else []
            if own[1:]:
                expired.remove(own[0])
            found.append({"kind": one["kind"], "gate": one["gate"]} | self._objection(one, own))
        return found

    def _objection(self, one: Json, expired: list[Json]) -> Json:
        if expired:
            row = expired[0]
            words = f"the exception of {row['gate']} ({row['reason']}; {row['owner']}) expired on {row['expires']}"
            return _placed(row["file"], self.places.of_exception(row)) | {"words": words}
        if one["kind"] == "verdict":
            gate = self.receipt.gate(one["gate"])
            words = next(row["words"] for row in self._on_decision() if row["gate"] == one["gate"])
            return _placed(gate["file"], self.places.of_gate(gate)) | {"words": words}
        rule = self._rule()
        return {name: rule[name] for name in ("file", "path", "line")} | {"words": "no topology qualifies"}


def _placed(file: str, place: Place | None) -> Json:
    """The name of a file as the receipt has it, and where it is if it is at hand."""
    return {"file": file, "path": place and place.path, "line": place and place.line}


def _prefixed(why: Json) -> Json:
    return {f"refusal_{name}": value for name, value in why.items()}


def _effect(gate: Json, said: Json, *, speaks: bool) -> str:
    """What a verdict means for the decision."""
    if said["verdict"] == "pass":
        return "passes"
    if said["waived"]:
        return "waived"
    if not speaks:
        return "beside"
    return "blocks" if gate["blocking"] else "informs"


def _covers(exception: Json, topology: str | None) -> bool:
    return topology is None or topology in exception["topologies"]


def _counts(patterns: Iterable[str] | None, path: str) -> bool:
    return patterns is None or any(matches(pattern, path) for pattern in patterns)


def _why_not(gate: Json, cohort: str, topology: str | None) -> str:
    if gate["cohorts"] is not None and cohort not in gate["cohorts"]:
        return f"a gate of {', '.join(gate['cohorts'])} only"
    if not gate["applies"]:
        lacking = [
            str(gate[f"{name}_source"])
            for name in ("limit", "within")
            if gate[name] is None and str(gate[f"{name}_source"]).startswith("objectives.")
        ]
        return f"the cohort does not declare {' and '.join(lacking) or 'its objective'}"
    if topology is not None and topology not in gate["topologies"]:
        return f"concerns {', '.join(gate['topologies'])} only"
    return "the receipt holds no verdict of it"


def _resolved(gate: Json) -> Mapping[str, Any]:
    """A gate of a receipt as the planner has it, as far as it says what is read."""

    def named(source: str | None, kind: str) -> str | None:
        return source.removeprefix(kind) if source is not None and source.startswith(kind) else None

    return {
        "metric": gate["metric"],
        "applies": gate["applies"],
        "topologies": " ".join(gate["topologies"]),
        "objective": named(gate["limit_source"], "objectives."),
        "limit_metric": named(gate["limit_source"], "metrics."),
        "limit_baseline": named(gate["limit_source"], "baselines."),
        "within_objective": named(gate["within_source"], "objectives."),
    }
