"""The frozen cases that the closed forms were worked out against, and how to run one: `simulate(case)`.

Requests are drawn from the lengths of real logs in ../shared/traces (read, never copied) or from synthetic ones.
"""

import csv
import json
import random
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from tests.reference.engine import Costs, Request
from tests.reference.simulation import Layout, Seen, poisson, run

TRACES = Path(__file__).parents[3] / "shared" / "traces"
RECORDED = Path(__file__).with_name("seen.json")
WARM_UP = 0.1
"""Share of the requests, from the first on, that is left out of what was seen."""
TAIL = 0.05
"""Share of the requests, from the last on, that is left out as well: the run empties behind them."""
KV_BYTES = 131072
"""Bytes that a transfer moves of a token: 32 layers, 8 heads of 128 elements, keys and values of two bytes."""
BLOCK = 512
"""Tokens of a block that the log of conversations names by its hash."""
NO_SLOTS = 1_000_000
"""As many sequences on a worker as anybody asks for."""

SERVICES = {
    "A": Costs(0.008, 12000.0, 0.011, 5000.0, gamma=2e-8, transfer=0.004, transfer_token=KV_BYTES / 25e9),
    "B": Costs(0.015, 9000.0, 0.020, 1500.0, q=1e-9, gamma=6e-8, transfer=0.004, transfer_token=KV_BYTES / 25e9),
    "C": Costs(0.005, 20000.0, 0.007, 4000.0, q=5e-10, gamma=1.5e-8, transfer=0.002, transfer_token=KV_BYTES / 50e9),
    "D": Costs(0.020, 6000.0, 0.025, 1200.0, q=1e-9, gamma=5e-8, transfer=0.010, transfer_token=KV_BYTES / 5e9),
    "E": Costs(0.012, 15000.0, 0.012, 8000.0, transfer=0.004, transfer_token=KV_BYTES / 12.5e9),
}
"""Costs of a worker and of a transfer. A and B are those of CASES, the others of HELD_OUT."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the simulation."""

    mix: str
    """Where prompts and outputs come from: one of :func:`lengths`."""
    service: str
    """The costs: one of SERVICES."""
    load: float
    """Utilization of the busiest pool (chunks: of the lane of prompts) that the rate was chosen for."""
    rate: float
    """Requests per second."""
    requests: int
    layout: Layout
    seed: int = 1
    arrivals: str = "poisson"
    """poisson; or log: the log's own arrivals, lengths in their order, at `rate` instead of its own."""
    slots: int = NO_SLOTS
    """Sequences that a worker holds at most."""

    @property
    def name(self) -> str:
        """All that tells it from the others of its list."""
        size = f"n{self.layout.workers}.p{self.layout.prefill_workers}.d{self.layout.decode_workers}"
        knobs = f"C{self.layout.budget}.T{self.layout.threshold}.{self.layout.first_token_source}"
        dispatch = ("rr" if self.layout.round_robin else "ll") + (".sf" if self.layout.shortest_first else "")
        own = ("" if self.arrivals == "poisson" else f".{self.arrivals}") + (
            "" if self.slots == NO_SLOTS else f".s{self.slots}"
        )
        return f"{self.layout.topology}.{size}.{knobs}.{dispatch}.{self.mix}.{self.service}.{self.load}{own}"


def service(case: Case) -> Costs:
    """Costs of a case; only separated paths have transfers."""
    costs = replace(SERVICES[case.service], slots=case.slots)
    if case.layout.topology in ("disaggregated", "routed"):
        return costs
    return replace(costs, transfer=0.0, transfer_token=0.0)


Lengths = tuple[tuple[int, int, int], ...]


