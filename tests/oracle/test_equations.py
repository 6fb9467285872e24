"""Prefill, decode and waits of docs/arithmetic.md, against numbers worked by hand."""

import math

import pytest

from pipelines.oracle import equations as eq
from pipelines.oracle import extremes as ex
from pipelines.oracle import queues as qu
from pipelines.oracle.curves import Curve
from pipelines.oracle.pacing import Steps
from pipelines.oracle.parameters import Parameters
from pipelines.oracle.traffic import Moments, Stratum, split_scv, with_hits
from tests.oracle import by_hand
from tests.oracle.example import CACHED, EXAMPLE, LONG, SHORT, WHOLE, parameters, with_whole


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-12, abs=0.0)


def prefill(of: Parameters, whole: Moments = WHOLE) -> eq.Prefill:
    return eq.prefill_of(of, with_whole(whole).requests)


def test_prefill_moments_are_those_of_the_two_prompts() -> None:
    # S(1000) = 0.01 + 0.05 = 0.06, S(3000) = 0.01 + 0.15 = 0.16
    of = parameters()
    assert prefill(of, WHOLE).mean_s(WHOLE) == close((0.06 + 0.16) / 2)
    assert prefill(of, WHOLE).m2_s2(WHOLE) == close((0.06**2 + 0.16**2) / 2)


def test_prefill_moments_with_attention() -> None:
    # q = 1e-8: S(1000) = 0.07, S(3000) = 0.25
    of = parameters(prefill_s_per_token2=1e-8)
    assert prefill(of, WHOLE).mean_s(WHOLE) == close((0.07 + 0.25) / 2)
    assert prefill(of, WHOLE).m2_s2(WHOLE) == close((0.07**2 + 0.25**2) / 2)
    # 1000 x 0.07 and 3000 x 0.25
    assert prefill(of, WHOLE).token_s() == close((70 + 750) / 2)


def test_prefill_moments_of_prompts_with_cached_tokens() -> None:
    # 600 of 1000 and 1800 of 3000 tokens are cached: u = 400, 1200; z = 1000² - 600² = 640000, 9 x 640000
    # q = 1e-8: S = 0.01 + 0.02 + 0.0064 = 0.0364, 0.01 + 0.06 + 0.0576 = 0.1276
    of = parameters(prefill_s_per_token2=1e-8)
    assert prefill(of, CACHED).mean_s(CACHED) == close((0.0364 + 0.1276) / 2)
    assert prefill(of, CACHED).m2_s2(CACHED) == close((0.0364**2 + 0.1276**2) / 2)
    assert prefill(of, CACHED).token_s() == close((1000 * 0.0364 + 3000 * 0.1276) / 2)
    assert eq.longest_prefill_s(of, CACHED) == close(0.1276)


def test_a_declared_hit_ratio_is_that_share_of_every_prompt() -> None:
    # the same 60 % of each prompt, declared instead of counted; the longest prompt may miss
    declared, of = with_hits(WHOLE, 0.6), parameters(prefill_s_per_token2=1e-8)
    for name in ("p1", "p2", "u1", "u2", "z1", "z2", "uz", "pu", "pz"):
        assert getattr(declared, name) == close(getattr(CACHED, name)), name
    assert (declared.u_max, declared.z_max) == (3000, 9e6)
    assert eq.longest_prefill_s(of, declared) == close(0.25)


def test_decode_steps_when_prefill_emits_the_first_token() -> None:
    # 10 and 30 steps after either prompt
    work = eq.decode_work(WHOLE, prefill_emits_first_token=True)
    assert (work.steps, work.steps_m2, work.prompt_steps) == (20, (100 + 900) / 2, 2000 * 20)
    # (40000 + 250) / 20 tokens are resident per sequence
    assert work.resident_tokens == close(2012.5)
    assert work.steps_scv == close(500 / 400 - 1)


def test_decode_steps_when_decode_emits_the_first_token() -> None:
    work = eq.decode_work(WHOLE, prefill_emits_first_token=False)
    assert (work.steps, work.steps_m2, work.prompt_steps) == (21, 541, 42000)


