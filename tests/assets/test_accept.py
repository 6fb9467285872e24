"""Acceptance: every gate a check with its severity, an asset that only an accepted decision materializes, judging anew."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
import yaml

from pipelines.assets.accept import NotAcceptedError, StaleDecisionError
from pipelines.assets.frames_io import StoredFrames
from pipelines.assets.judge import StaleSearchError, verdicts
from pipelines.definitions import JOB, REJUDGE, definitions, frames_directory
from pipelines.planning.replaying import StaleReplaysError

COHORT = "bursty-documents"


@dataclass
class Bench:
    """A rules directory to be edited, and an instance to run its jobs on."""

    rules: Path
    out: Path
    cohort: Path
    instance: dg.DagsterInstance

    def declare(self, kind: str, **content: Any) -> None:
        about = {"apiVersion": "phaseledger/v1", "kind": kind, "metadata": {"name": "own", "owner": "team"}}
        (self.rules / f"own-{kind.lower()}.yaml").write_text(yaml.safe_dump(about | content, sort_keys=False))

    def run(self, job: str = JOB, as_of: str = "2026-11-30", only: list[str] | None = None) -> Any:
        source = {"cohort": str(self.cohort), "rules": str(self.rules), "out": str(self.out), "as_of": as_of}
        config = {
            "resources": {"plan_source": {"config": source}},
            "loggers": {"console": {"config": {"quiet": True}}},
        }
        resolved = definitions(self.rules).resolve_job_def(job)
        keys = None if only is None else [dg.AssetKey(name) for name in only]
        return resolved.execute_in_process(
            run_config=config, partition_key=COHORT, instance=self.instance, asset_selection=keys
        )

    def checks(self) -> dict[str, tuple[bool, str]]:
        """Passed and severity of every gate's last check."""
        run = self.instance.get_runs(limit=1)[0].run_id
        found = self.instance.all_logs(run, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        events = [entry.dagster_event.event_specific_data for entry in found if entry.dagster_event]
        return {one.check_name: (one.passed, one.severity.value) for one in events}  # type: ignore[union-attr]

    def accepted(self) -> bool:
        return self.instance.get_latest_materialization_event(dg.AssetKey("accepted")) is not None

    @property
    def receipt(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.out / "receipt.json").read_text())
        return loaded


@pytest.fixture
def bench(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    rules = shutil.copytree(project / "rules", tmp_path / "rules", ignore=shutil.ignore_patterns("tests"))
    return Bench(Path(rules), tmp_path / "out", project / "cohorts" / COHORT, dg.DagsterInstance.ephemeral())


def test_an_accepted_decision(bench: Bench) -> None:
    steps = bench.run().get_step_success_events()
    assert bench.accepted()
    assert steps[-1].step_key == "accepted"
    assert set(bench.checks().values()) == {(True, "ERROR")}


def test_a_decision_that_is_not_accepted_is_exported_all_the_same(bench: Bench) -> None:
    gate = {"id": "measured", "metric": "unobserved_share", "op": "lte", "limit": 0, "severity": "error"}
    bench.declare("Provenance", gates=[gate | {"blocking": True, "message": "{figure} is nobody's measurement"}])
    with pytest.raises(NotAcceptedError, match=r"^100 % is nobody's measurement$"):
        bench.run()
    assert not bench.accepted()
    assert bench.checks()["measured"] == (False, "ERROR")
    assert bench.receipt["decision"]["objections"] == [{"kind": "verdict", "gate": "measured"}]
    assert bench.instance.get_latest_materialization_event(dg.AssetKey("verified_receipt")) is not None


def test_what_is_waived_or_informs_only_warns(bench: Bench) -> None:
    waiver = {"gate": "stall", "reason": "batch", "owner": "batch", "expires": "2026-12-31"}
    bench.declare("Exceptions", exceptions=[waiver])
    few = {"id": "few", "metric": "gpus", "bound": "nominal", "op": "lte", "limit": 1}
    bench.declare("Capacity", gates=[few | {"severity": "warn", "blocking": False}])
    bench.run()
    assert bench.accepted()
    assert bench.checks()["stall"] == (False, "WARN")
    assert bench.checks()["few"] == (False, "WARN")
    assert bench.receipt["decision"]["topology"] == "aggregated"


def test_an_exception_that_has_run_out(bench: Bench) -> None:
    waiver = {"gate": "stall", "reason": "batch", "owner": "batch", "expires": "2026-12-31"}
    bench.declare("Exceptions", exceptions=[waiver])
    with pytest.raises(NotAcceptedError, match=r"^the exception of stall \(batch; batch\) expired on 2026-12-31$"):
        bench.run(as_of="2027-01-01")
    assert bench.receipt["decision"]["topology"] == "disaggregated"


def test_edited_rules_are_judged_anew_without_evaluating_anew(bench: Bench) -> None:
    bench.run()
    latency = bench.rules / "latency.yaml"
    latency.write_text(latency.read_text().replace("limit: {objective: stall}", "limit: 10 s"))
    steps = [event.step_key for event in bench.run(REJUDGE).get_step_success_events()]
    assert {"declared_rules", "verdicts", "decision", "exports", "verified_receipt", "accepted"} <= set(steps)
    assert not any(step.startswith(("evaluation", "search", "cohort", "requests", "workload")) for step in steps)
    assert bench.receipt["decision"]["topology"] == "aggregated"


def test_a_decision_that_does_not_follow_from_the_verdicts_is_not_accepted(bench: Bench) -> None:
    """A check that passed earlier does not stand for one that would fail now."""
    bench.run()
    path = Path(frames_directory(), "verdicts", f"{COHORT}.parquet")
    spoiled = pl.read_parquet(path).with_columns(verdict=pl.lit("fail"), margin=pl.lit(-1.0))
    spoiled.write_parquet(path)
    with pytest.raises(StaleDecisionError, match="not that of the stored verdicts"):
        bench.run(only=["accepted"])


def test_scenarios_searched_under_other_rules_are_not_judged(bench: Bench) -> None:
    bench.run()
    stored = StoredFrames(base=frames_directory())
    names = ("scenario_matrix", "search", "gates", "preference", "buckets", "replays", "replay_scope")
    frames = {name: stored.read([name], COHORT) for name in names} | {"inputs": stored.read(["cohort"], COHORT)}
    assert verdicts(**frames)
    frames["search"] = frames["search"].with_columns(rules=pl.lit("0" * 64))
    with pytest.raises(StaleSearchError, match="run the whole plan"):
        verdicts(**frames)


def test_an_edited_rule_on_a_replayed_figure_is_judged_on_replays_made_for_it(bench: Bench) -> None:
    bench.run()
    assert bench.receipt["replay"]["which"] == "finalists"
    hard = {"id": "nobody_waits", "metric": "replayed_peak_queue", "bound": "nominal", "op": "lte", "limit": 0}
    bench.declare("Capacity", gates=[hard | {"severity": "error", "blocking": True}])
    with pytest.raises(StaleReplaysError, match="run the whole plan"):
        bench.run(JOB, only=["gates", "exceptions", "rule_set", "preference", "verdicts"])
    with pytest.raises(NotAcceptedError, match="no topology qualifies"):
        bench.run(REJUDGE)
    receipt = bench.receipt
    assert receipt["replay"]["which"] == "all"
    assert {row["scenario"] for row in receipt["replay"]["scenarios"]} == {
        row["scenario"] for row in receipt["scenarios"]
    }
    judged = [row for of in receipt["scenarios"] for row in of["verdicts"] if row["gate"] == "nobody_waits"]
    assert {row["verdict"] for row in judged} == {"fail", "refused"}
