"""A project with rules of every kind, and receipts planned with them, for the tests of ``phaseledger gates``."""

import json
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from pipelines.cli import command
from pipelines.receipts.build import build_receipt
from tests.conftest import PROJECT
from tests.plans import plan_of

Json = dict[str, Any]

MESSAGE = "<{gate}> & \"{figure}\": 100 %, not {{it}} [see](1) 'ß' ::error::"
"""A message with what XML, workflow commands and SARIF each write differently."""
SAID = "<measured> & \"100 %\": 100 %, not {it} [see](1) 'ß' ::error::"

MORE = f"""\
apiVersion: phaseledger/v1
kind: Capacity
metadata: {{name: more, owner: "ops, night: shift"}}
gates:
  - {{id: quick, metric: ttft_worst, bound: nominal, op: lte, limit: 1 ms, severity: warn, blocking: false}}
  - {{id: elsewhere, metric: gpus, where: {{cohort: [overloaded]}}, bound: nominal, op: lte, limit: 1, severity: error, blocking: true}}
  - {{id: twenty, metric: stall, bound: nominal, op: lte, limit: {{metric: tpot_worst, times: 20}}, severity: error, blocking: true}}
  - {{id: mostly, metric: ttft, aggregate: share, within: {{objective: ttft}}, bound: nominal, op: gte, limit: 0.9, severity: error,
      blocking: true}}
---
apiVersion: phaseledger/v1
kind: Provenance
metadata: {{name: measured, owner: ops}}
gates:
  - {{id: measured, metric: unobserved_share, op: lte, limit: 0.5, severity: error, blocking: true,
      message: {json.dumps(MESSAGE)}, rationale: 'Nobody bets on <figures> of nobody.'}}
  - {{id: link, metric: unobserved_inputs, where: {{input: ["network.*"]}}, op: lte, limit: 0, severity: warn, blocking: false}}
"""

EXCEPTIONS = """\
apiVersion: phaseledger/v1
kind: Exceptions
metadata: {name: exceptions, owner: ops}
exceptions:
  - gate: stall
    where: {topology: [chunked]}
    reason: "the page smooths it: <no> 100 %"
    owner: ui
    expires: 2026-12-31
  - {gate: goodput, reason: was to be mended, owner: ui, expires: 2026-01-31}
"""

OWN = """\
apiVersion: phaseledger/v1
kind: Capacity
metadata: {name: own, owner: documents}
gates:
  - id: below_ceilings_conservative
    overrides: capacity.yaml
    metric: pressure
    bound: conservative
    op: lt
    limit: 0.9
    severity: error
    blocking: true
"""


def make_project(folder: Path) -> Path:
    """Cohorts and rules with a waived gate, an expired exception, a failing gate on the decision, a warning, and an override."""
    for name in ("bursty-documents", "overloaded"):
        shutil.copytree(PROJECT / "cohorts" / name, folder / "cohorts" / name)
    shutil.copytree(PROJECT / "rules", folder / "rules", ignore=shutil.ignore_patterns("tests"))
    shutil.copytree(folder / "rules", folder / "plain")
    (folder / "rules" / "more.yaml").write_text(MORE, encoding="utf-8")
    (folder / "rules" / "exceptions.yaml").write_text(EXCEPTIONS, encoding="utf-8")
    return folder


@lru_cache(maxsize=1)
def made_project(base: Path) -> Path:
    """A project with three receipts, made once: of an accepted decision, of none, and of one with rules of every kind."""
    folder = make_project(base / "gates")
    make_receipt(folder, "bursty-documents", "plain", "accepted")
    make_receipt(folder, "overloaded", "plain", "overloaded")
    (folder / "cohorts" / "bursty-documents" / "rules").mkdir()
    (folder / "cohorts" / "bursty-documents" / "rules" / "own.yaml").write_text(OWN, encoding="utf-8")
    make_receipt(folder, "bursty-documents", "rules", "ruled")
    return folder


def make_receipt(project: Path, cohort: str, rules: str, name: str) -> Path:
    """A receipt of the cohort, planned without Dagster on 2026-11-30; the directory that holds it."""
    receipt, _ = build_receipt(plan_of(project / "cohorts" / cohort, project / rules))
    return write_receipt(project / "receipts" / name, receipt)


def write_receipt(directory: Path, receipt: Json) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "receipt.json").write_text(json.dumps(receipt, ensure_ascii=False), encoding="utf-8")
    return directory


def read_receipt(directory: Path) -> Json:
    found: Json = json.loads((directory / "receipt.json").read_text(encoding="utf-8"))
    return found


def gates(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["gates", *map(str, arguments)])


@lru_cache(maxsize=64)
def report(*arguments: str | Path) -> Json:
    """The report as JSON; of receipts that stay as they are."""
    found: Json = json.loads(gates(*arguments, "--format", "json").stdout)
    return found
