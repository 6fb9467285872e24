"""A replay minute by minute: requests, those that meet their objectives, and how full each pool is (docs/replay.md, What comes out)."""

import numpy as np
import polars as pl

from pipelines.frames.digits import round_results
from pipelines.frames.replay_views import ReplayedWindows
from pipelines.frames.replays import POOLS
from pipelines.replay.costs import Costs
from pipelines.replay.run import LINK, Outcome

SERVERS = (*POOLS, LINK)
"""What can be full, in the order in which requests meet it."""


def windows_frame(costs: Costs, outcome: Outcome) -> pl.DataFrame:
    """The windows of one replay from the first arrival to the last: a :class:`ReplayedWindows` frame."""
    count, length = costs.setting.windows, costs.setting.window_ticks
    requests = costs.requests_by_window
    goodput = np.divide(outcome.met, requests, out=np.full(count, np.nan), where=requests > 0)
    columns: dict[str, object] = {
        "minute": np.arange(count),
        "requests": requests,
        "met": outcome.met,
        "goodput": pl.Series(goodput).fill_nan(None),
    }
    for name in SERVERS:
        used = name in outcome.work
        room = outcome.servers[name] * length if used else 1
        columns[f"{name}_utilization"] = (
            (outcome.work[name] / room).astype(np.float64) if used else pl.Series([None] * count, dtype=pl.Float64)
        )
    columns["above_ceiling"] = outcome.above(costs.ceilings, length)
    return ReplayedWindows.validate(round_results(pl.DataFrame(columns)))
