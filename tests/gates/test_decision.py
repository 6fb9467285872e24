"""The decision: what passes, which of those is the smallest, and which of those that do not came nearest."""

import itertools
from typing import Any

import pytest

from pipelines.gates.decision import standing
from tests.gates.boards import board, decided, gates, judged, refused_by

PREFER = ("operating_parts", "gpus", "margin")
ORDERS = tuple(itertools.permutations(PREFER))


def aggregated(n: int, ttft: float = 0.1, **figures: Any) -> dict[str, Any]:
    return {"scenario": f"aggregated/n{n}", "ttft_worst_s": ttft, "gpus": n} | figures


def chunked(n: int, ttft: float = 0.1, **figures: Any) -> dict[str, Any]:
    return {"scenario": f"chunked/n{n}/c512", "ttft_worst_s": ttft, "gpus": n} | figures


def disaggregated(p: int, d: int, ttft: float = 0.1, **figures: Any) -> dict[str, Any]:
    return {"scenario": f"disaggregated/p{p}/d{d}", "ttft_worst_s": ttft, "gpus": p + d} | figures


def chosen(decision: dict[str, tuple[str, str, str]]) -> list[str]:
    return [scenario for scenario, how, _ in decision.values() if how == "chosen"]


def passing(*scenarios: dict[str, Any], rules: tuple[dict[str, Any], ...] = ({},)) -> list[bool]:
    matrix = board(*scenarios)
    return standing(matrix, judged(matrix, gates(*rules)))["passes"].to_list()


class TestWhatPasses:
    def test_every_blocking_gate_has_to(self) -> None:
        rules = ({}, {"metric": "stall", "limit": 0.5})
        rows = [aggregated(1, stall_s=0.1), aggregated(2, stall_s=0.6), aggregated(3, 0.3, stall_s=0.1)]
        assert passing(*rows, rules=rules) == [True, False, False]

    def test_a_refused_verdict_is_not_a_pass(self) -> None:
        assert passing(aggregated(1, stall_s=None), rules=({}, {"metric": "stall", "limit": 0.5})) == [False]

    def test_a_scenario_that_is_refused_never_passes(self) -> None:
        """Not even where all its gates read figures that a refused scenario has."""
        full = aggregated(1, None) | refused_by("mixed", 1.2)
        small = {"metric": "gpus", "limit": 2.0}
        assert passing(full, aggregated(2), rules=(small,)) == [False, True]

    def test_a_scenario_that_is_refused_conservatively_passes_unless_a_gate_asks(self) -> None:
        fragile = aggregated(1, worse=refused_by("mixed", 1.2))
        asking = {"metric": "pressure", "op": "lt", "limit": 1.0, "bound": "conservative"}
        assert passing(fragile) == [True]
        assert passing(fragile, rules=({}, asking)) == [False]

    @pytest.mark.parametrize("severity", ["error", "warn"])
    def test_a_gate_that_does_not_block_does_not_decide(self, severity: str) -> None:
        informing = {"metric": "stall", "limit": 0.5, "severity": severity, "blocking": False}
        assert passing(aggregated(1, stall_s=9.0), rules=({}, informing)) == [True]

    def test_a_scenario_that_no_blocking_gate_concerns_does_not_pass(self) -> None:
        elsewhere = {"topologies": "chunked"}
        informing = {"blocking": False}
        assert passing(aggregated(1), chunked(1), rules=(elsewhere, informing)) == [False, True]

    def test_a_scenario_without_any_verdict_does_not_pass(self) -> None:
        assert passing(aggregated(1), chunked(1), rules=({"topologies": "chunked"},)) == [False, True]


