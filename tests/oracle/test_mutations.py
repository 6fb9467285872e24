"""The five named mutations, and more of their kind: each is forged up to the seal, and each is rejected by name.

A mutation is applied to a real receipt; the forger then mends sums, verdicts, decision, matrix, digests and seal as far
as the case says. The verifier must name the value that gives it away.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from pipelines.oracle import Verification, main, render_text, verify
from pipelines.oracle.parameters import Parameters
from pipelines.oracle.scenario import Knobs
from pipelines.oracle.structure import BOUNDS, LANES
from tests.oracle import forging as forge
from tests.oracle.forging import Receipt, input_row, recompute, rejudge, scenarios

OVERHEADS = ("network.registration", "network.synchronization", "network.receiver_visibility")
Mutation = Callable[[Receipt], None]


@pytest.fixture(scope="module")
def original(receipt_directory: Path) -> Receipt:
    return forge.load(receipt_directory)


@pytest.fixture
def receipt(original: Receipt) -> Receipt:
    return copy.deepcopy(original)


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


def test_the_forger_changes_nothing_by_himself(receipt: Receipt, tmp_path: Path) -> None:
    """What is rejected below is rejected for the mutation, not for the forger's handwriting."""
    recompute(receipt)
    verification = forge.verified(tmp_path, receipt)
    assert verification.passed, render_text(verification)


def evaluated(receipt: Receipt, topology: str, bound: str = "nominal") -> list[Receipt]:
    return [row["bounds"][bound] for row in scenarios(receipt, topology, "evaluated", bound)]


def overhead_s(receipt: Receipt) -> float:
    return float(sum(input_row(receipt, path)["value"] for path in OVERHEADS))


# 1. remove transfer overhead


def no_overhead_in_the_assumptions(receipt: Receipt) -> None:
    for bound in BOUNDS:
        receipt["transfer"][bound]["overhead_s"] = 0


def overhead_is_of_one_part(receipt: Receipt) -> None:
    receipt["transfer"]["overhead_inputs"] = receipt["transfer"]["overhead_inputs"][:1]


def no_overhead_in_the_lanes(receipt: Receipt) -> None:
    for bound in evaluated(receipt, "disaggregated"):
        for lanes in bound["lanes"]:
            lanes["kv_movement_s"] = forge.digits(lanes["kv_movement_s"] - overhead_s(receipt))
        forge.add_up(bound, receipt, 7, moves=True)
    rejudge(receipt)


def no_overhead_anywhere(receipt: Receipt) -> None:
    no_overhead_in_the_assumptions(receipt)
    recompute(receipt, lambda of: replace(of, transfer_overhead_s=0.0))


def no_transfer_lanes(receipt: Receipt) -> None:
    for bound in evaluated(receipt, "disaggregated"):
        for lanes in bound["lanes"]:
            lanes["transfer_wait_s"] = lanes["kv_movement_s"] = 0
        forge.add_up(bound, receipt, 7, moves=True)
    rejudge(receipt)


def no_transfer_worst(receipt: Receipt) -> None:
    for bound in evaluated(receipt, "disaggregated"):
        bound["transfer_worst_s"] = bound["transfer_envelope_share"] = 0
    rejudge(receipt)


def overheads_declared_away(receipt: Receipt) -> None:
    for path in OVERHEADS:
        input_row(receipt, path).update(value=0, high=None, conservative=0)
    no_overhead_anywhere(receipt)


REMOVE_TRANSFER_OVERHEAD = {
    "in the assumptions": (no_overhead_in_the_assumptions, r"^transfer\.nominal\.overhead_s$"),
    "in the list of overheads": (overhead_is_of_one_part, r"^transfer\.overhead_inputs$"),
    "in the lanes and their sums": (no_overhead_in_the_lanes, r"disaggregated/.*nominal\.lanes\[.*\]\.kv_movement_s$"),
    "everywhere": (no_overhead_anywhere, r"disaggregated/.*conservative\.lanes\[.*\]\.kv_movement_s$"),
    "in the loads": (no_overhead_anywhere, r"disaggregated/.*\.loads\[link\]\.utilization$"),
    "the whole transfer": (no_transfer_lanes, r"disaggregated/.*\.lanes\[.*\]\.transfer_wait_s$"),
    "in what the gates judge": (no_transfer_worst, r"disaggregated/.*nominal\.transfer_worst_s$"),
    "in the inputs, under the old fingerprint": (overheads_declared_away, r"^fingerprint$"),
}


