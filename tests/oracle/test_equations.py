"""Prefill, decode and waits of docs/arithmetic.md, against numbers worked by hand."""

import math

import pytest

from pipelines.oracle import equations as eq
from pipelines.oracle.traffic import with_hits
from tests.oracle.example import CACHED, EXAMPLE, WHOLE, parameters


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-12, abs=0.0)


def test_prefill_moments_are_those_of_the_two_prompts() -> None:
    # S(1000) = 0.01 + 0.05 = 0.06, S(3000) = 0.01 + 0.15 = 0.16
    of = parameters()
    assert eq.prefill_s(of, WHOLE.u1, WHOLE.z1) == close((0.06 + 0.16) / 2)
    assert eq.prefill_m2_s2(of, WHOLE) == close((0.06**2 + 0.16**2) / 2)


def test_prefill_moments_with_attention() -> None:
    # q = 1e-8: S(1000) = 0.07, S(3000) = 0.25
    of = parameters(prefill_s_per_token2=1e-8)
    assert eq.prefill_s(of, WHOLE.u1, WHOLE.z1) == close((0.07 + 0.25) / 2)
    assert eq.prefill_m2_s2(of, WHOLE) == close((0.07**2 + 0.25**2) / 2)
    # 1000 x 0.07 and 3000 x 0.25
    assert eq.prefill_token_s(of, WHOLE) == close((70 + 750) / 2)


def test_prefill_moments_of_prompts_with_cached_tokens() -> None:
    # 600 of 1000 and 1800 of 3000 tokens are cached: u = 400, 1200; z = 1000² - 600² = 640000, 9 x 640000
    # q = 1e-8: S = 0.01 + 0.02 + 0.0064 = 0.0364, 0.01 + 0.06 + 0.0576 = 0.1276
    of = parameters(prefill_s_per_token2=1e-8)
    assert eq.prefill_s(of, CACHED.u1, CACHED.z1) == close((0.0364 + 0.1276) / 2)
    assert eq.prefill_m2_s2(of, CACHED) == close((0.0364**2 + 0.1276**2) / 2)
    assert eq.prefill_token_s(of, CACHED) == close((1000 * 0.0364 + 3000 * 0.1276) / 2)
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
    work = eq.decode_work(WHOLE, prefill_emits_first_token=True)
    of = parameters(decode_s_per_context_token=1e-6)
    assert eq.seconds_per_sequence(of, work) == close(0.001 + 1e-6 * 2012.5)


@pytest.mark.parametrize(("utilization", "service_s"), [(0.2, 1.0), (0.5, 0.01), (0.9, 3.0)])
def test_one_server_with_poisson_arrivals_is_pollaczek_khinchine(utilization: float, service_s: float) -> None:
    # rate x E[S²] / (2 (1 - rho)), with E[S²] = (1 + cs²) E[S]²
    rate, second_moment = utilization / service_s, (1 + 0.7) * service_s**2
    wait = eq.shared_queue(1.0, 0.7, utilization, 1, service_s)
    assert wait.mean_s == close(rate * second_moment / (2 * (1 - utilization)))
    assert wait.probability == close(utilization)


def test_seven_servers_share_a_queue() -> None:
    # sqrt(2 x 8) - 1 = 3, so Pw = 0.5³ = 1/8, and W = (3 + 1)/2 x 1/8 / (7 x 0.5) x 14
    wait = eq.shared_queue(3.0, 1.0, 0.5, 7, 14.0)
    assert wait.probability == close(1 / 8)
    assert wait.mean_s == close(1.0)


def test_round_robin_gives_every_worker_a_part_of_the_variation() -> None:
    # (4/4 + 0.5)/2 x 0.6/0.4 x 2
    wait = eq.pool_queue(parameters(round_robin=True), 4.0, 0.5, 0.6, 4, 2.0)
    assert wait.mean_s == close(0.75 * 1.5 * 2)
    assert wait.probability == 0.6


def test_one_slot_is_a_queue_on_one_server() -> None:
    # sigma = 0.5, H = 20 x 0.1 = 2, cH² = 500/400 - 1 = 0.25: 1.25/2 x 0.5/0.5 x 2
    work = eq.decode_work(WHOLE, prefill_emits_first_token=True)
    assert eq.slot_wait_s(1, work, 0.5, 0.1) == close(1.25)


def test_no_decode_steps_need_no_slot() -> None:
    work = eq.DecodeWork(0.0, 0.0, 0.0)
    assert eq.slot_wait_s(64, work, 0.0, 0.1) == 0
    assert (work.resident_tokens, work.steps_scv) == (0, 0)


def test_a_newcomer_waits_half_a_step_if_one_is_running() -> None:
    assert eq.residual_step_s(math.log(4), 0.08) == close(3 / 4 * 0.04)


def test_the_example_is_consistent() -> None:
    assert [bucket.requests for bucket in EXAMPLE.buckets] == [2, 2]
    assert sum(stratum.share for stratum in EXAMPLE.strata) == 1