def test_a_sequence_costs_its_token_and_its_resident_tokens() -> None:
    of = parameters(decode_s_per_context_token=1e-6)
    steps = eq.decode_of(of, WHOLE, prefill_emits_first_token=True).steps
    assert steps.per_sequence_s == close(0.001 + 1e-6 * 2012.5)
    assert steps.seconds(4.0) == close(0.01 + 4 * (0.001 + 1e-6 * 2012.5))


@pytest.mark.parametrize(("utilization", "service_s"), [(0.2, 1.0), (0.5, 0.01), (0.9, 3.0)])
def test_one_server_with_poisson_arrivals_is_pollaczek_khinchine(utilization: float, service_s: float) -> None:
    # rate x E[S²] / (2 (1 - rho)), with E[S²] = (1 + cs²) E[S]²
    rate, second_moment = utilization / service_s, (1 + 0.7) * service_s**2
    wait = qu.shared_queue(1.0, 0.7, utilization, 1, service_s)
    assert wait.mean_s == close(rate * second_moment / (2 * (1 - utilization)))
    assert wait.probability == close(utilization)


def test_two_servers_share_a_queue() -> None:
    # Erlang: B_1 = 1/2, B_2 = 1/5 of 1 erlang; 0.2/(1 - 0.5 x 0.8) = 1/3; W = (3 + 1)/2 x 1/3 / (2 x 0.5) x 3
    wait = qu.shared_queue(3.0, 1.0, 0.5, 2, 3.0)
    assert (wait.probability, wait.mean_s) == (close(1 / 3), close(2.0))


def test_regular_arrivals_wait_less() -> None:
    # ca² = cs² = 1/2, rho = 1/2: exp(-2/3 x 1/4 / 1); Pw = 1/2 - 1/2 x 1/4 x 1.75 / (1 - 1/4 + 2.5/4)
    wait = qu.single_queue(0.5, 0.5, 0.5, 2.0)
    assert wait.mean_s == close(0.5 * 2 * math.exp(-1 / 6))
    assert wait.probability == close(0.5 - 0.125 * 1.75 / 1.375)


def test_round_robin_gives_every_worker_a_part_of_the_variation() -> None:
    # (4/4 + 0.5)/2 x 0.6/0.4 x 2
    wait = qu.Pool(4, round_robin=True).wait(4.0, 0.5, 0.6, 2.0)
    assert wait.mean_s == close(0.75 * 1.5 * 2)
    assert wait.probability == 0.6


def test_one_slot_is_a_queue_on_one_server() -> None:
    # sigma = 0.5, H = 20 x 0.1 = 2, cH² = 500/400 - 1 = 0.25: 1.25/2 x 0.5/0.5 x 2
    work = eq.decode_work(WHOLE, prefill_emits_first_token=True)
    assert qu.slot_wait_s(qu.Pool(1), 1, work.steps_scv, 0.5, 20 * 0.1) == close(1.25)


def test_slots_of_all_workers_are_full_less_often() -> None:
    # 7 slots: sqrt(16) - 1 = 3, so 1.25/2 x 1/8 / (7 x 0.5) x 2; in turn, each worker has its own
    assert qu.slot_wait_s(qu.Pool(7), 1, 0.25, 0.5, 2.0) == close(1.25 / 28)
    assert qu.slot_wait_s(qu.Pool(7, round_robin=True), 1, 0.25, 0.5, 2.0) == close(1.25)


def test_no_decode_steps_need_no_slot() -> None:
    work = eq.DecodeWork(0.0, 0.0, 0.0)
    assert qu.slot_wait_s(qu.Pool(1), 64, work.steps_scv, 0.0, 0.0) == 0
    assert (work.resident_tokens, work.steps_scv) == (0, 0)


class TestFreeMoment:
    def test_of_one_worker_is_half_a_step(self) -> None:
        moment = qu.free_moment(qu.Pool(1), 0.4, 0.2, 0.75)
        assert (moment.rest_s(0.2, 0.08), moment.met) == (close(0.03), 1.0)

    def test_of_two_workers(self) -> None:
        # a = 1, E = B(1, 1) = 1/2; p_0 = 0.8 x 0.5 = 0.4: 0.4 + 0.3 = 0.7, beta = 3/7, y = (0.2 + 0.6)/1.4 = 4/7
        moment = qu.free_moment(qu.Pool(2), 1.0, 0.2, 0.5)
        assert (moment.all_busy, moment.not_idle, moment.met) == (close(3 / 7), close(4 / 7), close(0.75))
        # gamma = 0.35
        earliest = (1 + 0.35 + 0.35**2) / 3 - 0.35**2
        assert moment.rest_s(0.2, 0.07) == close(0.03 * earliest / 0.96)

    def test_workers_that_are_never_idle(self) -> None:
        moment = qu.free_moment(qu.Pool(2), 5.0, 0.2, 1.0)
        assert (moment.all_busy, moment.not_idle, moment.met) == (1.0, 1.0, 1.0)

    def test_nothing_is_offered(self) -> None:
        assert qu.free_moment(qu.Pool(2), 0.0, 0.0, 0.0).rest_s(0.0, 1.0) == 0