@pytest.mark.parametrize("form", REMOVE_TRANSFER_OVERHEAD)
def test_remove_transfer_overhead(form: str, receipt: Receipt, tmp_path: Path) -> None:
    check(receipt, tmp_path, *REMOVE_TRANSFER_OVERHEAD[form])


# 2. merge the phase queues


def one_queue_in_the_parts(receipt: Receipt) -> None:
    weights = receipt["rules"]["decision"]["operating_part_weights"]
    for row in receipt["topologies"]:
        if row["topology"] == "disaggregated":
            row["parts"]["queues"] = ["requests"]
            row["operating_parts"] -= 2 * weights["queues"]
    for row in scenarios(receipt, "disaggregated"):
        row["operating_parts"] -= 2 * weights["queues"]
    rejudge(receipt)


def decode_waits_with_prefill(receipt: Receipt) -> None:
    for bound in evaluated(receipt, "disaggregated"):
        for lanes in bound["lanes"]:
            lanes["prefill_wait_s"] = forge.digits(lanes["prefill_wait_s"] + lanes["decode_wait_s"])
            lanes["decode_wait_s"] = 0


def one_load_for_both_phases(receipt: Receipt) -> None:
    for bound in evaluated(receipt, "disaggregated"):
        prefill, decode, *rest = bound["loads"]
        mixed = max(prefill["utilization"], decode["utilization"])
        bound["loads"] = [{"resource": "mixed", "utilization": mixed, "ceiling": prefill["ceiling"]}, *rest]


def all_workers_in_one_pool(receipt: Receipt) -> None:
    recompute(receipt, knobs_of=lambda knobs: Knobs("aggregated", knobs.workers), topologies=("disaggregated",))


def all_workers_in_both_phases(receipt: Receipt) -> None:
    def merged(knobs: Knobs) -> Knobs:
        return replace(knobs, workers_prefill=knobs.workers, workers_decode=knobs.workers)

    recompute(receipt, knobs_of=merged, topologies=("disaggregated",))


MERGE_THE_PHASE_QUEUES = {
    "in the operating parts": (one_queue_in_the_parts, r"^topologies\[disaggregated\]\.parts\.queues$"),
    "in the cost of operating": (one_queue_in_the_parts, r"^scenarios\[disaggregated/.*\]\.operating_parts$"),
    "in the lanes, sums kept": (decode_waits_with_prefill, r"disaggregated/.*\.lanes\[.*\]\.decode_wait_s$"),
    "in the loads": (one_load_for_both_phases, r"disaggregated/.*nominal\.loads$"),
    "in all figures": (all_workers_in_one_pool, r"disaggregated/.*\.loads$"),
    "in all figures, loads kept apart": (
        all_workers_in_both_phases,
        r"disaggregated/.*\.loads\[prefill\]\.utilization$",
    ),
}


@pytest.mark.parametrize("form", MERGE_THE_PHASE_QUEUES)
def test_merge_the_phase_queues(form: str, receipt: Receipt, tmp_path: Path) -> None:
    check(receipt, tmp_path, *MERGE_THE_PHASE_QUEUES[form])


# 3. substitute peak for effective rates


def peak_in_the_assumptions(receipt: Receipt) -> None:
    peak = input_row(receipt, "network.peak_bandwidth")["value"]
    for bound in BOUNDS:
        receipt["transfer"][bound]["bandwidth_bytes_per_s"] = peak


def peak_named_as_the_input(receipt: Receipt) -> None:
    receipt["transfer"]["bandwidth_input"] = "network.peak_bandwidth"


def peak_bandwidth_in_all_figures(receipt: Receipt) -> None:
    peak = float(input_row(receipt, "network.peak_bandwidth")["value"])
    peak_in_the_assumptions(receipt)
    recompute(receipt, lambda of: replace(of, bandwidth_bytes_per_s=peak))


def line_rate_in_all_figures(receipt: Receipt) -> None:
    line_rate = float(input_row(receipt, "network.line_rate")["value"])
    recompute(receipt, lambda of: replace(of, bandwidth_bytes_per_s=line_rate))


