"""From an Azure-shaped CSV to requests, digest, buckets, strata and windows, against plain polars on the same file in the same run.

Usage: python benchmarks/trace.py [ROWS ...]

Each reading is a process of its own, so that its peak memory is its own.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

SIZES = (100_000, 1_000_000, 10_000_000)
EDGES = (512, 2048, 8192)
RATE_RPS = 73
EVERY_SO_MANY_WHOLE = 1000
"""One timestamp in so many falls on a whole second, which Azure's log of 2024 writes without a fraction."""


def write_log(path: Path, rows: int) -> None:
    """A seeded log of the shape of Azure's of 2024: sorted, microseconds, UTC offset, lognormal lengths."""
    import numpy as np
    import polars as pl

    draw = np.random.default_rng(7)
    at_us = np.sort(draw.integers(0, rows * 10**6 // RATE_RPS, rows))
    at_us[::EVERY_SO_MANY_WHOLE] -= at_us[::EVERY_SO_MANY_WHOLE] % 10**6
    at_us.sort()
    prompt = np.minimum(np.exp(draw.normal(6.8, 1.1, rows)).astype(np.int64) + 1, 30_000)
    output = np.minimum(np.exp(draw.normal(4.6, 1.0, rows)).astype(np.int64) + 1, 4_000)
    time_of = pl.from_epoch(pl.Series(at_us) + 1_715_299_200 * 10**6, time_unit="us")
    frame = pl.DataFrame({"at": time_of, "ContextTokens": prompt, "GeneratedTokens": output})
    whole = pl.col("at").dt.microsecond() == 0
    written = (
        pl.when(whole)
        .then(pl.col("at").dt.strftime("%Y-%m-%d %H:%M:%S+00:00"))
        .otherwise(pl.col("at").dt.strftime("%Y-%m-%d %H:%M:%S%.6f+00:00"))
    )
    with path.open("wb") as file:
        for start in range(0, rows, 1_000_000):
            part = frame.slice(start, 1_000_000).select(written.alias("TIMESTAMP"), "ContextTokens", "GeneratedTokens")
            part.write_csv(file, include_header=start == 0)


def text(path: Path) -> None:
    """Plain polars, timestamps left as text: read and grouped by bucket."""
    _grouped(path, try_parse_dates=False)


def dates(path: Path) -> None:
    """Plain polars, timestamps parsed: read and grouped by bucket."""
    _grouped(path, try_parse_dates=True)


def _grouped(path: Path, *, try_parse_dates: bool) -> None:
    import polars as pl

    frame = pl.read_csv(path, try_parse_dates=try_parse_dates)
    bucket = (pl.col("ContextTokens") // 2048).alias("bucket")
    frame.group_by(bucket).agg(pl.len(), pl.col("ContextTokens", "GeneratedTokens").mean())


def streamed(path: Path) -> None:
    """Plain polars, streaming with a known format: timestamps parsed and sorted, columns hashed, grouped by bucket."""
    import hashlib

    import polars as pl

    written = pl.col("TIMESTAMP").str.to_datetime("%Y-%m-%d %H:%M:%S%.f%z", time_unit="ns", strict=False)
    frame = pl.scan_csv(path).with_columns(written).sort("TIMESTAMP").collect()
    digest = hashlib.sha256()
    for column in frame.iter_columns():
        digest.update(column.to_physical().to_numpy())
    bucket = (pl.col("ContextTokens") // 2048).alias("bucket")
    frame.group_by(bucket).agg(pl.len(), pl.col("ContextTokens", "GeneratedTokens").mean())


def ours(path: Path) -> None:
    """Requests, digest, buckets, strata and windows."""
    from pipelines.traces.log import LogOptions, read_log
    from pipelines.traces.requests import plain_requests, requests_sha256
    from pipelines.traces.workload import Workload

    requests = plain_requests(read_log(path, LogOptions()))
    requests_sha256(requests)
    workload = Workload(requests, EDGES)
    workload.buckets()
    workload.strata()
    workload.windows()


WAYS = {"text": text, "dates": dates, "streamed": streamed, "ours": ours}


def measured(way: str, path: Path) -> tuple[float, float]:
    """Seconds without imports, and peak resident GB, of one reading in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", way, str(path)], check=True, capture_output=True, text=True
    )
    seconds, gigabytes = json.loads(done.stdout)
    return seconds, gigabytes


def one(way: str, path: str) -> None:
    """Do one reading and print what it took."""
    import polars as pl

    import pipelines.traces  # noqa: F401 - neither way pays for imports

    pl.DataFrame({"x": [1]}).lazy().select(pl.col("x").sum()).collect()
    before = time.perf_counter()
    WAYS[way](Path(path))
    seconds = time.perf_counter() - before
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6]))


def main() -> None:
    """Print seconds, requests per second, peak memory, and the ratios to plain polars."""
    sizes = [int(size) for size in sys.argv[1:]] or list(SIZES)
    ways = " ".join(f"{way:>13}" for way in ("as text", "with dates", "streamed"))
    print(f"{'rows':>10} {'ours s':>8} {'requests/s':>11} {'peak GB':>8}   seconds and ratio: {ways}")
    with tempfile.TemporaryDirectory() as directory:
        for rows in sizes:
            path = Path(directory, "log.csv")
            write_log(path, rows)
            path.read_bytes()
            seconds, peak = measured("ours", path)
            plain = [measured(way, path)[0] for way in ("text", "dates", "streamed")]
            ratios = " ".join(f"{took:>6.2f} {seconds / took:>5.1f}x" for took in plain)
            print(f"{rows:>10} {seconds:>8.2f} {rows / seconds:>11.0f} {peak:>8.2f} {'':>20} {ratios}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:])
    else:
        main()
