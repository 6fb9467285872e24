"""Floors, objectives of buckets and end to end, cost and the regimes of screening, worked out by hand: costs are those of worked.py."""

from typing import Any

import pytest

from tests.plans import Ranged, evaluation_of, in_pairs, inputs_frame_of, matrix_of, requests_of, row_of
from tests.topologies.by_hand import chunks, decode_pool, mean, meets, pairs, whole_prompts
from tests.topologies.worked import FIVE, LONG, MIX, SHORT, STEADY, VARIED, close, lanes_of, loads_of

FIGURES = ("refusal_kind", "refusal_resource", "refusal_figure", "refusal_limit")


def refusal(
    topology: str, scenario: str, requests: Any = VARIED, bound: str = "nominal", **overrides: Any
) -> tuple[Any, ...]:
    row = row_of(evaluation_of(topology, inputs_frame_of(**overrides), requests, [1000]), scenario, bound, SHORT)
    return tuple(row[name] for name in FIGURES)


class TestFloors:
    """Alone on idle workers: what no number of workers mends. S(500) = 0.06, S(3000) = 0.31 s; a step of one takes 10.5 ms."""

    @pytest.mark.parametrize("workers", [1, 2, 4])
    def test_whole_prompts(self, workers: int) -> None:
        found = refusal("aggregated", f"aggregated/n{workers}", ttft=0.31)
        assert found == ("ttft_floor", LONG, close(0.312), 0.31)

    def test_chunks_by_their_steps_without_decode_tokens_in_them(self) -> None:
        """Budget 500: 6 pieces of 10 ms each beside a step of t(0) = 10 ms, and 0.3 s of tokens; of which a quarter more beside decode."""
        found = refusal("chunked", "chunked/n4/c500", ttft=0.42, chunk_tokens="500")
        assert found == ("ttft_floor", LONG, close(0.002 + 6 * 0.01 + 0.36), 0.42)
        found = refusal("chunked", "chunked/n4/c500", ttft=0.42, chunk_tokens="500", psi=0.25)
        assert found == ("ttft_floor", LONG, close(0.002 + 6 * 0.01 + 1.25 * 0.36), 0.42)

    def test_separated_with_the_first_token_by_decode(self) -> None:
        """0.31 s, 35 ms to move 30 MB, and a step of one."""
        found = refusal("disaggregated", "disaggregated/p2/d2", ttft=0.35)
        assert found == ("ttft_floor", LONG, close(0.002 + 0.31 + 0.035 + 0.0105), 0.35)
        assert refusal("disaggregated", "disaggregated/p2/d2", ttft=0.6)[0] is None

    def test_separated_with_the_first_token_by_prefill(self) -> None:
        found = refusal("disaggregated", "disaggregated/p2/d2", ttft=0.31, first_token="prefill")
        assert found == ("ttft_floor", LONG, close(0.312), 0.31)

    def test_a_floor_that_just_reaches_the_objective_is_within_it(self) -> None:
        """Of the conservative bound it is the floor of that bound."""
        requests = in_pairs(*[(1000, 1)] * 5)
        found = refusal_of_one("aggregated/n1", requests, ttft=0.002 + 0.01 + 1000 / 10_000)
        assert found[0] is None
        found = refusal_of_one("aggregated/n1", requests, "conservative", ttft=0.13, d=Ranged(0.01, high=0.05))
        assert found == ("ttft_floor", "[1,inf)", close(0.152), 0.13)

    def test_a_floor_of_tpot(self) -> None:
        for topology, scenario in (
            ("aggregated", "aggregated/n3"), ("chunked", "chunked/n3/c512"), ("disaggregated", "disaggregated/p1/d3"),
        ):  # fmt: skip
            found = refusal(topology, scenario, ttft=1.0, tpot=0.0104)
            assert found == ("tpot_floor", SHORT, close(0.0105), 0.0104)

    def test_the_floor_of_tpot_is_that_of_the_decode_worker(self) -> None:
        overrides = {"ttft": 1.0, "tpot": 0.009, "t0_d": 0.008}
        assert refusal("disaggregated", "disaggregated/p1/d1", **overrides)[0] is None
        assert refusal("aggregated", "aggregated/n1", **overrides)[0] == "tpot_floor"

    def test_answers_of_one_token_have_no_floor_of_tpot(self) -> None:
        """Then the bucket of the long prompt is the first."""
        requests = in_pairs((500, 1), (500, 1), (500, 1), (500, 1), (3000, 81))
        assert refusal("aggregated", "aggregated/n1", requests, ttft=1.0, tpot=0.0104)[1] == LONG
        none = in_pairs((500, 1), (500, 1), (500, 1), (500, 1), (3000, 1))
        assert refusal("aggregated", "aggregated/n1", none, ttft=1.0, tpot=0.0001)[0] is None

    def test_all_loads_are_there_and_come_first(self) -> None:
        row = row_of(evaluation_of("aggregated", inputs_frame_of(), VARIED, [1000]), "aggregated/n2", bucket=LONG)
        assert row["refusal_kind"] == "ttft_floor"  # 0.2 s
        assert list(loads_of(row)) == ["mixed", "slots_mixed", "kv_mixed"]
        assert lanes_of(row) == (None,) * 8
        assert (row["goodput"], row["stall_s"], row["decode_batch"], row["ttft_s"]) == (None,) * 4
        assert refusal("aggregated", "aggregated/n1", u_p=0.2)[:2] == ("utilization", "mixed")

    def test_ttft_comes_before_tpot(self) -> None:
        assert refusal("aggregated", "aggregated/n1", tpot=0.001)[0] == "ttft_floor"

    def test_the_bucket_with_the_largest_ratio_is_named(self) -> None:
        """0.312/0.3 = 1.04 of the long ones; 0.062/0.061 = 1.016 or 0.062/0.05 = 1.24 of the short ones."""
        for own, bucket, figure, limit in ((0.061, LONG, 0.312, 0.3), (0.05, SHORT, 0.062, 0.05)):
            found = refusal("aggregated", "aggregated/n1", ttft=0.3, ttft_1000=own)
            assert found == ("ttft_floor", bucket, close(figure), limit)

    def test_of_two_paths_each_has_its_own(self) -> None:
        """0.312 + 0.035 + 0.0105 s of the long path."""
        overrides = {"compared": "routed", "thresholds": "1000", "gpus": 3}
        found = refusal("routed", "routed/t1000/n1/p1/d1", ttft=0.35, **overrides)
        assert found == ("ttft_floor", LONG, close(0.3575), 0.35)
        found = refusal("routed", "routed/t1000/n1/p1/d1", ttft=0.06, **overrides)
        assert found[:2] == ("ttft_floor", LONG)  # 5.96 times, against 1.03 times


