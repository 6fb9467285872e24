"""The frozen cases that the closed forms are compared with, and how to run one: `simulate(case)`.

Requests are drawn from the lengths of real logs in ../shared/traces (read, never copied) or from a synthetic chat.
"""

import csv
import json
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.reference.engine import Costs, Request
from tests.reference.simulation import Layout, Seen, poisson, run

TRACES = Path(__file__).parents[3] / "shared" / "traces"
RECORDED = Path(__file__).with_name("seen.json")
WARM_UP = 0.1
"""Share of the requests, from the first on, that is left out of what was seen."""
TAIL = 0.05
"""Share of the requests, from the last on, that is left out as well: the run empties behind them."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the simulation."""

    mix: str
    """code, conv or chat: where prompts and outputs come from."""
    service: str
    """A or B: the costs of SERVICES."""
    load: float
    """Utilization of the busiest pool that the rate was chosen for."""
    rate: float
    """Requests per second, Poisson."""
    requests: int
    layout: Layout
    seed: int = 1

    @property
    def name(self) -> str:
        """All that tells it from the others."""
        size = f"n{self.layout.workers}.p{self.layout.prefill_workers}.d{self.layout.decode_workers}"
        knobs = f"C{self.layout.budget}.T{self.layout.threshold}.{self.layout.first_token_source}"
        dispatch = ("rr" if self.layout.round_robin else "ll") + (".sf" if self.layout.shortest_first else "")
        return f"{self.layout.topology}.{size}.{knobs}.{dispatch}.{self.mix}.{self.service}.{self.load}"


def service(case: Case) -> Costs:
    """Costs of a case; only separated paths have transfers: 4 ms, and 128 KiB per token at 25 GB/s."""
    moved = case.layout.topology in ("disaggregated", "routed")
    fixed, per_token = (0.004, 131072 / 25e9) if moved else (0.0, 0.0)
    if case.service == "A":
        return Costs(0.008, 12000.0, 0.011, 5000.0, gamma=2e-8, transfer=fixed, transfer_token=per_token)
    return Costs(0.015, 9000.0, 0.020, 1500.0, q=1e-9, gamma=6e-8, transfer=fixed, transfer_token=per_token)


@cache
def lengths(mix: str) -> tuple[tuple[int, int], ...]:
    """(prompt, output) tokens of every request of a mix."""
    if mix == "code":
        with (TRACES / "azure_2023_code.csv").open() as file:
            rows = list(csv.DictReader(file))
        return tuple((int(row["ContextTokens"]), max(1, int(row["GeneratedTokens"]))) for row in rows)
    if mix == "conv":
        lines = (TRACES / "mooncake_fast25_conversation.jsonl").read_text().splitlines()
        logged = [json.loads(line) for line in lines]
        return tuple((row["input_length"], max(1, row["output_length"])) for row in logged)
    rng = random.Random(7)
    draws = [(rng.lognormvariate(5.6, 0.8), rng.lognormvariate(4.9, 0.8)) for _ in range(4000)]
    return tuple((max(8, int(prompt)), max(1, int(output))) for prompt, output in draws)


def arrivals(case: Case) -> list[Request]:
    """The requests of a case, before anything happened to them: what a planner is to be given too."""
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
