"""Verifier and planner share no code: neither imports the other (see pyproject.toml), and no function of one is a copy of one of the other.

Functions are compared as syntax trees without docstrings and annotations, with every name replaced by the order of its first
appearance, so that a copy with other names is a copy still. So are runs of statements within them.
"""

import ast
import copy
from collections.abc import Iterator
from pathlib import Path

FEWEST_NODES_OF_A_FUNCTION = 45
FEWEST_NODES_OF_A_RUN, STATEMENTS_OF_A_RUN = 60, 3
"""Shorter ones are alike because there are not two ways to write them."""


class _Anonymous(ast.NodeTransformer):
    """Replaces names by numbers, in the order in which they appear."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], str] = {}

    def _number(self, name: str, of: str = "name") -> str:
        return self._numbers.setdefault((of, name), f"_{len(self._numbers)}")

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._number(node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self._number(node.arg))

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        return ast.Attribute(self.visit(node.value), self._number(node.attr, "attribute"), node.ctx)

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        return ast.keyword(self._number(node.arg, "keyword") if node.arg else None, self.visit(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return ast.Assign([self.visit(node.target)], self.visit(node.value), lineno=0)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    said = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    return body[1:] if said else body


def _tree(statements: list[ast.stmt], arguments: ast.arguments | None = None) -> str:
    own = copy.deepcopy(ast.Module(statements, []))
    anonymous = _Anonymous()
    head = ast.dump(anonymous.visit(copy.deepcopy(arguments))) if arguments else ""
    return head + ast.dump(anonymous.visit(own))


def _size(statements: list[ast.stmt]) -> int:
    return sum(1 for statement in statements for _ in ast.walk(statement))


def pieces(source: str, called: str) -> Iterator[tuple[str, str]]:
    """Anonymous trees of functions, and of runs of statements in them, with their place."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef):
            continue
        body, place = _without_docstring(node.body), f"{called}:{node.lineno} {node.name}"
        if body and _size(body) >= FEWEST_NODES_OF_A_FUNCTION:
            yield _tree(body, node.args), place
        for start in range(len(body) - STATEMENTS_OF_A_RUN + 1):
            run = body[start : start + STATEMENTS_OF_A_RUN]
            if _size(run) >= FEWEST_NODES_OF_A_RUN:
                yield _tree(run), f"{place}, line {run[0].lineno}"


def in_common(ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    """Places of pieces that both have, given source by name of a file."""
    known = {tree: place for name, source in ours.items() for tree, place in pieces(source, name)}
    return [
        f"{known[tree]} is {place}"
        for name, source in theirs.items()
        for tree, place in pieces(source, name)
        if tree in known
    ]


def test_no_function_of_the_verifier_is_one_of_the_planner(project: Path) -> None:
    sources = {str(path.relative_to(project)): path.read_text() for path in (project / "pipelines").rglob("*.py")}
    verifier = {name: text for name, text in sources.items() if name.startswith("pipelines/oracle/")}
    planner = {name: text for name, text in sources.items() if name not in verifier}
    assert len(verifier) > 50
    assert sum(1 for name, text in verifier.items() for _ in pieces(text, name)) > 300
    assert in_common(verifier, planner) == []


def test_a_copy_with_other_names_is_recognised(project: Path) -> None:
    """Of a real function of the planner, so that the comparison above can be trusted to find one."""
    source = (project / "pipelines" / "arithmetic" / "queues.py").read_text()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.arg):
            attribute = "id" if isinstance(node, ast.Name) else "arg"
            setattr(node, attribute, f"renamed_{getattr(node, attribute)}")
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    copied = ast.unparse(tree)
    found = in_common({"verifier": copied}, {"planner": source})
    assert len(found) == len(list(pieces(source, "planner"))) > 5
