"""The tests of verdicts notice every fault of the evaluator: operators flipped, ``where`` dropped, bounds swapped, exceptions ignored.

Each mutant is the evaluator with one change of its text. Probes are small boards with verdicts worked out by hand; the evaluator as it
is passes them all, and each mutant fails at least one.
"""

import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from pipelines.frames.inputs import InputTable
from pipelines.gates import aggregates, decision, judge
from pipelines.gates.aggregates import BucketRequests
from tests.gates.boards import INPUTS, board, gates, refused_by
from tests.plans import inputs_frame_of

BUCKETS = BucketRequests(["[1,1000)", "[1000,4000)", "[4000,inf)"], np.array([6.0, 3.0, 1.0]))
Judge = Callable[..., pl.DataFrame]

SCENARIO = {
    "scenario": "aggregated/n1",
    "ttft_worst_s": 0.4,
    "tpot_worst_s": 0.02,
    "stall_s": 0.3,
    "goodput": 0.9,
    "gpus": 4,
    "pressure": 0.5,
    "ttft_by_bucket": [0.1, 0.2, 0.4],
    "tpot_by_bucket": [0.01, None, 0.02],
    "worse": {
        "ttft_worst_s": 0.8,
        "tpot_worst_s": 0.04,
        "stall_s": 0.6,
        "goodput": 0.7,
        "ttft_by_bucket": [0.2, 0.4, 0.8],
        "tpot_by_bucket": [0.02, None, 0.04],
    },
}
OTHER = {"scenario": "disaggregated/p1/d1", "ttft_worst_s": 0.3, "transfer_worst_s": 0.05, "stall_s": 0.1}
LOST = {"scenario": "chunked/n1/c512", "ttft_worst_s": 0.1, **refused_by("mixed", 1.2)}

PROBES: list[tuple[dict[str, Any], list[tuple[str, float | None, float | None]]]] = [
    # gate -> (verdict, figure, margin) on SCENARIO, LOST, OTHER, as far as it concerns them
    ({"op": "lte", "limit": 0.4, "topologies": "aggregated"}, [("pass", 0.4, 0.0)]),
    ({"op": "lt", "limit": 0.4, "topologies": "aggregated"}, [("fail", 0.4, 0.0)]),
    ({"op": "lt", "limit": 0.5, "topologies": "aggregated"}, [("pass", 0.4, 0.2)]),
    ({"op": "lte", "limit": 0.25, "topologies": "aggregated"}, [("fail", 0.4, -0.6)]),
    ({"metric": "goodput", "op": "gte", "limit": 0.9, "topologies": "aggregated"}, [("pass", 0.9, 0.0)]),
    ({"metric": "goodput", "op": "gt", "limit": 0.9, "topologies": "aggregated"}, [("fail", 0.9, 0.0)]),
    ({"metric": "goodput", "op": "gt", "limit": 0.8, "topologies": "aggregated"}, [("pass", 0.9, 0.125)]),
    ({"metric": "goodput", "op": "gte", "limit": 1.0, "topologies": "aggregated"}, [("fail", 0.9, -0.1)]),
    ({"bound": "conservative", "limit": 0.8, "topologies": "aggregated"}, [("pass", 0.8, 0.0)]),
    (
        {"bound": "nominal", "limit": 0.3, "topologies": "aggregated disaggregated"},
        [("fail", 0.4, -1 / 3), ("pass", 0.3, 0.0)],
    ),
    ({"limit": 0.5, "topologies": "chunked"}, [("refused", None, None)]),
    ({"metric": "pressure", "limit": 2.0, "topologies": "chunked"}, [("pass", 1.5, 0.25)]),
    ({"metric": "gpus", "op": "lte", "limit": 4.0, "topologies": "aggregated"}, [("pass", 4.0, 0.0)]),
    ({"metric": "goodput", "op": "gte", "limit": 0.0, "topologies": "aggregated"}, [("pass", 0.9, None)]),
    ({"objective": "ttft", "topologies": "aggregated"}, [("fail", 0.4, -1.0)]),
    ({"metric": "ttft", "aggregate": "worst", "limit": 0.5, "topologies": "aggregated"}, [("pass", 0.4, 0.2)]),
    (
        {"metric": "ttft", "aggregate": "worst", "op": "gte", "limit": 0.05, "topologies": "aggregated"},
        [("pass", 0.1, 1.0)],
    ),
    (
        {"metric": "ttft", "aggregate": "worst", "buckets": "shortest", "limit": 0.1, "topologies": "aggregated"},
        [("pass", 0.1, 0.0)],
    ),
    (
        {"metric": "ttft", "aggregate": "worst", "buckets": "longest", "limit": 0.1, "topologies": "aggregated"},
        [("fail", 0.4, -3.0)],
    ),
    (
        {"metric": "ttft", "aggregate": "worst", "buckets": "[1000,4000)", "limit": 0.25, "topologies": "aggregated"},
        [("pass", 0.2, 0.2)],
    ),
    # (6·0.1 + 3·0.2 + 1·0.4) / 10
    (
        {"metric": "ttft", "aggregate": "request_weighted", "limit": 0.2, "topologies": "aggregated"},
        [("pass", 0.16, 0.2)],
    ),
    # the bucket without a TPOT is left out: (6·0.01 + 1·0.02) / 7
    (
        {"metric": "tpot", "aggregate": "request_weighted", "limit": 0.08, "topologies": "aggregated"},
        [("pass", 0.01142857143, 0.8571428571)],
    ),
    # 9 of 10 requests are in buckets whose mean is at most 0.2 s
    (
        {"metric": "ttft", "aggregate": "share", "within": 0.2, "op": "gte", "limit": 0.8, "topologies": "aggregated"},
        [("pass", 0.9, 0.125)],
    ),
    (
        {
            "metric": "ttft",
            "aggregate": "share",
            "within_objective": "ttft",
            "op": "gte",
            "limit": 1.0,
            "topologies": "aggregated",
        },
        [("fail", 0.9, -0.1)],
    ),
    (
        {"metric": "ttft", "aggregate": "worst", "bound": "conservative", "limit": 1.0, "topologies": "aggregated"},
        [("pass", 0.8, 0.2)],
    ),
    ({"metric": "tpot", "aggregate": "worst", "limit": 0.5, "topologies": "chunked"}, [("refused", None, None)]),
    # ten steps of 20 ms, or of 40 ms
    (
        {"metric": "stall", "limit_metric": "tpot_worst", "limit_times": 10.0, "topologies": "aggregated"},
        [("fail", 0.3, -0.5)],
    ),
    (
        {
            "metric": "stall",
            "limit_metric": "tpot_worst",
            "limit_times": 20.0,
            "bound": "conservative",
            "topologies": "aggregated",
        },
        [("pass", 0.6, 0.25)],
    ),
    (
        {"metric": "pressure", "limit_metric": "goodput", "limit_times": 2.0, "topologies": "chunked"},
        [("refused", 1.5, None)],
    ),
    ({"limit": 0.5, "here": False, "topologies": "aggregated"}, []),
    ({"objective": "e2e", "metric": "e2e_worst", "topologies": "aggregated"}, []),
]