def peak_prefill_rate_in_all_figures(receipt: Receipt) -> None:
    peak = float(input_row(receipt, "service.prefill.peak_tokens_per_second")["value"])
    recompute(receipt, lambda of: replace(of, prefill_tokens_per_s=peak))


def nominal_in_the_conservative_bound(receipt: Receipt) -> None:
    nominal = float(input_row(receipt, "network.effective_bandwidth")["value"])
    receipt["transfer"]["conservative"]["bandwidth_bytes_per_s"] = nominal
    recompute(receipt, lambda of: replace(of, bandwidth_bytes_per_s=nominal))


def peak_declared_as_effective(receipt: Receipt) -> None:
    peak = input_row(receipt, "network.peak_bandwidth")["value"]
    input_row(receipt, "network.effective_bandwidth").update(value=peak, low=None, conservative=peak)
    peak_bandwidth_in_all_figures(receipt)


def more_than_the_line_carries(receipt: Receipt) -> None:
    beyond = 2 * input_row(receipt, "network.line_rate")["value"]
    input_row(receipt, "network.effective_bandwidth").update(value=beyond, low=None, conservative=beyond)
    for bound in BOUNDS:
        receipt["transfer"][bound]["bandwidth_bytes_per_s"] = beyond
    recompute(receipt)
    forge.name_anew(receipt)


SUBSTITUTE_PEAK = {
    "in the assumptions": (peak_in_the_assumptions, r"^transfer\.nominal\.bandwidth_bytes_per_s$"),
    "as the named input": (peak_named_as_the_input, r"^transfer\.bandwidth_input$"),
    "in all figures": (peak_bandwidth_in_all_figures, r"disaggregated/.*\.lanes\[.*\]\.kv_movement_s$"),
    "the line rate": (line_rate_in_all_figures, r"disaggregated/.*\.loads\[link\]\.utilization$"),
    "of prefill": (peak_prefill_rate_in_all_figures, r"aggregated/.*\.lanes\[.*\]\.prefill_execution_s$"),
    "nominal for conservative": (nominal_in_the_conservative_bound, r"^transfer\.conservative\.bandwidth_bytes_per_s$"),
    "in the inputs, under the old fingerprint": (peak_declared_as_effective, r"^fingerprint$"),
    "beyond the line rate, named anew": (more_than_the_line_carries, r"^inputs\[network\.effective_band.*\]\.value$"),
}


@pytest.mark.parametrize("form", SUBSTITUTE_PEAK)
def test_substitute_peak_for_effective(form: str, receipt: Receipt, tmp_path: Path) -> None:
    check(receipt, tmp_path, *SUBSTITUTE_PEAK[form])


# 4. ignore an overloaded pool


def overloaded(receipt: Receipt) -> tuple[Receipt, str]:
    """A scenario that one bound refuses for its utilization, and the bound."""
    for row in receipt["scenarios"]:
        for bound in BOUNDS:
            refusal = row["bounds"][bound]["refusal"]
            if refusal is not None and refusal["kind"] == "utilization":
                return row, bound
    raise AssertionError("no scenario is overloaded")


def borrow_latencies(receipt: Receipt) -> None:
    row, bound = overloaded(receipt)
    donor = evaluated(receipt, row["topology"])[0]
    loads = row["bounds"][bound]["loads"]
    row["bounds"][bound] = copy.deepcopy(donor) | {"loads": loads}
    rejudge(receipt)


def drop_the_overloaded_load(receipt: Receipt) -> None:
    row, bound = overloaded(receipt)
    borrow_latencies(receipt)
    donor = copy.deepcopy(evaluated(receipt, row["topology"])[0])
    row["bounds"][bound]["loads"] = donor["loads"][1:]
    rejudge(receipt)


def clip_the_overloaded_load(receipt: Receipt) -> None:
    row, bound = overloaded(receipt)
    borrow_latencies(receipt)
    loads = copy.deepcopy(evaluated(receipt, row["topology"])[0]["loads"])
    loads[0]["utilization"] = forge.digits(loads[0]["ceiling"] * 0.999)
    row["bounds"][bound]["loads"] = loads
    rejudge(receipt)


