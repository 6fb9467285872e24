"""Figures, verdicts and refusals in words."""

from typing import Any

import pytest

from pipelines.gates.wording import SYMBOLS, refusal, said, shown


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.2, "s", "200 ms"),
        (0.0123456, "s", "12.35 ms"),
        (0.99996, "s", "1000 ms"),
        (1.0, "s", "1 s"),
        (12.3456, "s", "12.35 s"),
        (0.0, "s", "0 ms"),
        (0.956789, "ratio", "95.68 %"),
        (1.2, "ratio", "120 %"),
        (-0.25, "ratio", "-25 %"),
        (4.0, "count", "4"),
        (26.5, "count", "26.5"),
        (None, "s", "-"),
        (None, "ratio", "-"),
    ],
)
def test_a_figure_with_its_unit(value: float | None, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def verdict(**changes: Any) -> dict[str, Any]:
    base = {
        "gate": "ttft_worst",
        "bound": "nominal",
        "op": "lte",
        "figure": 0.15,
        "limit": 0.2,
        "unit": "s",
        "verdict": "pass",
    }
    return base | changes


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "ttft_worst 150 ms, <= 200 ms"),
        ({"figure": 0.3, "verdict": "fail"}, "ttft_worst 300 ms, not <= 200 ms"),
        ({"bound": "conservative"}, "ttft_worst 150 ms (conservative), <= 200 ms"),
        ({"gate": "goodput", "op": "gte", "unit": "ratio", "figure": 0.8, "limit": 0.95, "verdict": "fail"}, "goodput 80 %, not >= 95 %"),
        ({"figure": None, "verdict": "refused"}, "ttft_worst refused: no nominal figure to hold against <= 200 ms"),
        (
            {"figure": None, "verdict": "refused", "bound": "conservative", "op": "lt"},
            "ttft_worst refused: no conservative figure to hold against < 200 ms",
        ),
    ],
)  # fmt: skip
def test_a_verdict(changes: dict[str, Any], text: str) -> None:
    assert said(verdict(**changes)) == text


@pytest.mark.parametrize(("op", "symbol"), [("lte", "<="), ("lt", "<"), ("gte", ">="), ("gt", ">")])
def test_operators(op: str, symbol: str) -> None:
    assert SYMBOLS[op] == symbol
    assert said(verdict(op=op)).endswith(f", {symbol} 200 ms")


@pytest.mark.parametrize(
    ("kind", "resource", "figure", "limit", "text"),
    [
        ("utilization", "mixed", 1.2345678, 0.8, "refused: utilization of mixed 1.235, ceiling 0.8"),
        ("link_saturated", "link", 0.7, 0.7, "refused: link saturated of link 0.7, ceiling 0.7"),
        ("kv_memory", "kv_decode", 2.0, 1.0, "refused: kv memory of kv decode 2, ceiling 1"),
        ("prefill_starved", "prefill_lane", 0.9, 0.8, "refused: prefill starved of prefill lane 0.9, ceiling 0.8"),
        (
            "prefill_starved",
            "prefill_lane",
            2 / 7,
            1.0,
            "refused: prefill starved, prefill lane with room for 0.2857 tokens in a step, needs 1",
        ),
    ],
)
def test_a_refusal(kind: str, resource: str, figure: float, limit: float, text: str) -> None:
    row = {"refusal_kind": kind, "refusal_resource": resource, "refusal_figure": figure, "refusal_limit": limit}
    assert refusal(row) == text
