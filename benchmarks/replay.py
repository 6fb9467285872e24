"""Requests per second of the replay: by scheduler and pool size, how it grows, beside step-by-step simulations, and of whole searches.

``python benchmarks/replay.py [compile|schedulers|growth|search|large ...]``, all of them if none is named. Lengths are those of the Azure
code trace of 2023 (../shared/traces), drawn with a seed; arrivals are a Poisson stream at 70 % of the busiest pool.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parent.parent))

from pipelines.replay import records as r
from pipelines.replay.clock import WINDOW_S, step_ticks, ticks_per_second
from pipelines.replay.run import MixedPath, SeparatedPath, Setting, replay
from pipelines.replay.run import Path as ReplayPath
from pipelines.replay.separated import Stages
from tests.reference.engine import Costs, Request
from tests.reference.simulation import Layout, run

TRACE = Path("../shared/traces/azure_2023_code.csv")
D, RATE_P, T0, RATE_D, GAMMA = 0.008, 11_800.0, 0.011, 5_000.0, 2.0e-8
FIXED_S, BYTES_PER_TOKEN, BANDWIDTH = 0.003, 131_072, 32.0e9
SLOTS, MEMORY = 256, 40 * 2**30
LOAD, SEED = 0.7, 11
SCHEDULERS = ("prefill first", "chunked 512", "chunked 2048", "separated")


def lengths() -> tuple[np.ndarray, np.ndarray]:
    """Prompt and output tokens of the trace."""
    frame = pl.read_csv(TRACE)
    return frame["ContextTokens"].to_numpy(), frame["GeneratedTokens"].to_numpy()


def drawn(count: int, rate: float) -> r.Log:
    """A Poisson stream of ``rate`` requests/s with lengths of the trace."""
    rng = np.random.default_rng(SEED)
    prompts, outputs = lengths()
    chosen = rng.integers(0, len(prompts), count)
    arrivals = np.cumsum(rng.exponential(1e9 / rate, count)).astype(np.int64)
    zeros = np.zeros(count, dtype=np.int32)
    return r.Log(arrivals - arrivals[0], prompts[chosen].astype(np.int32), zeros, outputs[chosen].astype(np.int32))


def capacity(scheduler: str, workers: int) -> float:
    """Requests/s at which the busiest pool is fully utilized."""
    prompts, outputs = lengths()
    prefill, decode = D + prompts.mean() / RATE_P, outputs.mean() / RATE_D
    if scheduler == "separated":
        return (workers - 1) / prefill
    if scheduler.startswith("chunked"):
        budget = int(scheduler.split()[1])
        prefill = (np.ceil(prompts / budget) * (D + T0)).mean() + prompts.mean() / RATE_P
    return workers / (prefill + decode)


def scenario(scheduler: str, workers: int, log: r.Log) -> tuple[tuple[ReplayPath, ...], Setting]:
    """One scenario: of a separated one, all workers but one prefill."""
    span = log.arrival_ns[-1] / 1e9
    resolution = ticks_per_second(float(span))
    empty = np.empty(0, dtype=np.int64)
    base = step_ticks(SLOTS, T0, RATE_D, None, resolution)
    times = r.Times(base, round(GAMMA * resolution), resolution // 10**9, D, RATE_P, 0.0, np.empty(0), np.empty(0), 0.0)
    pool = r.Pool(times, r.Memory(MEMORY, BYTES_PER_TOKEN, 0, empty, empty, 16, r.RECOMPUTE, 1.0), SLOTS)
    limits = r.Limits(empty, *(np.array([ticks]) for ticks in (2 * resolution, resolution // 20, r.UNSET)), r.UNSET)
    setting = Setting(r.ONE_LINE, False, 0, limits, WINDOW_S * resolution, int(span) // WINDOW_S + 1)
    if scheduler != "separated":
        budget = int(scheduler.split()[1]) if scheduler.startswith("chunked") else 0
        return (MixedPath(log, pool, workers, budget),), setting
    moved = ((FIXED_S + log.prompt * BYTES_PER_TOKEN / BANDWIDTH) * 1e9).astype(np.int64)
    stages = Stages(pool, pool, r.Transfers(moved, moved, r.SHARED, 4), False)
    return (SeparatedPath(log, stages, workers - 1, 1, 4),), setting


def timed(work: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of so many runs, in seconds."""
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def rate_of(scheduler: str, workers: int, count: int, repeats: int = 3) -> float:
    """Requests replayed per second on one core."""
    log = drawn(count, LOAD * capacity(scheduler, workers))
    paths, setting = scenario(scheduler, workers, log)
    replay(paths, setting)
    return count / timed(lambda: replay(paths, setting), repeats)