@cache
def lengths(mix: str) -> Lengths:
    """(prompt, output, cached) tokens of every request of a mix.

    code, conv: logs of Azure and Mooncake. cached: conv with what an unlimited prefix cache holds of each prompt.
    short, few: the ten and the three requests of the examples of LLMServingSim and Splitwise.
    chat, reason: synthetic, the one with answers of half the prompt, the other with answers of twice its length.
    """
    if mix == "code":
        return tuple((int(row["ContextTokens"]), max(1, int(row["GeneratedTokens"])), 0) for row in azure())
    if mix in ("conv", "cached"):
        hits = prefix_hits() if mix == "cached" else (0,) * len(mooncake())
        pairs = zip(mooncake(), hits, strict=True)
        return tuple((row["input_length"], max(1, row["output_length"]), hit) for row, hit in pairs)
    if mix == "short":
        lines = (TRACES / "llmservingsim_example.jsonl").read_text().splitlines()
        return tuple((row["input_toks"], row["output_toks"], 0) for row in map(json.loads, lines))
    if mix == "few":
        with (TRACES / "splitwise_sim_test.csv").open() as file:
            return tuple((int(row["prompt_size"]), int(row["token_size"]), 0) for row in csv.DictReader(file))
    seed, prompt, output, spread = {"chat": (7, 5.6, 4.9, 0.8), "reason": (11, 5.4, 6.3, 0.7)}[mix]
    rng = random.Random(seed)
    draws = [(rng.lognormvariate(prompt, spread), rng.lognormvariate(output, spread)) for _ in range(4000)]
    return tuple((max(8, int(prompt)), max(1, int(output)), 0) for prompt, output in draws)


@cache
def azure() -> list[dict[str, str]]:
    """The log of code completions."""
    with (TRACES / "azure_2023_code.csv").open() as file:
        return list(csv.DictReader(file))


@cache
def mooncake() -> list[dict[str, Any]]:
    """The log of conversations."""
    return [json.loads(line) for line in (TRACES / "mooncake_fast25_conversation.jsonl").read_text().splitlines()]


def prefix_hits() -> tuple[int, ...]:
    """Tokens of each prompt of the log of conversations that an unlimited cache of whole blocks holds when it comes.

    The last token is always computed.
    """
    held: set[int] = set()
    found = []
    for row in mooncake():
        blocks = row["hash_ids"]
        known = next((place for place, block in enumerate(blocks) if block not in held), len(blocks))
        found.append(min(known * BLOCK, row["input_length"] - 1))
        held.update(blocks)
    return tuple(found)


@cache
def logged_arrivals(mix: str) -> tuple[float, ...]:
    """When the requests of a log came in: seconds after the first."""
    if mix == "code":
        times = [datetime.fromisoformat(row["TIMESTAMP"]) for row in azure()]
        return tuple((time - times[0]).total_seconds() for time in times)
    return tuple(row["timestamp"] / 1000 for row in mooncake())


def as_logged(mix: str, rate: float, count: int) -> list[Request]:
    """The first `count` requests of a log, in its order and at its arrivals, these scaled to `rate` (1/s)."""
    times = logged_arrivals(mix)[:count]
    scale = (len(times) - 1) / times[-1] / rate
    rows = enumerate(zip(times, lengths(mix), strict=False))
    return [Request(number, time * scale, *sizes) for number, (time, sizes) in rows]


def arrivals(case: Case) -> list[Request]:
    """The requests of a case, before anything happened to them: what a planner is to be given too."""
    if case.arrivals == "log":
        return as_logged(case.mix, case.rate, case.requests)
    return poisson(lengths(case.mix), case.rate, case.requests, case.seed)


def simulate(case: Case) -> Seen:
    """Run one case."""
    return run(case.layout, service(case), arrivals(case), WARM_UP, TAIL)


