"""The verifier agrees with the planner on cohorts and under rules that nobody wrote.

Both are written from docs/arithmetic.md, neither from the other. ``PHASELEDGER_COHORTS=200 pytest tests/test_agreement.py`` draws more.
"""

import os
from pathlib import Path

import pytest

from pipelines.declarations import load_cohort
from pipelines.frames.canonical import canonical_bytes
from pipelines.oracle.rendering import render_text
from pipelines.oracle.verifying import verify
from pipelines.receipts.build import build_receipt
from tests.plans import plan_of
from tests.random_cohorts import write_random_cohort
from tests.random_rules import write_random_rules


@pytest.mark.parametrize("seed", range(int(os.environ.get("PHASELEDGER_COHORTS", "8"))))
def test_a_random_cohort_is_verified(seed: int, project: Path, tmp_path: Path) -> None:
    template = project / "cohorts" / ("bursty-documents" if seed % 2 else "moderate-chat")
    cohort = write_random_cohort(seed, template, tmp_path / "cohort")
    rules = project / "rules"
    if seed % 4 != 3:
        rules = write_random_rules(seed, rules, tmp_path / "rules", load_cohort(cohort).name)
    plan = plan_of(cohort, rules)
    receipt, matrix = build_receipt(plan)
    (tmp_path / "receipt.json").write_bytes(canonical_bytes(receipt))
    (tmp_path / "matrix.csv").write_bytes(matrix)
    verification = verify(tmp_path / "receipt.json", None)
    assert verification.passed, render_text(verification)