class TestSmallest:
    """Three passing scenarios, each first by one key: parts 3, 4, 11; GPUs 3, 2, 2 (1 + 1); margins 0.1, 0.2, 0.5."""

    ROWS = (aggregated(3, 0.18), chunked(2, 0.16), disaggregated(1, 1, 0.1))

    @pytest.mark.parametrize(
        ("prefer", "first"),
        [
            (("operating_parts", "gpus", "margin"), "aggregated/n3"),
            (("operating_parts", "margin", "gpus"), "aggregated/n3"),
            (("gpus", "operating_parts", "margin"), "chunked/n2/c512"),
            (("gpus", "margin", "operating_parts"), "disaggregated/p1/d1"),
            (("margin", "operating_parts", "gpus"), "disaggregated/p1/d1"),
            (("margin", "gpus", "operating_parts"), "disaggregated/p1/d1"),
        ],
    )
    def test_the_first_key_decides_and_the_next_only_where_it_is_equal(
        self, prefer: tuple[str, ...], first: str
    ) -> None:
        assert chosen(decided(board(*self.ROWS), {}, prefer=prefer)) == [first]

    @pytest.mark.parametrize("prefer", ORDERS)
    def test_the_last_key_decides_between_equals(self, prefer: tuple[str, ...]) -> None:
        better = {"operating_parts": {"operating_parts": 2.0}, "gpus": {"gpus": 1}, "margin": {"ttft_worst_s": 0.05}}
        twin = aggregated(2) | {"scenario": "aggregated/n9"} | better[prefer[-1]]
        assert chosen(decided(board(aggregated(2), twin), {}, prefer=prefer)) == ["aggregated/n9"]

    @pytest.mark.parametrize("prefer", ORDERS)
    def test_of_equals_the_first_in_the_matrix(self, prefer: tuple[str, ...]) -> None:
        twins = [aggregated(2) | {"scenario": f"aggregated/n{n}"} for n in (4, 3, 2)]
        assert chosen(decided(board(*twins), {}, prefer=prefer)) == ["aggregated/n4"]

    def test_the_margin_is_the_smallest_over_blocking_gates(self) -> None:
        rules = ({}, {"metric": "stall", "limit": 1.0}, {"metric": "e2e_worst", "limit": 1.0, "blocking": False})
        # smallest margins 0.5 and 0.6; the gate that does not block would make it 0.01 for the second
        rows = [aggregated(1, 0.1, stall_s=0.1, e2e_worst_s=0.1), aggregated(1, 0.08, stall_s=0.4, e2e_worst_s=0.99)]
        rows[1]["scenario"] = "aggregated/n9"
        assert chosen(decided(board(*rows), *rules)) == ["aggregated/n9"]

    def test_no_margin_counts_as_none_left(self) -> None:
        """A limit of zero gives no margin: less than one of 0.1, more than a negative one could be."""
        rules = (
            {"metric": "headroom", "op": "gt", "limit": 0.0, "topologies": "aggregated"},
            {"topologies": "chunked"},
        )
        rows = board(aggregated(1), chunked(1, 0.18))
        assert chosen(decided(rows, *rules, prefer=("margin", "gpus", "operating_parts"))) == ["chunked/n1/c512"]
        at_the_limit = board(aggregated(1), chunked(1, 0.2))
        assert chosen(decided(at_the_limit, *rules, prefer=("margin", "gpus", "operating_parts"))) == ["aggregated/n1"]

    def test_only_passing_scenarios_are_ranked(self) -> None:
        rows = board(aggregated(1, 0.3), aggregated(2), chunked(1))
        assert chosen(decided(rows, {})) == ["aggregated/n2"]

    def test_each_other_topology_shows_its_best(self) -> None:
        decision = decided(board(aggregated(2), aggregated(1), chunked(2), chunked(1), disaggregated(1, 1, 0.9)), {})
        assert {name: row[:2] for name, row in decision.items()} == {
            "aggregated": ("aggregated/n1", "chosen"),
            "chunked": ("chunked/n1/c512", "passes_but_larger"),
            "disaggregated": ("disaggregated/p1/d1", "nearest_miss"),
        }


NEARER = {
    "fewest blocking gates refused, whatever the violation": (
        aggregated(1, 0.1, stall_s=None, pressure=0.1),
        aggregated(2, 9.0, stall_s=9.0, pressure=0.9),
    ),
    "then the smallest worst violation, not the sum": (
        aggregated(1, 0.2, stall_s=2.0, pressure=0.1),  # 1.0 of 1 s
        aggregated(2, 0.38, stall_s=1.8, pressure=0.9),  # 0.9 of 0.2 s, 0.8 of 1 s
    ),
    "then the smallest nominal pressure": (
        aggregated(1, 0.3, stall_s=0.1, pressure=0.6, worse={"pressure": 0.1}),
        aggregated(2, 0.3, stall_s=0.1, pressure=0.5, worse={"pressure": 0.9}),
    ),
    "then the fewest GPUs": (
        aggregated(3, 0.3, stall_s=0.1),
        aggregated(2, 0.3, stall_s=0.1),
    ),
}
"""By the key that decides: two scenarios of which the second is nearer, although all later keys speak for the first."""


