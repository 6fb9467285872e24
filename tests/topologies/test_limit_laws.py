"""Limits that each form tends to, and paths that are one another: on random inputs as in test_laws.py, and on few requests."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pandera.config import config_context

from pipelines.frames.evaluation import LANES, LOADS
from pipelines.frames.inputs import InputTable
from pipelines.topologies.matrix import MixedCohortsError, scenario_matrix
from tests.plans import UNIT_WEIGHTS, evaluation_of, in_pairs, inputs_frame_of, requests_of, row_of
from tests.topologies.test_laws import AT_EASE, EDGES, LONG, SHORT, Overrides, evaluated, some_inputs, some_requests
from tests.topologies.worked import STEADY, VARIED

LEISURE: dict[str, Any] = {**AT_EASE, "slots": 1e6, "kv_memory": 1e15, "u_p": 0.99, "u_d": 0.99, "u_l": 0.99}


@pytest.fixture(autouse=True)
def _unvalidated() -> Iterator[None]:
    with config_context(validation_enabled=False):
        yield


class TestChunks:
    def test_a_larger_budget_never_lengthens_execution_and_an_unbounded_one_takes_one_step_a_prompt(self) -> None:
        """VARIED at one in ten seconds: 3000 tokens in 6, 3, 2, 2 and 1 pieces, 500 in one; θ is that of hardly any sequence."""
        budgets = (600, 1100, 1600, 2100, 3100, 10**7)
        inputs = inputs_frame_of(**LEISURE, rate=0.1, chunk_tokens=" ".join(map(str, budgets)))
        evaluation = evaluation_of("chunked", inputs, VARIED, [1000])
        taken = [row_of(evaluation, f"chunked/n1/c{c}", bucket="[1000,inf)")["prefill_execution_s"] for c in budgets]
        assert all(fewer <= more * (1 + 1e-4) for more, fewer in pairwise(taken))  # θ follows a batch of 1/500
        for pieces, seconds in zip((6, 3, 2, 2, 1, 1), taken, strict=True):
            assert seconds == pytest.approx(pieces * 0.02 + 0.3, rel=1e-3)  # 10 ms of θ and 10 ms of d a piece

    @given(some_inputs, some_requests())
    @settings(max_examples=10)
    def test_at_low_load_one_piece_a_prompt_is_a_whole_prompt_in_a_step(
        self, numbers: Overrides, requests: pl.DataFrame
    ) -> None:
        """At 10⁻⁶ requests a second: TTFT is longer by the step t(0) that carries the prompt, TPOT is the same within a ten thousandth."""
        numbers = numbers | LEISURE | {"rate": 1e-6, "ca2": 1.0, "chunk_tokens": "100000000", "psi": 0.0}
        whole, chunks = (
            evaluated(evaluation_of(topology, inputs_frame_of(**numbers), requests, EDGES)).filter(
                (pl.col("bound") == "nominal") & (pl.col("workers_mixed") == 1)
            )
            for topology in ("aggregated", "chunked")
        )
        assert whole["bucket"].to_list() == chunks["bucket"].to_list()
        for one, other in zip(whole.to_dicts(), chunks.to_dicts(), strict=True):
            assert other["ttft_s"] - one["ttft_s"] == pytest.approx(numbers["t0"], rel=1e-2)
            if one["tpot_s"] is not None:
                assert other["tpot_s"] == pytest.approx(one["tpot_s"], rel=1e-4)


class TestTwoQueues:
    """One worker per pool, transfers that take no time, slots for all: prefill M/G/1 and a decode worker, one after the other."""

    @given(some_inputs, some_requests())
    @settings(max_examples=12)
    def test_prefill_waits_by_pollaczek_and_khinchine_and_decode_has_its_pace(
        self, numbers: Overrides, requests: pl.DataFrame
    ) -> None:
        nothing = dict.fromkeys(
            ("registration", "synchronization", "receiver_visibility", "handover", "per_descriptor"), 0.0
        )
        numbers = (
            numbers | LEISURE | nothing | {"w": 1e30, "rate": 1.0, "ca2": 1.0, "first_token": "decode", "eta": 0.0}
        )
        numbers = numbers | {"discipline_p": "fifo"}
        rows = evaluation_of("disaggregated", inputs_frame_of(**numbers), requests)
        row = row_of(rows, "disaggregated/p1/d1")
        assume(row["status"] == "evaluated")
        prompts = [
            (p, p - h, o)
            for p, h, o in requests.select("prompt_tokens", "cached_prompt_tokens", "output_tokens").rows()
        ]
        times = [numbers["d"] + u / numbers["r_p"] + numbers["q"] * (p * p - (p - u) ** 2) for p, u, _ in prompts]
        n = len(times)
        mean, second = math.fsum(times) / n, math.fsum(s * s for s in times) / n
        assert row["prefill_wait_s"] == pytest.approx(second / (2 * (1 - mean)), rel=1e-9)  # Λ·E[S²]/(2·(1 - ρ)), Λ = 1
        steps = math.fsum(o for _, _, o in prompts) / n
        held = math.fsum(p * o + o * o / 2 for p, _, o in prompts) / n / steps
        c = 1 / numbers["r_d"] + numbers["gamma"] * held
        t = (numbers["t0"] + c) / (1 - steps * c)
        assert row["first_decode_step_s"] == pytest.approx(t, rel=1e-9)
        assert (row["transfer_wait_s"], row["kv_movement_s"]) == pytest.approx((0, 0), abs=1e-12)
        some = 1 - (1 - steps * c) ** ((numbers["t0"] + c) / c)
        assert row["decode_wait_s"] == pytest.approx(some * t / 2, rel=1e-6)
        expected = numbers["a"] + second / (2 * (1 - mean)) + mean + some * t / 2 + t
        assert row["ttft_s"] == pytest.approx(expected, rel=1e-6)


class TestRouted:
    FIGURES = (*LANES, "ttft_s", "tpot_s", "e2e_s")

    @given(some_inputs, some_requests(), st.floats(0.0, 4.0), st.sampled_from([None, 512]))
    @settings(max_examples=8)
    def test_each_path_is_its_topology_on_the_requests_it_serves_alone(
        self, numbers: Overrides, requests: pl.DataFrame, ca2: float, chunk_tokens: int | None
    ) -> None:
        """At its part g of the rate, whose gaps vary by g·ca² + 1 - g."""
        numbers = numbers | AT_EASE | {"chunk_tokens": "512", "routed_chunks": "512"}
        short, long = (requests.filter(pl.col("prompt_tokens").lt(600) == below) for below in (True, False))
        assume(short.height and long.height)
        routed = evaluation_of("routed", inputs_frame_of(**numbers, rate=1.0, ca2=ca2), requests, EDGES)
        middle = "" if chunk_tokens is None else f"c{chunk_tokens}/"
        own = "chunked/n1/c512" if chunk_tokens else "aggregated/n1"
        for part, bucket, scenario, loads in (
            (short, SHORT, own, LOADS[:4]),
            (long, LONG, "disaggregated/p1/d1", LOADS[4:]),
        ):
            g = part.height / requests.height
            inputs = inputs_frame_of(**numbers, rate=g, ca2=g * ca2 + 1 - g)
            alone = evaluation_of(scenario.partition("/")[0], inputs, part, EDGES)
            for bound in ("nominal", "conservative"):
                one = row_of(routed, f"routed/t600/n1/{middle}p1/d1", bound, bucket)
                other = row_of(alone, scenario, bound, bucket)
                if one["status"] == other["status"] == "evaluated":
                    for name in (*self.FIGURES, *(f"load_{load}" for load in loads)):
                        assert one[name] == (
                            None if other[name] is None else pytest.approx(other[name], rel=1e-9, abs=1e-15)
                        )
                if other["status"] == "refused":
                    assert one["status"] == "refused"


class TestCohorts:
    def test_rows_of_two_cohorts_do_not_meet_whatever_their_topologies(self) -> None:
        inputs = inputs_frame_of(compared="aggregated disaggregated routed", thresholds="1000", gpus=3, ttft=0.5)
        names = ("aggregated", "disaggregated", "routed")
        evaluations = [evaluation_of(name, inputs, VARIED, [1000]) for name in names]
        assert scenario_matrix(evaluations, InputTable.of(inputs), UNIT_WEIGHTS).height == 2 * (3 + 3 + 1)
        for place in range(3):
            others = list(evaluations)
            others[place] = others[place].with_columns(fingerprint=pl.lit("0" * 64))
            with pytest.raises(MixedCohortsError, match="fingerprints 000000000000, ffffffffffff"):
                scenario_matrix(others, InputTable.of(inputs), UNIT_WEIGHTS)


class TestFullExactly:
    def test_links_that_are_full_to_the_last_digit_refuse(self) -> None:
        """Two transfers of half a second each a second: 0.25 s of overhead, 10 MB at 40 MB/s."""
        overheads = {"registration": 0.25, "synchronization": 0.0, "receiver_visibility": 0.0}
        inputs = inputs_frame_of(w=4e7, **overheads, ttft=9.0)
        row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
        assert (row["refusal_kind"], row["refusal_figure"]) == ("link_saturated", 1.0)

    def test_a_prefill_pool_that_is_full_to_the_last_digit_refuses(self) -> None:
        """Two prompts of half a second each a second."""
        inputs = inputs_frame_of(d=0.25, r_p=4000.0, ttft=9.0)
        row = row_of(evaluation_of("disaggregated", inputs, STEADY), "disaggregated/p1/d1")
        assert (row["refusal_resource"], row["refusal_figure"]) == ("prefill", 1.0)

    def test_a_decode_pool_that_is_full_to_the_last_digit_refuses(self) -> None:
        """256 tokens a second at 1/256 s each."""
        requests = in_pairs(*[(1000, 128)] * 5)
        inputs = inputs_frame_of(r_d=256.0, ttft=9.0, tpot=9.0)
        row = row_of(evaluation_of("disaggregated", inputs, requests), "disaggregated/p1/d1")
        assert (row["refusal_resource"], row["refusal_figure"]) == ("decode", 1.0)

    @pytest.mark.parametrize("topology", ["aggregated", "chunked"])
    def test_so_does_a_mixed_one(self, topology: str) -> None:
        requests = requests_of(*((place // 2, 1000, 1) for place in range(5)))
        inputs = inputs_frame_of(d=0.25, r_p=4000.0, ttft=9.0, chunk_tokens="5000")
        row = row_of(
            evaluation_of(topology, inputs, requests),
            {"aggregated": "aggregated/n1", "chunked": "chunked/n1/c5000"}[topology],
        )
        assert (row["refusal_resource"], row["refusal_figure"]) == ("mixed", 1.0)
