"""The equations against what they abbreviate: sums over requests, exact queues, the balance of a step."""

import math
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.arithmetic import kv, queues, service
from pipelines.declarations.cache import plain_shape

prompts = st.lists(st.integers(1, 20_000), min_size=1, max_size=20)
hits = st.lists(
    st.integers(1, 20_000).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p - 1))), min_size=1, max_size=20
)
answers = st.lists(st.tuples(st.integers(1, 20_000), st.integers(1, 2000)), min_size=1, max_size=20)
positive = st.floats(1e-6, 1e6)


def value(expression: pl.Expr | float) -> float:
    return float(pl.select(expression).item()) if isinstance(expression, pl.Expr) else expression


def mean(values: list[float] | list[int]) -> float:
    return float(Fraction(sum(map(Fraction, values)), len(values)))


def growth(layers: int, kv_heads: int, head_dim: int, dtype: str, layout_factor: float) -> float:
    """Bytes per token of a model with full attention in every layer."""
    shape = plain_shape(layers, kv_heads, head_dim)
    return kv.cache_model(shape, dtype, tensor_parallel=1, layout_factor=layout_factor, block_tokens=1).growth


class TestCacheBytes:
    @pytest.mark.parametrize(("dtype", "width"), [("fp32", 4), ("bf16", 2), ("fp16", 2), ("fp8", 1), ("int8", 1)])
    def test_the_element_is_as_wide_as_its_type_says(self, dtype: str, width: int) -> None:
        assert kv.cache_bytes(plain_shape(1, 1, 1), dtype).growth == 2 * width
        assert kv.element_bytes(dtype) == width

    def test_a_key_and_a_value_per_layer_head_and_element(self) -> None:
        # 2 x 32 layers x 8 heads x 128 elements x 2 bytes = 128 KiB, and a tenth more for padding
        assert growth(32, 8, 128, "bf16", 1.0) == 131_072
        assert growth(32, 8, 128, "bf16", 1.1) == pytest.approx(144_179.2)
        assert growth(3, 5, 7, "fp8", 1.0) == 2 * 3 * 5 * 7

    def test_no_other_type_is_known(self) -> None:
        with pytest.raises(KeyError, match="int4"):
            growth(1, 1, 1, "int4", 1.0)


