"""The transfer budget of one scenario, worked out by hand: requests and costs are those of worked.py, the envelope is 0.1 s.

STEADY moves 10 MB over 1 GB/s: T = 0.005 + 0.01 s, ρ_l = 0.03, and waits 0.5·0.03/0.97·0.015 s for the link.
"""

import math
from typing import Any

import polars as pl
import pytest

from pipelines.frames.inputs import InputTable
from pipelines.topologies.budget import transfer_budget
from tests.plans import Ranged, in_pairs, inputs_frame_of, matrix_of, workload_of
from tests.topologies.test_hand_worked_transfers import CURVE, CURVE_ALONE, wait
from tests.topologies.worked import LONG, SHORT, STEADY, VARIED, close

W = wait(0.015, 0.03)
Rows = list[dict[str, Any]]


def budget_of(
    requests: pl.DataFrame = STEADY,
    edges: tuple[int, ...] = (),
    scenario: str = "disaggregated/p1/d1",
    **overrides: Any,
) -> dict[str, Any]:
    inputs = inputs_frame_of(**{"compared": "disaggregated", "ttft": 9.0, **overrides})
    table = InputTable.of(inputs)
    rows = matrix_of(inputs, requests, edges).filter(pl.col("scenario") == scenario).to_dicts()
    return transfer_budget(rows, table, workload_of(requests, edges, table))


def row(**overrides: Any) -> dict[str, Any]:
    """The nominal row of the one bucket of STEADY."""
    first: dict[str, Any] = budget_of(**overrides)["rows"][0]
    assert (first["bound"], first["bucket"]) == ("nominal", "[1,inf)")
    return first


class TestUsed:
    def test_wait_and_movement_as_a_share_of_the_envelope_and_of_the_reserve(self) -> None:
        found = row(reserve=0.75)
        assert found["used_s"] == close(W + 0.015)
        assert found["envelope_share"] == close((W + 0.015) / 0.1)
        assert found["limit_share"] == close((W + 0.015) / 0.075)
        assert found["bytes_mean"] == close(1e7)

    def test_without_a_reserve_the_envelope_is_the_limit(self) -> None:
        assert (row()["limit_s"], row()["limit_share"]) == close((0.1, (W + 0.015) / 0.1))
        assert budget_of()["reserve"] is None

    def test_under_the_conservative_bound_the_envelope_is_the_limit(self) -> None:
        nominal, conservative = budget_of(reserve=0.75)["rows"]
        assert (nominal["limit_s"], conservative["limit_s"]) == close((0.075, 0.1))
        assert conservative["limit_share"] == close(nominal["limit_share"] * 0.75)
        assert nominal["bytes_at_limit"] == close((0.075 - W - 0.005) * 1e9)
        assert conservative["bytes_at_limit"] == close((0.1 - W - 0.005) * 1e9)

    def test_the_scenario_and_its_envelope_are_named(self) -> None:
        found = budget_of(reserve=0.75, ttft_growth=0.25, scenario="disaggregated/p1/d2")
        assert (found["scenario"], found["envelope_s"], found["reserve"]) == ("disaggregated/p1/d2", 0.25, 0.75)

    def test_what_is_hidden_is_not_used(self) -> None:
        assert row(phi=0.5)["used_s"] == close(W + 0.01)

    def test_buckets_in_their_order_under_either_bound(self) -> None:
        """100 MB/s, or 80: T(500) = 0.055 and 0.0675 s, T(3000) = 0.305 and 0.38 s; all wait for the same link.

        T̄ = 0.105 and 0.13 s, E[T²] = (4·0.003025 + 0.093025)/5 = 0.021025 and (4·0.00455625 + 0.1444)/5 = 0.032525 s².
        """
        rows: Rows = budget_of(VARIED, (1000,), w=Ranged(1e8, low=8e7))["rows"]
        assert [(one["bound"], one["bucket"]) for one in rows] == [
            ("nominal", SHORT), ("nominal", LONG), ("conservative", SHORT), ("conservative", LONG),
        ]  # fmt: skip
        waits = (0.021025 / 0.105 / 2 * 0.21 / 0.79, 0.032525 / 0.13 / 2 * 0.26 / 0.74)
        times = ((waits[0], 0.055), (waits[0], 0.305), (waits[1], 0.0675), (waits[1], 0.38))
        assert [one["used_s"] for one in rows] == close([waiting + seconds for waiting, seconds in times])
        assert [one["bytes_mean"] for one in rows] == close([5e6, 3e7, 5e6, 3e7])
        # what fits of one transfer is the same for all lengths where nothing is hidden
        fits = [(0.095 - waiting) * w for waiting, w in zip(waits, (1e8, 8e7), strict=True)]
        assert [one["bytes_at_limit"] for one in rows] == close([fits[0], fits[0], fits[1], fits[1]])

    def test_a_bucket_that_uses_more_than_there_is(self) -> None:
        assert row(ttft_growth=0.01)["envelope_share"] == close((W + 0.015) / 0.01)