class TestNearestMiss:
    """Nothing of the topology passes."""

    @pytest.mark.parametrize("rows", list(NEARER.values()), ids=list(NEARER))
    def test_the_second_is_nearer(self, rows: tuple[dict[str, Any], ...]) -> None:
        rules = ({}, {"metric": "stall", "limit": 1.0})
        assert decided(board(*rows), *rules)["aggregated"][:2] == ("aggregated/n2", "nearest_miss")

    def test_of_equals_the_first_in_the_matrix(self) -> None:
        twins = [aggregated(2, 0.3) | {"scenario": f"aggregated/n{n}"} for n in (4, 3)]
        assert decided(board(*twins), {})["aggregated"][0] == "aggregated/n4"

    def test_gates_that_do_not_block_are_not_counted(self) -> None:
        informing = {"metric": "stall", "limit": 1.0, "blocking": False}
        rows = board(aggregated(1, 0.3, stall_s=None), aggregated(2, 0.4, stall_s=0.1))
        assert decided(rows, {}, informing)["aggregated"][0] == "aggregated/n1"

    def test_a_failure_without_a_margin_counts_as_a_whole_limit(self) -> None:
        """No headroom at all against a limit of 0, as bad as a figure of twice its limit."""
        rules = ({}, {"metric": "headroom", "op": "gt", "limit": 0.0})
        # violations 1 (headroom 0), then 0.95 and 1.05 of TTFT
        worse, better = (board(aggregated(1, 0.1, pressure=1.0), aggregated(2, ttft)) for ttft in (0.41, 0.39))
        assert decided(worse, *rules)["aggregated"][0] == "aggregated/n1"
        assert decided(better, *rules)["aggregated"][0] == "aggregated/n2"

    def test_of_refused_scenarios_the_least_loaded(self) -> None:
        rows = board(aggregated(1, None) | refused_by("mixed", 2.4), aggregated(2, None) | refused_by("mixed", 1.2))
        assert decided(rows, {})["aggregated"][0] == "aggregated/n2"

    def test_a_topology_misses_although_another_passes(self) -> None:
        decision = decided(board(aggregated(1, 0.3), chunked(1)), {})
        assert [row[1] for row in decision.values()] == ["nearest_miss", "chosen"]


class TestReasons:
    def test_of_the_smallest(self) -> None:
        reason = decided(board(aggregated(1, 0.15), aggregated(2), aggregated(3, 0.3)), {})["aggregated"][2]
        assert reason == "the smallest of 2 passing scenarios of 3: 3 operating parts, 1 GPUs, 25 % margin"

    @pytest.mark.parametrize(
        ("prefer", "reason"),
        [
            (PREFER, "passes, but with 4 operating parts where aggregated/n2 has 3 operating parts"),
            (("gpus", "margin", "operating_parts"), "passes, but with 3 GPUs where aggregated/n2 has 2 GPUs"),
            (("margin", "gpus", "operating_parts"), "passes, but with 25 % margin where aggregated/n2 has 50 % margin"),
        ],
    )
    def test_of_one_that_is_larger(self, prefer: tuple[str, ...], reason: str) -> None:
        assert decided(board(aggregated(2), chunked(3, 0.15)), {}, prefer=prefer)["chunked"][2] == reason

    def test_of_one_that_only_comes_later(self) -> None:
        twin = chunked(2, operating_parts=3.0)
        reason = decided(board(aggregated(2), twin), {})["chunked"][2]
        assert reason == "passes, but comes after aggregated/n2 in the matrix"

    def test_of_one_that_misses(self) -> None:
        rules = (
            {"gate": "ttft"},
            {"gate": "stall", "metric": "stall", "limit": 0.5},
            {"gate": "small", "metric": "gpus", "limit": 4.0},
        )
        reason = decided(board(aggregated(1, 0.3, stall_s=None)), *rules)["aggregated"][2]
        assert reason == "ttft 300 ms, not <= 200 ms; stall refused: no nominal figure to hold against <= 500 ms"

    def test_of_one_that_is_refused(self) -> None:
        rows = board(aggregated(1, None) | refused_by("mixed", 1.2345678))
        assert decided(rows, {})["aggregated"][2] == "refused: utilization of mixed 1.235, ceiling 0.8"

    def test_of_one_that_nothing_judges(self) -> None:
        decision = decided(board(aggregated(1), chunked(1)), {"topologies": "chunked"})
        assert decision["aggregated"][1:] == ("nearest_miss", "no blocking gate applies to it")