def step_by_step(scheduler: str, workers: int, count: int) -> float:
    """Requests per second of the iteration-level simulation of tests/reference."""
    log = drawn(count, LOAD * capacity(scheduler, workers))
    costs = Costs(D, RATE_P, T0, RATE_D, 0.0, GAMMA, SLOTS, FIXED_S, BYTES_PER_TOKEN / BANDWIDTH)
    kind = "aggregated" if scheduler == "prefill first" else scheduler.split()[0].replace("separated", "disaggregated")
    budget = int(scheduler.split()[1]) if kind == "chunked" else 0
    layout = Layout(kind, workers, workers - 1 if kind == "disaggregated" else 1, 1, channels=4, budget=budget)
    rows = zip(log.arrival_ns, log.prompt, log.output, strict=True)
    requests = [Request(i, float(a) / 1e9, int(p), int(o)) for i, (a, p, o) in enumerate(rows)]
    return count / timed(lambda: run(layout, costs, requests), 1)


def compile_time() -> None:
    """Seconds until a first replay through each kernel with an empty cache, and with a full one."""
    code = (
        "import sys, time; begin = time.perf_counter(); sys.path.insert(0, '.'); sys.argv = ['x'];"
        "from benchmarks.replay import drawn, replay, scenario;"
        "[replay(*scenario(name, 2, drawn(100, 1.0))) for name in ('prefill first', 'separated')];"
        "print(f'{time.perf_counter() - begin:.1f} s')"
    )
    with tempfile.TemporaryDirectory() as cache:
        for state in ("empty", "full"):
            found = subprocess.run(
                [sys.executable, "-c", code],
                env=os.environ | {"NUMBA_CACHE_DIR": cache},
                capture_output=True,
                text=True,
            )
            print(f"first replays, imports included, cache {state}: {found.stdout.strip() or found.stderr}")


def schedulers() -> None:
    """Requests per second by scheduler and workers, and the ratio to a simulation that runs every step."""
    print(f"{'scheduler':<16}{'workers':>8}{'requests/s':>14}{'by step':>12}{'ratio':>8}")
    for name in SCHEDULERS:
        for workers in (2, 4, 8, 16) if name == "separated" else (1, 2, 4, 8, 16):
            fast = rate_of(name, workers, 1_000_000)
            slow = step_by_step(name, workers, 5_000) if workers <= 2 else None
            beside = f"{slow:>12,.0f}{fast / slow:>8,.0f}" if slow else ""
            print(f"{name:<16}{workers:>8}{fast:>14,.0f}{beside}", flush=True)


def growth() -> None:
    """Nanoseconds per request from 100,000 to 10 million of them, and the memory that is taken beyond the log."""
    print(f"{'scheduler':<16}" + "".join(f"{count:>14,}" for count in (10**5, 10**6, 10**7)) + "   (ns per request)")
    for name in SCHEDULERS:
        found = [1e9 / rate_of(name, 2, count, 2) for count in (10**5, 10**6, 10**7)]
        print(f"{name:<16}" + "".join(f"{ns:>14.0f}" for ns in found), flush=True)


def search() -> None:
    """2,000 scenarios over the trace with its own arrivals, on all cores."""
    frame = pl.read_csv(TRACE, try_parse_dates=True)
    at = frame["TIMESTAMP"].cast(pl.Datetime("ns")).cast(pl.Int64).to_numpy()
    prompts, outputs = lengths()
    zeros = np.zeros(len(at), dtype=np.int32)
    log = r.Log(at - at[0], prompts.astype(np.int32), zeros, outputs.astype(np.int32))
    work = [(name, workers) for name in SCHEDULERS for workers in range(2, 9)]
    work = [work[place % len(work)] for place in range(2000)]

    def one(job: tuple[str, int]) -> int:
        return replay(*scenario(*job, log)).counts["met"]

    one(work[0])
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        seconds = timed(lambda: list(threads.map(one, work)), 1)
    print(f"2,000 scenarios over {len(at):,} requests: {seconds:.1f} s, {2000 * len(at) / seconds:,.0f} requests/s")


def large() -> None:
    """Three topologies over 44 million requests, side by side."""
    count = 44_000_000
    log = drawn(count, LOAD * capacity("prefill first", 4))
    jobs = [
        scenario(name, 5 if name == "separated" else 4, log) for name in ("prefill first", "chunked 2048", "separated")
    ]
    begin = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = list(threads.map(lambda job: replay(*job).counts["met"] / count, jobs))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"3 topologies over {count:,} requests: {time.perf_counter() - begin:.1f} s, peak {peak:.2f} GB, goodput {found}"
    )


PARTS = {"compile": compile_time, "schedulers": schedulers, "growth": growth, "search": search, "large": large}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    for part in parser.parse_args().parts or PARTS:
        PARTS[part]()