class TestBytesAtTheEnvelope:
    def test_what_overhead_and_wait_leave_of_the_bandwidth(self) -> None:
        assert row()["bytes_at_limit"] == close((0.095 - W) * 1e9)

    def test_descriptors_are_those_of_the_bucket(self) -> None:
        """20000 of 1 us: T = 0.035 s, ρ_l = 0.07; more bytes do not add to them."""
        assert row(per_descriptor=1e-6)["bytes_at_limit"] == close((0.075 - wait(0.035, 0.07)) * 1e9)

    def test_half_of_it_streamed(self) -> None:
        """W + 0.005 + Y/2 = 0.1, and Y/2 = 0.0948 s is less than the 0.11 s of prefill."""
        assert row(phi=0.5)["bytes_at_limit"] == close((0.19 - 2 * W) * 1e9)

    def test_all_of_it_streamed_behind_prefill(self) -> None:
        """W + 0.005 + Y - 0.11 = 0.1."""
        assert row(phi=1.0)["bytes_at_limit"] == close((0.205 - W) * 1e9)

    def test_of_a_bucket_behind_its_own_prefill_and_in_its_own_descriptors(self) -> None:
        """S(500) = 0.06 s, S(3000) = 0.31 s; 0.01 and 0.06 s of descriptors: W + 0.005 + 0.01 + Y - 0.06 = 0.5, or 0.06 and 0.31.

        100 MB/s: T = 0.065 and 0.365 s, T̄ = 0.125 s, ρ_l = 0.25, E[T²] = (4·0.004225 + 0.133225)/5 = 0.030025 s².
        """
        rows: Rows = budget_of(VARIED, (1000,), w=1e8, phi=1.0, per_descriptor=1e-6, ttft_growth=0.5)["rows"][:2]
        waiting = 0.030025 / 0.125 / 2 * 0.25 / 0.75
        assert rows[0]["used_s"] == close(waiting + 0.015)  # 0.05 s of payload are behind 0.06 s of prefill
        assert [one["bytes_at_limit"] for one in rows] == close([(0.545 - waiting) * 1e8, (0.745 - waiting) * 1e8])

    def test_other_traffic_and_links_are_those_of_the_transfer(self) -> None:
        """Two links, a quarter of each: half of 1 GB/s: T = 0.025 s, one channel."""
        found = row(links=2, links_per_transfer=2, competing=0.75)
        assert found["bytes_at_limit"] == close((0.095 - wait(0.025, 0.05)) * 5e8)

    def test_along_a_curve_and_on_from_its_end(self) -> None:
        """10 MB take 0.02 s; 0.01 s and 2 ns a byte from 5 MB on."""
        found = row(curve=CURVE, **CURVE_ALONE)
        assert found["bytes_at_limit"] == close(5e6 + (0.09 - wait(0.02, 0.04)) / 2e-9)

    def test_at_the_end_of_a_curve_that_is_left_for_a_slower_bandwidth(self) -> None:
        """20 MB are measured to take 0.04 s; a byte more would take 0.005 + 20 MB/0.1 GB/s."""
        assert row(curve=CURVE, w=1e8)["bytes_at_limit"] == pytest.approx(2e7, rel=1e-9)

    def test_absent_where_not_even_nothing_fits(self) -> None:
        assert row(ttft_growth=0.005)["bytes_at_limit"] is None

    def test_absent_where_no_size_fills_it(self) -> None:
        assert row(w=math.inf)["bytes_at_limit"] is None


