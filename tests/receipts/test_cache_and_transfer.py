"""What a receipt says of the KV cache and of moving it, worked out by hand from the requests of the good cohort."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.receipts.conftest import CURVE, MEASURED, Built

PROMPTS = (374, 1420, 96, 3051, 640, 2048, 511, 780)
OUTPUTS = (44, 180, 212, 87, 150, 1, 96, 260)
GIB = 2**30
BOUNDS = ("nominal", "conservative")


def tokens_of_a_sequence(first_by_prefill: bool) -> float:
    """R: what a decoding sequence holds, weighed by its steps: (Σ p·D + D²/2)/ΣD."""
    steps = [o - first_by_prefill for o in OUTPUTS]
    return sum(p * d + d * d / 2 for p, d in zip(PROMPTS, steps, strict=True)) / sum(steps)


class TestCache:
    def test_of_one_kind_of_layers(self, good: Built) -> None:
        """Keys and values of 8 heads x 128 elements x 2 bytes in each of 32 layers: 128 KiB a token, and 1.1 times that."""
        kv = good.receipt["kv"]
        assert kv["layers"] == [
            {
                "kind": "full",
                "layers": 32,
                "heads": 8,
                "first": 128,
                "second": 128,
                "tokens": None,
                "bytes_per_layer": 4096,
            }
        ]
        assert (kv["kv_dtype"], kv["tensor_parallel"], kv["block_tokens"], kv["allocation"]) == (
            "bf16",
            1,
            1,
            "uniform",
        )
        for bound, factor, memory in (("nominal", 1.0, 40 * GIB), ("conservative", 1.1, 36 * GIB)):
            assert kv[bound] == {
                "layout_factor": factor,
                "growth_bytes_per_token": pytest.approx(131_072 * factor, rel=1e-9),
                "windows": [],
                "state_bytes_per_sequence": 0,
                "allocated_bytes_per_token": pytest.approx(131_072 * factor, rel=1e-9),
                "kv_memory_bytes": pytest.approx(memory, rel=1e-9),
            }

    def test_of_several_kinds_of_layers(self, measured: Built) -> None:
        """18 layers of 8 heads x 128 x 2 bytes: 36864 a token, twice; 4 states of 8 x 1024 x 4 + 512 x 2 = 33792 bytes."""
        kv = measured.receipt["kv"]
        found = [(part["kind"], part["tokens"], part["bytes_per_layer"]) for part in kv["layers"]]
        assert found == [("full", None, 2048), ("window", 128, 2048), ("state", None, 33_792)]
        assert (kv["block_tokens"], kv["allocation"]) == (16, "by_kind")
        nominal, conservative = (kv[bound] for bound in BOUNDS)
        assert nominal["windows"] == [{"window_tokens": 128, "bytes_per_token": 36_864}]
        assert (nominal["growth_bytes_per_token"], nominal["state_bytes_per_sequence"]) == (36_864, 135_168)
        assert nominal["allocated_bytes_per_token"] == 73_728
        assert conservative["state_bytes_per_sequence"] == pytest.approx(1.1 * 135_168, rel=1e-9)

    def test_batch_caps_of_the_compared_topologies_under_both_bounds(self, good: Built) -> None:
        """As many sequences of R tokens as 40 GiB hold, or 36, and at most 256 or 192 slots."""
        caps = good.receipt["kv"]["batch_caps"]
        assert [(row["topology"], row["bound"]) for row in caps] == [
            (topology, bound) for topology in ("aggregated", "chunked", "disaggregated") for bound in BOUNDS
        ]
        for row in caps:
            tokens = tokens_of_a_sequence(row["topology"] != "disaggregated")
            factor, memory, slots = (1.0, 40, 256) if row["bound"] == "nominal" else (1.1, 36, 192)
            size = 131_072 * factor * tokens
            assert row["sequence_tokens"] == pytest.approx(tokens, rel=1e-9)
            assert row["sequence_bytes"] == pytest.approx(size, rel=1e-9)
            assert row["sequences"] == pytest.approx(min(slots, memory * GIB / size), rel=1e-9)
            assert row["resident_tokens"] == pytest.approx(memory * GIB / (131_072 * factor), rel=1e-9)
            assert row["sequences"] == slots  # 970 or 972 tokens are 0.127 GB: 337 of them fit; 275 of 1.1 times that

    def test_memory_may_leave_fewer_than_the_slots(self, built_with: Callable[..., Built]) -> None:
        """R = 969.6 tokens of 128 KiB are 127 MB: 135 of them in 16 GiB, and 92 of 1.1 times that in 12 GiB."""
        receipt = built_with(("value: 40 GiB, low: 36 GiB", "value: 16 GiB, low: 12 GiB")).receipt
        size = 131_072 * tokens_of_a_sequence(True)
        nominal, conservative = (row["sequences"] for row in receipt["kv"]["batch_caps"][:2])
        assert nominal == pytest.approx(16 * GIB / size, rel=1e-9)
        assert conservative == pytest.approx(12 * GIB / (1.1 * size), rel=1e-9)
        assert (int(nominal), int(conservative)) == (135, 92)

    def test_a_sequence_by_kind_holds_its_window_its_state_and_half_a_block(self, measured: Built) -> None:
        row = measured.receipt["kv"]["batch_caps"][0]
        tokens = tokens_of_a_sequence(True)
        assert row["sequence_bytes"] == pytest.approx(36_864 * (tokens + 7.5) + 36_864 * 128 + 135_168, rel=1e-9)

    def test_one_pool_has_its_own_cap_and_no_transfer(self, one_pool: Built) -> None:
        assert [row["topology"] for row in one_pool.receipt["kv"]["batch_caps"]] == ["aggregated"] * 2
        assert one_pool.receipt["transfer"] is None


class TestTransfer:
    def test_over_a_bandwidth(self, good: Built) -> None:
        """8 prompts of 8920 tokens together; overheads 1 + 1 + 1 ms, or 2 + 1 + 1."""
        transfer = good.receipt["transfer"]
        assert transfer["sources"] == ["affine"]
        assert transfer["bandwidth_input"] == "network.effective_bandwidth"
        overheads = ("router_handover", "registration", "synchronization", "receiver_visibility")
        assert transfer["overhead_inputs"] == [f"network.{name}" for name in overheads]
        for bound, factor, overhead, bandwidth in (("nominal", 1.0, 0.003, 18e9), ("conservative", 1.1, 0.004, 12e9)):
            assert transfer[bound] == {
                "overhead_s": overhead,
                "handover_s": 0,
                "bandwidth_bytes_per_s": bandwidth,
                "channels": 2,
                "bytes_mean": pytest.approx(131_072 * factor * 8920 / 8, rel=1e-9),
                "bytes_max": pytest.approx(131_072 * factor * 3051, rel=1e-9),
                "leaves_curve": None,
            }

    def test_along_a_curve(self, measured: Built) -> None:
        """Of v' = p + 7.5 tokens windows hold 128 at most (of the shortest prompt, 103.5); the longest takes 191 blocks, 3056.

        36864 x (3056 + 128) + 135168 = 117.5 MB are more than was measured.
        """
        transfer = measured.receipt["transfer"]
        assert (transfer["sources"], transfer["bandwidth_input"]) == (["curve"], None)
        assert transfer["overhead_inputs"] == ["network.router_handover"]
        mean = math.fsum(36_864 * (p + 7.5 + min(p + 7.5, 128)) + 135_168 for p in PROMPTS) / 8
        for bound, factor, handover in (("nominal", 1.0, 0.005), ("conservative", 1.1, 0.01)):
            assert transfer[bound] == {
                "overhead_s": None,
                "handover_s": handover,
                "bandwidth_bytes_per_s": None,
                "channels": 2,
                "bytes_mean": pytest.approx(mean * factor, rel=1e-9),
                "bytes_max": pytest.approx(factor * (36_864 * 3184 + 135_168), rel=1e-9),
                "leaves_curve": True,
            }

    @pytest.mark.parametrize(("last", "leaves"), [("100000000", True), ("200000000", False)])
    def test_it_says_whether_the_curve_is_left(self, built_with: Callable[..., Built], last: str, leaves: bool) -> None:
        receipt = built_with(*MEASURED, files={"transfers.csv": CURVE.replace("100000000", last)}).receipt
        assert [receipt["transfer"][bound]["leaves_curve"] for bound in BOUNDS] == [leaves, leaves]

    def test_a_bandwidth_beside_a_curve_states_both(self, built_with: Callable[..., Built]) -> None:
        beside = ("  line_rate: ", "  transfer_curve: {file: transfers.csv, provenance: supplied}\n  line_rate: ")
        transfer = built_with(beside, files={"transfers.csv": CURVE}).receipt["transfer"]
        assert transfer["sources"] == ["affine", "curve"]
        assert (transfer["nominal"]["bandwidth_bytes_per_s"], transfer["nominal"]["leaves_curve"]) == (18e9, True)
        assert {row["bandwidth_at_limit_bytes_per_s"] for row in transfer["budget"]["rows"]} == {None}

    def test_the_curve_is_an_input_point_for_point(self, measured: Built) -> None:
        row = next(row for row in measured.receipt["inputs"] if row["path"] == "network.transfer_curve")
        text = "1000000:0.002:0.003 20000000:0.004:0.0045 100000000:0.012:0.02"
        assert row == {
            "path": "network.transfer_curve",
            "unit": "text",
            "value": text,
            "low": None,
            "high": None,
            "conservative": text,
            "provenance": "observed",
            "source": "transfer benchmark",
            "note": None,
        }

    @pytest.mark.parametrize("edit", [("1000000,", "1000001,"), (",0.004,", ",0.0040001,"), ("0.02\n", "0.020001\n")])
    def test_every_figure_of_every_point_is_part_of_the_question(
        self, measured: Built, built_with: Callable[..., Built], edit: tuple[str, str]
    ) -> None:
        assert CURVE.count(edit[0]) == 1
        other = built_with(*MEASURED, files={"transfers.csv": CURVE.replace(*edit)}).receipt
        assert other["fingerprint"] != measured.receipt["fingerprint"]


def compared(receipt: dict[str, Any]) -> dict[str, Any]:
    """The disaggregated scenario that was chosen, or else compared."""
    names = {
        row["scenario"] for row in (receipt["decision"], *receipt["rejected"]) if row["topology"] == "disaggregated"
    }
    (found,) = (row for row in receipt["scenarios"] if row["scenario"] in names)
    return dict(found)


@pytest.fixture(params=["good", "hopeless", "paced", "looped", "measured"])
def separated(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.getfixturevalue(request.param).receipt
    return found


class TestBudget:
    def test_it_is_of_the_separate_scenario_that_the_decision_names(self, separated: dict[str, Any]) -> None:
        budget, scenario = separated["transfer"]["budget"], compared(separated)
        assert (budget["scenario"], budget["envelope_s"]) == (scenario["scenario"], 0.06)
        shown = [bound for bound in BOUNDS if scenario["bounds"][bound]["status"] == "evaluated"]
        buckets = [row["bucket"] for row in separated["workload"]["buckets"][1:]]
        assert [(row["bound"], row["bucket"]) for row in budget["rows"]] == [
            (bound, bucket) for bound in shown for bucket in buckets
        ]
        assert [row["bound"] for row in budget["staging"]] == shown

    def test_what_is_used_is_what_its_lanes_say(self, separated: dict[str, Any]) -> None:
        bounds = compared(separated)["bounds"]
        for row in separated["transfer"]["budget"]["rows"]:
            lanes = next(lanes for lanes in bounds[row["bound"]]["lanes"] if lanes["bucket"] == row["bucket"])
            assert row["used_s"] == pytest.approx(lanes["transfer_wait_s"] + lanes["kv_movement_s"], rel=1e-9)
            assert row["envelope_share"] == pytest.approx(row["used_s"] / 0.06, rel=1e-9)

    def test_in_flight_sequences_are_the_load_of_staging(self, separated: dict[str, Any]) -> None:
        bounds = compared(separated)["bounds"]
        for row in separated["transfer"]["budget"]["staging"]:
            load = next(load for load in bounds[row["bound"]]["loads"] if load["resource"] == "staging")
            assert row["in_flight_sequences"] / row["free_sequences"] == pytest.approx(load["utilization"], rel=1e-9)

    def test_shares_of_a_reserve_where_one_is_declared(self, good: Built, measured: Built) -> None:
        without, having = (built.receipt["transfer"]["budget"] for built in (good, measured))
        assert (without["reserve"], having["reserve"]) == (None, 0.75)
        for row in without["rows"]:
            assert (row["limit_s"], row["limit_share"]) == (without["envelope_s"], row["envelope_share"])
        for row in having["rows"]:
            share = 0.75 if row["bound"] == "nominal" else 1
            assert row["limit_s"] == pytest.approx(share * having["envelope_s"], rel=1e-9)
            assert row["limit_share"] == pytest.approx(row["envelope_share"] / share, rel=1e-9)

    def test_figures_have_ten_digits(self, separated: dict[str, Any]) -> None:
        budget = separated["transfer"]["budget"]
        values = [value for row in (*budget["rows"], *budget["staging"]) for value in row.values()]
        numbers = [value for value in values if isinstance(value, float)]
        assert numbers or not budget["rows"]  # both bounds are refused
        assert numbers == [float(f"{value:.9e}") for value in numbers]

    def test_what_fits_of_a_bandwidth(self, good: Built) -> None:
        """18 GB/s and 3 ms, or 12 GB/s and 4 ms, less the wait: the lanes state it."""
        bounds = compared(good.receipt)["bounds"]
        for row in good.receipt["transfer"]["budget"]["rows"]:
            wait = bounds[row["bound"]]["lanes"][0]["transfer_wait_s"]
            overhead, bandwidth, factor = (0.003, 18e9, 1) if row["bound"] == "nominal" else (0.004, 12e9, 1.1)
            fits = (0.06 - wait - overhead) * bandwidth
            assert row["bytes_at_limit"] == pytest.approx(fits, rel=1e-8)
            assert row["largest_prompt_tokens"] == math.floor(fits / (131_072 * factor))
