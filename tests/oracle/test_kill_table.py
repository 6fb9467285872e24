"""Every leaf of a receipt, changed alone and sealed again, is noticed, or is one of the few of which a reason says why not.

All mutants are tried by `python -m tests.oracle.kill_table`, whose counts are kept; here a sample of them, and that the counts are
those of the receipts as they are now.
"""

import json
import os
from typing import Any

import pytest

from tests.oracle import kill_table
from tests.oracle.kill_table import (
    FREE,
    KILL_TABLE,
    LEVELS,
    MEANINGLESS,
    MUTATIONS,
    NAMES,
    OF_THE_REQUESTS,
    counted,
    excused,
    named_mutations,
    outcome,
    part_of_page,
    receipts,
    rendered,
    without_reason,
)
from tests.oracle.mutants import leaves, mutants, name_of, noticed_at

ONE_OF = 1 if os.environ.get("PHASELEDGER_MUTANTS") == "all" else 61
"""How many mutants there are for each that is tried here; no multiple of how many a leaf has."""


@pytest.fixture(scope="module")
def counts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kill_table.COUNTS.read_text())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_all_mutants_is_rejected(name: str) -> None:
    receipt, wrong = receipts()[name], []
    assert noticed_at(receipt, renamed=True) is None
    for place, mutant in enumerate(mutants(receipt)):
        if place % ONE_OF == len(name) % ONE_OF:
            for level, noticed in zip(LEVELS, outcome(name, mutant), strict=True):
                if not noticed and without_reason(level, {"unnoticed": {level: [mutant.name]}}):
                    wrong.append(f"{level}: {mutant.name} {mutant.kind}")
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_the_counts_are_of_these_receipts(name: str, counts: dict[str, Any]) -> None:
    assert counts["receipts"][name] == counted(name), "run python -m tests.oracle.kill_table"


def test_what_went_unnoticed_has_a_reason_and_every_reason_is_needed(counts: dict[str, Any]) -> None:
    unnoticed = counts["unnoticed"]
    assert {level: without_reason(level, counts) for level in LEVELS} == {level: [] for level in LEVELS}
    for level, reasons in (("seal", OF_THE_REQUESTS), ("requests", MEANINGLESS), ("fingerprints", FREE)):
        assert [one for one in reasons if not any(excused(name, [one]) for name in unnoticed[level])] == []


def test_every_number_and_flag_is_noticed(counts: dict[str, Any]) -> None:
    """With the requests given and only the seal renewed, but for two margins that are alike up to the last digit."""
    numbers = set()
    for receipt in receipts().values():
        numbers |= {name_of(receipt, at) for at, value in leaves(receipt) if isinstance(value, int | float)}
    unnoticed = [name for name in counts["unnoticed"]["requests"] if name in numbers]
    assert [name for name in unnoticed if not name.endswith("/margin_down")] == []


def test_the_page_has_the_tables(counts: dict[str, Any]) -> None:
    assert part_of_page(KILL_TABLE) == rendered(counts)
    assert part_of_page(MUTATIONS) == named_mutations()


def test_a_mutant_leaves_the_receipt_as_it_is() -> None:
    receipt = receipts()["overloaded"]
    before = json.dumps(receipt)
    for place, mutant in enumerate(mutants(receipt)):
        if place % 500 == 0:
            assert json.dumps(mutant.of(receipt)) != before, mutant
    assert json.dumps(receipt) == before