class TestBandwidthAtTheEnvelope:
    """T = 0.005 + 10 MB/w, ρ_l = 2·T: T + T²/(1 - 2·T) = 0.1, so that T² - 1.2·T + 0.1 = 0."""

    T = (1.2 - math.sqrt(1.44 - 0.4)) / 2

    def test_the_wait_is_that_of_the_bandwidth(self) -> None:
        assert row()["bandwidth_at_limit_bytes_per_s"] == pytest.approx(1e7 / (self.T - 0.005), rel=1e-9)

    def test_it_is_that_of_one_link_without_other_traffic(self) -> None:
        """Two links of 0.4 each carry 0.8 of what one would."""
        found = row(links=2, links_per_transfer=2, competing=0.6)
        assert found["bandwidth_at_limit_bytes_per_s"] == pytest.approx(1e7 / (self.T - 0.005) / 0.8, rel=1e-9)

    def test_half_of_it_streamed(self) -> None:
        """W + T - (T - 0.005)/2 = 0.1: 0.495·T + 0.0025 = 0.1 - 0.2·T."""
        seconds = 0.0975 / 0.695
        found = row(phi=0.5)["bandwidth_at_limit_bytes_per_s"]
        assert found == pytest.approx(1e7 / (seconds - 0.005), rel=1e-9)

    def test_the_links_may_be_full_before_the_envelope_is(self) -> None:
        """ρ_l = 0.1 at T = 0.05 s."""
        assert row(u_l=0.1)["bandwidth_at_limit_bytes_per_s"] == pytest.approx(1e7 / 0.045, rel=1e-9)

    def test_links_of_each_decode_worker(self) -> None:
        """ρ_l = 2·T/3 each: T + T²/(3 - 2·T) = 0.1, T² - 3.2·T + 0.3 = 0."""
        found = row(scenario="disaggregated/p1/d3", sharing="per_decode_worker")
        seconds = (3.2 - math.sqrt(3.2**2 - 1.2)) / 2
        assert found["bandwidth_at_limit_bytes_per_s"] == pytest.approx(1e7 / (seconds - 0.005), rel=1e-9)

    def test_of_a_bucket_the_wait_is_of_all(self) -> None:
        """The wait of all and the movement of one bucket are 0.5 s at the bandwidth, of lengths 500 and 3000."""
        rows: Rows = budget_of(VARIED, (1000,), ttft_growth=0.5)["rows"][:2]
        for tokens, one in zip((500, 3000), rows, strict=True):
            w = one["bandwidth_at_limit_bytes_per_s"]
            short, long = 0.005 + 5e6 / w, 0.005 + 3e7 / w
            mean, second = (4 * short + long) / 5, (4 * short**2 + long**2) / 5
            waiting = second / mean / 2 * 2 * mean / (1 - 2 * mean)
            assert waiting + 0.005 + tokens * 1e4 / w == pytest.approx(0.5, rel=1e-8)

    @pytest.mark.parametrize("overrides", [{"curve": CURVE}, {"curve": CURVE, **CURVE_ALONE}])
    def test_absent_where_a_curve_is_declared(self, overrides: dict[str, Any]) -> None:
        assert row(**overrides)["bandwidth_at_limit_bytes_per_s"] is None

    def test_absent_where_overhead_alone_uses_it(self) -> None:
        assert row(ttft_growth=0.005)["bandwidth_at_limit_bytes_per_s"] is None


