"""The receipt as JSON: canonical, sealed, complete, and silent about what it does not know."""

import hashlib
import json
import math
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
import rfc8785

from pipelines.frames.canonical import canonical_bytes
from pipelines.frames.evaluation import LANES
from pipelines.oracle import verify
from pipelines.planning.search import kept_scenarios
from pipelines.receipts.build import build_receipt
from tests.plans import row_of
from tests.receipts.conftest import PRICED, ROUTED, Built

LATENCIES = (
    "ttft_worst_s",
    "ttft_worst_bucket",
    "tpot_worst_s",
    "tpot_worst_bucket",
    "e2e_worst_s",
    "stall_s",
    "goodput",
    "dominant_queue",
    "decode_batch",
    "transfer_worst_s",
    "transfer_envelope_share",
    "ttft_judged_bucket",
    "tpot_judged_bucket",
    "e2e_judged_bucket",
    "cost_per_million_tokens",
)


@pytest.fixture(params=["good", "hopeless", "one_pool", "paced", "looped", "measured", "routed"])
def any_built(request: pytest.FixtureRequest) -> Built:
    found: Built = request.getfixturevalue(request.param)
    return found


def bounds(receipt: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    for scenario in receipt["scenarios"]:
        for bound in ("nominal", "conservative"):
            yield scenario, bound, scenario["bounds"][bound]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, f"{path}.{key}")
    elif isinstance(value, list):
        for place, below in enumerate(value):
            yield from leaves(below, f"{path}[{place}]")
    else:
        yield path, value


class TestBytes:
    def test_it_is_its_own_canonical_form(self, any_built: Built) -> None:
        data = canonical_bytes(any_built.receipt)
        assert canonical_bytes(json.loads(data)) == data
        assert b"\n" not in data
        assert list(json.loads(data)) == sorted(any_built.receipt)

    def test_the_seal_is_the_digest_of_everything_else(self, any_built: Built) -> None:
        rest = {name: value for name, value in any_built.receipt.items() if name != "seal"}
        assert any_built.receipt["seal"] == hashlib.sha256(rfc8785.dumps(rest)).hexdigest()

    def test_the_fingerprint_is_the_digest_of_the_question(self, any_built: Built) -> None:
        receipt = any_built.receipt
        workload = receipt["workload"]
        question = {"inputs": receipt["inputs"]} | {
            name: workload[name] for name in ("requests_sha256", "bucket_edges_tokens")
        }
        assert receipt["fingerprint"] == hashlib.sha256(rfc8785.dumps(question)).hexdigest()

    def test_the_digest_of_the_requests(self, good: Built) -> None:
        """Column after column, little end first: arrivals in ns since the first, eight bytes each; prompts, cached, outputs, four each."""
        arrivals = [at * 10_000_000 for at in (0, 12, 31, 48, 70, 86, 115, 130)]
        prompts = [374, 1420, 96, 3051, 640, 2048, 511, 780]
        outputs = [44, 180, 212, 87, 150, 1, 96, 260]
        data = b"phaseledger requests v2\n" + struct.pack("<8q24i", *arrivals, *prompts, *[0] * 8, *outputs)
        assert good.receipt["workload"]["requests_sha256"] == hashlib.sha256(data).hexdigest()

    def test_the_matrix_it_names_is_the_matrix_it_comes_with(self, any_built: Built) -> None:
        named = any_built.receipt["matrix"]
        assert named["sha256"] == hashlib.sha256(any_built.matrix).hexdigest()
        assert named["rows"] == len(any_built.receipt["scenarios"]) == len(any_built.rows)
        assert named["columns"] == list(any_built.rows[0])

    def test_building_it_again_changes_nothing(self, good: Built) -> None:
        receipt, matrix = build_receipt(good.plan)
        assert (canonical_bytes(receipt), matrix) == (canonical_bytes(good.receipt), good.matrix)

    def test_another_value_gives_another_seal_and_fingerprint(
        self, good: Built, built_with: Callable[..., Built]
    ) -> None:
        other = built_with(("admission: {value: 2 ms", "admission: {value: 2.0001 ms")).receipt
        assert other["seal"] != good.receipt["seal"]
        assert other["fingerprint"] != good.receipt["fingerprint"]

    def test_another_rule_gives_another_seal_but_asks_the_same_question(self, good: Built, project: Any) -> None:
        plan = good.plan
        relaxed = plan.gates.with_columns(owner=plan.gates["owner"] + "-two")
        receipt, _ = build_receipt(type(plan)(**vars(plan) | {"gates": relaxed}))
        assert receipt["seal"] != good.receipt["seal"]
        assert receipt["fingerprint"] == good.receipt["fingerprint"]


