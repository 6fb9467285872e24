"""The requests of replayed scenarios as a file."""

import io
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.frames.replay_views import MODELED
from pipelines.planning.replay_named import OneReplay
from pipelines.planning.replay_spaces import Trace
from pipelines.receipts.write import write_atomically
from pipelines.replay.lanes import requests_frame

SUFFIXES = (".csv", ".parquet")


def labelled_requests(trace: Trace, one: OneReplay) -> pl.DataFrame:
    """The requests of a replayed scenario, each row with the name of it, the bound and the label."""
    assert one.outcome is not None
    frame = requests_frame(trace.costs, one.paths, one.outcome)
    own = (pl.lit(one.scenario).alias("scenario"), pl.lit(trace.bound).alias("bound"))
    return frame.select(*own, *frame.columns, latency_label=pl.lit(MODELED))


def write_frames(out: Path, frames: Sequence[pl.DataFrame]) -> int:
    """Write rows, one scenario after the other, as the ending says; how many they are. DeclarationProblems where that is impossible."""
    rows, data = pl.concat(frames), io.BytesIO()
    if out.name.lower().endswith(".csv"):
        rows.write_csv(data, line_terminator="\n")
    else:
        rows.write_parquet(data)
    try:
        write_atomically(out, data.getvalue())
    except OSError as error:
        found = f"cannot be written: {error.strerror}; expected a place that can be"
        raise DeclarationProblems([Problem(str(out), 1, 1, "--requests", found)]) from None
    return rows.height
