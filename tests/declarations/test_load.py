"""A good cohort and good rules become the documented objects."""

import dataclasses
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.declarations import (
    TOPOLOGIES,
    Cohort,
    DeclarationProblems,
    Gate,
    Input,
    Problem,
    bundled,
    load_cohort,
    load_declarations,
    load_rules,
)
from pipelines.declarations.quantities import QUANTITIES
from pipelines.declarations.typed import DecisionRule

GOOD = Path(__file__).parent / "good"
ARRIVALS = {"requests.rate", "requests.concurrency", "requests.arrival_scv"}
NOT_CHOSEN = {
    "model.cache",
    "inventory.kv_tokens_per_worker",
    "inventory.gpu_memory",
    "inventory.memory_utilization",
    "inventory.weights_per_worker",
    "inventory.activations_per_worker",
}
"""Other ways to state the cache of the model and the memory of a worker."""
OPTIONAL = {
    *(quantity.path for quantity in QUANTITIES if quantity.path.startswith("separated.")),
    "service.when_memory_is_full",
    "service.swap_bandwidth",
    "service.prefill.curve",
    "service.decode.curve",
    "inventory.gpu_hour_price",
    "objectives.e2e",
    "objectives.buckets",
    "topologies.routed.threshold_tokens",
    "topologies.routed.chunk_tokens",
}
"""What the good cohort leaves out: tests/declarations/test_routed.py is about them."""