def no_ceilings(receipt: Receipt) -> None:
    def full(of: Parameters) -> Parameters:
        return replace(of, prefill_ceiling=1.0, decode_ceiling=1.0, link_ceiling=1.0)

    recompute(receipt, full)


def half_the_traffic(receipt: Receipt) -> None:
    for row in receipt["workload"]["buckets"]:
        row["rate_rps"] = float(f"{row['rate_rps'] / 2:.11e}")
    recompute(receipt)


def refusal_without_a_cause(receipt: Receipt) -> None:
    row, bound = overloaded(receipt)
    row["bounds"][bound]["refusal"] = None


def refused_yet_passing(receipt: Receipt) -> None:
    row, _ = overloaded(receipt)
    row["passes"] = True


IGNORE_AN_OVERLOADED_POOL = {
    "latencies borrowed from another scenario": (borrow_latencies, r"\.status$"),
    "its load dropped": (drop_the_overloaded_load, r"^scenarios\[.*\]\.bounds\..*\.loads$"),
    "its load clipped": (clip_the_overloaded_load, r"\.loads\[(mixed|prefill)\]\.utilization$"),
    "ceilings raised": (no_ceilings, r"\.loads\[.*\]\.ceiling$"),
    "traffic halved": (half_the_traffic, r"^workload\.buckets\[all\]\.rate_rps$"),
    "no refusal": (refusal_without_a_cause, r"\.refusal$"),
    "passes nonetheless": (refused_yet_passing, r"^scenarios\[.*\]\.passes$"),
}


@pytest.mark.parametrize("form", IGNORE_AN_OVERLOADED_POOL)
def test_ignore_an_overloaded_pool(form: str, receipt: Receipt, tmp_path: Path) -> None:
    check(receipt, tmp_path, *IGNORE_AN_OVERLOADED_POOL[form])


# 5. report modeled latency as measured


def measured_label(receipt: Receipt) -> None:
    receipt["truth_boundary"]["latency_label"] = "measured"


def measured_scenario(receipt: Receipt) -> None:
    receipt["scenarios"][-1]["bounds"]["nominal"]["label"] = "measured"


def observed_result(receipt: Receipt) -> None:
    receipt["scenarios"][0]["bounds"]["conservative"]["provenance"] = "observed"


def measured_statement(receipt: Receipt) -> None:
    receipt["truth_boundary"]["statement"] = "All latencies were measured on the production stack."


def nothing_left_to_measure(receipt: Receipt) -> None:
    receipt["truth_boundary"]["unmeasured"] = []


def percentile_in_the_reason(receipt: Receipt) -> None:
    receipt["decision"]["reason"] += "; TTFT p99 is 1.2 s"


def measurement_in_a_rejection(receipt: Receipt) -> None:
    receipt["rejected"][0]["reason"] = "measured TTFT is too high"


REPORT_MODELED_AS_MEASURED = {
    "in the truth boundary": (measured_label, r"^truth_boundary\.latency_label$"),
    "in a scenario": (measured_scenario, r"^scenarios\[.*\]\.bounds\.nominal\.label$"),
    "as provenance": (observed_result, r"^scenarios\[.*\]\.bounds\.conservative\.provenance$"),
    "in the statement": (measured_statement, r"^truth_boundary\.statement$"),
    "with nothing left to measure": (nothing_left_to_measure, r"^truth_boundary\.unmeasured$"),
    "as a percentile": (percentile_in_the_reason, r"^decision\.reason$"),
    "in a rejection": (measurement_in_a_rejection, r"^rejected\[.*\]\.reason$"),
}


@pytest.mark.parametrize("form", REPORT_MODELED_AS_MEASURED)
def test_report_modeled_latency_as_measured(form: str, receipt: Receipt, tmp_path: Path) -> None:
    check(receipt, tmp_path, *REPORT_MODELED_AS_MEASURED[form])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("latency_label", "measured"),
        ("ttft_worst_s_nominal_provenance", "observed"),
        ("goodput_conservative_provenance", "supplied"),
        ("prefill_tokens_per_second_provenance", "derived"),
        ("effective_bandwidth_bytes_per_s", "50000000000"),
        ("status_nominal", "measured"),
        ("passes", "1"),
    ],
)
def test_a_changed_cell_of_the_matrix_is_named(column: str, value: str, receipt: Receipt, tmp_path: Path) -> None:
    rows = forge.matrix_rows(receipt)
    place = next(i for i, row in enumerate(rows) if i and row[rows[0].index(column)] not in ("", value))
    rows[place][rows[0].index(column)] = value
    verification = forge.verified(tmp_path, receipt, rows)
    assert [item.where for item in verification.disagreements] == [f"matrix.csv[{rows[place][1]}].{column}"]