class TestServiceTimes:
    @given(hits, st.floats(0, 0.1), st.floats(1e3, 1e5), st.floats(0, 1e-8))
    def test_moments_of_the_prefill_time_are_those_of_the_single_prompts(
        self, pairs: list[tuple[int, int]], d: float, r_p: float, q: float
    ) -> None:
        u, z = [p - h for p, h in pairs], [p * p - h * h for p, h in pairs]
        times = [d + one / r_p + q * two for one, two in zip(u, z, strict=True)]
        u1, u2, z1, z2 = mean(u), mean([one**2 for one in u]), mean(z), mean([two**2 for two in z])
        uz = mean([one * two for one, two in zip(u, z, strict=True)])
        assert service.prefill_s(u1, z1, d=d, r_p=r_p, q=q) == pytest.approx(mean(times), rel=1e-9)
        second = service.prefill_second_moment(u1, u2, z1, z2, uz, d=d, r_p=r_p, q=q)
        assert second == pytest.approx(mean([s * s for s in times]), rel=1e-9)

    @given(hits, st.floats(0, 0.1), st.floats(1e3, 1e5), st.floats(0, 1e-8))
    def test_a_prompt_is_held_whole_for_as_long_as_its_uncached_part_takes(
        self, pairs: list[tuple[int, int]], d: float, r_p: float, q: float
    ) -> None:
        held = [p * (d + (p - h) / r_p + q * (p * p - h * h)) for p, h in pairs]
        p1, pu = mean([p for p, _ in pairs]), mean([p * (p - h) for p, h in pairs])
        pz = mean([p * (p * p - h * h) for p, h in pairs])
        assert service.prefill_token_seconds(p1, pu, pz, d=d, r_p=r_p, q=q) == pytest.approx(mean(held), rel=1e-9)

    @given(prompts, st.floats(0, 0.1), st.floats(1e3, 1e5), st.floats(0, 1e-8))
    def test_without_hits_moments_are_those_of_the_prompt_lengths_alone(
        self, lengths: list[int], d: float, r_p: float, q: float
    ) -> None:
        """Version 1 of the arithmetic: u = p and z = p², so that S = d + p/r_p + q·p², squared and multiplied by p."""
        p1, p2, p3, p4 = (mean([p**power for p in lengths]) for power in (1, 2, 3, 4))
        first, second, held = d + p1 / r_p + q * p2, d * d + 2 * d * p1 / r_p, d * p1 + p2 / r_p + q * p3
        second += (1 / r_p**2 + 2 * d * q) * p2 + (2 * q / r_p) * p3 + q * q * p4
        assert service.prefill_s(p1, p2, d=d, r_p=r_p, q=q) == pytest.approx(first, rel=1e-12)
        assert service.prefill_second_moment(p1, p2, p2, p4, p3, d=d, r_p=r_p, q=q) == pytest.approx(second, rel=1e-12)
        assert service.prefill_token_seconds(p1, p2, p3, d=d, r_p=r_p, q=q) == pytest.approx(held, rel=1e-12)

    @given(answers, st.sampled_from([0, 1]))
    def test_moments_of_the_decode_steps_are_those_of_the_single_answers(
        self, pairs: list[tuple[int, int]], g: int
    ) -> None:
        o1, o2 = mean([o for _, o in pairs]), mean([o * o for _, o in pairs])
        po, p1 = mean([p * o for p, o in pairs]), mean([p for p, _ in pairs])
        expected = [mean([o - g for _, o in pairs]), mean([(o - g) ** 2 for _, o in pairs])]
        expected.append(mean([p * (o - g) for p, o in pairs]))
        assert service.decode_steps(o1, o2, po, p1, g=g) == pytest.approx(tuple(expected), rel=1e-9, abs=1e-6)

    def test_a_sequence_holds_its_prompt_and_half_of_its_answer(self) -> None:
        # steps of a prompt of 100 and D = 4: 100 + 4/2; of 10 and D = 2: 10 + 2/2; weighed by 4 and 2 steps
        d1, d2, pd = pl.lit(3.0), pl.lit((16 + 4) / 2), pl.lit((400 + 20) / 2)
        assert value(service.resident_tokens(d1, d2, pd)) == pytest.approx((4 * 102 + 2 * 11) / 6)
        assert value(service.resident_tokens(pl.lit(0.0), pl.lit(0.0), pl.lit(0.0))) == 0

    def test_variation_is_not_below_zero_and_that_of_nothing_is_zero(self) -> None:
        assert value(service.scv(pl.lit(2.0), pl.lit(4.0 - 1e-12))) == 0
        assert value(service.scv(pl.lit(0.0), pl.lit(0.0))) == 0
        assert value(service.scv(pl.lit(1.0), pl.lit(3.0))) == 2

    @given(st.floats(1e-3, 0.1), st.floats(1e-5, 1e-2), st.floats(0, 0.6), st.floats(1, 80))
    def test_a_step_lasts_as_long_as_its_batch_and_the_prefill_in_between(
        self, t0: float, c: float, rho_p: float, x: float
    ) -> None:
        """t = t0 + b·c + ρ_p·t with b = x·t, or a batch of one."""
        rho_d = x * c
        if rho_p + rho_d >= 0.99:
            return
        t = value(service.tpot_s(t0, c, rho_prefill=pl.lit(rho_p), rho_decode=pl.lit(rho_d)))
        assert t == pytest.approx(t0 + max(1.0, x * t) * c + rho_p * t, rel=1e-9)

    def test_a_step_holds_at_least_one_sequence(self) -> None:
        assert value(service.step_s(0.01, 0.001, pl.lit(0.2))) == pytest.approx(0.011)
        assert value(service.step_s(0.01, 0.001, pl.lit(3.0))) == pytest.approx(0.013)


def erlang_c(servers: int, offered: float) -> float:
    """Probability of waiting in M/M/n: the exact value that Sakasegawa's exponent approximates."""
    blocking = 1.0
    for busy in range(1, servers + 1):
        blocking = offered * blocking / (busy + offered * blocking)
    return blocking / (1 - offered / servers * (1 - blocking))


