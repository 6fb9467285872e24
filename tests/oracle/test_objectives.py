"""Objectives of buckets, and which bucket is judged by them (docs/arithmetic.md sections 1 and 7)."""

from __future__ import annotations

import pytest

from pipelines.oracle.judging import Grounds, judge
from pipelines.oracle.objectives import Objectives
from tests.oracle.handmade import gate

OBJECTIVES = Objectives({"ttft": 2.0, "tpot": 0.05}, ((512, {"ttft": 0.5}), (4096, {"tpot": 0.04, "e2e": 20.0})))


@pytest.mark.parametrize(
    ("name", "bucket", "expected"),
    [
        ("ttft", "[1,512)", 0.5),
        ("ttft", "[1,128)", 0.5),
        # the next edge is 4096, where no ttft is declared
        ("ttft", "[512,4096)", 2.0),
        ("ttft", "[4096,inf)", 2.0),
        # the smallest edge is 512, where no tpot is declared
        ("tpot", "[1,512)", 0.05),
        ("tpot", "[512,4096)", 0.04),
        ("e2e", "[512,4096)", 20.0),
        ("e2e", "[1,512)", None),
    ],
)
def test_the_smallest_edge_decides(name: str, bucket: str, expected: float | None) -> None:
    assert OBJECTIVES.of(name, bucket) == expected


def test_the_judged_bucket_has_the_largest_share_of_its_objective() -> None:
    figures = [("[1,512)", 0.4), ("[512,4096)", 1.0), ("[4096,inf)", 1.5)]
    assert OBJECTIVES.judged_bucket("ttft", figures) == "[1,512)"
    assert OBJECTIVES.judged_bucket("ttft", [("[1,512)", 0.5), ("[512,4096)", 2.0)]) == "[1,512)"
    assert Objectives({"ttft": 2.0}).judged_bucket("ttft", figures) == "[4096,inf)"
    assert OBJECTIVES.judged_bucket("tpot", [("[1,512)", None), ("[4096,inf)", None)]) is None
    # only one bucket has an objective of its own for e2e
    assert OBJECTIVES.judged_bucket("e2e", figures) == "[512,4096)"


def test_a_gate_judges_that_bucket_by_its_own_objective() -> None:
    lanes = [{"bucket": "[1,512)", "ttft_s": 0.4}, {"bucket": "[4096,inf)", "ttft_s": 1.0}]
    seen = {"status": "evaluated", "ttft_worst_s": 1.0, "ttft_judged_bucket": "[1,512)", "lanes": lanes}
    requests = {"[1,512)": 9, "[4096,inf)": 1}
    of_objective = gate("ttft_worst", "ttft_worst", "s", "lte", "ttft", ["aggregated"])
    judged = judge(seen, of_objective, Grounds(OBJECTIVES, requests))
    assert (judged.figure, judged.limit, judged.margin, judged.verdict) == (0.4, 0.5, 0.2, "pass")
    # without objectives of buckets, with a limit of its own, and by bucket, it judges the worst bucket
    plain = judge(seen, of_objective, Grounds(Objectives({"ttft": 2.0}), requests))
    declared = judge(seen, of_objective | {"limit_source": "declared", "limit": 0.8}, Grounds(OBJECTIVES, requests))
    by_bucket = judge(seen, of_objective | {"metric": "ttft", "aggregate": "worst"}, Grounds(OBJECTIVES, requests))
    assert (plain.figure, plain.limit, plain.verdict) == (1.0, 2.0, "pass")
    assert (declared.figure, declared.limit, declared.verdict) == (1.0, 0.8, "fail")
    assert (by_bucket.figure, by_bucket.limit, by_bucket.verdict) == (1.0, 2.0, "pass")
