"""Requests per second from an Azure-shaped CSV to requests, digest, buckets and strata, against plain polars in the same run."""

import sys
import tempfile
import time
from pathlib import Path
from random import Random

import polars as pl

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from pipelines.traces import bucket_frame, read_requests, requests_sha256, stratum_frame  # noqa: E402

SIZES = (10_000, 100_000, 1_000_000)
EDGES = (512, 2048, 8192)


def write_log(path: Path, rows: int) -> None:
    """A seeded log of ``rows`` requests, a tenth of a second apart on average."""
    draw, at_us = Random(7), 0
    with path.open("w") as log:
        log.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for _ in range(rows):
            at_us += round(draw.expovariate(10.0) * 1e6)
            seconds, us = divmod(at_us, 1_000_000)
            day, rest = divmod(seconds, 86_400)
            clock = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}.{us:06}"
            log.write(f"2026-03-{2 + day:02} {clock},{draw.randint(1, 16_000)},{draw.randint(1, 1_000)}\n")


def plain(path: Path) -> None:
    """What polars alone takes to read the file and group it by bucket."""
    frame = pl.read_csv(path, try_parse_dates=True)
    frame.group_by((pl.col("ContextTokens") // 2048).alias("bucket")).agg(
        pl.len(), pl.col("ContextTokens", "GeneratedTokens").mean()
    )


def ours(path: Path) -> None:
    """Requests, digest, buckets and strata."""
    log = read_requests(path, None)
    requests_sha256(log.requests)
    bucket_frame(log.requests, EDGES)
    stratum_frame(log.requests, EDGES)


def main() -> None:
    """Print seconds, requests per second and the ratio to plain polars."""
    print(f"{'rows':>9} {'seconds':>8} {'requests/s':>11} {'x plain polars':>15}")
    with tempfile.TemporaryDirectory() as directory:
        for rows in SIZES:
            path = Path(directory, f"{rows}.csv")
            write_log(path, rows)
            taken = []
            for work in (plain, ours):
                before = time.perf_counter()
                work(path)
                taken.append(time.perf_counter() - before)
            print(f"{rows:>9} {taken[1]:>8.3f} {rows / taken[1]:>11.0f} {taken[1] / taken[0]:>15.1f}")


if __name__ == "__main__":
    main()
