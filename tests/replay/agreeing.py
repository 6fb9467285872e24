"""The closed forms beside the replay of the same requests: the figures of docs/accuracy.md, Against the replay."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pipelines.declarations import load_declarations
from pipelines.frames.inputs import InputTable
from pipelines.gates.rules import gates_frame, part_weights, preference_frame, reads_a_date
from pipelines.planning.replaying import ReplayAsked
from pipelines.planning.search import Asked, kept_scenarios
from pipelines.replay.clock import COARSEST, WINDOW_S
from pipelines.replay.costs import Knobs
from pipelines.replay.plan import Replayer, replayed
from pipelines.replay.run import replay
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.matrix import scenario_matrix
from pipelines.topologies.question import Workload
from pipelines.topologies.scenarios import KNOBS
from pipelines.traces import bucket_frame, output_stratum_frame, read_cohort_requests, stratum_frame
from pipelines.traces.edges import bucket_edges
from pipelines.traces.freeze import inputs_frame
from tests.plans import FINGERPRINT

PROJECT = Path(__file__).resolve().parent.parent.parent
RECORDED = Path(__file__).with_name("agreement.json")
BUNDLED = ("moderate-chat", "bursty-documents", "short-and-long", "slow-link", "overloaded")
REAL = ("azure-code-2023", "mooncake-conversation")
BLIND = "bursty-documents"
"""The cohort of which no window and no variation of arrivals shows what its requests meet."""
DAY = date(2026, 11, 30)
SEED = 2026
LEAST_REQUESTS = 50_000
"""Of a Poisson stream, so that its means are not those of a few bursts that happen to be in it."""
DOCUMENT_TOKENS = 8192
WORST_MINUTES = 5
SPANS_S = (5, 20, 60)
"""Seconds over which the prompts that come are looked at."""
LOADS = ("load_mixed", "load_prefill_lane", "load_prefill", "load_decode", "load_link")
"""The loads of pools and links; slots and memory aside."""
REPLAYED = ("replayed_ttft_mean_s", "replayed_tpot_mean_s", "replayed_modeled_goodput", "replayed_goodput")
REPLAYED += ("replayed_stall_s", "replayed_peak_queue")
Row = dict[str, Any]


@dataclass(frozen=True)
class Planned:
    """A cohort that is planned by the closed forms, and the finalists of the topologies that it compares."""

    name: str
    inputs: InputTable
    edges: tuple[int, ...]
    requests: pl.DataFrame
    scenarios: pl.DataFrame
    weights: dict[str, float]
    matrix: pl.DataFrame
    finalists: tuple[str, ...]

    def workload(self, requests: pl.DataFrame) -> Workload:
        """Buckets and strata of requests that arrive as they say."""
        return Workload(
            bucket_frame(requests, self.edges, kind="open", rate_rps=None),
            stratum_frame(requests, self.edges),
            output_stratum_frame(requests, self.edges),
        )

    def evaluated(self, workload: Workload, names: Sequence[str]) -> tuple[list[pl.DataFrame], pl.DataFrame]:
        """The evaluations of some scenarios by topology, and their scenario matrix; nominal alone."""
        own = self.scenarios.filter(pl.col("scenario").is_in(names))
        evaluations = [evaluate(name, FINGERPRINT, own, self.inputs, workload) for name in TOPOLOGIES]
        matrix = scenario_matrix(evaluations, self.inputs, self.weights)
        return [one.filter(bound="nominal") for one in evaluations], matrix.filter(bound="nominal")


@cache
def planned(name: str) -> Planned:
    """Plan a cohort up to its finalists, without Dagster."""
    home = PROJECT / ("cohorts" if name in BUNDLED else "tests/cohorts") / name
    cohort, rules = load_declarations(home / "cohort.yaml", PROJECT / "rules")
    requests, inputs = read_cohort_requests(cohort).requests, InputTable.of(inputs_frame(cohort))
    edges = bucket_edges(requests, cohort.bucket_edges_tokens, cohort.forced_edges_tokens)
    workload = Workload(
        bucket_frame(requests, edges, kind=cohort.kind, rate_rps=None),
        stratum_frame(requests, edges),
        output_stratum_frame(requests, edges),
    )
    gates = gates_frame(rules, cohort.name, DAY if reads_a_date(rules, cohort.name) else None)
    preference = preference_frame(rules)
    scenarios, weights = kept_scenarios(Asked(inputs, workload, gates, preference)), part_weights(preference)
    evaluations = [evaluate(name, FINGERPRINT, scenarios, inputs, workload) for name in TOPOLOGIES]
    matrix = scenario_matrix(evaluations, inputs, weights)
    finalists = ReplayAsked(inputs, workload, requests, matrix, gates, preference).finalists()["scenario"].to_list()
    return Planned(name, inputs, edges, requests, scenarios, weights, matrix, tuple(finalists))


def poisson(requests: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The same lengths in random order, again and again, at the same rate, each request independent of the others.

    Arrivals are uniform over their span, as those of a Poisson stream are: whole numbers alone, the same on every machine.
    """
    draw, count = random.Random(seed), requests.height
    copies = -(-LEAST_REQUESTS // count)
    span = requests["arrival_ns"][-1] * (count * copies - 1) // (count - 1)
    order = [place for own in repeat(range(count), copies) for place in own]
    draw.shuffle(order)
    arrivals = sorted([0, span, *(draw.randrange(span) for _ in range(len(order) - 2))])
    own = pl.Series("arrival_ns", arrivals, dtype=requests.schema["arrival_ns"])
    return requests[order].with_columns(own)


def means(evaluations: Sequence[pl.DataFrame], buckets: pl.DataFrame) -> dict[str, tuple[float, float]]:
    """Mean TTFT of all requests, and E2E - TTFT over output - 1 of all of them (s), of each scenario that is not refused."""
    weights = buckets.select("bucket", "requests", steps=pl.col("requests") * (pl.col("output_tokens_mean") - 1))
    rows = pl.concat([one.select("scenario", "bucket", "status", "ttft_s", "e2e_s") for one in evaluations])
    found: dict[str, list[Row]] = {}
    for row in rows.filter(pl.col("status") != "refused").join(weights, on="bucket").iter_rows(named=True):
        found.setdefault(row["scenario"], []).append(row)
    return {
        scenario: (
            sum(row["requests"] * row["ttft_s"] for row in own) / sum(row["requests"] for row in own),
            sum(row["requests"] * (row["e2e_s"] - row["ttft_s"]) for row in own) / sum(row["steps"] for row in own),
        )
        for scenario, own in found.items()
    }


def beside(of: Planned, requests: pl.DataFrame) -> list[Row]:
    """The finalists on some requests: what the closed forms say, and what the replay of all of them sees."""
    workload = of.workload(requests)
    evaluations, matrix = of.evaluated(workload, of.finalists)
    averages = means(evaluations, workload.buckets)
    seen = replayed(of.inputs, workload, requests, matrix).filter(part="whole")
    replays = {row["scenario"]: row for row in seen.iter_rows(named=True)}
    whole = workload.buckets.row(0, named=True)
    rows = []
    for row in matrix.iter_rows(named=True):
        ttft, tpot = averages.get(row["scenario"], (None, None))
        modeled = {"ttft_s": ttft, "tpot_s": tpot, "goodput": row["goodput"], "stall_s": row["stall_s"]}
        loads = [row[name] for name in LOADS if row[name] is not None]
        shown = {
            "cohort": of.name,
            "scenario": row["scenario"],
            "requests": requests.height,
            "status": row["status"],
            "screening": row["screening"],
            "arrival_scv": whole["arrival_scv"],
            "utilization": max(loads),
        }
        rows.append(shown | modeled | {name: replays[row["scenario"]][name] for name in REPLAYED})
    return [_rounded(row) for row in rows]


def _rounded(row: Row) -> Row:
    """Eight significant digits."""
    return {name: float(f"{value:.8g}") if isinstance(value, float) else value for name, value in row.items()}


def rows_of(name: str) -> dict[str, list[Row]]:
    """The rows of a cohort: with the arrivals of its log, and as a Poisson stream."""
    of = planned(name)
    return {"log": beside(of, of.requests), "poisson": beside(of, poisson(of.requests, SEED))}


def blind() -> Row:
    """All scenarios of the cohort whose bursts no closed form sees; the chosen one and the smallest that meets by replay, by minutes."""
    of = planned(BLIND)
    workload, nominal = of.workload(of.requests), of.matrix.filter(bound="nominal")
    seen = replayed(of.inputs, workload, of.requests, nominal).filter(part="whole")
    every = nominal.join(seen.select("scenario", *REPLAYED), on="scenario")
    attainment = of.inputs.number("objectives.attainment", "nominal")
    enough = pl.col("replayed_goodput") >= attainment
    by_size = every.sort("operating_parts", "gpus", "place")
    modeled = by_size.filter(pl.col("scenario").is_in(of.finalists) & (pl.col("topology") == "disaggregated"))
    smallest, replayer = by_size.filter(enough).head(1), Replayer.of(of.inputs, workload, of.requests)
    without_stalls = by_size.filter(pl.col("replayed_modeled_goodput") >= attainment)
    minutes = of.requests["arrival_ns"].to_numpy() // (WINDOW_S * COARSEST)
    documents = of.requests["prompt_tokens"].to_numpy() >= DOCUMENT_TOKENS
    return {
        "attainment": attainment,
        "arrival_scv": {row["bucket"]: row["arrival_scv"] for row in workload.buckets.iter_rows(named=True)},
        "requests": np.bincount(minutes).tolist(),
        "documents": np.bincount(minutes, weights=documents).astype(int).tolist(),
        "demand": demand(of),
        "smallest_without_stalls": without_stalls.select("scenario", "gpus", *REPLAYED).row(0, named=True),
        "scenarios": [_rounded(by_minutes(replayer, row)) for row in (*modeled.to_dicts(), *smallest.to_dicts())],
    }


def demand(of: Planned) -> dict[str, float]:
    """Workers that the tokens of prompts keep busy: over the busiest spans of so many seconds, and over the whole log."""
    arrivals, prompts = (of.requests[name].to_numpy() for name in ("arrival_ns", "prompt_tokens"))
    rate = of.inputs.number("service.prefill.tokens_per_second", "nominal")
    sums = np.concatenate([[0], np.cumsum(prompts, dtype=np.int64)])

    def most(span_s: int) -> int:
        ends = np.searchsorted(arrivals, arrivals + span_s * COARSEST)
        return int((sums[ends] - sums[:-1]).max())

    spans = {str(span_s): most(span_s) / (rate * span_s) for span_s in SPANS_S}
    return _rounded(spans | {"all": int(sums[-1]) * COARSEST / (rate * int(arrivals[-1]))})


def by_minutes(replayer: Replayer, row: Row) -> Row:
    """A scenario with the requests of each minute that meet every objective, and how busy its prefill pool is in it."""
    costs = replayer.whole["nominal"]
    outcome = replay(costs.paths(Knobs(row["topology"], *(row[name] for name in KNOBS))), costs.setting)
    room = costs.setting.window_ticks * row["workers_prefill"]
    names = ("scenario", "gpus", "goodput", "load_prefill", "stall_s", *REPLAYED)
    return {name: row[name] for name in names} | {
        "met": outcome.met.tolist(),
        "prefill": [float(f"{work / room:.8g}") for work in outcome.work["prefill"].tolist()],
    }


@cache
def recorded() -> Row:
    """What is recorded."""
    found: Row = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def record() -> None:
    """Replay everything anew, and write it."""
    found = [rows_of(name) for name in (*REAL, *BUNDLED)]
    rows = {arrivals: [row for own in found for row in own[arrivals]] for arrivals in ("log", "poisson")}
    RECORDED.write_text(json.dumps(rows | {"blind": blind()}, indent=1) + "\n", encoding="utf-8")
    recorded.cache_clear()