def refusal_of_one(scenario: str, requests: Any, bound: str = "nominal", **overrides: Any) -> tuple[Any, ...]:
    topology = scenario.partition("/")[0]
    row = row_of(evaluation_of(topology, inputs_frame_of(**overrides), requests), scenario, bound)
    return tuple(row[name] for name in FIGURES)


class TestObjectivesOfBuckets:
    """On one worker TTFT is 0.062 s and a wait of the short prompts, 0.312 s and the same of the long one."""

    def matrix(self, edges: tuple[int, ...] = (1000,), **overrides: Any) -> dict[str, Any]:
        inputs = inputs_frame_of(compared="aggregated", ttft=0.5, slots=64, **overrides)
        return row_of(matrix_of(inputs, VARIED, edges), "aggregated/n1")

    def test_without_any_the_worst_bucket_is_judged(self) -> None:
        row = self.matrix()
        assert row["ttft_worst_bucket"] == row["ttft_judged_bucket"] == LONG
        assert row["ttft_judged_s"] == row["ttft_worst_s"]
        assert row["ttft_objective_s"] == 0.5

    def test_the_bucket_with_the_largest_ratio_is_judged_by_its_own(self) -> None:
        """Of 0.5 s the long prompt takes 70 %, of 0.12 s the short ones 85 %."""
        found = whole_prompts(pairs(*[(one.p, one.o) for one in MIX]), cap=64)
        short, long = 0.062 + found.wait, 0.312 + found.wait
        assert short / 0.12 > long / 0.5
        row = self.matrix(ttft_1000=0.12)
        assert (row["ttft_worst_bucket"], row["ttft_worst_s"]) == (LONG, pytest.approx(long, rel=1e-9))
        assert (row["ttft_judged_bucket"], row["ttft_judged_s"]) == (SHORT, pytest.approx(short, rel=1e-9))
        assert row["ttft_objective_s"] == 0.12

    def test_the_others_stay_with_the_common_ones(self) -> None:
        """All are then judged by ratio: TPOT of 30 tokens against that of 80."""
        row = self.matrix(ttft_1000=0.12)
        assert (row["tpot_judged_bucket"], row["tpot_objective_s"]) == (row["tpot_worst_bucket"], 0.02)
        assert row["e2e_objective_s"] is None

    def test_the_smallest_edge_that_reaches_the_bucket_counts(self) -> None:
        """Buckets up to 400, 1000 and 4000 tokens, objectives for those below 1000 and below 4000."""
        row = self.matrix((400, 1000, 4000), ttft_1000=0.3, ttft_4000=0.4)
        assert (row["ttft_judged_bucket"], row["ttft_objective_s"]) == ("[1000,4000)", 0.4)

    def test_an_edge_within_a_bucket_reaches_none_of_it(self) -> None:
        """[1,2000) is not below 1000."""
        row = self.matrix((2000,), ttft_1000=0.01)
        assert (row["ttft_judged_bucket"], row["ttft_objective_s"]) == ("[2000,inf)", 0.5)

    def test_goodput_counts_each_by_its_own(self) -> None:
        found = whole_prompts(MIX, cap=64)
        inputs = inputs_frame_of(ttft=0.5, slots=64, ttft_1000=0.1, tpot_1000=0.03)
        row = row_of(evaluation_of("aggregated", inputs, VARIED, [1000]), "aggregated/n1", bucket=SHORT)
        fixed = 0.002 + found.wait - found.w
        short = meets(found.pw, found.w, 0.1 - fixed - 0.06) * (0.25 + 0.75 * found.generation.meets(41, 0.03))
        long = meets(found.pw, found.w, 0.5 - fixed - 0.31) * found.generation.meets(81, 0.02)
        assert row["goodput"] == close(0.8 * short + 0.2 * long)


