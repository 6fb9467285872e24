"""What Dagster is told: the chain of assets, their versions, gates as checks."""

import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

from pipelines.assets.frames_io import FrameStore, content_version
from pipelines.definitions import definitions

CHAIN = [
    ("cohort", "requests"),
    ("requests", "buckets"),
    ("requests", "windows"),
    ("windows", "receipt"),
    ("buckets", "search"),
    ("gates", "search"),
    ("preference", "search"),
    ("search", "evaluation/aggregated"),
    ("search", "evaluation/routed"),
    ("buckets", "evaluation/aggregated"),
    ("outputs", "evaluation/aggregated"),
    ("buckets", "evaluation/chunked"),
    ("buckets", "evaluation/disaggregated"),
    ("evaluation/aggregated", "scenario_matrix"),
    ("evaluation/chunked", "scenario_matrix"),
    ("evaluation/disaggregated", "scenario_matrix"),
    ("evaluation/routed", "scenario_matrix"),
    ("requests", "replays"),
    ("scenario_matrix", "replays"),
    ("gates", "replays"),
    ("search", "replays"),
    ("replays", "verdicts"),
    ("replay_scope", "verdicts"),
    ("replays", "receipt"),
    ("replay_sample", "receipt"),
    ("replay_scope", "receipt"),
    ("scenario_matrix", "verdicts"),
    ("gates", "verdicts"),
    ("verdicts", "decision"),
    ("decision", "receipt"),
    ("decision", "acceptance"),
    ("rule_set", "acceptance"),
    ("acceptance", "receipt"),
    ("exceptions", "receipt"),
    ("verdicts", "accepted"),
    ("acceptance", "accepted"),
    ("verified_receipt", "accepted"),
    ("decision", "speaking"),
    ("speaking", "receipt"),
    ("sensitivity", "receipt"),
    ("break_even", "receipt"),
    ("workers_less", "receipt"),
    ("decision", "matrix"),
    ("receipt", "verified_receipt"),
    ("matrix", "verified_receipt"),
]
GATES = {
    "ttft_worst",
    "tpot_worst",
    "stall",
    "e2e_worst",
    "goodput",
    "below_ceilings_conservative",
    "transfer_reserve",
    "transfer_envelope",
}


def key(name: str) -> dg.AssetKey:
    return dg.AssetKey(name.split("/"))


@pytest.fixture(scope="module")
def graph(project: Path) -> Any:
    found = definitions(project / "rules")
    dg.Definitions.validate_loadable(found)
    return found.resolve_asset_graph()


@pytest.fixture(scope="module")
def instance(planned_home: Path, planned: dict[str, Any]) -> Any:
    """The instance on which every bundled cohort was planned."""
    assert planned
    with dg.DagsterInstance.from_config(str(planned_home / "dagster")) as found:
        yield found


def materialization(instance: Any, name: str, partition: str) -> Any:
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key(name), asset_partitions=[partition]), limit=1
    ).records
    return records[0]


@pytest.mark.parametrize(("upstream", "downstream"), CHAIN)
def test_the_chain_can_be_followed_back(upstream: str, downstream: str, graph: Any) -> None:
    assert key(upstream) in graph.get(key(downstream)).parent_keys


def test_every_gate_is_a_described_check_on_the_acceptance(graph: Any) -> None:
    checks = {found.name: graph.get(found) for found in graph.asset_check_keys}
    assert set(checks) == GATES
    assert {found.key.asset_key for found in checks.values()} == {key("accepted")}
    assert "objectives.ttft" in checks["ttft_worst"].description


def test_every_asset_has_a_group_a_code_version_and_a_description(graph: Any) -> None:
    for found in graph.get_all_asset_keys():
        node = graph.get(found)
        assert node.group_name in ("cohort", "evaluate", "judge", "export", "accept")
        assert node.code_version
        assert node.description