CASES: tuple[Case, ...] = (
    Case("code", "A", 0.3, 1.62, 60000, Layout("aggregated")),
    Case("code", "A", 0.6, 3.24, 60000, Layout("aggregated")),
    Case("code", "A", 0.78, 4.212, 60000, Layout("aggregated")),
    Case("code", "B", 0.3, 2.206, 60000, Layout("aggregated", workers=2)),
    Case("code", "B", 0.6, 4.412, 60000, Layout("aggregated", workers=2)),
    Case("code", "B", 0.78, 5.735, 60000, Layout("aggregated", workers=2)),
    Case("code", "A", 0.3, 6.48, 60000, Layout("aggregated", workers=4)),
    Case("code", "A", 0.6, 12.96, 60000, Layout("aggregated", workers=4)),
    Case("code", "A", 0.78, 16.85, 60000, Layout("aggregated", workers=4)),
    Case("code", "B", 0.3, 8.824, 60000, Layout("aggregated", workers=8)),
    Case("code", "B", 0.6, 17.65, 60000, Layout("aggregated", workers=8)),
    Case("code", "B", 0.78, 22.94, 60000, Layout("aggregated", workers=8)),
    Case("code", "A", 0.5, 10.8, 60000, Layout("aggregated", workers=4, round_robin=True)),
    Case("code", "A", 0.75, 16.2, 60000, Layout("aggregated", workers=4, round_robin=True)),
    Case("code", "A", 0.3, 1.193, 60000, Layout("chunked", budget=512)),
    Case("code", "A", 0.65, 2.573, 60000, Layout("chunked", budget=512)),
    Case("code", "B", 0.5, 1.779, 60000, Layout("chunked", budget=2048)),
    Case("code", "A", 0.75, 3.839, 60000, Layout("chunked", budget=2048)),
    Case("code", "B", 0.5, 5.161, 60000, Layout("chunked", workers=4, budget=512)),
    Case("code", "A", 0.7, 14.35, 60000, Layout("chunked", workers=4, budget=2048)),
    Case("code", "A", 0.6, 5.604, 60000, Layout("chunked", workers=2, budget=1024)),
    Case("code", "A", 0.6, 3.233, 60000, Layout("chunked", budget=4096)),
    Case("code", "A", 0.4, 2.438, 60000, Layout("chunked", workers=2, budget=256)),
    Case("code", "A", 0.7, 22.15, 60000, Layout("chunked", workers=8, budget=512)),
    Case("code", "A", 0.6, 11.21, 60000, Layout("chunked", workers=4, budget=1024, round_robin=True)),
    Case("code", "A", 0.4, 2.239, 60000, Layout("disaggregated", channels=2)),
    Case(
        "code",
        "A",
        0.7,
        7.836,
        60000,
        Layout("disaggregated", prefill_workers=2, channels=2, first_token_source="prefill"),
    ),
    Case("code", "B", 0.75, 2.992, 60000, Layout("disaggregated", channels=2)),
    Case("code", "B", 0.6, 9.576, 60000, Layout("disaggregated", prefill_workers=4, decode_workers=2, channels=2)),
    Case("code", "A", 0.78, 17.46, 60000, Layout("disaggregated", prefill_workers=4, decode_workers=4, channels=2)),
    Case("code", "B", 0.5, 15.96, 60000, Layout("disaggregated", prefill_workers=8, decode_workers=2, channels=2)),
    Case("code", "B", 0.7, 5.586, 60000, Layout("disaggregated", prefill_workers=2, decode_workers=4, channels=2)),
    Case(
        "code",
        "B",
        0.7,
        11.17,
        60000,
        Layout("disaggregated", prefill_workers=4, decode_workers=2, channels=2, round_robin=True),
    ),
    Case("code", "A", 0.5, 2.7, 60000, Layout("aggregated", shortest_first=True)),
    Case("code", "A", 0.75, 4.05, 60000, Layout("aggregated", shortest_first=True)),
    Case(
        "code",
        "A",
        0.75,
        16.79,
        60000,
        Layout("disaggregated", prefill_workers=4, decode_workers=4, channels=2, shortest_first=True),
    ),
    Case("code", "A", 0.5, 7.602, 60000, Layout("routed", workers=2, prefill_workers=2, channels=2, threshold=2000)),
    Case(
        "code",
        "A",
        0.65,
        14.82,
        60000,
        Layout("routed", workers=2, prefill_workers=3, channels=2, budget=1024, threshold=2000),
    ),
    Case("conv", "A", 0.3, 0.2566, 12000, Layout("aggregated")),
    Case("conv", "A", 0.6, 0.5133, 12000, Layout("aggregated")),
    Case("conv", "A", 0.78, 0.6673, 24000, Layout("aggregated")),
    Case("conv", "B", 0.3, 0.2674, 12000, Layout("aggregated", workers=2)),
    Case("conv", "B", 0.6, 0.5349, 12000, Layout("aggregated", workers=2)),
    Case("conv", "B", 0.78, 0.6953, 24000, Layout("aggregated", workers=2)),
    Case("conv", "A", 0.3, 1.027, 12000, Layout("aggregated", workers=4)),
    Case("conv", "A", 0.6, 2.053, 12000, Layout("aggregated", workers=4)),
    Case("conv", "A", 0.78, 2.669, 24000, Layout("aggregated", workers=4)),
    Case("conv", "B", 0.3, 1.07, 12000, Layout("aggregated", workers=8)),
    Case("conv", "B", 0.6, 2.139, 12000, Layout("aggregated", workers=8)),
    Case("conv", "B", 0.78, 2.781, 24000, Layout("aggregated", workers=8)),
    Case("conv", "A", 0.5, 1.711, 12000, Layout("aggregated", workers=4, round_robin=True)),
    Case("conv", "A", 0.75, 2.566, 24000, Layout("aggregated", workers=4, round_robin=True)),
    Case("conv", "A", 0.3, 0.2047, 12000, Layout("chunked", budget=512)),
    Case("conv", "A", 0.65, 0.435, 12000, Layout("chunked", budget=512)),
    Case("conv", "B", 0.5, 0.2229, 12000, Layout("chunked", budget=2048)),
    Case("conv", "A", 0.75, 0.6416, 24000, Layout("chunked", budget=2048)),
    Case("conv", "B", 0.5, 0.7553, 12000, Layout("chunked", workers=4, budget=512)),
    Case("conv", "A", 0.7, 2.395, 24000, Layout("chunked", workers=4, budget=2048)),
    Case("conv", "A", 0.6, 0.9568, 12000, Layout("chunked", workers=2, budget=1024)),
    Case("conv", "A", 0.6, 0.5133, 12000, Layout("chunked", budget=4096)),
    Case("conv", "A", 0.4, 0.4151, 12000, Layout("chunked", workers=2, budget=256)),
    Case("conv", "A", 0.7, 3.731, 24000, Layout("chunked", workers=8, budget=512)),
    Case("conv", "A", 0.6, 1.914, 12000, Layout("chunked", workers=4, budget=1024, round_robin=True)),
    Case("conv", "A", 0.4, 0.3957, 12000, Layout("disaggregated", channels=2)),
    Case(
        "conv",
        "A",
        0.7,
        1.385,
        24000,
        Layout("disaggregated", prefill_workers=2, channels=2, first_token_source="prefill"),
    ),
    Case("conv", "B", 0.75, 0.4294, 24000, Layout("disaggregated", channels=2)),
    Case("conv", "B", 0.6, 1.374, 12000, Layout("disaggregated", prefill_workers=4, decode_workers=2, channels=2)),
    Case("conv", "A", 0.78, 3.086, 24000, Layout("disaggregated", prefill_workers=4, decode_workers=4, channels=2)),
    Case("conv", "B", 0.5, 2.007, 12000, Layout("disaggregated", prefill_workers=8, decode_workers=2, channels=2)),
    Case("conv", "B", 0.7, 0.8015, 24000, Layout("disaggregated", prefill_workers=2, decode_workers=4, channels=2)),
    Case(
        "conv",
        "B",
        0.7,
        1.603,
        24000,
        Layout("disaggregated", prefill_workers=4, decode_workers=2, channels=2, round_robin=True),
    ),
    Case("conv", "A", 0.5, 0.4277, 12000, Layout("aggregated", shortest_first=True)),
    Case("conv", "A", 0.75, 0.6416, 24000, Layout("aggregated", shortest_first=True)),
    Case(
        "conv",
        "A",
        0.75,
        2.968,
        24000,
        Layout("disaggregated", prefill_workers=4, decode_workers=4, channels=2, shortest_first=True),
    ),
    Case("conv", "A", 0.5, 1.166, 12000, Layout("routed", workers=2, prefill_workers=2, channels=2, threshold=8000)),
    Case(
        "conv",
        "A",
        0.65,
        2.275,
        12000,
        Layout("routed", workers=2, prefill_workers=3, channels=2, budget=1024, threshold=8000),
    ),
    Case("chat", "A", 0.3, 3.911, 20000, Layout("aggregated")),
    Case("chat", "A", 0.6, 7.823, 20000, Layout("aggregated")),
    Case("chat", "A", 0.78, 10.17, 20000, Layout("aggregated")),
    Case("chat", "B", 0.3, 3.292, 20000, Layout("aggregated", workers=2)),
    Case("chat", "B", 0.6, 6.584, 20000, Layout("aggregated", workers=2)),
    Case("chat", "B", 0.78, 8.559, 20000, Layout("aggregated", workers=2)),
    Case("chat", "A", 0.3, 15.65, 20000, Layout("aggregated", workers=4)),
    Case("chat", "A", 0.6, 31.29, 20000, Layout("aggregated", workers=4)),
    Case("chat", "A", 0.78, 40.68, 20000, Layout("aggregated", workers=4)),
    Case("chat", "B", 0.3, 13.17, 20000, Layout("aggregated", workers=8)),
    Case("chat", "B", 0.6, 26.33, 20000, Layout("aggregated", workers=8)),
    Case("chat", "B", 0.78, 34.24, 20000, Layout("aggregated", workers=8)),
    Case("chat", "A", 0.5, 26.08, 20000, Layout("aggregated", workers=4, round_robin=True)),
    Case("chat", "A", 0.75, 39.11, 20000, Layout("aggregated", workers=4, round_robin=True)),
    Case("chat", "A", 0.3, 3.911, 20000, Layout("chunked", budget=512)),
    Case("chat", "A", 0.65, 8.475, 20000, Layout("chunked", budget=512)),
    Case("chat", "B", 0.5, 2.743, 20000, Layout("chunked", budget=2048)),
    Case("chat", "A", 0.75, 9.778, 20000, Layout("chunked", budget=2048)),
    Case("chat", "B", 0.5, 10.97, 20000, Layout("chunked", workers=4, budget=512)),
    Case("chat", "A", 0.7, 36.51, 20000, Layout("chunked", workers=4, budget=2048)),
    Case("chat", "A", 0.6, 15.65, 20000, Layout("chunked", workers=2, budget=1024)),
    Case("chat", "A", 0.6, 7.823, 20000, Layout("chunked", budget=4096)),
    Case("chat", "A", 0.4, 10.43, 20000, Layout("chunked", workers=2, budget=256)),
    Case("chat", "A", 0.7, 73.01, 20000, Layout("chunked", workers=8, budget=512)),
    Case("chat", "A", 0.6, 31.29, 20000, Layout("chunked", workers=4, budget=1024, round_robin=True)),
    Case("chat", "A", 0.4, 10.34, 20000, Layout("disaggregated", channels=2)),
    Case(
        "chat",
        "A",
        0.7,
        18.41,
        20000,
        Layout("disaggregated", prefill_workers=2, channels=2, first_token_source="prefill"),
    ),
    Case("chat", "B", 0.75, 5.914, 20000, Layout("disaggregated", channels=2)),
    Case("chat", "B", 0.6, 9.462, 20000, Layout("disaggregated", prefill_workers=4, decode_workers=2, channels=2)),
    Case("chat", "A", 0.78, 80.69, 20000, Layout("disaggregated", prefill_workers=4, decode_workers=4, channels=2)),
    Case("chat", "B", 0.5, 7.885, 20000, Layout("disaggregated", prefill_workers=8, decode_workers=2, channels=2)),
    Case("chat", "B", 0.7, 22.08, 20000, Layout("disaggregated", prefill_workers=2, decode_workers=4, channels=2)),
    Case(
        "chat",
        "B",
        0.7,
        11.04,
        20000,
        Layout("disaggregated", prefill_workers=4, decode_workers=2, channels=2, round_robin=True),
    ),
    Case("chat", "A", 0.5, 6.519, 20000, Layout("aggregated", shortest_first=True)),
    Case("chat", "A", 0.75, 9.778, 20000, Layout("aggregated", shortest_first=True)),
    Case(
        "chat",
        "A",
        0.75,
        77.59,
        20000,
        Layout("disaggregated", prefill_workers=4, decode_workers=4, channels=2, shortest_first=True),
    ),
    Case("chat", "A", 0.5, 29.56, 20000, Layout("routed", workers=2, prefill_workers=2, channels=2, threshold=300)),
    Case(
        "chat",
        "A",
        0.65,
        38.43,
        20000,
        Layout("routed", workers=2, prefill_workers=3, channels=2, budget=1024, threshold=300),
    ),
)