class TestEndToEnd:
    """After the first token of STEADY come 100 tokens. Slack is what is less: of TTFT, or of E2E less what comes after."""

    FOUND = whole_prompts(FIVE)
    AFTER = FOUND.dw + FOUND.first + 99 * FOUND.t

    def test_whole_prompts(self) -> None:
        fixed = 0.112 + self.FOUND.wait - self.FOUND.w
        for e2e in (self.AFTER + 0.25, self.AFTER + 0.18, self.AFTER + 0.1):
            row = row_of(evaluation_of("aggregated", inputs_frame_of(ttft=0.2, e2e=e2e), STEADY), "aggregated/n1")
            slack = min(0.2 - fixed, e2e - fixed - self.AFTER)
            in_time = meets(self.FOUND.pw, self.FOUND.w, slack)
            assert row["goodput"] == close(in_time * self.FOUND.generation.meets(101, 0.02))

    def test_it_refuses_nothing(self) -> None:
        row = row_of(evaluation_of("aggregated", inputs_frame_of(e2e=0.001), STEADY), "aggregated/n1")
        assert (row["status"], row["goodput"]) == ("evaluated", 0)

    def test_each_bucket_by_its_own(self) -> None:
        """The long prompt decodes 80 tokens, the short ones 30 on average: after the first token 0.75·dw and so on."""
        found = whole_prompts(MIX)
        inputs = inputs_frame_of(ttft=0.5, e2e=2.0, e2e_1000=0.7)
        row = row_of(evaluation_of("aggregated", inputs, VARIED, [1000]), "aggregated/n1", bucket=SHORT)
        fixed = 0.002 + found.wait - found.w
        after = (0.75 * (found.dw + found.first) + 29.25 * found.t, found.dw + found.first + 79 * found.t)
        short = meets(found.pw, found.w, min(0.5, 0.7 - after[0]) - fixed - 0.06)
        long = meets(found.pw, found.w, min(0.5, 2.0 - after[1]) - fixed - 0.31)
        short *= 0.25 + 0.75 * found.generation.meets(41, 0.02)
        long *= found.generation.meets(81, 0.02)
        assert row["goodput"] == close(0.8 * short + 0.2 * long)

    def test_separated(self) -> None:
        """With the first token by decode 100 steps come after it; the e2e objective leaves 0.15 s of the 0.2 s."""
        pool = decode_pool(FIVE)
        wait, link = 0.5 * 0.22 / 0.78 * 0.11, 0.5 * 0.03 / 0.97 * 0.015
        inputs = inputs_frame_of(e2e=0.18 + 100 * pool.t)
        row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
        fixed = 0.112 + link + 0.015 + pool.wait + pool.t
        assert row["goodput"] == close(meets(0.22, wait, 0.18 - fixed) * pool.generation.meets(101, 0.02))


