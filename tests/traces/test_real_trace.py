"""The Azure code trace of 2023 gives its published figures, on any number of threads."""

import csv
import os
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import isclose
from pathlib import Path

import polars as pl
import pytest

from pipelines.traces import (
    LogOptions,
    bucket_frame,
    duration_s,
    output_stratum_frame,
    read_log,
    requests_sha256,
    stratum_frame,
)
from pipelines.traces.requests import requests_frame

DIGESTS = """
import hashlib, sys
from pathlib import Path
import polars as pl
from pipelines.traces import LogOptions, bucket_frame, output_stratum_frame, read_log, requests_sha256, stratum_frame
from pipelines.traces.requests import requests_frame
rows = read_log(Path(sys.argv[1]), LogOptions()).rows
requests = requests_frame(rows.with_columns(cached_prompt_tokens=pl.lit(0, pl.Int32)), is_open=True)
print(requests_sha256(requests))
for frame in (bucket_frame, stratum_frame, output_stratum_frame):
    print(hashlib.sha256(repr(frame(requests, [512, 2048]).rows()).encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def trace(shared: Path) -> Path:
    return shared / "traces" / "azure_2023_code.csv"


def requests_of(path: Path) -> pl.DataFrame:
    rows = read_log(path, LogOptions()).rows
    return requests_frame(rows.with_columns(cached_prompt_tokens=pl.lit(0, pl.Int32)), is_open=True)


@pytest.fixture(scope="module")
def requests(trace: Path) -> pl.DataFrame:
    return requests_of(trace)


def test_all_rows_are_read(trace: Path) -> None:
    log = read_log(trace, LogOptions("azure-llm"))
    assert (log.rows_read, log.rows.height, log.invalid.total, log.warnings) == (8_819, 8_819, 0, ())


def test_known_sums_and_extremes(requests: pl.DataFrame) -> None:
    assert requests["prompt_tokens"].sum() == 18_059_974
    assert requests["output_tokens"].sum() == 245_896
    assert (requests["prompt_tokens"].max(), requests["output_tokens"].max()) == (7_437, 1_899)


def test_known_duration_rate_and_means(requests: pl.DataFrame) -> None:
    row = bucket_frame(requests, [512, 2048]).row(0, named=True)
    assert duration_s(requests) == 3435.948056
    assert row["rate_rps"] == float(f"{8_818 / 3435.948056:.11e}")
    assert round(row["rate_rps"], 4) == 2.5664
    assert (round(row["prompt_tokens_mean"], 1), round(row["output_tokens_mean"], 1)) == (2047.8, 27.9)


def test_burstiness_agrees_with_decimals_read_from_the_file(trace: Path, requests: pl.DataFrame) -> None:
    with trace.open(newline="") as file:
        stamps = [row["TIMESTAMP"] for row in csv.DictReader(file)]
    seconds = [
        sum(Decimal(part) * scale for part, scale in zip(stamp[11:].split(":"), (3600, 60, 1), strict=True))
        for stamp in stamps
    ]
    gaps = [Fraction(later - earlier) for earlier, later in pairwise(seconds)]
    mean = sum(gaps) / len(gaps)
    scv = sum(gap * gap for gap in gaps) / len(gaps) / mean**2 - 1
    assert bucket_frame(requests, []).item(0, "arrival_scv") == float(f"{float(scv):.11e}")


def test_strata_are_about_equal(requests: pl.DataFrame) -> None:
    strata = stratum_frame(requests, [512, 2048])
    assert strata.height == 48
    assert strata["requests"].sum() == 8_819


def test_output_strata_hold_every_request_and_token(requests: pl.DataFrame) -> None:
    outputs = output_stratum_frame(requests, [512, 2048])
    assert outputs.group_by("bucket").len()["len"].max() <= 16
    assert outputs["requests"].sum() == 8_819
    tokens = (outputs["requests"] * outputs["output_tokens_mean"]).sum()
    assert isclose(tokens, requests["output_tokens"].sum(), rel_tol=1e-11)


def test_frames_and_digest_do_not_depend_on_threads(trace: Path, project: Path) -> None:
    def digests(threads: int) -> str:
        environment = {**os.environ, "POLARS_MAX_THREADS": str(threads), "PYTHONPATH": str(project)}
        command = [sys.executable, "-c", DIGESTS, str(trace)]
        return subprocess.run(command, env=environment, cwd=project, check=True, capture_output=True, text=True).stdout

    one, two = digests(1), digests(2)
    assert one == two
    assert one.count("\n") == 4


def test_a_shuffled_copy_is_the_same_log(trace: Path, requests: pl.DataFrame, tmp_path: Path) -> None:
    header, *rows = trace.read_text().splitlines()
    shuffled = tmp_path / "shuffled.csv"
    shuffled.write_text("\n".join([header, *rows[4000:], *reversed(rows[:4000])]))
    assert requests_sha256(requests_of(shuffled)) == requests_sha256(requests)
