"""The five named mutations, each in several forms: each is forged up to the seal, and each is rejected by name.

A mutation is applied to a real receipt; the forger then mends sums, verdicts, decision, matrix, digests and seal as far
as the case says. The verifier must name the value that gives it away.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.oracle import render_text
from pipelines.oracle.names import BOUNDS
from pipelines.oracle.parameters import Parameters
from pipelines.oracle.scenario import Knobs
from tests.oracle import forging as forge
from tests.oracle.forging import Receipt, input_row, recompute, rejudge, scenarios
from tests.oracle.rejection import check, evaluated, overloaded

OVERHEADS = ("network.registration", "network.synchronization", "network.receiver_visibility")


def test_the_forger_changes_nothing_by_himself(receipt: Receipt, tmp_path: Path) -> None:
    """What is rejected below is rejected for the mutation, not for the forger's handwriting."""
    recompute(receipt)
    verification = forge.verified(tmp_path, receipt)
    assert verification.passed, render_text(verification)


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


def _workers(knobs: Knobs) -> int:
    return (knobs.workers_prefill or 0) + (knobs.workers_decode or 0)


def all_workers_in_one_pool(receipt: Receipt) -> None:
    recompute(receipt, mistaken=lambda knobs: Knobs("aggregated", _workers(knobs)), topologies=("disaggregated",))


def all_workers_in_both_phases(receipt: Receipt) -> None:
    def merged(knobs: Knobs) -> Knobs:
        return replace(knobs, workers_prefill=_workers(knobs), workers_decode=_workers(knobs))

    recompute(receipt, mistaken=merged, topologies=("disaggregated",))


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