def test_a_run_of_two_workers() -> None:
    # rho = 1/2: k = 2, alpha = beta = 1/2; k = 1 + 2 - 1/2 = 5/2, alpha = 1.5/2.5, beta = 1/2.5
    assert qu.run_prompts(2, 0.5) == close((0.6 + 0.4) / 0.6)


def test_most_of_a_poisson_number_and_of_a_negative_binomial() -> None:
    assert ex.poisson_most(3.0, math.log(1000), 1e9) == close(
        by_hand.halved(lambda k: k * math.log(k / 3) - k + 3 - math.log(1000), 3.0, 100.0)
    )
    steps = Steps(0.01, 0.001, 0.0)
    crowd = steps.crowd(0.2, 400.0)
    # kappa_0 = 0.4/0.8
    assert ex.most_sequences(crowd, math.log(1000), 256) == close(by_hand.most_sequences(0.5, 11, math.log(1000)))
    assert ex.most_sequences(crowd, math.log(1000), 20) == 20
    assert ex.most_sequences(steps.crowd(0.2, 0.0), math.log(1000), 20) == 1
    assert ex.most_sequences(steps.crowd(0.2, 1e-9), math.log(2), 20) == 1


def test_nothing_runs_over_a_link_that_takes_no_time() -> None:
    assert ex.longest_run_s(1.0, 1, 1.0, (0.0, 0.0, 0.0), 0.0) == 0


def test_sequences_of_a_worker_with_level_steps_are_poisson() -> None:
    level = Steps(0.0, 0.0, 0.0, Curve(((1.0, 0.01), (8.0, 0.01))))
    assert level.crowd(0.5, 50.0).busy == close(1 - math.exp(-50 * 0.01 / 0.5))
    assert level.crowd(0.5, 50.0).level


def test_the_example_is_consistent() -> None:
    assert [bucket.requests for bucket in EXAMPLE.buckets] == [2, 2]
    assert sum(stratum.share for stratum in EXAMPLE.strata) == 1


PREFILL = Curve(((500.0, 0.02), (1500.0, 0.06), (2500.0, 0.16)))


def test_prefill_of_a_measured_prompt() -> None:
    # 1000 tokens: half way from 0.02 to 0.06; 3000: 0.16 and 500 more of 0.1 ms
    of = parameters(prefill_curve=PREFILL, prefill_s_per_token2=0.0)
    measured = prefill(of)
    assert measured.strata_s == (close(0.04), close(0.21))
    assert measured.mean_s(WHOLE) == close(0.125)
    assert measured.mean_s(EXAMPLE.buckets[1]) == close(0.21)
    assert measured.m2_s2(WHOLE) == close((0.04**2 + 0.21**2) / 2)
    assert measured.token_s() == close((1000 * 0.04 + 3000 * 0.21) / 2)
    assert eq.longest_prefill_s(of, WHOLE) == close(0.21)


def test_what_varies_within_a_measured_stratum() -> None:
    # u = 900 and 1100 of prompts of 900 and 1500: along a slope of 40 us; the attention to what is cached is q (z - u²)
    u2, pu, z1 = (900**2 + 1100**2) / 2, (900 * 900 + 1500 * 1100) / 2, (900**2 + 1500**2 - 400**2) / 2
    stratum = Stratum(SHORT, 4, 1.0, 1200, 1000, z1, (900**2 + 1500**2) / 2, pu, u2)
    of = parameters(prefill_curve=PREFILL, prefill_s_per_token2=1e-8)
    requests = with_whole(WHOLE).requests
    one = eq.prefill_of(of, type(requests)(WHOLE, requests.buckets[:1], (stratum,), 4))
    seconds = 0.04 + 1e-8 * (z1 - u2)
    assert one.strata_s == (close(seconds),)
    assert one.m2_s2(WHOLE) == close(seconds**2 + 4e-5**2 * 100**2)
    # Cov(p, u) = 300 x 100
    assert one.token_s() == close(1200 * seconds + 4e-5 * 30_000)