# and more of their kind


def lane_moved(receipt: Receipt) -> None:
    for bound in evaluated(receipt, "aggregated"):
        for lanes in bound["lanes"]:
            lanes["admission_s"] = forge.digits(lanes["admission_s"] + 0.001)
            lanes["prefill_execution_s"] = forge.digits(lanes["prefill_execution_s"] - 0.001)


def row_deleted(receipt: Receipt) -> None:
    row = next(row for row in receipt["scenarios"] if row["scenario"] != receipt["decision"]["scenario"])
    receipt["scenarios"].remove(row)
    rejudge(receipt)


def row_duplicated(receipt: Receipt) -> None:
    receipt["scenarios"].insert(1, copy.deepcopy(receipt["scenarios"][0]))
    rejudge(receipt)


def row_of_another_inventory(receipt: Receipt) -> None:
    row = copy.deepcopy(scenarios(receipt, "aggregated")[-1])
    workers = row["workers_mixed"] + 1
    row.update(
        scenario=f"aggregated/n{workers}", workers_mixed=workers, gpus=row["gpus"] // row["workers_mixed"] * workers
    )
    receipt["scenarios"].append(row)
    rejudge(receipt)


def rows_swapped(receipt: Receipt) -> None:
    rows = receipt["scenarios"]
    rows[0], rows[1] = rows[1], rows[0]


def bucket_dropped(receipt: Receipt) -> None:
    last = receipt["workload"]["buckets"].pop()["bucket"]
    receipt["workload"]["strata"] = [row for row in receipt["workload"]["strata"] if row["bucket"] != last]
    recompute(receipt)


def bucket_dropped_from_the_lanes(receipt: Receipt) -> None:
    for bound in evaluated(receipt, "chunked"):
        bound["lanes"].pop()


def stratum_renumbered(receipt: Receipt) -> None:
    bucket = receipt["workload"]["strata"][0]["bucket"]
    last = [row for row in receipt["workload"]["strata"] if row["bucket"] == bucket][-1]
    last["stratum"] = 0 if last["stratum"] else 15


def stratum_dropped(receipt: Receipt) -> None:
    receipt["workload"]["strata"].pop()
    recompute(receipt)


def stratum_split_otherwise(receipt: Receipt) -> None:
    first, second = receipt["workload"]["strata"][:2]
    first["requests"], second["requests"] = first["requests"] + 1, second["requests"] - 1
    recompute(receipt)


def observed_in_what_it_rests_on(receipt: Receipt) -> None:
    entries = receipt["decision"]["rests_on"]
    next(entry for entry in entries if entry["provenance"] == "supplied")["provenance"] = "observed"
    unobserved = sum(entry["provenance"] != "observed" for entry in entries)
    receipt["decision"]["unobserved_share"] = forge.digits(unobserved / len(entries))


def observed_in_the_inputs(receipt: Receipt) -> None:
    row = input_row(receipt, "service.decode.tokens_per_second")
    row.update(provenance="observed", source="a benchmark")
    rejudge(receipt)


def observed_without_a_source(receipt: Receipt) -> None:
    input_row(receipt, "service.decode.tokens_per_second")["provenance"] = "observed"
    rejudge(receipt)
    forge.name_anew(receipt)


def rests_on_less(receipt: Receipt) -> None:
    entries = receipt["decision"]["rests_on"]
    entries.remove(next(entry for entry in entries if entry["provenance"] == "supplied"))
    unobserved = sum(entry["provenance"] != "observed" for entry in entries)
    receipt["decision"]["unobserved_share"] = forge.digits(unobserved / len(entries))


def limit_loosened(receipt: Receipt) -> None:
    gate = next(gate for gate in receipt["rules"]["gates"] if gate["limit_source"] == "objectives.stall")
    gate["limit"] *= 100
    rejudge(receipt)


