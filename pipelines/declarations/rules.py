"""The rule files of a directory -> :class:`Rules`, or everything that is wrong with them."""

import os
from collections.abc import Iterator
from pathlib import Path

from pipelines.declarations.documents import Document, read_documents
from pipelines.declarations.gates import PlacedGate, gate_problems, gates_together, placed_gates
from pipelines.declarations.problems import Problem, plain
from pipelines.declarations.schema import schema_problems, without_repeats
from pipelines.declarations.text import reason
from pipelines.declarations.typed import RULE_KINDS, DecisionRule, Rules

EXPECTED = "rules (gates, or kind: Decision)"
PREFERENCES = ("operating_parts", "gpus", "margin")


def read_rules(directory: str | os.PathLike[str]) -> tuple[Rules | None, list[Problem]]:
    """The rules of every YAML file directly in ``directory``, or None and the problems."""
    folder = Path(directory)
    files, problems = _files(folder)
    documents: list[Document] = []
    for file in files:
        found, unread = read_documents(file, EXPECTED)
        documents += found
        problems += unread
    complete = bool(documents) and not problems
    gates = [gate for document in documents for gate in placed_gates(document)]
    meaning = [(gate, problem) for gate in gates for problem in gate_problems(gate)] + list(gates_together(gates))
    for document in documents:
        said = [problem for gate, problem in meaning if gate.document is document] + list(_decision_problems(document))
        problems += without_repeats(document, said, schema_problems(document, "rules.v1"))
    problems += _missing(folder, documents, gates) if complete else []
    problems += _second_decisions(documents)
    if problems:
        return None, problems
    decision = next(_decision(document) for document in documents if document.get("kind") == "Decision")
    return Rules(tuple(gate.typed() for gate in gates), decision), []


def _files(folder: Path) -> tuple[list[Path], list[Problem]]:
    expected = "expected a directory of rules (*.yaml)"
    try:
        names = sorted(os.listdir(folder))
    except NotADirectoryError:
        return [], [Problem(str(folder), 1, 1, "", f"is a file; {expected}")]
    except FileNotFoundError:
        return [], [Problem(str(folder), 1, 1, "", f"does not exist; {expected}")]
    except (OSError, ValueError) as error:
        return [], [Problem(str(folder), 1, 1, "", f"cannot be read: {reason(error)}; {expected}")]
    files = [folder / name for name in names if name.endswith((".yaml", ".yml")) and not name.startswith(".")]
    return files, [] if files else [Problem(str(folder), 1, 1, "", f"holds no *.yaml; {expected}")]


def _missing(folder: Path, documents: list[Document], gates: list[PlacedGate]) -> Iterator[Problem]:
    """What the directory lacks as a whole, said only where no misspelt kind or gate could be what is missed."""
    kinds = [document.get("kind") for document in documents]
    if not all(kind in RULE_KINDS for kind in kinds):
        return
    if "Decision" not in kinds:
        yield Problem(str(folder), 1, 1, "", "no decision; expected exactly one document of kind: Decision")
    readable = all(isinstance(gate.get("blocking"), bool) for gate in gates)
    written = all(document.get("gates") for document in documents if document.get("kind") != "Decision")
    if readable and written and not any(gate.get("blocking") for gate in gates):
        message = "no gate is blocking, so no scenario could pass; expected at least one with blocking: true"
        yield Problem(str(folder), 1, 1, "", message)


def _second_decisions(documents: list[Document]) -> Iterator[Problem]:
    decisions = [document for document in documents if document.get("kind") == "Decision"]
    for second in decisions[1:]:
        first = decisions[0].mark("kind", "key")
        message = f"a second Decision, the first is at {decisions[0].file}:{first.line}:{first.column}; expected one"
        yield second.problem("kind", message)


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
    return DecisionRule(keys, numbers)
