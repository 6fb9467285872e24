"""Scenario x bucket evaluations per second, lanes and refusals included, as the inventory grows."""

import sys
import time
from pathlib import Path

import polars as pl

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from pipelines.declarations import load_cohort  # noqa: E402
from pipelines.frames.inputs import InputTable  # noqa: E402
from pipelines.topologies.declared import TOPOLOGIES  # noqa: E402
from pipelines.topologies.evaluator import evaluate  # noqa: E402
from pipelines.topologies.question import Workload  # noqa: E402
from pipelines.topologies.scenarios import scenario_frame  # noqa: E402
from pipelines.traces import bucket_frame, output_stratum_frame, read_cohort_requests, stratum_frame  # noqa: E402
from pipelines.traces.freeze import inputs_frame  # noqa: E402

INVENTORIES = (8, 32, 128, 512)


def main() -> None:
    """Print rows, seconds and rows per second for each topology and inventory."""
    cohort = load_cohort(PROJECT / "cohorts" / "bursty-documents")
    requests = read_cohort_requests(cohort).requests
    buckets = bucket_frame(requests, cohort.bucket_edges_tokens)
    edges = cohort.bucket_edges_tokens
    workload = Workload(buckets, stratum_frame(requests, edges), output_stratum_frame(requests, edges))
    print(f"{'GPUs':>5} {'topology':>14} {'rows':>9} {'seconds':>8} {'rows/s':>10}")
    for gpus in INVENTORIES:
        is_gpus = pl.col("path") == "inventory.gpus"
        sized = [pl.when(is_gpus).then(float(gpus)).otherwise(name).alias(name) for name in ("value", "conservative")]
        inputs = InputTable.of(inputs_frame(cohort).with_columns(sized))
        scenarios = scenario_frame(inputs)
        for topology in TOPOLOGIES:
            before = time.perf_counter()
            rows = evaluate(topology, "0" * 64, scenarios, inputs, workload).height
            taken = time.perf_counter() - before
            print(f"{gpus:>5} {topology:>14} {rows:>9} {taken:>8.3f} {rows / taken:>10.0f}")


if __name__ == "__main__":
    main()
