"""What receipts of a small cohort state, as far as a comparison reads it: planned for real, without what would change the decision.

The cohort is that of tests/declarations/good: eight requests, four GPUs, 22 scenarios. It chooses chunked/n2/c2048, of 4 operating
parts; aggregated/n4, of 3, stalls for 440.1 ms where 400 are promised, aggregated/n3 for 530.5 ms.
"""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
from pandera.config import config_context

from pipelines import arithmetic
from pipelines.comparing.mixes import Sides
from pipelines.comparing.report import compared
from pipelines.declarations import load_declarations
from pipelines.frames.inputs import InputTable, inputs_json
from pipelines.frames.replays import WHOLE, Replays
from pipelines.gates.decision import decide
from pipelines.gates.judge import bucket_requests, judge
from pipelines.gates.replayed import beside_replays
from pipelines.gates.rules import (
    exceptions_frame,
    gates_frame,
    part_weights,
    preference_frame,
    reads_a_date,
    rule_set_frame,
)
from pipelines.planning.acceptance import judge_decision
from pipelines.planning.search import Asked, kept_scenarios
from pipelines.receipts.build import _workload
from pipelines.receipts.decision import decision_section, rejected_section
from pipelines.receipts.plan import PlanFrames
from pipelines.receipts.reopened import reopened
from pipelines.receipts.rules import RuleFrames, rules_section
from pipelines.receipts.scenarios import scenarios_section
from pipelines.topologies.constants import declared_rate_rps
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.matrix import scenario_matrix
from pipelines.topologies.question import Workload
from pipelines.traces.edges import bucket_edges
from pipelines.traces.freeze import frozen_cohort, inputs_frame, read_cohort_requests
from pipelines.traces.workload import bucket_frame, output_stratum_frame, stratum_frame, window_frame
from tests.conftest import PROJECT

Json = dict[str, Any]
Edit = tuple[str, str]

GOOD = PROJECT / "tests" / "declarations" / "good"
LONGER_STALL = ("stall: 400 ms", "stall: 500 ms")
"""With it, aggregated/n4 passes, and is chosen: it has the fewest parts."""
FEWER_GPUS = ("gpus: 4", "gpus: 3")


def told(
    *edits: Edit, own: str | None = None, as_of: str = "2026-11-30", files: Mapping[str, str] | None = None
) -> Json:
    """What the receipt of the cohort states with parts of its text replaced, rules of its own, and files beside it."""
    return _told(edits, own, as_of, tuple((files or {}).items()))


def asked(*edits: Edit, files: Mapping[str, str] | None = None) -> Json:
    """What it states of inputs, requests and rules, without a plan."""
    return _asked(edits, tuple((files or {}).items()))


def difference(old: Json, new: Json) -> Json:
    """The comparison of two receipts."""
    return compared(old, new, Sides(reopened(old), reopened(new)), lambda done, total: None)


@lru_cache(maxsize=64)
def _told(edits: tuple[Edit, ...], own: str | None, as_of: str, files: tuple[Edit, ...]) -> Json:
    with tempfile.TemporaryDirectory() as directory, config_context(validation_enabled=False):
        cohort = make_cohort(Path(directory), *edits, own=own, files=dict(files))
        plan = _plan(_Declared.read(cohort, date.fromisoformat(as_of)))
        return _question(plan) | _answer(plan)


@lru_cache(maxsize=64)
def _asked(edits: tuple[Edit, ...], files: tuple[Edit, ...]) -> Json:
    with tempfile.TemporaryDirectory() as directory, config_context(validation_enabled=False):
        return _question(_Declared.read(make_cohort(Path(directory), *edits, files=dict(files)), None))


def make_cohort(directory: Path, *edits: Edit, own: str | None = None, files: Mapping[str, str] | None = None) -> Path:
    """The cohort in a directory of its own."""
    text = (GOOD / "cohort.yaml").read_text(encoding="utf-8")
    for before, after in edits:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    directory.mkdir(exist_ok=True)
    (directory / "cohort.yaml").write_text(text, encoding="utf-8")
    shutil.copy(GOOD / "requests.csv", directory / "requests.csv")
    for name, content in (files or {}).items():
        (directory / name).write_text(content, encoding="utf-8")
    if own is not None:
        (directory / "rules").mkdir()
        (directory / "rules" / "own.yaml").write_text(own, encoding="utf-8")
    return directory


