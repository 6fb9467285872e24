"""Waits against exact queues, known limits and one another."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.arithmetic import queues
from pipelines.arithmetic.queues import dispatched

positive = st.floats(1e-6, 1e6)
some_dispatch = st.sampled_from([queues.LEAST_LOADED, queues.ROUND_ROBIN])


def erlang_b(servers: int, offered: float) -> float:
    """From its definition: (a^n/n!)/Σ a^k/k!."""
    terms = [offered**k / math.factorial(k) for k in range(servers + 1)]
    return terms[-1] / math.fsum(terms)


def erlang_c(servers: int, offered: float) -> float:
    """From its definition: the last term stretched by n/(n - a), against all."""
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (math.fsum(offered**k / math.factorial(k) for k in range(servers)) + last)


@given(workers=st.integers(1, 64), ca2=st.floats(0, 100))
def test_the_shortest_of_several_lines_is_taken_as_one_queue(workers: int, ca2: float) -> None:
    assert dispatched(queues.SHORTEST_QUEUE, workers, ca2) == dispatched(queues.LEAST_LOADED, workers, ca2)


class TestErlang:
    @pytest.mark.parametrize("servers", [1, 2, 3, 8, 20])
    @pytest.mark.parametrize("rho", [0.05, 0.3, 0.7, 0.95])
    def test_loss_and_waiting_are_those_of_the_definition(self, servers: int, rho: float) -> None:
        assert float(queues.erlang_loss(servers, rho * servers)) == pytest.approx(
            erlang_b(servers, rho * servers), rel=1e-12
        )
        assert float(queues.erlang_wait(servers, rho * servers)) == pytest.approx(
            erlang_c(servers, rho * servers), rel=1e-12
        )

    def test_rows_of_different_sizes_are_each_their_own(self) -> None:
        """With one load for all, with one of each; and without a server."""
        servers = np.array([3.0, 1.0, 7.0, 2.0])
        for offered in (0.8, np.array([2.5, 0.4, 6.0, 0.1])):
            loads = np.broadcast_to(offered, 4)
            expected = [erlang_b(int(n), float(a)) for n, a in zip(servers, loads, strict=True)]
            assert queues.erlang_loss(servers, offered).tolist() == pytest.approx(expected, rel=1e-12)
        assert queues.erlang_loss(np.array([0.0, 2.0]), np.array([5.0, 2.0])).tolist() == [1.0, 0.4]


class TestPoolWait:
    @pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
    @pytest.mark.parametrize("dispatch", [queues.LEAST_LOADED, queues.ROUND_ROBIN])
    def test_one_worker_is_the_exact_single_queue(self, rho: float, dispatch: str) -> None:
        """Pollaczek-Khinchine: rho/(1 - rho)·(1 + cs²)/2·S."""
        wait = queues.pool_wait(dispatched(dispatch, 1, 1.0), 0.25, rho, 0.2)
        assert float(wait.mean_s) == pytest.approx(rho / (1 - rho) * 1.25 / 2 * 0.2, rel=1e-12)
        assert float(wait.probability) == pytest.approx(rho, rel=1e-12)

    @pytest.mark.parametrize("servers", [2, 4, 8, 16])
    @pytest.mark.parametrize("rho", [0.3, 0.5, 0.9])
    def test_a_shared_queue_of_exponential_prompts_is_exact(self, servers: int, rho: float) -> None:
        wait = queues.pool_wait(dispatched(queues.LEAST_LOADED, servers, 1.0), 1.0, rho * servers, 2.0)
        exact = erlang_c(servers, rho * servers)
        assert float(wait.probability) == pytest.approx(exact, rel=1e-12)
        assert float(wait.mean_s) == pytest.approx(exact / (servers * (1 - rho)) * 2, rel=1e-12)

    def test_regular_arrivals_of_constant_prompts_do_not_wait(self) -> None:
        for ca2, workers in ((0.0, 1), (0.0, 3)):
            wait = queues.pool_wait(dispatched(queues.ROUND_ROBIN, workers, ca2), 0.0, 0.5 * workers, 1.0)
            assert float(wait.mean_s) == 0
            assert 0 <= float(wait.probability) < 0.5

    def test_even_arrivals_wait_less_than_by_variation_alone(self) -> None:
        """ca² = 1/2, cs² = 1, ρ = 0.5: 0.75·1·S·e^(-2·0.5·0.25/(3·0.5·1.5))."""
        wait = queues.pool_wait(dispatched(queues.ROUND_ROBIN, 2, 1.0), 1.0, 1.0, 0.1)
        assert float(wait.mean_s) == pytest.approx(0.75 * 0.1 * math.exp(-0.25 / 2.25))
        # 0.5 - 0.5·0.25·(1.5 + 0.5)/(1 + 0.25·(2 + 1))
        assert float(wait.probability) == pytest.approx(0.5 - 0.25 / 1.75)

    def test_every_other_dispatch_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no such dispatch: random"):
            dispatched("random", 2, 1.0)

    @given(st.floats(0.01, 0.95), st.integers(1, 32), positive, positive, some_dispatch)
    @settings(max_examples=40)
    def test_a_wait_grows_with_load_and_variation_and_shrinks_with_workers_at_the_same_traffic(
        self, rho: float, servers: int, ca2: float, cs2: float, dispatch: str
    ) -> None:
        def wait(rho: float, servers: int, ca2: float, cs2: float) -> float:
            return float(queues.pool_wait(dispatched(dispatch, servers, ca2), cs2, rho * servers, 1.0).mean_s)

        here = wait(rho, servers, ca2, cs2)
        assert here >= 0
        assert here <= wait(rho * 1.05, servers, ca2, cs2)
        assert here <= wait(rho, servers, ca2 * 1.1, cs2)
        assert here <= wait(rho, servers, ca2, cs2 * 1.1)
        # Not a law: one worker whose arrivals are more even than Poisson ones is smoothed, two that share a queue are not.
        if ca2 >= 1 or servers > 1 or dispatch == queues.ROUND_ROBIN:
            assert here >= wait(rho * servers / (servers + 1), servers + 1, ca2, cs2) * (1 - 1e-12)

    @given(st.floats(0.01, 0.95), st.integers(1, 32), st.floats(0, 4), st.floats(0, 4), some_dispatch)
    @settings(max_examples=40)
    def test_a_probability_is_one(self, rho: float, servers: int, ca2: float, cs2: float, dispatch: str) -> None:
        found = float(queues.pool_wait(dispatched(dispatch, servers, ca2), cs2, rho * servers, 1.0).probability)
        assert -1e-15 <= found <= 1


class TestRuns:
    @pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
    def test_of_one_worker_it_is_a_busy_period_and_of_two_as_well_known(self, rho: float) -> None:
        assert float(queues.run_length(1, rho)) == pytest.approx(1 / (1 - rho), rel=1e-12)
        assert float(queues.run_length(2, 2 * rho)) == pytest.approx((2 + rho) / (2 * (1 - rho**2)), rel=1e-12)

    @pytest.mark.parametrize("servers", [2, 3, 5])
    def test_of_m_m_n_it_is_what_a_chain_of_states_says(self, servers: int) -> None:
        """Prompts that a worker of M/M/n ends before it finds nobody waiting, from the moment on at which all are busy and nobody waits.

        With k prompts in the system: one comes, the worker's own ends (and it goes on if any wait), or one of the others ends.
        """
        rho, size = 0.6, 200
        rate, k = rho * servers, np.arange(1, size + 1)
        left = np.zeros(size + 2)
        for _ in range(20_000):
            goes_on = np.where(k > servers, left[k - 1], 0.0)
            others = (np.minimum(k, servers) - 1) * left[np.maximum(k - 1, 1)]
            swept = (rate * left[k + 1] + 1 + goes_on + others) / (rate + np.minimum(k, servers))
            change = np.max(np.abs(swept - left[1:-1]))
            left[1:-1], left[-1] = swept, 2 * swept[-1] - swept[-2]
            if change < 1e-13:
                break
        assert float(queues.run_length(servers, rate)) == pytest.approx(left[servers], rel=1e-9)


class TestFirstFree:
    @pytest.mark.parametrize("idle", [0.1, 0.6])
    def test_one_worker_waits_for_the_rest_of_its_own_step(self, idle: float) -> None:
        """A·τ/2 with 1 - idle = ρ + (1 - ρ)·A."""
        rho = 0.3 * (1 - idle)
        state = queues.first_free(1.0, 0.4, idle)
        assert float(state.interruption) == pytest.approx(1.0)
        some = 1 - idle / (1 - rho)
        assert float(state.wait_s(rho, 1.0, 0.02)) == pytest.approx(some * 0.01)

    def test_nothing_waits_where_nothing_comes(self) -> None:
        state = queues.first_free(3.0, 0.0, 1.0)
        assert (float(state.none_idle), float(state.interruption), float(state.wait_s(0.0, 3.0, 1.0))) == (0, 1, 0)

    @given(st.integers(1, 16), st.floats(0.01, 20.0), st.floats(0.01, 0.99), st.floats(0.01, 0.95))
    @settings(max_examples=60)
    def test_idle_workers_take_prompts_first(self, servers: int, offered: float, idle: float, part: float) -> None:
        """Fewer interrupt a worker that decodes, and the wait is within the step."""
        state = queues.first_free(float(servers), offered, idle)
        assert 0 <= float(state.interruption) <= 1 + 1e-12
        wait = float(state.wait_s(part * (1 - idle), float(servers), 1.0))
        assert 0 <= wait <= 1
        more = queues.first_free(float(servers + 1), offered, idle)
        assert float(more.none_idle) <= float(state.none_idle) * (1 + 1e-12)


class TestSlots:
    def test_they_are_a_queue_of_their_own(self) -> None:
        # 7 slots, exponent 3; sigma = 0.5; H = 10·0.1 s with cH² = 0.5: 0.75·0.125/(7·0.5)·1
        assert float(queues.slot_wait_s(3.5, 7.0, 1.0, 10.0, 150.0, 0.1)) == pytest.approx(0.75 * 0.125 / 3.5)
        assert queues.slot_wait_s(0.0, 7.0, 1.0, 0.0, 0.0, 0.1) == 0

    def test_those_of_two_workers_are_one_queue_of_twice_as_many(self) -> None:
        wait = float(queues.slot_wait_s(3.5, 7.0, 2.0, 10.0, 150.0, 0.1))
        assert wait == pytest.approx(0.75 * 0.5 ** (math.sqrt(30) - 1) / (14 * 0.5))

    @pytest.mark.parametrize("rho", [0.3, 0.9])
    def test_one_slot_is_the_exact_single_queue(self, rho: float) -> None:
        """M/M/1: cH² = 1."""
        assert float(queues.slot_wait_s(rho, 1.0, 1.0, 1.0, 2.0, 2.0)) == pytest.approx(rho / (1 - rho) * 2.0)


class TestOrder:
    @given(st.lists(st.floats(0.001, 0.2), min_size=1, max_size=8))
    @settings(max_examples=50)
    def test_work_is_conserved(self, loads: list[float]) -> None:
        """Kleinrock: Σ ρ_s·ω_s = ρ, so that shortest first moves waits and makes none; the shortest gains most."""
        scale = 0.9 / max(1.0, sum(loads) / 0.9)
        each = np.array(loads) * scale
        factors = queues.order_factors(np.cumsum(each)[None, :])[0]
        assert float((each * factors).sum()) == pytest.approx(float(each.sum()), rel=1e-12)
        assert (np.diff(factors) > 0).all()