class TestCost:
    """3.6 an hour and GPU are a thousandth a second."""

    def test_of_tokens_that_met_their_objectives(self) -> None:
        inputs = inputs_frame_of(price=3.6, ttft=0.5)
        row = row_of(evaluation_of("aggregated", inputs, VARIED, [1000]), "aggregated/n3", bucket=SHORT)
        found = whole_prompts(MIX, 3)
        fixed = 0.002 + found.wait - found.w
        short = 0.8 * meets(found.pw, found.w, 0.5 - fixed - 0.06) * (0.25 + 0.75 * found.generation.meets(41, 0.02))
        long = 0.2 * meets(found.pw, found.w, 0.5 - fixed - 0.31) * found.generation.meets(81, 0.02)
        assert row["goodput"] == close(short + long)
        assert row["cost_per_million_tokens"] == close(0.003 / (2 * (short * 31 + long * 81)) * 1e6)

    def test_gpus_of_a_worker_count_each(self) -> None:
        one, two = (
            row_of(
                evaluation_of("aggregated", inputs_frame_of(price=3.6, gpus_per_worker=each), STEADY), "aggregated/n1"
            )
            for each in (1, 2)
        )
        assert two["cost_per_million_tokens"] == close(2 * one["cost_per_million_tokens"])
        assert one["cost_per_million_tokens"] == close(0.001 / (2 * one["goodput"] * 101) * 1e6)

    def test_absent_without_a_price_and_where_nothing_meets(self) -> None:
        assert set(evaluation_of("aggregated", inputs_frame_of(), STEADY)["cost_per_million_tokens"]) == {None}
        # with the first token by prefill nobody gets 100 tokens in 10.5 ms each
        inputs = inputs_frame_of(price=3.6, first_token="prefill", tpot=0.0105)
        row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
        assert (row["goodput"], row["cost_per_million_tokens"]) == (0, None)


def screening(scenario: str, requests: Any = STEADY, **overrides: Any) -> str:
    topology, at_rest = scenario.partition("/")[0], {"tpot": 0.1, "ttft": 5.0, "slots": 64}
    found = row_of(evaluation_of(topology, inputs_frame_of(**at_rest | overrides), requests), scenario)["screening"]
    assert isinstance(found, str)
    return found


