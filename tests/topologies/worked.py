"""The requests and helpers of cases that are worked out by hand from docs/arithmetic.md, with round numbers.

STEADY is five requests of 1000 prompt and 101 output tokens; VARIED four of 500 and one of 3000. Both arrive two at a time, a second
apart: gaps of 0 and 1 s in equal parts, so two requests a second and ca² = (1/2) / (1/4) - 1 = 1.

A prompt token takes 0.1 ms and a prompt 10 ms more: S(500) = 0.06, S(1000) = 0.11, S(3000) = 0.31 s.
A decode step takes 10 ms and 0.5 ms per sequence. A prompt token leaves 10 kB.
"""

from typing import Any

import pytest

from pipelines.frames.evaluation import LANES, LOADS
from tests.plans import in_pairs
from tests.topologies.by_hand import pairs

STEADY = in_pairs(*[(1000, 101)] * 5)
FIVE = pairs(*[(1000, 101)] * 5)

VARIED_LENGTHS = ((500, 1), (500, 41), (500, 41), (500, 41), (3000, 81))
VARIED = in_pairs(*VARIED_LENGTHS)
"""Prompts: E[p] = (4·500 + 3000)/5 = 1000, E[p²] = (4·0.25 + 9)/5 M = 2e6, none of them cached.

Outputs: short prompts (1 + 3·41)/4 = 31 tokens with m = 3/4, the long one 81; together E[o] = (4·31 + 81)/5 = 41, m = 4/5.
Decode steps after a first token by prefill: 0, 40, 40, 40, 80, so D1 = 40, D2 = (3·1600 + 6400)/5 = 2240, cH² = 2240/1600 - 1 = 0.4,
E[p·D] = (500·120 + 3000·80)/5 = 60000, and PD + D2/2 = 61120.
"""
MIX = pairs(*VARIED_LENGTHS)
SHORT, LONG = "[1,1000)", "[1000,inf)"

VARIED_CS2 = 100 / 121
"""S̄ = (4·0.06 + 0.31)/5 = 0.11 s, E[S²] = (4·0.0036 + 0.0961)/5 = 0.0221 s²; (0.0221 - 0.0121)/0.0121."""


def close(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-14)


def lanes_of(row: dict[str, Any]) -> tuple[float, ...]:
    return tuple(row[lane] for lane in LANES)


def loads_of(row: dict[str, Any]) -> dict[str, float]:
    return {load: row[f"load_{load}"] for load in LOADS if row[f"load_{load}"] is not None}
