"""Bytes and service times against what they abbreviate: sums over requests."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.arithmetic import kv, service
from pipelines.declarations.cache import plain_shape

prompts = st.lists(st.integers(1, 20_000), min_size=1, max_size=20)
hits = st.lists(
    st.integers(1, 20_000).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p - 1))), min_size=1, max_size=20
)
answers = st.lists(st.tuples(st.integers(1, 20_000), st.integers(1, 2000)), min_size=1, max_size=20)


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
        d1, d2, pd = 3.0, (16 + 4) / 2, (400 + 20) / 2
        assert service.resident_tokens(d1, d2, pd) == pytest.approx((4 * 102 + 2 * 11) / 6)
        assert service.resident_tokens(0.0, 0.0, 0.0) == 0

    def test_variation_is_not_below_zero_and_that_of_nothing_is_zero(self) -> None:
        assert service.scv(2.0, 4.0 - 1e-12) == 0
        assert service.scv(0.0, 0.0) == 0
        assert service.scv(1.0, 3.0) == 2
        assert service.scv(np.array([0.0, 1.0]), np.array([0.0, 3.0])).tolist() == [0.0, 2.0]
