"""The rule files of a directory, with what a cohort has instead -> :class:`Rules`, or everything that is wrong with them."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.declarations.documents import Document, optional_text, read_documents
from pipelines.declarations.folders import yaml_files
from pipelines.declarations.gates import BUCKET_WORDS, PlacedGate, gate_problems, placed_gates
from pipelines.declarations.gates_together import contradictions, override_problems, overrides_nothing, repeated_names
from pipelines.declarations.problems import Problem, plain
from pipelines.declarations.schema import schema_problems, without_repeats
from pipelines.declarations.typed import DECISION_KINDS, RULE_KINDS, SCENARIO_KINDS, DecisionRule, Rules
from pipelines.declarations.waivers import PlacedWaiver, placed_waivers, waiver_problems

EXPECTED = "rules (gates, kind: Exceptions or kind: Decision)"
PREFERENCES = ("operating_parts", "gpus", "margin")
SCHEMA = "rules.v1"
_WITH_GATES = (*SCENARIO_KINDS, *DECISION_KINDS)


@dataclass(frozen=True)
class _Layer:
    """The documents of one directory, and what was wrong with reading them."""

    folder: Path
    documents: tuple[Document, ...]
    unread: tuple[Problem, ...]

    @property
    def gates(self) -> list[PlacedGate]:
        return [gate for document in self.documents for gate in placed_gates(document)]

    @property
    def waivers(self) -> list[PlacedWaiver]:
        return [waiver for document in self.documents for waiver in placed_waivers(document)]

    @property
    def decisions(self) -> list[Document]:
        return [document for document in self.documents if document.get("kind") == "Decision"]

    @property
    def complete(self) -> bool:
        return bool(self.documents) and not self.unread


def read_rules(
    directory: str | os.PathLike[str], own: str | os.PathLike[str] | None = None
) -> tuple[Rules | None, list[Problem]]:
    """The rules of every YAML file directly in ``directory``, and of a cohort's ``own`` where there are; or None and the problems."""
    base = _layer(Path(directory))
    layers = [base] if own is None else [base, _layer(Path(own))]
    problems = [problem for layer in layers for problem in layer.unread]
    meaning = list(_meaning(layers))
    for document in (document for layer in layers for document in layer.documents):
        said = [problem for about, problem in meaning if about is document]
        problems += without_repeats(document, said, schema_problems(document, SCHEMA))
    problems += _missing(base) if base.complete else []
    if problems:
        return None, problems
    gates, decision = _standing(layers), (layers[-1].decisions or base.decisions)[-1]
    by_name = {str(gate.get("id")): gate for gate in gates}
    waivers = [waiver.typed(by_name[str(waiver.get("gate"))]) for layer in layers for waiver in layer.waivers]
    before = {str(gate.get("id")): gate.summary for gate in base.gates}
    typed = [gate.typed(before.get(str(gate.get("id"))) if gate.has("overrides") else None) for gate in gates]
    return Rules(tuple(typed), _decision(decision), tuple(waivers)), []


def bucket_problems(
    directory: str | os.PathLike[str], own: str | os.PathLike[str] | None, cohort: str, labels: Sequence[str]
) -> Iterator[Problem]:
    """Buckets that the gates on ``cohort`` name and that are not among ``labels``, those that it has."""
    layers = [_layer(Path(folder)) for folder in (directory, own) if folder is not None]
    for gate in _standing(layers):
        concerned = gate.words("cohort")
        if concerned is None or cohort in concerned:
            for place, label in enumerate(gate.words("bucket") or ()):
                if label not in (*labels, *BUCKET_WORDS):
                    message = (
                        f"cohort {plain(cohort)} has no bucket {label}; expected {', '.join((*labels, *BUCKET_WORDS))}"
                    )
                    where = (*gate.where, "where", "bucket", place)
                    yield gate.document.problem(
                        where, message, "where: {cohort: [...]} keeps a gate to cohorts that have it"
                    )


def _layer(folder: Path) -> _Layer:
    files, problems = yaml_files(folder, "expected a directory of rules (*.yaml)")
    documents: list[Document] = []
    for file in files:
        found, unread = read_documents(file, EXPECTED)
        documents += found
        problems += unread
    return _Layer(folder, tuple(documents), tuple(problems))


