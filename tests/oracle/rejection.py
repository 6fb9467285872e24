"""What the mutation tests share: where to find a victim, and how a forged receipt must be rejected."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from pipelines.oracle import Verification, main
from pipelines.oracle.names import BOUNDS
from tests.oracle import forging as forge
from tests.oracle.forging import Receipt, scenarios

Mutation = Callable[[Receipt], None]


def rejected_at(verification: Verification, pattern: str) -> None:
    """The verification failed, and its report names a value like the pattern."""
    named([item.where for item in verification.disagreements], pattern)


def named(places: list[str], pattern: str) -> None:
    """One of the places is like the pattern."""
    assert any(re.search(pattern, place) for place in places), f"{pattern} is not among {places[:30]}"


def check(receipt: Receipt, directory: Path, mutation: Mutation, pattern: str) -> None:
    mutation(receipt)
    path = forge.write(directory, receipt, forge.attach(receipt, forge.matrix_rows(receipt)))
    with redirect_stdout(StringIO()) as out:
        assert main([str(path), "--format", "json"]) == 3
    named([item["where"] for item in json.loads(out.getvalue())["disagreements"]], pattern)


def evaluated(receipt: Receipt, topology: str, bound: str = "nominal") -> list[Receipt]:
    return [row["bounds"][bound] for row in scenarios(receipt, topology, "evaluated", bound)]


def overloaded(receipt: Receipt) -> tuple[Receipt, str]:
    """A scenario that one bound refuses for its utilization, and the bound."""
    for row in receipt["scenarios"]:
        for bound in BOUNDS:
            refusal = row["bounds"][bound]["refusal"]
            if refusal is not None and refusal["kind"] == "utilization":
                return row, bound
    raise AssertionError("no scenario is overloaded")