def test_an_edited_rule_changes_the_code_version_of_the_rules_alone(graph: Any, project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "rules", tmp_path / "rules", ignore=shutil.ignore_patterns("tests"))
    rule = tmp_path / "rules" / "goodput.yaml"
    rule.write_text(rule.read_text().replace("limit: {objective: attainment}", "limit: 0.5"))
    edited = definitions(tmp_path / "rules").resolve_asset_graph()
    changed = {
        found.to_user_string()
        for found in graph.get_all_asset_keys()
        if graph.get(found).code_version != edited.get(found).code_version
    }
    assert changed == {"gates", "exceptions", "rule_set", "preference", "accepted"}


def test_telemetry_is_off(instance: Any, planned_home: Path) -> None:
    assert instance.telemetry_enabled is False
    assert "enabled: false" in (planned_home / "dagster" / "dagster.yaml").read_text()


def test_every_materialization_has_schema_rows_and_versions(instance: Any, graph: Any) -> None:
    for found in graph.get_all_asset_keys():
        record = materialization(instance, found.to_user_string(), "bursty-documents")
        shown = record.asset_materialization.metadata
        schema = shown.get("dagster/column_schema") or graph.get(found).metadata["dagster/column_schema"]
        assert schema, found
        # the cohort does not compare routed, and the shipped rules have no exceptions and no gates on the decision
        empty = found.to_user_string() in ("evaluation/routed", "exceptions", "acceptance")
        assert (shown["dagster/row_count"].value == 0) == empty, found
        tags = record.asset_materialization.tags
        assert tags["dagster/data_version"]
        assert tags["dagster/code_version"]


def test_every_headline_value_is_metadata_of_the_decision(instance: Any) -> None:
    shown = materialization(instance, "decision", "bursty-documents").asset_materialization.metadata
    assert shown["chosen_topology"].value == "disaggregated"
    for topology in ("aggregated", "chunked", "disaggregated"):
        for figure in ("ttft_worst_s", "tpot_worst_s", "stall_s", "goodput", "utilization_worst", "headroom"):
            assert isinstance(shown[f"{topology}/{figure}"].value, float)
        assert shown[f"{topology}/dominant_queue"].value in ("prefill", "transfer", "decode")
    assert 0 < shown["disaggregated/transfer_envelope_share"].value < 1


def test_a_plan_where_nothing_qualifies_shows_failed_checks_and_still_exports(
    instance: Any, planned: dict[str, Any]
) -> None:
    shown = materialization(instance, "decision", "overloaded")
    run = shown.run_id
    found = instance.all_logs(run, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    passed = {
        event.dagster_event.event_specific_data.check_name: event.dagster_event.event_specific_data.passed
        for event in found
    }
    assert set(passed) == GATES
    assert {name for name, held in passed.items() if held} == {"e2e_worst"}  # which does not apply
    assert materialization(instance, "verified_receipt", "overloaded").run_id == run
    assert (planned["overloaded"].directory / "receipt.json").is_file()


def test_the_same_content_has_the_same_version_however_it_is_chunked() -> None:
    whole = pl.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"]})
    pieces = pl.concat([whole[:1], whole[1:]], rechunk=False)
    assert content_version(whole) == content_version(pieces)
    assert content_version(whole) != content_version(whole[:2])


def test_a_frame_is_stored_and_read_back_per_partition(tmp_path: Path) -> None:
    store = FrameStore(base=str(tmp_path))
    frame = pl.DataFrame({"a": [1.5, None]})
    store.handle_output(dg.build_output_context(asset_key=key("x/y"), partition_key="one"), frame)
    read = store.load_input(dg.build_input_context(asset_key=key("x/y"), partition_key="one"))
    assert read.equals(frame)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")] == ["x/y/one.parquet"]


def test_faulty_rules_of_one_cohort_leave_the_others_alone(project: Path, tmp_path: Path) -> None:
    for name, text in (("broken", "gates: [\n"), ("sound", OWN)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "own.yaml").write_text(text)
    found = definitions(project / "rules", [tmp_path / "broken", tmp_path / "sound", tmp_path / "missing"])
    assert {one.name for one in found.resolve_asset_graph().asset_check_keys} == GATES | {"few"}


OWN = """\
apiVersion: phaseledger/v1
kind: Capacity
metadata: {name: own, owner: team}
gates:
  - {id: few, metric: gpus, bound: nominal, op: lte, limit: 4, severity: error, blocking: true}
"""