def limit_loosened_in_the_verdicts(receipt: Receipt) -> None:
    for row in receipt["scenarios"]:
        for verdict in row["verdicts"]:
            if verdict["verdict"] == "fail" and verdict["margin"] is not None:
                verdict.update(limit=verdict["figure"], margin=0, verdict="pass")


def verdict_dropped(receipt: Receipt) -> None:
    receipt["scenarios"][0]["verdicts"].pop()


def failing_verdict_turned(receipt: Receipt) -> None:
    row = next(row for row in receipt["scenarios"] if not row["passes"])
    next(verdict for verdict in row["verdicts"] if verdict["verdict"] != "pass")["verdict"] = "pass"


def gate_silenced(receipt: Receipt) -> None:
    gate = next(gate for gate in receipt["rules"]["gates"] if gate["limit_source"] != "declared")
    gate.update(applies=False, limit=None)
    rejudge(receipt)


def transfer_gate_on_every_topology(receipt: Receipt) -> None:
    gate = next(gate for gate in receipt["rules"]["gates"] if gate["metric"] == "transfer_envelope_share")
    gate["topologies"] = ["aggregated", "chunked", "disaggregated"]
    rejudge(receipt)


def topology_unexamined(receipt: Receipt) -> None:
    for gate in receipt["rules"]["gates"]:
        if "chunked" in gate["topologies"]:
            gate["topologies"].remove("chunked")
    rejudge(receipt)


def limit_of_no_ratio(receipt: Receipt) -> None:
    gate = next(
        gate for gate in receipt["rules"]["gates"] if gate["unit"] == "ratio" and gate["limit_source"] == "declared"
    )
    gate["limit"] = 95
    rejudge(receipt)


def another_choice(receipt: Receipt) -> None:
    other = next(row for row in receipt["scenarios"]
                 if row["passes"] and row["scenario"] != receipt["decision"]["scenario"])  # fmt: skip
    receipt["decision"].update(scenario=other["scenario"], topology=other["topology"])


def no_choice(receipt: Receipt) -> None:
    receipt["decision"].update(outcome="no_topology_qualifies", scenario=None, topology=None)


def rejection_dropped(receipt: Receipt) -> None:
    receipt["rejected"].pop()


def another_miss(receipt: Receipt) -> None:
    row = receipt["rejected"][0]
    other = next(one for one in scenarios(receipt, row["topology"]) if one["scenario"] != row["scenario"])
    row["scenario"] = other["scenario"]


def kv_of_two_bytes_less(receipt: Receipt) -> None:
    recompute(receipt, lambda of: replace(of, kv_bytes_per_token=of.kv_bytes_per_token / 2))


def poisson_arrivals(receipt: Receipt) -> None:
    receipt["workload"]["buckets"][0]["arrival_scv"] = None
    recompute(receipt)


def more_digits(receipt: Receipt) -> None:
    bound = evaluated(receipt, "aggregated")[0]
    bound["ttft_worst_s"] = float(f"{bound['ttft_worst_s']:.9e}") * (1 + 1e-12)


def latency_in_a_refused_row(receipt: Receipt) -> None:
    row, bound = overloaded(receipt)
    row["bounds"][bound]["goodput"] = 0.5