def probed(judging: Judge) -> list[str]:
    """What is wrong with the verdicts of ``judging``, as far as it gives any."""
    rules = gates(*({"gate": f"g{number:02}"} | gate for number, (gate, _) in enumerate(PROBES)))
    verdicts = judging(board(SCENARIO, LOST, OTHER), rules, INPUTS, BUCKETS)
    wrong = []
    for number, (_, expected) in enumerate(PROBES):
        found = verdicts.filter(gate=f"g{number:02}").select("verdict", "figure", "margin").rows()
        if len(found) != len(expected) or not all(_alike(*pair) for pair in zip(found, expected, strict=True)):
            wrong.append(f"probe {number}: {found}, not {expected}")
    return wrong


def _alike(found: tuple[Any, ...], expected: tuple[Any, ...]) -> bool:
    return all(
        one == other if one is None or other is None or isinstance(one, str) else abs(one - other) < 1e-9
        for one, other in zip(found, expected, strict=True)
    )


def mutated(module: types.ModuleType, before: str, after: str) -> types.ModuleType:
    """``module`` with one change of its text, which must be there once."""
    text = inspect.getsource(module)
    assert text.count(before) == 1, f"{before!r} is {text.count(before)} times in {module.__name__}"
    fresh = types.ModuleType(module.__name__)
    exec(compile(text.replace(before, after), module.__name__, "exec"), vars(fresh))
    return fresh


