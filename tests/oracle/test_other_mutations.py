"""Mutations beyond the five named ones: of rows, workload, provenance, rules, decision and matrix."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.oracle import main, verify
from pipelines.oracle.cache import Cache
from pipelines.oracle.structure import LANES
from tests.oracle import forging as forge
from tests.oracle.forging import Receipt, input_row, recompute, rejudge, scenarios
from tests.oracle.rejection import check, evaluated, overloaded, rejected_at


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
    recompute(receipt, lambda of: replace(of, cache=Cache(of.cache.growth_bytes / 2)))


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