class TestScreening:
    """Names of regimes; a row that is in none has an empty text. 64 slots, and 0.1 s for a token, keep STEADY out of all."""

    @pytest.mark.parametrize("scenario", ["aggregated/n1", "chunked/n1/c512", "disaggregated/p1/d1"])
    def test_none(self, scenario: str) -> None:
        assert screening(scenario) == ""

    @pytest.mark.parametrize(("ca2", "name"), [(0.49, "arrivals"), (0.51, ""), (1.99, ""), (2.01, "arrivals")])
    def test_arrivals(self, ca2: float, name: str) -> None:
        assert screening("disaggregated/p1/d1", rate=1.0, ca2=ca2) == name

    def test_arrivals_of_a_path_are_the_split_ones(self) -> None:
        """Of 2.1, four of five have 0.8·2.1 + 0.2 = 1.88, one of five 1.22."""
        inputs = inputs_frame_of(
            rate=1.0, ca2=2.1, compared="routed", thresholds="1000", gpus=3, tpot=0.1, ttft=5.0, slots=64
        )
        assert (
            row_of(evaluation_of("routed", inputs, VARIED, [1000]), "routed/t1000/n1/p1/d1", bucket=SHORT)["screening"]
            == ""
        )

    def test_runs(self) -> None:
        """What is waited behind one's prefill is more than a quarter of all that follows the first token: 11 tokens here."""
        requests = in_pairs(*[(1000, 11)] * 5)
        found = whole_prompts(pairs(*[(1000, 11)] * 5), cap=64)
        share = found.dw / (found.dw + 10 * found.t)
        assert 0.1 < share < 0.25
        assert screening("aggregated/n1", requests) == ""
        requests, own = in_pairs(*[(1000, 6)] * 5), pairs(*[(1000, 6)] * 5)
        found = whole_prompts(own, cap=64)
        assert found.dw / (found.dw + 5 * found.t) > 0.25
        assert screening("aggregated/n1", requests) == "runs"

    def test_runs_on_workers_with_a_queue_each_from_a_tenth_on(self) -> None:
        """At ca² = 2 each of two workers has 1: some stay behind."""
        requests, own = in_pairs(*[(1000, 9)] * 5), pairs(*[(1000, 9)] * 5)
        found = whole_prompts(own, 2, ca2=2.0, round_robin=True, cap=64)
        share = found.dw / (found.dw + 8 * found.t)
        assert 0.1 < share < 0.25
        assert screening("aggregated/n2", requests, rate=2.0, ca2=2.0, dispatch="round_robin") == "runs"
        shared = whole_prompts(own, 2, ca2=2.0, cap=64)
        assert shared.dw / (shared.dw + 8 * shared.t) < 0.25
        assert screening("aggregated/n2", requests, rate=2.0, ca2=2.0) == ""

    def test_runs_of_chunks_are_by_what_they_wait(self) -> None:
        requests, own = in_pairs(*[(1000, 3)] * 5), pairs(*[(1000, 3)] * 5)
        found = chunks(own, 2000, cap=64)
        assert (found.e > (found.e + 2 * found.t) / 4) == (
            "runs" in screening("chunked/n1/c2000", requests, chunk_tokens="2000")
        )

    def test_lane(self) -> None:
        """V = θ·1000/C' + 0.02 + 0.1 and more: at 2.5 a second 0.37 s of each, 3.6 a second 0.6 of the lane."""
        for rate in (2.5, 4.5):
            found = chunks(FIVE, 700, rate=rate, cap=64)
            name = screening("chunked/n1/c700", chunk_tokens="700", rate=rate, ca2=1.0, u_p=0.99, u_d=0.99)
            assert (found.lane.rho > 0.6) == ("lane" in name.split())
        assert found.lane.rho > 0.6

    def test_long_prompts(self) -> None:
        """Nine of 100 tokens and one of 20,000 on two workers: S = 0.02 and 2.01 s, cs² = 7.5; one worker is not told."""
        requests = requests_of(*((place * 5, 20_000 if place == 4 else 100, 1) for place in range(10)))
        times = [0.02] * 9 + [2.01]
        assert mean([s * s for s in times]) / mean(times) ** 2 - 1 > 2
        found = {n: screening(f"disaggregated/p{n}/d1", requests, kv_memory=1e12) for n in (1, 2)}
        assert ("long_prompts" in found[1].split(), "long_prompts" in found[2].split()) == (False, True)
        assert "long_prompts" not in screening("disaggregated/p2/d1", requests, kv_memory=1e12, dispatch="round_robin")

    def test_slots(self) -> None:
        """b = 202·0.0105/0.899 = 2.36 of 3.4 are 0.69, of 3.3 0.715."""
        assert screening("disaggregated/p1/d1", slots=3.4) == ""
        assert screening("disaggregated/p1/d1", slots=3.3) == "slots"

    def test_tpot(self) -> None:
        """A bucket's objective below 1.5·t, on mixed pools alone."""
        t = whole_prompts(FIVE, cap=64).t
        assert screening("aggregated/n1", tpot=1.49 * t) == "tpot"
        assert screening("aggregated/n1", tpot=1.51 * t) == ""
        assert screening("disaggregated/p1/d1", tpot=0.012) == ""
        assert screening("aggregated/n1", in_pairs(*[(1000, 1)] * 5), tpot=0.001) == "tpot"

    @pytest.mark.parametrize("scenario", ["aggregated/n1", "chunked/n1/c2000", "disaggregated/p1/d1"])
    def test_curve_beyond_the_last_point_of_prefill(self, scenario: str) -> None:
        instead = {"d": None, "r_p": None, "chunk_tokens": "2000"}
        assert screening(scenario, prefill_curve="100:0.02 1000:0.11", **instead) == ""
        assert screening(scenario, prefill_curve="100:0.02 999:0.11", **instead) == "curve"

    def test_curve_beyond_the_last_point_of_decode(self) -> None:
        """y = 1 + 202·0.0105/0.899 = 3.36."""
        instead = {"t0": None, "r_d": None}
        assert screening("disaggregated/p1/d1", decode_curve="1:0.0105 4:0.012", **instead) == ""
        assert screening("disaggregated/p1/d1", decode_curve="1:0.0105 3:0.0115", **instead) == "curve"

    def test_names_come_in_their_order_and_of_either_path(self) -> None:
        inputs = inputs_frame_of(
            rate=2.0, ca2=9.0, compared="routed", thresholds="1000", gpus=3, tpot=0.0125, ttft=5.0, slots=1.2, u_d=0.99
        )
        row = row_of(evaluation_of("routed", inputs, VARIED, [1000]), "routed/t1000/n1/p1/d1", bucket=LONG)
        names = row["screening"].split()
        assert names == [name for name in ("arrivals", "runs", "slots", "tpot") if name in names]
        assert {"arrivals", "tpot"} <= set(names)