@dataclass(frozen=True)
class _Declared:
    """What a plan is made from, by the names that :class:`PlanFrames` has for it."""

    inputs: pl.DataFrame
    frozen: pl.DataFrame
    buckets: pl.DataFrame
    strata: pl.DataFrame
    outputs: pl.DataFrame
    windows: pl.DataFrame
    gates: pl.DataFrame
    exceptions: pl.DataFrame
    rule_set: pl.DataFrame
    preference: pl.DataFrame

    @classmethod
    def read(cls, directory: Path, as_of: date | None) -> "_Declared":
        cohort, rules = load_declarations(directory, PROJECT / "rules")
        found, inputs = read_cohort_requests(cohort), inputs_frame(cohort)
        edges = bucket_edges(found.requests, cohort.bucket_edges_tokens, cohort.forced_edges_tokens)
        day = as_of if reads_a_date(rules, cohort.name) else None
        rate = declared_rate_rps(InputTable.of(inputs))
        return cls(
            inputs=inputs,
            frozen=frozen_cohort(cohort, found, inputs),
            buckets=bucket_frame(found.requests, edges, kind=cohort.kind, rate_rps=rate),
            strata=stratum_frame(found.requests, edges),
            outputs=output_stratum_frame(found.requests, edges),
            windows=window_frame(found.requests, edges, kind=cohort.kind),
            gates=gates_frame(rules, cohort.name, day),
            exceptions=exceptions_frame(rules, cohort.name, day),
            rule_set=rule_set_frame(rules, day),
            preference=preference_frame(rules),
        )


def _plan(of: _Declared) -> PlanFrames:
    table, workload = InputTable.of(of.inputs), Workload(of.buckets, of.strata, of.outputs)
    scenarios = kept_scenarios(Asked(table, workload, of.gates, of.preference))
    fingerprint = of.frozen["fingerprint"].item()
    evaluations = [evaluate(name, fingerprint, scenarios, table, workload) for name in TOPOLOGIES]
    matrix = scenario_matrix(evaluations, table, part_weights(of.preference))
    verdicts = judge(beside_replays(matrix, _replays(matrix)), of.gates, table, bucket_requests(of.buckets))
    decision = decide(matrix, verdicts, of.preference, table, of.gates)
    nothing, frozen = pl.DataFrame(), of.frozen.row(0, named=True)
    return PlanFrames(
        **vars(of),
        evaluations=evaluations,
        matrix=matrix,
        verdicts=verdicts,
        decision=decision,
        acceptance=judge_decision(of.gates, of.rule_set, table, decision, frozen, nothing),
        searched=scenarios["searched"][0],
        speaking=nothing,
        sensitivity=nothing,
        break_even=nothing,
        workers_less=nothing,
        replays=nothing,
        replay_sample=nothing,
        replay_scope=nothing,
    )


def _replays(matrix: pl.DataFrame) -> pl.DataFrame:
    """What no replay came to: half of the requests meet their objectives where prompts come in chunks, all of them elsewhere."""
    rows = matrix.filter(pl.col("status") == "evaluated").select(
        "scenario",
        "bound",
        part=pl.lit(WHOLE),
        replayed_goodput=pl.when(pl.col("topology") == "chunked").then(0.5).otherwise(1.0),
    )
    schema = {name: column.dtype.type for name, column in Replays.to_schema().columns.items()}
    return pl.DataFrame(rows.to_dicts(), schema=schema)


def _question(of: Any) -> Json:
    rules = RuleFrames(of.gates, of.exceptions, of.rule_set, of.preference)
    return {
        "versions": {"product": "0", "arithmetic": arithmetic.VERSION},
        "fingerprint": of.frozen["fingerprint"].item(),
        "cohort": {"name": of.frozen["name"].item(), "title": of.frozen["title"].item()},
        "as_of": rules.as_of,
        "inputs": inputs_json(of.inputs),
        "workload": _workload(of),
        "rules": rules_section(rules, InputTable.of(of.inputs)),
        "seal": "",
    }


def _answer(plan: PlanFrames) -> Json:
    return {
        "scenarios": scenarios_section(plan),
        "decision": decision_section(plan),
        "rejected": rejected_section(plan),
        "search": {"scenarios": plan.searched, "kept": plan.matrix.height // 2},
    }
