"""Files of ``kind: RuleTest`` -> tests of gates, or everything that is wrong with them (docs/rules.md, Tests of rules)."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pipelines.declarations.documents import Document, read_documents
from pipelines.declarations.folders import yaml_files
from pipelines.declarations.problems import Problem, plain
from pipelines.declarations.rule_tests_meaning import meaning_problems
from pipelines.declarations.rule_tests_placed import PlacedTest, RuleTest
from pipelines.declarations.schema import schema_problems, without_repeats
from pipelines.declarations.typed import RULE_KINDS, Rules

KIND = "RuleTest"
SCHEMA = "rule-tests.v1"
FOLDER = "tests"
"""The directory in a rules directory that holds its tests."""
EXPECTED = f"tests of rules (kind: {KIND})"


def placed_tests(document: Document) -> Iterator[PlacedTest]:
    """The tests of a document that are mappings at all."""
    listed = document.get("tests")
    if isinstance(listed, list):
        yield from (PlacedTest(document, ("tests", i)) for i, one in enumerate(listed) if isinstance(one, dict))


def files_of_tests(rules_directory: str | os.PathLike[str]) -> tuple[list[Path], list[Problem]]:
    """The files of tests in a rules directory, or why there is none."""
    return yaml_files(Path(rules_directory) / FOLDER, "expected a directory of tests of rules (*.yaml)")


def read_rule_tests(files: Iterable[Path], rules: Rules | None) -> tuple[list[RuleTest], list[Problem]]:
    """The tests in ``files`` of the gates of ``rules``, in their order; or none and the problems.

    Where the rules could not be read (None), what can be said without them is still said.
    """
    documents: list[Document] = []
    problems: list[Problem] = []
    for file in files:
        found, unread = read_documents(file, EXPECTED)
        documents += found
        problems += unread
    gates = None if rules is None else {gate.id: gate for gate in rules.gates}
    tests = [test for document in documents for test in placed_tests(document)]
    repeated = list(_repeated(tests))
    for document in documents:
        if document.get("kind") in RULE_KINDS:
            message, hint = (
                f"found {plain(document.get('kind'))}; expected {KIND}",
                "rules lie in the directory above tests/",
            )
            problems.append(document.problem("kind", message, hint))
            continue
        said = [problem for about, problem in repeated if about is document]
        said += [problem for test in tests if test.document is document for problem in meaning_problems(test, gates)]
        problems += without_repeats(document, said, schema_problems(document, SCHEMA))
    if problems or rules is None:
        return [], problems
    return [test.typed() for test in tests], []


def _repeated(tests: Sequence[PlacedTest]) -> Iterator[tuple[Document, Problem]]:
    """One name twice among the tests of one gate."""
    first: dict[tuple[object, str], PlacedTest] = {}
    for test in tests:
        name = test.get("name")
        if isinstance(name, str) and first.setdefault((str(test.get("gate")), name), test) is not test:
            other = first[str(test.get("gate")), name]
            message = f"is already the name of the test of {plain(test.get('gate'))} at {other.place}; expected another"
            yield test.document, test.problem("name", message)