def rewritten(directory: Path, *edits: tuple[str, str]) -> Path:
    text = (GOOD / "cohort.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (directory / "cohort.yaml").write_text(text, encoding="utf-8")
    (directory / "requests.csv").write_bytes((GOOD / "requests.csv").read_bytes())
    return directory


def row(cohort: Cohort, path: str) -> Input:
    return next(row for row in cohort.inputs if row.path == path)


def without(cohort: Cohort) -> set[str]:
    return {quantity.path for quantity in QUANTITIES} - {row.path for row in cohort.inputs}


def test_a_cohort_is_found_by_its_file_and_by_its_directory() -> None:
    assert load_cohort(GOOD) == load_cohort(GOOD / "cohort.yaml") == load_cohort(str(GOOD))


def test_what_a_cohort_is_called_and_made_of() -> None:
    cohort = load_cohort(GOOD)
    assert (cohort.name, cohort.title, cohort.model_name) == (
        "moderate-chat",
        "Moderate chat on four workers",
        "example-8b",
    )
    assert cohort.directory == GOOD
    assert cohort.trace.file == GOOD / "requests.csv"
    assert (cohort.trace.format, cohort.trace.provenance, cohort.trace.source) == ("azure-llm", "supplied", None)
    assert cohort.trace.note == "written by hand"
    assert cohort.bucket_edges_tokens == (512, 2048)
    assert cohort.topologies == ("aggregated", "chunked", "disaggregated")
    assert cohort.chunk_tokens == (512, 1024, 2048)


def test_rows_stand_in_the_order_of_the_registry() -> None:
    paths = [row.path for row in load_cohort(GOOD).inputs]
    assert paths == [quantity.path for quantity in QUANTITIES if quantity.path in paths]
    assert without(load_cohort(GOOD)) == ARRIVALS | NOT_CHOSEN | OPTIONAL | {
        "service.decode.peak_tokens_per_second",
        "network.transfer_curve",
        "objectives.transfer_reserve",
    }


def test_the_conservative_bound_is_the_end_that_hurts() -> None:
    cohort = load_cohort(GOOD)
    rate = row(cohort, "service.prefill.tokens_per_second")
    assert (rate.value, rate.low, rate.high, rate.conservative) == (11800.0, 10400.0, None, 10400.0)
    overhead = row(cohort, "service.prefill.overhead")
    assert (overhead.value, overhead.high, overhead.conservative) == (0.008, 0.012, 0.012)
    assert row(cohort, "model.layout_factor").conservative == 1.1
    assert row(cohort, "network.links").conservative == 2
    assert row(cohort, "service.dispatch").conservative == "least_loaded"


def test_an_end_that_does_not_hurt_changes_nothing(tmp_path: Path) -> None:
    directory = rewritten(tmp_path, ("{value: 11800, low: 10400,", "{value: 11800, high: 12000,"))
    rate = row(load_cohort(directory), "service.prefill.tokens_per_second")
    assert (rate.high, rate.conservative) == (12000.0, 11800.0)


def test_counts_are_integers_and_other_numbers_are_floats(tmp_path: Path) -> None:
    cohort = load_cohort(rewritten(tmp_path, ("layers: 32", "layers: 32.0")))
    for declared in cohort.inputs:
        kind = {"count": int, "text": str}.get(declared.unit, float)
        assert type(declared.value) is kind, declared.path
        assert type(declared.conservative) is kind, declared.path


def test_provenance_is_the_quantity_s_own_or_that_of_its_block() -> None:
    cohort = load_cohort(GOOD)
    assert row(cohort, "model.layers").source == "config.json of the served model"
    assert row(cohort, "model.layout_factor").provenance == "supplied"
    rate = row(cohort, "service.prefill.tokens_per_second")
    assert (rate.provenance, rate.source, rate.note) == ("observed", "prefill benchmark", "4k prompts")


def test_what_is_not_declared_takes_its_default_and_says_so() -> None:
    cohort = load_cohort(GOOD)
    for path in (
        "service.mixed_step_penalty",
        "service.prefill.seconds_per_token_squared",
        "service.prefill.prefix_hit_ratio",
        "network.overlap",
    ):
        assert row(cohort, path) == Input(
            path, row(cohort, path).unit, 0.0, None, None, 0.0, "supplied", None, "not declared: default"
        )


def test_what_full_memory_leads_to_stands_behind_the_dispatch(tmp_path: Path) -> None:
    policy = "  when_memory_is_full: swap\n  swap_bandwidth: {value: 160 Gbit/s, low: 12 GB/s, provenance: supplied}\n"
    edit = ("  dispatch: least_loaded\n", f"  dispatch: shortest_queue\n{policy}")
    cohort = load_cohort(rewritten(tmp_path, edit))
    paths = [one.path for one in cohort.inputs]
    first = paths.index("service.dispatch")
    assert paths[first + 1 : first + 3] == ["service.when_memory_is_full", "service.swap_bandwidth"]
    assert [row(cohort, path).value for path in paths[first : first + 2]] == ["shortest_queue", "swap"]
    bandwidth = row(cohort, "service.swap_bandwidth")
    assert (bandwidth.unit, bandwidth.value, bandwidth.conservative) == ("B/s", 20e9, 12e9)


def test_a_cohort_without_disaggregated_needs_and_shows_no_network(tmp_path: Path) -> None:
    directory = rewritten(
        tmp_path,
        ("  disaggregated: {}\n", ""),
        ("  first_token_source: decode\n", ""),
        ("  ttft_growth: 60 ms\n", ""),
        ("  stall: 400 ms\n", ""),
        ("  chunked: {chunk_tokens: [512, 1024, 2048]}\n", ""),
    )
    cohort = load_cohort(directory)
    assert cohort.topologies == ("aggregated",)
    assert cohort.chunk_tokens == ()
    source = row(cohort, "service.first_token_source")
    assert (source.value, source.note) == ("decode", "not declared: default")
    hidden = {quantity.path for quantity in QUANTITIES if quantity.block == "network"}
    assert without(cohort) == hidden | ARRIVALS | NOT_CHOSEN | OPTIONAL | {
        "objectives.stall",
        "objectives.ttft_growth",
        "objectives.transfer_reserve",
        "service.decode.peak_tokens_per_second",
        "topologies.chunked.chunk_tokens",
    }


def test_the_same_in_other_units_is_the_same_cohort(tmp_path: Path) -> None:
    other = rewritten(
        tmp_path,
        ("18 GB/s", "144 Gbit/s"),
        ("40 GiB", "40960 MiB"),
        ("800 ms", "0.8 s"),
        ("0.95", "95 %"),
        ("attainment: 95 %\n  provenance: supplied", "provenance: supplied\n  attainment: 95 %"),
    )
    assert load_cohort(other).inputs == load_cohort(GOOD).inputs


def test_the_shipped_rules_are_the_documented_gates() -> None:
    rules = load_rules(bundled("rules"))
    assert [(gate.file, gate.id) for gate in rules.gates] == [
        ("capacity.yaml", "below_ceilings_conservative"),
        ("goodput.yaml", "goodput"),
        ("latency.yaml", "ttft_worst"),
        ("latency.yaml", "tpot_worst"),
        ("latency.yaml", "stall"),
        ("latency.yaml", "e2e_worst"),
        ("transfer.yaml", "transfer_reserve"),
        ("transfer.yaml", "transfer_envelope"),
    ]
    assert all(gate.blocking and gate.rationale and gate.owner == "serving-platform" for gate in rules.gates)
    assert rules.gates[0].limit == 1.0
    assert (rules.gates[2].limit, rules.gates[2].objective, rules.gates[2].topologies) == (None, "ttft", TOPOLOGIES)
    assert rules.gates[6].topologies == rules.gates[7].topologies == ("disaggregated", "routed")
    weights = dict.fromkeys(("pools", "queues", "state_transfers", "failure_edges"), 1.0)
    assert rules.decision == DecisionRule(("operating_parts", "gpus", "margin"), weights)


def test_limits_are_in_si_units_and_files_in_order(tmp_path: Path) -> None:
    head = "apiVersion: phaseledger/v1\nkind: {kind}\nmetadata: {{name: n, owner: o}}\n"
    gate = "gates:\n  - {{id: {id}, metric: {metric}, bound: nominal, op: lte, limit: {limit}, severity: error, blocking: true}}\n"
    decision = (bundled("rules") / "decision.yaml").read_text(encoding="utf-8")
    (tmp_path / "b.yml").write_text(
        (head + gate).format(kind="Capacity", id="gpus", metric="gpus", limit=4), encoding="utf-8"
    )
    late = (head + gate).format(kind="LatencyObjective", id="z_first", metric="stall", limit="400 ms")
    (tmp_path / "a.yaml").write_text(f"{late}---\n{decision}", encoding="utf-8")
    (tmp_path / ".hidden.yaml").write_text("not: read\n", encoding="utf-8")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.yaml").write_text("not: read\n", encoding="utf-8")
    gates = load_rules(tmp_path).gates
    assert [(gate.file, gate.id, gate.limit) for gate in gates] == [("a.yaml", "z_first", 0.4), ("b.yml", "gpus", 4.0)]
    assert isinstance(gates[0], Gate)


def test_both_are_loaded_together() -> None:
    cohort, rules = load_declarations(GOOD, bundled("rules"))
    assert cohort == load_cohort(GOOD)
    assert rules == load_rules(bundled("rules"))


def test_declarations_are_frozen_and_survive_pickling() -> None:
    cohort, rules = load_declarations(GOOD, bundled("rules"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        cohort.name = "other"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps((cohort, rules))) == (cohort, rules)
    problems = DeclarationProblems([Problem("b", 2, 1, "p", "m"), Problem("a", 9, 9, "", "m", "h")])
    assert str(pickle.loads(pickle.dumps(problems))) == str(problems) == "a:9:9: m (hint: h)\nb:2:1: p: m"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read_is_a_problem(tmp_path: Path) -> None:
    directory = rewritten(tmp_path)
    for name in ("requests.csv", "cohort.yaml"):
        (directory / name).chmod(0)
        with pytest.raises(DeclarationProblems, match="Permission denied"):
            load_cohort(directory)


def test_a_pipe_in_place_of_a_trace_does_not_block(tmp_path: Path) -> None:
    directory = rewritten(tmp_path, ("file: requests.csv", "file: pipe"))
    os.mkfifo(directory / "pipe")
    with pytest.raises(DeclarationProblems, match="is not a regular file"):
        load_cohort(directory)


def test_files_are_shown_as_they_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeclarationProblems) as caught:
        load_declarations("cohorts/none", "no/rules")
    assert [problem.file for problem in caught.value.problems] == ["cohorts/none", "no/rules"]


def test_only_what_is_shipped_is_bundled() -> None:
    assert (bundled("schemas") / "cohort.v1.schema.json").is_file()
    with pytest.raises(ValueError, match="expected one of schemas, rules, cohorts"):
        bundled("../secrets")


def test_the_room_loads_without_the_heavy_packages() -> None:
    heavy = "{'dagster', 'polars', 'pandera', 'numpy'}"
    code = f"import sys, pipelines.declarations; sys.exit(str({heavy} & set(sys.modules)) if {heavy} & set(sys.modules) else 0)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr == ""
