"""Goodput of strata and of answers, and the names of regimes (docs/arithmetic.md section 7), worked by hand."""

import math
from dataclasses import replace
from typing import Any

import pytest

from pipelines.oracle.goodput import FirstTokens, Generation
from pipelines.oracle.pacing import Crowd
from pipelines.oracle.queues import Wait
from pipelines.oracle.screening import Regime, screening
from tests.oracle.example import SHORT, setting


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-12, abs=1e-18)


class TestGoodput:
    """A queue with Pw = 0.5 and W = 2 s, before strata whose other lanes take 1 s and 7 s."""

    def firsts(self, spread_s: float = 0.0, order: float = 1.0) -> FirstTokens:
        return FirstTokens(Wait(2.0, 0.5), (order, order), (1.0, 7.0), (spread_s, spread_s))

    def test_a_stratum_without_room_misses(self) -> None:
        # 4 s are left for the first: 1 - 0.5 exp(-0.5 x 4 / 2); none for the second
        assert self.firsts().met(5.0, 0) == close(1 - 0.5 * math.exp(-1))
        assert self.firsts().met(5.0, 1) == 0

    def test_half_of_a_stratum_is_slower(self) -> None:
        assert self.firsts(spread_s=1.0).met(5.0, 0) == close(1 - (math.exp(-0.75) + math.exp(-1.25)) / 4)
        assert self.firsts(spread_s=5.0).met(5.0, 0) == close((1 - 0.5 * math.exp(-2.25)) / 2)

    def test_who_goes_first_waits_less(self) -> None:
        assert self.firsts(order=0.5).met(5.0, 0) == close(1 - 0.5 * math.exp(-2))

    def generation(self, pace_s: float, **others: float) -> Generation:
        return Generation(Crowd(0.0, 0.0, 1.0, 0.01, 0.001), pace_s, 0.0, 1, 20.0, (0.2,), **others)

    def test_an_excess_that_varies_little_has_a_least(self) -> None:
        # 10 steps of 12 ms: 0.2 + 0.02 s more than 10 ms each, of which 0.11 s at least
        of = self.generation(0.012, wait_variance_s2=0.11**2)
        assert of.met(0, 11, 0.02) == 0
        assert of.met(0, 11, 0.043) == close(1 - math.exp(-0.22 / 0.11))

    def test_an_excess_that_varies_much_is_often_nothing(self) -> None:
        of = self.generation(0.012, step_variance_s2=3 * 0.22**2 / 10)
        assert of.met(0, 11, 0.01) == close(0.5)
        assert of.met(0, 11, 0.054) == close(1 - 0.5 * math.exp(-1))
        assert of.met(0, 11, 0.0099) == 0

    def test_single_tokens_have_no_pace_to_miss(self) -> None:
        assert self.generation(0.012).met(0, 1, 0.001) == 1

    def test_all_meet_what_the_longest_step_meets(self) -> None:
        assert self.generation(0.012, wait_variance_s2=1.0, longest_step_s=0.03).met(0, 11, 0.03) == 1


class TestScreening:
    """Names of the regimes that a row is in."""

    @pytest.mark.parametrize(
        ("changes", "names"),
        [
            ({}, []),
            ({"arrival_scv": 2.1}, ["arrivals"]),
            ({"arrival_scv": 0.4, "slots": 0.71}, ["arrivals", "slots"]),
            ({"waiting": 0.2}, []),
            ({"waiting": 0.2, "in_turn": True}, ["runs"]),
            ({"waiting": 0.26, "lane": 0.61}, ["runs", "lane"]),
            ({"prefill_scv": 2.1}, ["long_prompts"]),
            ({"prefill_scv": 2.1, "sharing": 1}, []),
            ({"pace_s": 0.034, "buckets": (SHORT,), "leaves_curve": True}, ["tpot", "curve"]),
            ({"pace_s": 0.033, "buckets": (SHORT,)}, []),
        ],
    )
    def test_of_one_path(self, changes: dict[str, Any], names: list[str]) -> None:
        plain = Regime(arrival_scv=1.0, sharing=2, prefill_scv=1.0, slots=0.1, leaves_curve=False)
        assert screening([replace(plain, **changes)], setting().objectives) == names

    def test_of_either_path_in_order(self) -> None:
        lane = Regime(1.0, 2, 1.0, 0.1, False, lane=0.7)
        assert screening([lane, replace(lane, lane=None, arrival_scv=3.0)], setting().objectives) == [
            "arrivals",
            "lane",
        ]