OPERATORS = {"lte": "<=", "lt": "<", "gte": ">=", "gt": ">"}
FLIPPED = [
    (f'"{name}": lambda figure, limit: figure {sign} limit', f'"{name}": lambda figure, limit: figure {other} limit')
    for name, sign in OPERATORS.items()
    for other in OPERATORS.values()
    if other != sign
]
IMPORTED = "from pipelines.gates.aggregates import UPPER_LIMITS, BucketRequests, aggregated"
OF_JUDGE = [
    *FLIPPED,
    ('(pl.col("bound") == gate["bound"])', '(pl.col("bound") != gate["bound"])'),
    ('(pl.col("bound") == gate["bound"]) & ', ""),
    (' & pl.col("topology").is_in(gate["topologies"].split())', ""),
    ('if gate["applies"]', "if True"),
    ("limit - figure if op in UPPER_LIMITS else figure - limit", "limit - figure"),
    ("limit - figure if op in UPPER_LIMITS else figure - limit", "figure - limit"),
    ("pl.when(limit != 0).then(distance / limit)", "distance / limit"),
    (".then(distance / limit)", ".then(distance)"),
    ("figure.is_null() | limit.is_null()", "figure.is_null()"),
    ("figure.is_null() | limit.is_null()", "limit.is_null()"),
    ('gate["limit_times"] * _of_scenario', "_of_scenario"),
    ('pl.when(pl.col("status") == "evaluated").then(figure)', "figure"),
    ("if known.needs_latency else figure", 'if metric == "nothing" else figure'),
    ("(_shown(own, figure) if known.needs_latency else figure)", "_shown(own, figure)"),
    ('_by_bucket(own, gate["metric"], len(buckets.labels))', '_by_bucket(own, "tpot", len(buckets.labels))'),
]
OF_AGGREGATES = [
    ('"shortest": 0, "longest": -1', '"shortest": -1, "longest": 0'),
    ("words is None)", "True)"),
    ('upper = gate["op"] in UPPER_LIMITS', "upper = True"),
    ('upper = gate["op"] in UPPER_LIMITS', "upper = False"),
    ("np.where(known, requests, 0.0)", "np.where(known, 1.0, 0.0)"),
    ("np.where(known, requests, 0.0)", "np.broadcast_to(requests, known.shape)"),
    ('<= column(gate["within"])', '< column(gate["within"])'),
    ('if gate["aggregate"] == "share" else own', "if False else own"),
    ("own, requests = values[:, chosen]", "own, requests = values"),
]
OF_DECISION = [
    ('blocks | pl.col("waived")', "blocks"),
    ("| ~blocks).all()", ").all()"),
    ("| ~blocks).all()", "| ~blocks).any()"),
    ('pl.col("margin").filter(blocks).min()', 'pl.col("margin").min()'),
    (
        'pl.col("gates_pass").fill_null(False) & (pl.col("status") == "evaluated")',
        'pl.col("gates_pass").fill_null(False)',
    ),
    ('pl.col("gates_pass").fill_null(False)', 'pl.col("gates_pass").fill_null(True)'),
]


def held_against_baselines(judging: Judge) -> list[tuple[Any, ...]]:
    """Verdict, limit and margin of two gates whose limit is a baseline's figure; workers have two GPUs."""
    matrix = board(
        {"scenario": "chunked/n2/c256", "gpus": 4, "ttft_worst_s": 0.5, "worse": {"ttft_worst_s": 0.7}},
        {"scenario": "chunked/n2/c512", "gpus": 4, "ttft_worst_s": 0.4, "worse": {"ttft_worst_s": 0.35}},
        {"scenario": "chunked/n3/c512", "gpus": 6, "ttft_worst_s": 0.1},
        {"scenario": "aggregated/n2", "gpus": 4, "ttft_worst_s": 0.2},
        {"scenario": "disaggregated/p1/d1", "gpus": 5, "ttft_worst_s": 0.3, "worse": {"ttft_worst_s": 0.9}},
        {"scenario": "disaggregated/p2/d2", "gpus": 8, "ttft_worst_s": 0.3},
    )
    given = {"limit_baseline": "chunked", "limit_times": 0.5, "topologies": "disaggregated"}
    rules = gates({"gate": "a"} | given, {"gate": "b", "bound": "conservative", "op": "gte"} | given)
    inputs = InputTable.of(inputs_frame_of(gpus_per_worker=2, gpus=8))
    verdicts = judging(matrix, rules, inputs, BUCKETS)
    return verdicts.select("scenario", "gate", "verdict", "limit", "margin").rows()