class TestContents:
    def test_it_holds_against_its_schema(self, any_built: Built, project: Any) -> None:
        schema = json.loads((project / "schemas" / "topology-receipt.v1.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(schema).validate(any_built.receipt)

    def test_the_verifier_agrees(self, any_built: Built, tmp_path: Any) -> None:
        (tmp_path / "receipt.json").write_bytes(canonical_bytes(any_built.receipt))
        (tmp_path / "matrix.csv").write_bytes(any_built.matrix)
        verification = verify(tmp_path / "receipt.json", tmp_path / "matrix.csv")
        assert verification.disagreements == []

    def test_a_refused_bound_has_no_latency(self, hopeless: Built) -> None:
        refused = [shown for _, _, shown in bounds(hopeless.receipt) if shown["status"] == "refused"]
        assert {shown["refusal"]["kind"] for shown in refused} >= {"utilization", "prefill_starved"}
        for shown in refused:
            assert {name: shown[name] for name in LATENCIES} == dict.fromkeys(LATENCIES)
            assert shown["lanes"] == []
            assert set(shown["refusal"]) == {"kind", "resource", "figure", "limit"}

    def test_an_evaluated_bound_has_no_refusal_and_all_lanes(self, any_built: Built) -> None:
        buckets = [row["bucket"] for row in any_built.receipt["workload"]["buckets"][1:]]
        for scenario, _, shown in bounds(any_built.receipt):
            if shown["status"] == "refused":
                continue
            absent = {name for name in LATENCIES if shown[name] is None}
            unpriced = {"cost_per_million_tokens"} if any_built.receipt["cohort"]["title"] != PRICED else set()
            moving = scenario["topology"] in ("disaggregated", "routed")
            assert absent == unpriced | (set() if moving else {"transfer_worst_s", "transfer_envelope_share"})
            assert shown["refusal"] is None
            assert [lanes["bucket"] for lanes in shown["lanes"]] == buckets

    def test_the_exported_lanes_add_up(self, any_built: Built) -> None:
        for _, _, shown in bounds(any_built.receipt):
            for lanes in shown["lanes"]:
                values = [lanes[lane] for lane in LANES]
                first = 7 if any(lanes[lane] for lane in ("transfer_wait_s", "kv_movement_s")) else 3
                assert lanes["ttft_s"] == pytest.approx(math.fsum(values[:first]), rel=1e-9)
                assert lanes["e2e_s"] == pytest.approx(math.fsum(values), rel=1e-9)

    def test_every_figure_is_that_of_the_matrix(self, any_built: Built) -> None:
        for scenario, bound, shown in bounds(any_built.receipt):
            row = row_of(any_built.plan.matrix, scenario["scenario"], bound)
            for name in (*LATENCIES, "status", "pressure", "tightest", "headroom"):
                assert shown[name] == row[name]
            for load in shown["loads"]:
                assert load["utilization"] == row[f"load_{load['resource']}"]
            assert (scenario["gpus"], scenario["operating_parts"]) == (row["gpus"], row["operating_parts"])

    def test_loads_stand_beside_their_ceilings(self, good: Built) -> None:
        ceilings = {
            (load["resource"], load["ceiling"]) for _, _, shown in bounds(good.receipt) for load in shown["loads"]
        }
        assert ceilings == {
            ("mixed", 0.8),  # the lower of 0.8 and 0.85
            ("prefill_lane", 0.8),
            ("prefill", 0.8),
            ("decode", 0.85),
            ("link", 0.7),
            ("slots_mixed", 0.85),
            ("slots_decode", 0.85),
            ("kv_mixed", 1.0),
            ("kv_prefill", 1.0),
            ("kv_decode", 1.0),
            ("staging", 1.0),
        }

    def test_verdicts_are_those_of_the_gates_that_apply_in_their_order(self, any_built: Built) -> None:
        gates = [gate for gate in any_built.receipt["rules"]["gates"] if gate["applies"]]
        for scenario in any_built.receipt["scenarios"]:
            concerning = [gate for gate in gates if scenario["topology"] in gate["topologies"]]
            assert [verdict["gate"] for verdict in scenario["verdicts"]] == [gate["id"] for gate in concerning]
            for verdict, gate in zip(scenario["verdicts"], concerning, strict=True):
                limits = {gate["limit"]}
                if gate["limit_source"] == f"objectives.{gate['metric'].removesuffix('_worst')}":
                    limits |= {0.3, 15.0} if any_built.receipt["cohort"]["title"] == PRICED else set()
                assert verdict["bound"] == gate["bound"]
                assert verdict["limit"] in limits
                assert (verdict["figure"] is None) == (verdict["verdict"] == "refused")

    def test_a_gate_that_does_not_apply_is_listed_without_a_limit(self, one_pool: Built) -> None:
        gates = {gate["id"]: gate for gate in one_pool.receipt["rules"]["gates"]}
        assert (gates["stall"]["applies"], gates["stall"]["limit"]) == (False, None)
        assert gates["stall"]["limit_source"] == "objectives.stall"
        assert (gates["ttft_worst"]["limit"], gates["ttft_worst"]["limit_source"]) == (0.8, "objectives.ttft")
        assert gates["transfer_reserve"]["limit_source"] == "objectives.transfer_reserve"
        assert gates["transfer_envelope"]["limit_source"] == "declared"

    def test_limits_keep_the_digits_they_were_declared_with(
        self, built_with: Callable[..., Built], tmp_path: Any
    ) -> None:
        """Results are rounded to ten digits, declarations are not; so that a limit is the same wherever it appears."""
        built = built_with(
            ("ttft: 800 ms", "ttft: 800.123456789012 ms"),
            ("value: 11800, low: 10400", "value: 6000, low: 5900"),
            ("utilization_ceiling: {value: 0.8,", "utilization_ceiling: {value: 0.1333333333333333,"),
        )
        ttft = [
            verdict["limit"]
            for scenario in built.receipt["scenarios"]
            for verdict in scenario["verdicts"]
            if verdict["gate"] == "ttft_worst"
        ]
        assert set(ttft) == {0.800123456789012}
        limits = {shown["refusal"]["limit"] for _, _, shown in bounds(built.receipt) if shown["refusal"]}
        assert limits == {0.1333333333333333}
        self.test_the_verifier_agrees(built, tmp_path)

    def test_service_states_the_prefill_of_each_bucket_in_the_mean_and_the_mean_square(self, paced: Built) -> None:
        """E[S] and E[S²] of d + α·u/r_p, with η = 0.3 or 0.2: α = 0.7 or 0.8."""
        receipt = paced.receipt
        buckets = [row["bucket"] for row in receipt["workload"]["buckets"]]
        rows = receipt["service"]
        assert [(row["bound"], row["bucket"]) for row in rows] == [
            (bound, bucket) for bound in ("nominal", "conservative") for bucket in buckets
        ]
        expected = []
        for d, r_p, alpha in ((0.008, 11_800, 0.7), (0.012, 10_400, 0.8)):
            for bucket in receipt["workload"]["buckets"]:
                u1, u2 = bucket["uncached_tokens_mean"], bucket["uncached_tokens_m2"]
                mean, square = alpha * u1 / r_p, alpha**2 * u2 / r_p**2
                expected.append((d + mean, d * d + 2 * d * mean + square))
        found = [(row["prefill_mean_s"], row["prefill_m2_s2"]) for row in rows]
        assert found == [pytest.approx(pair, rel=1e-9) for pair in expected]
        assert all(value == float(f"{value:.9e}") for pair in found for value in pair)

    def test_a_trace_is_open_and_has_windows(self, good: Built) -> None:
        workload = good.receipt["workload"]
        assert (workload["kind"], workload["duration_s"]) == ("open", 1.3)
        assert workload["windows"] == []  # of 1.3 s not even ten seconds
        rates = {shown["rate_rps"] for _, _, shown in bounds(good.receipt)}
        assert rates == {workload["buckets"][0]["rate_rps"]}
        assert (workload["dropped"], workload["steps"], workload["prefix_cache"]) == ([], [], None)

    def test_of_a_declared_rate_each_bound_has_its_end(self, paced: Built) -> None:
        workload = paced.receipt["workload"]
        assert (workload["kind"], workload["duration_s"], workload["windows"]) == ("rate", None, [])
        assert workload["buckets"][0]["rate_rps"] == 6
        assert {row["arrival_scv"] for row in workload["buckets"]} == {None}
        assert {(bound, shown["rate_rps"]) for _, bound, shown in bounds(paced.receipt)} == {
            ("nominal", 6.0),
            ("conservative", 8.0),
        }

    def test_of_a_closed_loop_each_scenario_has_its_own(self, looped: Built) -> None:
        workload = looped.receipt["workload"]
        assert (workload["kind"], workload["format"], workload["duration_s"]) == ("closed", "classes", None)
        assert {row["rate_rps"] for row in workload["buckets"]} == {None}
        statuses = set()
        shares = {row["bucket"]: row["requests"] / workload["requests"] for row in workload["buckets"]}
        for _, bound, shown in bounds(looped.receipt):
            statuses.add(shown["status"])
            if shown["status"] == "evaluated":
                mean = sum(shares[lanes["bucket"]] * lanes["e2e_s"] for lanes in shown["lanes"])
                assert shown["rate_rps"] * mean <= {"nominal": 24, "conservative": 60}[bound] * (1 + 1e-9)
        assert statuses == {"evaluated", "refused"}

    def test_topologies_state_their_parts(self, good: Built) -> None:
        for topology in good.receipt["topologies"]:
            assert topology["operating_parts"] == sum(len(parts) for parts in topology["parts"].values())
        assert [row["operating_parts"] for row in good.receipt["topologies"]] == [3, 4, 11]


class TestDecision:
    def test_of_a_chosen_topology(self, good: Built) -> None:
        decision = good.receipt["decision"]
        chosen = next(row for row in good.receipt["scenarios"] if row["scenario"] == decision["scenario"])
        assert decision["outcome"] == "topology_chosen"
        assert (chosen["topology"], chosen["passes"]) == (decision["topology"], True)
        others = {"aggregated", "chunked", "disaggregated"} - {decision["topology"]}
        assert {row["topology"] for row in good.receipt["rejected"]} == others

    def test_of_none(self, hopeless: Built) -> None:
        decision = hopeless.receipt["decision"]
        assert decision["outcome"] == "no_topology_qualifies"
        assert decision["scenario"] is decision["topology"] is None
        assert not any(row["passes"] for row in hopeless.receipt["scenarios"])
        assert [row["topology"] for row in hopeless.receipt["rejected"]] == ["aggregated", "chunked", "disaggregated"]
        for row in hopeless.receipt["rejected"]:
            assert row["status"] == "nearest_miss"
            assert row["failing"]
            assert all(set(gate) == {"gate", "verdict", "figure", "limit"} for gate in row["failing"])

    def test_a_larger_one_fails_nothing(self, good: Built) -> None:
        larger = [row for row in good.receipt["rejected"] if row["status"] == "passes_but_larger"]
        assert larger
        assert all(row["failing"] == [] for row in larger)


class TestSearch:
    def test_all_are_kept_of_few(self, any_built: Built) -> None:
        search, names = any_built.receipt["search"], [row["scenario"] for row in any_built.receipt["scenarios"]]
        assert (search["scenarios"], search["kept"], search["complete"]) == (len(names), len(names), True)
        assert {row["scenario"] for row in search["frontier"]} <= set(names)

    def test_baselines_of_what_separates(self, routed: Built) -> None:
        rows = {row["scenario"]: row for row in routed.receipt["scenarios"]}
        speaking = {row["scenario"] for row in routed.receipt["changes"]["speaking"]}
        found = routed.receipt["search"]["baselines"]
        assert [row["scenario"] for row in found] == [
            name for name in rows if name in speaking and rows[name]["workers_decode"] is not None
        ]
        for row in found:
            names = [row["aggregated"], *row["chunked"]]
            assert {rows[name]["gpus"] for name in names} == {rows[row["scenario"]]["gpus"]}

    def test_of_very_many_the_kept_rows_are_those_of_all(
        self, routed: Built, built_with: Callable[..., Built], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is kept says of each scenario what the complete receipt says, and decides the same."""
        monkeypatch.setattr(kept_scenarios, "__defaults__", (0,))
        few, all_of_them = built_with(*ROUTED).receipt, routed.receipt
        search = few["search"]
        assert (search["complete"], search["scenarios"]) == (False, len(all_of_them["scenarios"]))
        assert search["kept"] == len(few["scenarios"]) < search["scenarios"]
        rows = {row["scenario"]: row for row in all_of_them["scenarios"]}
        assert [row["scenario"] for row in few["scenarios"]] == [
            name for name in rows if name in {row["scenario"] for row in few["scenarios"]}
        ]
        for row in few["scenarios"]:
            assert row == rows[row["scenario"]]
        assert search["frontier"] == all_of_them["search"]["frontier"]
        assert search["baselines"] == all_of_them["search"]["baselines"]
        assert few["decision"]["scenario"] == all_of_them["decision"]["scenario"]
        assert few["changes"] == all_of_them["changes"]


class TestChanges:
    def test_one_entry_for_each_compared_topology(self, any_built: Built) -> None:
        receipt = any_built.receipt
        named = {row["topology"]: row["scenario"] for row in (receipt["decision"], *receipt["rejected"])}
        speaking = [(row["topology"], row["scenario"]) for row in receipt["changes"]["speaking"]]
        assert speaking == [(row["topology"], named[row["topology"]]) for row in receipt["topologies"]]

    def test_members(self, any_built: Built) -> None:
        for row in any_built.receipt["changes"]["speaking"]:
            assert set(row) == {
                "topology",
                "scenario",
                "margin",
                "most_sensitive",
                "sensitivity",
                "break_even",
                "fix",
                "more_gpus",
                "rate",
                "one_worker_less",
            }
            assert row["fix"] is None or set(row["fix"]) == {"path", "factor", "value"}
            assert row["more_gpus"] is None or set(row["more_gpus"]) == {"gpus", "scenario"}
            assert row["rate"] is None or set(row["rate"]) == {"factor", "rate_rps", "event", "gate", "verdict"}
        assert len(any_built.receipt["changes"]["measure_next"]) <= 5

    def test_a_rate_is_not_stated_of_a_closed_loop(self, looped: Built, good: Built) -> None:
        assert {row["rate"]["rate_rps"] for row in looped.receipt["changes"]["speaking"] if row["rate"]} <= {None}
        for row in good.receipt["changes"]["speaking"]:
            if row["rate"] is not None:
                base = good.receipt["workload"]["buckets"][0]["rate_rps"]
                assert row["rate"]["rate_rps"] == pytest.approx(base * row["rate"]["factor"], rel=1e-9)


class TestRouted:
    def test_paths_of_each_topology(self, routed: Built) -> None:
        found = {row["topology"]: row["paths"] for row in routed.receipt["topologies"]}
        assert found == {
            "aggregated": [{"prompts": "all", "kind": "whole_prompts", "first_token": "prefill"}],
            "chunked": [{"prompts": "all", "kind": "chunks", "first_token": "prefill"}],
            "disaggregated": [{"prompts": "all", "kind": "separated", "first_token": "decode"}],
            "routed": [
                {"prompts": "below_threshold", "kind": "whole_prompts_or_chunks", "first_token": "prefill"},
                {"prompts": "from_threshold", "kind": "separated", "first_token": "decode"},
            ],
        }

    def test_thresholds_are_edges_and_knobs_of_routed_alone(self, routed: Built) -> None:
        assert routed.receipt["workload"]["bucket_edges_tokens"] == [512, 640, 2048]
        for row in routed.receipt["scenarios"]:
            assert (row["threshold_tokens"] in (640, 2048)) == (row["topology"] == "routed")

    def test_a_price_makes_costs(self, routed: Built) -> None:
        costs = [shown["cost_per_million_tokens"] for _, _, shown in bounds(routed.receipt) if shown["goodput"]]
        assert costs
        assert all(cost > 0 for cost in costs)

    def test_screening_names_regimes_of_rows_that_are_not_refused(self, any_built: Built) -> None:
        known = ["arrivals", "runs", "lane", "long_prompts", "slots", "tpot", "curve"]
        for _, _, shown in bounds(any_built.receipt):
            assert shown["screening"] == [name for name in known if name in shown["screening"]]
            assert shown["status"] == "evaluated" or shown["screening"] == []

    def test_the_gate_on_e2e_applies(self, routed: Built, good: Built) -> None:
        applies = [
            next(gate["applies"] for gate in built.receipt["rules"]["gates"] if gate["id"] == "e2e_worst")
            for built in (routed, good)
        ]
        assert applies == [True, False]


class TestTruthBoundary:
    def test_no_text_of_the_planner_claims_a_percentile_or_a_measurement(self, any_built: Built) -> None:
        written = [
            (path, text)
            for path, text in leaves(any_built.receipt)
            if isinstance(text, str) and not path.endswith((".note", ".source"))
        ]
        assert written
        for path, text in written:
            assert not re.search(r"\bmeasured\b|\bmedian\b|\bquantile\b|\bp(50|9\d)\b", text, re.IGNORECASE), path
            if path != ".truth_boundary.statement":
                assert "percentile" not in text.lower(), path

    def test_no_key_does_either(self, any_built: Built) -> None:
        keys = {part for path, _ in leaves(any_built.receipt) for part in re.findall(r"[a-z0-9_]+", path)}
        assert not {key for key in keys if re.search(r"^p\d\d|_p\d\d|percentile|median|(^|_)measured", key)}

    def test_it_says_what_it_is_not(self, any_built: Built) -> None:
        statement = any_built.receipt["truth_boundary"]["statement"]
        for denied in ("measurement", "GPU", "network", "scheduler", "percentile"):
            assert denied in statement
        assert len(any_built.receipt["truth_boundary"]["unmeasured"]) >= 5

    def test_every_evaluation_is_labelled(self, any_built: Built) -> None:
        labels = {(shown["label"], shown["provenance"]) for _, _, shown in bounds(any_built.receipt)}
        assert labels == {("modeled", "derived")}

    def test_every_input_is_observed_or_supplied(self, any_built: Built) -> None:
        for row in any_built.receipt["inputs"]:
            assert row["provenance"] in ("observed", "supplied")
            assert row["provenance"] == "supplied" or row["source"]