class TestWaits:
    @pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
    def test_one_worker_is_the_exact_single_queue(self, rho: float) -> None:
        """Pollaczek-Khinchine: rho/(1 - rho)·(1 + cs²)/2·S."""
        for dispatch in (queues.LEAST_LOADED, queues.ROUND_ROBIN):
            wait = queues.pool_wait(dispatch, 1.0, pl.lit(0.25), pl.lit(rho), pl.lit(1), pl.lit(0.2))
            assert value(wait.mean_s) == pytest.approx(rho / (1 - rho) * 1.25 / 2 * 0.2, rel=1e-12)
            assert value(wait.probability) == pytest.approx(rho, rel=1e-12)

    @pytest.mark.parametrize("servers", [2, 4, 8, 16])
    @pytest.mark.parametrize("rho", [0.3, 0.5, 0.7, 0.8, 0.9])
    def test_a_shared_queue_is_near_the_exact_one(self, servers: int, rho: float) -> None:
        """Above it by less than 3.5 % of a service time: that is much of a short wait and little of a long one."""
        wait = value(queues.shared_queue_wait(1.0, pl.lit(1.0), pl.lit(rho), pl.lit(servers), pl.lit(1.0)).mean_s)
        exact = erlang_c(servers, rho * servers) / (servers * (1 - rho))
        assert exact <= wait <= exact + 0.035

    def test_every_second_arrival_varies_half_as_much(self) -> None:
        wait = queues.own_queue_wait(1.0, pl.lit(0.5), pl.lit(0.5), pl.lit(2), pl.lit(0.1))
        assert value(wait.mean_s) == pytest.approx((0.5 + 0.5) / 2 * 1 * 0.1)

    def test_each_dispatch_has_its_form_and_no_other_is_known(self) -> None:
        arguments = (1.0, pl.lit(1.0), pl.lit(0.5), pl.lit(4), pl.lit(1.0))
        shared, own = queues.shared_queue_wait(*arguments), queues.own_queue_wait(*arguments)
        assert value(queues.pool_wait("least_loaded", *arguments).mean_s) == value(shared.mean_s)
        assert value(queues.pool_wait("round_robin", *arguments).mean_s) == value(own.mean_s)
        assert value(shared.mean_s) < value(own.mean_s)
        with pytest.raises(ValueError, match="no such dispatch: random"):
            queues.pool_wait("random", *arguments)

    def test_the_rest_of_a_step_is_half_of_it_where_one_is_running(self) -> None:
        assert value(queues.residual_step_s(pl.lit(math.log(4)), pl.lit(0.02))) == pytest.approx(0.75 * 0.01)
        assert value(queues.residual_step_s(pl.lit(0.0), pl.lit(0.02))) == 0

    def test_slots_are_a_queue_of_their_own(self) -> None:
        # 7 slots, exponent 3; sigma = 0.5; H = 10·0.1 s with cH² = 0.5: 0.75·0.125/(7·0.5)·1
        wait = queues.slot_wait_s(pl.lit(3.5), 7.0, pl.lit(10.0), pl.lit(150.0), pl.lit(0.1))
        assert value(wait) == pytest.approx(0.75 * 0.125 / 3.5)
        assert value(queues.slot_wait_s(pl.lit(0.0), 7.0, pl.lit(0.0), pl.lit(0.0), pl.lit(0.1))) == 0

    @given(
        st.floats(0.01, 0.95), st.integers(1, 32), positive, positive, st.sampled_from(["round_robin", "least_loaded"])
    )
    @settings(max_examples=40)
    def test_a_wait_grows_with_load_and_variation_and_shrinks_with_workers_at_the_same_traffic(
        self, rho: float, servers: int, ca2: float, cs2: float, dispatch: str
    ) -> None:
        def wait(rho: float, servers: int, ca2: float, cs2: float) -> float:
            arguments = ca2, pl.lit(cs2), pl.lit(rho), pl.lit(servers), pl.lit(1.0)
            return value(queues.pool_wait(dispatch, *arguments).mean_s)

        here = wait(rho, servers, ca2, cs2)
        assert here >= 0
        assert here <= wait(rho * 1.05, servers, ca2, cs2)
        assert here <= wait(rho, servers, ca2 * 1.1, cs2)
        assert here <= wait(rho, servers, ca2, cs2 * 1.1)
        assert here >= wait(rho * servers / (servers + 1), servers + 1, ca2, cs2)