AGAINST = [
    ("disaggregated/p1/d1", "a", "fail", 0.2, -0.5),  # five GPUs are two workers: half of the better budget's 0.4 s
    ("disaggregated/p1/d1", "b", "pass", 0.35, 1.571428571),  # at the bad ends and from above: half of 0.7 s
    ("disaggregated/p2/d2", "a", "refused", None, None),  # no chunked scenario has four workers
    ("disaggregated/p2/d2", "b", "refused", None, None),
]
OF_BASELINES = [
    ('best = pl.col("figure").min()', 'best = pl.col("figure").max()'),
    ('else pl.col("figure").max()', 'else pl.col("figure").min()'),
    ('bound=gate["bound"], topology', "topology"),
    (', topology=gate["limit_baseline"]', ""),
    ('pl.col("gpus") // each * each', 'pl.col("gpus")'),
    ('gate["limit_times"] * found["figure"]', 'found["figure"]'),
]


def test_limits_of_baselines_are_what_was_worked_out_by_hand() -> None:
    assert held_against_baselines(judge.judge) == AGAINST


@pytest.mark.parametrize(("before", "after"), OF_BASELINES)
def test_a_fault_of_a_baseline_is_noticed(before: str, after: str) -> None:
    assert held_against_baselines(mutated(judge, before, after).judge) != AGAINST


def test_the_evaluator_as_it_is_gives_what_was_worked_out_by_hand() -> None:
    assert probed(judge.judge) == []


@pytest.mark.parametrize(("before", "after"), OF_JUDGE)
def test_a_fault_of_the_evaluator_is_noticed(before: str, after: str) -> None:
    assert noticed(mutated(judge, before, after).judge)


@pytest.mark.parametrize(("before", "after"), OF_AGGREGATES)
def test_a_fault_of_an_aggregate_is_noticed(before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = mutated(aggregates, before, after)
    text = mutated(judge, IMPORTED, "UPPER_LIMITS = BucketRequests = aggregated = None")
    vars(text).update(UPPER_LIMITS=broken.UPPER_LIMITS, BucketRequests=BucketRequests, aggregated=broken.aggregated)
    monkeypatch.setattr(BucketRequests, "chosen", broken.BucketRequests.chosen)
    assert noticed(text.judge)


def noticed(judging: Judge) -> bool:
    """Whether the probes fail, or it cannot even be run."""
    try:
        return bool(probed(judging))
    except Exception:
        return True


def standing(module: Any) -> dict[str, tuple[bool, float]]:
    """Passes and margin of scenarios with and without exceptions, some of them refused."""
    names = ["aggregated/n1", "chunked/n1/c512", "disaggregated/p1/d1", "routed/t1000/n1/p1/d1"]
    rows = [{"scenario": name, "ttft_worst_s": 0.4, "stall_s": 0.1, "gpus": 2} for name in names]
    lost = [LOST | {"scenario": name, "gpus": 2} for name in ("aggregated/n2", "disaggregated/p2/d1")]
    rules = gates(
        {"gate": "ttft", "limit": 0.2, "waived": "chunked", "topologies": "aggregated chunked"},
        {"gate": "stall", "metric": "stall", "limit": 0.2, "topologies": "aggregated chunked"},
        {"gate": "size", "metric": "gpus", "limit": 4.0, "topologies": "aggregated disaggregated"},
        {"gate": "all", "limit": 9.0, "blocking": False},
    )
    only = gates({"gate": "ttft", "limit": 0.2, "waived": "aggregated", "topologies": "aggregated"})
    matrix, alone = board(*rows, *lost), board(rows[0])
    frames = module.standing(matrix, judge.judge(matrix, rules, INPUTS, BUCKETS)).to_dicts()
    frames += [
        row | {"scenario": "waived"}
        for row in module.standing(alone, judge.judge(alone, only, INPUTS, BUCKETS)).to_dicts()
    ]
    return {row["scenario"]: (row["passes"], round(row["margin"], 9)) for row in frames}


BY_HAND = {
    "aggregated/n1": (False, -1.0),  # its TTFT is twice its limit
    "chunked/n1/c512": (True, 0.5),  # waived; half of the stall's limit is left
    "disaggregated/p1/d1": (True, 0.5),  # two of four GPUs
    "routed/t1000/n1/p1/d1": (False, 0.0),  # no gate that decides concerns it
    "aggregated/n2": (False, 0.5),  # refused, so that two gates are
    "disaggregated/p2/d1": (False, 0.5),  # refused, though its one gate passes
    "waived": (True, 0.0),  # its one gate is
}


def test_the_decision_as_it_is_gives_what_was_worked_out_by_hand() -> None:
    assert standing(decision) == BY_HAND


@pytest.mark.parametrize(("before", "after"), OF_DECISION)
def test_a_fault_of_the_decision_is_noticed(before: str, after: str) -> None:
    assert standing(mutated(decision, before, after)) != BY_HAND
