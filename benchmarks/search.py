"""Search of a whole inventory, and how many evaluations per second are behind it: `benchmarks/search.py [WORKERS ...]`.

All pool sizes up to so many workers in total, 12 chunk budgets, 12 routing thresholds, 16 prompt buckets, both bounds.
"""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from pipelines.declarations import load_cohort, load_rules  # noqa: E402
from pipelines.frames.inputs import InputTable  # noqa: E402
from pipelines.gates.rules import gates_frame, preference_frame  # noqa: E402
from pipelines.planning.search import Asked, kept_scenarios  # noqa: E402
from pipelines.topologies.question import Workload  # noqa: E402
from pipelines.traces import bucket_frame, output_stratum_frame, read_cohort_requests, stratum_frame  # noqa: E402
from pipelines.traces.freeze import inputs_frame  # noqa: E402

WORKERS = (8, 32, 128, 256)
BUDGETS = (256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384)
THRESHOLDS = (64, 128, 192, 256, 320, 384, 512, 768, 1024, 1536, 8192, 12288)
MORE_EDGES = (7168, 10240, 16384)
RATE_PER_WORKER = 1.4
"""Requests/s: about 60 % of a worker of the shipped cohort."""


def asked(workers: int) -> Asked:
    """The shipped cohort of long documents, with so many workers and requests to match."""
    cohort = load_cohort(PROJECT / "cohorts" / "bursty-documents")
    rules = load_rules(PROJECT / "rules")
    requests = read_cohort_requests(cohort).requests
    edges = tuple(sorted(THRESHOLDS + MORE_EDGES))
    frames = bucket_frame(requests, edges), stratum_frame(requests, edges), output_stratum_frame(requests, edges)
    inputs = InputTable.of(inputs_frame(cohort))
    words = {
        "topologies.compared": "aggregated chunked disaggregated routed",
        "topologies.chunked.chunk_tokens": " ".join(str(budget) for budget in BUDGETS),
        "topologies.routed.threshold_tokens": " ".join(str(edge) for edge in THRESHOLDS),
        "topologies.routed.chunk_tokens": " ".join(str(budget) for budget in BUDGETS),
    }
    text = inputs.rows["topologies.compared"]
    rows = inputs.rows | {path: text | {"path": path, "text": word} for path, word in words.items()}
    numbers = {"inventory.gpus": float(workers), "network.links": float(max(4, workers // 2))}
    for path, value in numbers.items():
        rows[path] = rows[path] | {"value": value, "low": None, "high": None, "conservative": value}
    rate = rows["inventory.gpus"] | {"unit": "requests/s", "value": RATE_PER_WORKER * workers}
    rows = {
        "requests.rate": rate | {"path": "requests.rate", "conservative": rate["value"]},
        "requests.arrival_scv": rate
        | {"path": "requests.arrival_scv", "unit": "ratio", "value": 1.0, "conservative": 1.0},
    } | rows
    return Asked(
        replace(inputs, rows=rows), Workload(*frames), gates_frame(rules, "benchmark", None), preference_frame(rules)
    )


def main() -> None:
    """Print scenarios, seconds, and what was kept, for each inventory."""
    sizes = [int(word) for word in sys.argv[1:]] or WORKERS
    print(f"{'workers':>8} {'buckets':>8} {'scenarios':>12} {'seconds':>8} {'kept':>6}  on {os.cpu_count()} cores")
    for workers in sizes:
        question = asked(workers)
        before = time.perf_counter()
        kept = kept_scenarios(question)
        taken = time.perf_counter() - before
        buckets = question.workload.buckets.height - 1
        print(f"{workers:>8} {buckets:>8} {kept['searched'][0]:>12,} {taken:>8.2f} {kept.height:>6}")


if __name__ == "__main__":
    main()