def test_pieces_of_a_prompt() -> None:
    # 3000 tokens in 3 pieces: each 0.01 + 0.05 + 1e-8 x 1000², and attention to 1000 and 2000 tokens before
    of = parameters(prefill_s_per_token2=1e-8)
    assert eq.pieces_s(of, 3, 3000, 9e6) == close(3 * 0.07 + 1e-8 * 1000 * 2 * (1000 + 2000))
    assert eq.pieces_s(of, 1, 3000, 9e6) == close(eq.prompt_s(of, 3000, 9e6, 9e6))
    # measured: a piece of 1000 takes 0.04
    assert eq.pieces_s(parameters(prefill_curve=PREFILL), 3, 3000, 9e6) == close(0.12)


class TestPace:
    """A step of 10 ms up to 4 sequences, then 5 ms more for each, from 8 on 1 ms more for each."""

    STEPS = Steps(0.0, 0.0, 0.0, Curve(((2.0, 0.01), (4.0, 0.01), (8.0, 0.03), (16.0, 0.038))))

    def test_without_a_curve(self) -> None:
        steps = Steps(0.01, 0.001, 0.0005)
        t = steps.pace(0.3, 100.0)
        assert t == close(0.0115 / (0.7 - 0.15))
        assert 0.7 * t == close(steps.seconds(1 + 100 * t))

    @pytest.mark.parametrize(("x", "t"), [(0.0, 0.01), (50.0, 0.01), (300.0, 0.01), (900.0, 0.031 / 0.1)])
    def test_the_first_piece_that_meets_the_line(self, x: float, t: float) -> None:
        # at 300/s, 1 + 3 = 4 sequences are where the level ends; at 900/s: t = 0.022 + 0.001 (1 + 900 t)
        assert self.STEPS.pace(0.0, x) == pytest.approx(0.023 / 0.1 if x == 900 else t, rel=1e-12)

    def test_the_smallest_of_several(self) -> None:
        # level, then steep: t = 0.011 at the level, but also on the steep piece and beyond it
        steps = Steps(0.0, 0.0, 0.0, Curve(((1.0, 0.01), (4.0, 0.01), (5.0, 0.1), (100.0, 0.101))))
        assert steps.pace(0.0, 200.0) == close(0.01)
        assert steps.seconds(1 + 200 * 0.01) == close(0.01)

    def test_beside_those_of_the_same_run(self) -> None:
        # 0.85 t = 0.01 + 0.001 (1 + 2 + 50 t)
        assert Steps(0.01, 0.001, 0.0).pace(0.3, 100.0, 0.5, 2.0) == close(0.013 / 0.8)
        # measured: beyond four sequences from the start, along the steep piece, 5 ms each: t = -0.01 + 0.005 (5 + 10 t)
        assert self.STEPS.pace(0.0, 10.0, 1.0, 4.0) == close(0.015 / 0.95)

    def test_context_adds_to_each_piece(self) -> None:
        steps = Steps(0.0, 0.0, 0.001, self.STEPS.curve)
        assert steps.per_sequence_s == close(0.002)
        # t = 0.01 + 0.001 (1 + 50 t)
        assert steps.pace(0.0, 50.0) == close(0.011 / 0.95)
        assert steps.seconds(3.0) == close(0.013)


def test_a_stream_that_is_split() -> None:
    assert split_scv(9.0, 0.25) == close(3.0)
    below, others = EXAMPLE.requests.split(2048)
    assert [k.bucket for k in (*below.buckets, *others.buckets)] == [SHORT, LONG]
    assert (below.portion, others.portion, below.whole.p1, others.whole.p_max) == (0.5, 0.5, 1000, 3000)
    assert [s.share for s in (*below.strata, *others.strata)] == [1.0, 1.0]
    assert (others.whole.requests, others.cohort, others.whole.o2) == (2, 4, 541)