class TestLargestPrompt:
    def test_ten_microseconds_a_token(self) -> None:
        """(0.095 - W)/0.00001 = 9476.8."""
        assert row()["largest_prompt_tokens"] == 9476

    def test_in_whole_blocks(self) -> None:
        """Blocks of 1000, 1499.5 tokens on average: T = 0.019995 s. (0.095 - W)/0.01 = 9.46 blocks."""
        assert math.floor((0.095 - wait(0.019995, 0.03999)) / 0.01) == 9
        assert row(block_tokens=1000)["largest_prompt_tokens"] == 9000

    def test_descriptors_grow_with_the_prompt(self) -> None:
        """20 a token, of 1 us each: 30 us a token. T = 0.035 s, W = 0.00132 s: (0.095 - W)/0.00003 = 3122.8."""
        assert row(per_descriptor=1e-6)["largest_prompt_tokens"] == 3122

    def test_prefill_of_the_prompt_hides_its_own_transfer(self) -> None:
        """60 MB/s, 1/6 ms a token; hidden are the 0.01 + p/10000 s of prefill: W + 0.005 - 0.01 + p/15000 = 0.2."""
        seconds = 0.005 + 1 / 6
        waiting = wait(seconds, 2 * seconds)
        found = row(w=6e7, phi=1.0, ttft_growth=0.2)["largest_prompt_tokens"]
        assert found == math.floor((0.205 - waiting) * 15_000)

    def test_0_where_not_one_token_fits(self) -> None:
        """A block of 1000 tokens takes 0.005 + 0.01 s, of nothing 0.005."""
        found = row(block_tokens=1000, ttft_growth=0.006)
        assert found["largest_prompt_tokens"] == 0
        assert found["bytes_at_limit"] == close((0.001 - wait(0.019995, 0.03999)) * 1e9)
        assert row(ttft_growth=0.005)["largest_prompt_tokens"] == 0

    def test_absent_where_prefill_hides_any(self) -> None:
        """0.01 ms a token moves behind 0.1 ms of prefill."""
        assert row(phi=1.0)["largest_prompt_tokens"] is None

    @pytest.mark.parametrize("overrides", [{}, {"block_tokens": 16}, {"phi": 0.6, "w": 6e7, "ttft_growth": 0.3}])
    def test_it_fits_and_one_token_more_does_not(self, overrides: dict[str, Any]) -> None:
        w, phi, block = overrides.get("w", 1e9), overrides.get("phi", 0.0), overrides.get("block_tokens", 1)
        moved = 0.005 + 1e4 * (1000 + (block - 1) / 2) / w
        found = row(**overrides)["largest_prompt_tokens"]

        def used(tokens: int) -> float:
            payload = 1e4 * math.ceil(tokens / block) * block / w
            return wait(moved, 2 * moved) + 0.005 + payload - min(phi * payload, 0.01 + tokens / 10_000)

        assert used(found) <= overrides.get("ttft_growth", 0.1) < used(found + 1)