OTHERS = {
    "a lane moved into another": (lane_moved, r"aggregated/.*\.lanes\[.*\]\.admission_s$"),
    "a row deleted": (row_deleted, r"^scenarios$"),
    "a row duplicated": (row_duplicated, r"^scenarios\[1\]\.scenario$"),
    "a row more than the inventory holds": (row_of_another_inventory, r"^scenarios$"),
    "rows swapped": (rows_swapped, r"^scenarios\[0\]\.scenario$"),
    "a bucket dropped": (bucket_dropped, r"^workload\.(requests|buckets\[all\]\.prompt_tokens_mean)$"),
    "a bucket dropped from the lanes": (bucket_dropped_from_the_lanes, r"chunked/.*\.lanes$"),
    "a stratum renumbered": (stratum_renumbered, r"^workload\.strata\[.*\]\.stratum$"),
    "a stratum dropped": (stratum_dropped, r"^workload\.strata\[.*\]$"),
    "a request moved to another stratum": (stratum_split_otherwise, r"^workload\.buckets\[.*\]\.prompt_tokens_mean$"),
    "observed in what it rests on": (observed_in_what_it_rests_on, r"^decision\.rests_on\[.*\]\.provenance$"),
    "observed in the inputs, under the old fingerprint": (observed_in_the_inputs, r"^fingerprint$"),
    "observed without a source": (observed_without_a_source, r"^inputs\[.*\]\.source$"),
    "rests on less": (rests_on_less, r"^decision\.rests_on$"),
    "a limit loosened with its verdicts": (limit_loosened, r"^rules\.gates\[.*\]\.limit$"),
    "limits loosened in the verdicts": (limit_loosened_in_the_verdicts, r"\.verdicts\[.*\]\.limit$"),
    "a verdict dropped": (verdict_dropped, r"^scenarios\[.*\]\.verdicts$"),
    "a verdict turned": (failing_verdict_turned, r"\.verdicts\[.*\]\.verdict$"),
    "a gate silenced": (gate_silenced, r"^rules\.gates\[.*\]\.applies$"),
    "a transfer gate on topologies without one": (transfer_gate_on_every_topology, r"^rules\.gates\[.*\]\.topologies$"),
    "a topology that no gate examines": (topology_unexamined, r"^rules\.gates$"),
    "a ratio above 1 as a limit": (limit_of_no_ratio, r"^rules\.gates\[.*\]\.limit$"),
    "another choice": (another_choice, r"^decision\.scenario$"),
    "no choice": (no_choice, r"^decision\.outcome$"),
    "a rejection dropped": (rejection_dropped, r"^rejected$"),
    "another nearest miss": (another_miss, r"^rejected\[.*\]\.scenario$"),
    "half the KV bytes": (kv_of_two_bytes_less, r"\.loads\[kv_\w+\]\.utilization$"),
    "no variation of arrivals": (poisson_arrivals, r"^workload\.buckets\[all\]\.arrival_scv$"),
    "more digits than were declared": (more_digits, r"\.ttft_worst_s$"),
    "a latency in a refused row": (latency_in_a_refused_row, r"\.goodput$"),
}


@pytest.mark.parametrize("form", OTHERS)
def test_other_mutations(form: str, receipt: Receipt, tmp_path: Path) -> None:
    check(receipt, tmp_path, *OTHERS[form])


@pytest.mark.parametrize("lane", LANES)
def test_every_lane_is_recomputed(lane: str, receipt: Receipt, tmp_path: Path) -> None:
    """One lane of one bucket, changed in its last digits."""
    bound = evaluated(receipt, "disaggregated")[0]
    lanes = bound["lanes"][0]
    lanes[f"{lane}_s"] = forge.digits(lanes[f"{lane}_s"] + max(2e-9 * lanes[f"{lane}_s"], 1e-12))
    rejected_at(forge.verified(tmp_path, receipt), rf"disaggregated/.*\.lanes\[.*\]\.{lane}_s$")


def test_a_matrix_of_other_bytes_is_rejected(receipt: Receipt, tmp_path: Path) -> None:
    rows = forge.matrix_rows(receipt)
    raw = forge.attach(receipt, rows)
    path = forge.write(tmp_path, receipt, raw.replace(b"\r\n", b"\n"))
    rejected_at(verify(path), r"^matrix\.sha256$")
    assert main([str(path)]) == 3


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        (lambda rows: rows[:-1], r"^matrix\.csv\[rows\]$"),
        (lambda rows: [rows[0], *rows[1:][::-1]], r"^matrix\.csv\[.*\]\.scenario$"),
        (lambda rows: [row[:-1] for row in rows], r"^matrix\.columns$"),
        (lambda rows: [[*row[:4], *row[6:]] for row in rows], r"^matrix\.csv\[header\]$"),
        (lambda rows: [rows[0], rows[1][:-1], *rows[2:]], r"^matrix\.csv\[aggregated/n1\]$"),
    ],
    ids=["a row less", "rows reversed", "a column less", "a value and its provenance less", "a cell less"],
)
def test_a_matrix_of_another_form_is_rejected(
    change: Callable[[list[list[str]]], list[list[str]]], pattern: str, receipt: Receipt, tmp_path: Path
) -> None:
    rejected_at(forge.verified(tmp_path, receipt, change(forge.matrix_rows(receipt))), pattern)