def _standing(layers: Sequence[_Layer]) -> list[PlacedGate]:
    """The gates that hold: those of the directory, or what stands in their place, then what the cohort adds."""
    base, own = layers[0].gates, [gate for layer in layers[1:] for gate in layer.gates]
    instead = {plain(gate.get("id")): gate for gate in own if gate.has("overrides")}
    return [instead.get(plain(gate.get("id")), gate) for gate in base] + [
        gate for gate in own if not gate.has("overrides")
    ]


def _meaning(layers: Sequence[_Layer]) -> Iterator[tuple[Document, Problem]]:
    """What is wrong with what the documents mean, each with the document that it is about."""
    standing = _standing(layers)
    for layer in layers:
        yield from ((gate.document, problem) for gate in layer.gates for problem in gate_problems(gate))
        yield from ((gate.document, problem) for gate, problem in repeated_names(layer.gates))
        yield from (
            (waiver.document, problem)
            for waiver in layer.waivers
            for problem in waiver_problems(waiver, layer.gates if layer is layers[0] else standing)
        )
        yield from ((document, problem) for document in layer.decisions for problem in _decision_problems(document))
        yield from _second_decisions(layer.decisions)
    yield from ((gate.document, problem) for gate, problem in contradictions(standing))
    base = layers[0]
    yield from overrides_nothing(base.gates, base.decisions)
    for layer in layers[1:]:
        yield from ((gate.document, problem) for gate, problem in override_problems(layer.gates, base.gates))
        yield from _decisions_instead(layer, base)


def _missing(layer: _Layer) -> Iterator[Problem]:
    """What the directory lacks as a whole, said only where no misspelt kind or gate could be what is missed."""
    kinds, gates = [document.get("kind") for document in layer.documents], layer.gates
    if not all(kind in RULE_KINDS for kind in kinds):
        return
    if "Decision" not in kinds:
        yield Problem(str(layer.folder), 1, 1, "", "no decision; expected exactly one document of kind: Decision")
    readable = all(isinstance(gate.get("blocking"), bool) for gate in gates)
    written = all(document.get("gates") for document in layer.documents if document.get("kind") in _WITH_GATES)
    if readable and written and not any(gate.get("blocking") for gate in gates if not gate.on_decision):
        message = "no gate is blocking, so no scenario could pass; expected at least one with blocking: true"
        yield Problem(str(layer.folder), 1, 1, "", message)


def _second_decisions(decisions: Sequence[Document]) -> Iterator[tuple[Document, Problem]]:
    for second in decisions[1:]:
        first = decisions[0].mark("kind", "key")
        message = f"a second Decision, the first is at {decisions[0].file}:{first.line}:{first.column}; expected one"
        yield second, second.problem("kind", message)


def _decisions_instead(own: _Layer, base: _Layer) -> Iterator[tuple[Document, Problem]]:
    """A cohort's Decision says in whose place it stands."""
    for document in own.decisions:
        for other in base.decisions[:1]:
            file, over = Path(other.file).name, document.get("overrides")
            if not document.has("overrides"):
                message = f"a second Decision, the first is in {other.file}; expected one"
                yield document, document.problem("kind", message, f"overrides: {file} to stand in its place")
            elif isinstance(over, str) and over != file:
                yield document, document.problem("overrides", f"the Decision is in {other.file}; expected {file}")


def _decision_problems(document: Document) -> Iterator[Problem]:
    if document.get("kind") != "Decision":
        return
    prefer, weights = document.get("prefer"), document.mapping("operating_part_weights")
    expected = f"expected each of {', '.join(PREFERENCES)} once, in any order"
    if isinstance(prefer, list):
        for place, key in enumerate(prefer):
            if key in prefer[:place]:
                yield document.problem(("prefer", place), f"{plain(key)} is listed twice; {expected}")
        missing = [key for key in PREFERENCES if key not in prefer]
        if missing and all(key in PREFERENCES for key in prefer):
            yield document.problem("prefer", f"without {', '.join(missing)}; {expected}")
    if weights and all(weight == 0 and not isinstance(weight, bool) for weight in weights.values()):
        message = "every weight is zero, so all topologies count as equal; expected at least one above zero"
        yield document.problem("operating_part_weights", message, "drop operating_parts to the end of prefer instead")


def _decision(document: Document) -> DecisionRule:
    prefer, weights = document.get("prefer"), document.mapping("operating_part_weights")
    keys = tuple(str(key) for key in prefer) if isinstance(prefer, list) else ()
    numbers = {part: float(weight) for part, weight in weights.items() if isinstance(weight, int | float)}
    over = optional_text(document.mapping(()), "overrides")
    return DecisionRule(keys, numbers, Path(document.file).name, over)