@pytest.mark.parametrize("phi", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("form", [{}, {"curve": CURVE, **CURVE_ALONE}, {"curve": CURVE, "w": 9e8}])
def test_bytes_just_below_fit_and_just_above_do_not(phi: float, form: dict[str, Any]) -> None:
    """A transfer by CURVE takes 0.01 s and 2 ns for each byte beyond 5 MB, alone at any size above; payload is what exceeds 0.01 s."""
    found = row(phi=phi, ttft_growth=0.3, **form)

    def parts(size: float) -> tuple[float, float]:
        if "curve" in form and (form["w"] is None or 5e6 <= size <= 2e7):
            return 0.01 + (size - 5e6) * 2e-9, (size - 5e6) * 2e-9
        return 0.005 + size / form.get("w", 1e9), size / form.get("w", 1e9)

    seconds, _ = parts(1e7)

    def used(size: float) -> float:
        taken, payload = parts(size)
        return wait(seconds, 2 * seconds) + taken - min(phi * payload, 0.11)

    at = found["bytes_at_limit"]
    assert used(at * (1 - 1e-9)) < 0.3 < used(at * (1 + 1e-9))


class TestStaging:
    B, T = 2.121 / 0.899, 0.0105 / 0.899
    DECODE_WAIT = (1 - 0.899**21) * T / 2 + 0.5 * (B / 7) ** 3 / (7 - B) * 101 * T

    def test_what_arrives_against_what_is_free(self) -> None:
        """Two a second, each on its way for W + T; of 1 GB decoding leaves what it and the wait before it do not hold."""
        staging = budget_of()["staging"]
        assert [one["bound"] for one in staging] == ["nominal", "conservative"]
        nominal = {name: value for name, value in staging[0].items() if name != "bound"}
        decoding = 2e4 * (1000 * self.DECODE_WAIT + self.T * 106_100.5)
        assert nominal == close(
            {
                "in_flight_sequences": 2 * (W + 0.015),
                "free_sequences": 7 - self.B,
                "in_flight_bytes": 2e4 * 1000 * (W + 0.015),
                "free_bytes": 1e9 - decoding,
            }
        )

    def test_of_one_of_three_workers(self) -> None:
        """202/3 steps a second: ρ_d = 0.101/3, b = 0.707/(1 - ρ_d); memory for 4 sequences of 10.505 MB."""
        found = budget_of(scenario="disaggregated/p1/d3", kv_memory=4 * 10.505e6)["staging"][0]
        assert found["in_flight_sequences"] == close(2 / 3 * (W + 0.015))
        assert found["free_sequences"] == close(4 - 0.707 / (1 - 0.101 / 3))

    def test_states_move_and_are_held_per_sequence(self) -> None:
        """5 MB and 86 kB each: T = 0.005 + 0.005086 s."""
        found = budget_of(cache="full:5x5x50+50 state:5x4x1000+600")["staging"][0]
        seconds = wait(0.010086, 0.020172) + 0.010086
        assert found["in_flight_bytes"] == close(2 * seconds * 5.086e6)


def test_a_refused_bound_has_neither_rows_nor_staging() -> None:
    """ρ_p = 0.22."""
    half = budget_of(u_p=Ranged(0.8, low=0.2))
    assert [one["bound"] for one in half["rows"]] == ["nominal"]
    assert [one["bound"] for one in half["staging"]] == ["nominal"]
    none = budget_of(u_p=0.2)
    assert (none["rows"], none["staging"]) == ([], [])


def test_of_a_closed_loop_each_bound_is_taken_at_its_own_rate() -> None:
    """One request at a time, or two: the wait for the link is that of the rate found."""
    inputs = {"concurrency": Ranged(1, high=2), "ca2": 0}
    rates = matrix_of(inputs_frame_of(compared="disaggregated", **inputs), STEADY).filter(
        pl.col("scenario") == "disaggregated/p1/d1"
    )["rate_rps"]
    assert rates[0] < rates[1]
    used = [one["used_s"] for one in budget_of(**inputs)["rows"]]
    assert used == pytest.approx([wait(0.015, rate * 0.015) + 0.015 for rate in rates], rel=1e-9)


def test_where_a_curve_ends_in_a_jump_the_largest_that_fits_is_meant() -> None:
    """850 tokens are 8.5 MB, in the middle of a curve from 8 to 9 MB; outside of it, 20 MB/s take 4.5 times the envelope.

    Of 1.9 MB it holds as well, but all of the curve fits: the largest is its end, 9 MB or 900 tokens.
    """
    requests = in_pairs(*[(850, 101)] * 5)
    found = budget_of(requests, curve="8000000:0.001 9000000:0.002", w=2e7)["rows"][0]
    assert found["envelope_share"] < 0.02
    assert found["bytes_at_limit"] == close(9e6)
    assert found["largest_prompt_tokens"] == 900


def test_beyond_a_curve_that_does_not_fit_a_bandwidth_may() -> None:
    """The curve takes 0.2 s and more, twice the envelope; beyond 20 MB, 5 ms and 1 GB/s leave room for over 90 MB."""
    found = budget_of(STEADY, curve="10000000:0.2 20000000:0.3", w=1e9)["rows"][0]
    assert found["envelope_share"] > 1
    assert found["bytes_at_limit"] == close((0.1 - found["used_s"] + 0.2 - 0.005) * 1e9)
    assert found["largest_prompt_tokens"] > 2000
