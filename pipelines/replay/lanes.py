"""What a replay's stamps say of each request: the eight lanes, TTFT, TPOT, E2E and stall (docs/replay.md, What comes out)."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipelines.arithmetic.numbers import Bools
from pipelines.frames.evaluation import LANES
from pipelines.frames.replay_views import ReplayedRequests
from pipelines.replay import records as r
from pipelines.replay.costs import Costs
from pipelines.replay.figures import seconds
from pipelines.replay.run import MixedPath, Outcome, Path

_ENDS = (
    r.PREFILL_START,
    r.PREFILL_END,
    r.TRANSFER_START,
    r.ARRIVED,
    r.DECODE_START,
    r.FIRST_STEP_END,
    r.LAST_TOKEN,
)
"""Where each lane after admission ends; one whose stamp a request does not have takes no time."""
_AFTER_PREFILL, _AFTER_DECODE_STEP = 3, 7
"""Lanes up to the first token, where prefill or the first decode step emits it."""
_OBJECTIVES = ("ttft", "tpot", "e2e", "stall")


def numbers_of(paths: Sequence[Path], costs: Costs) -> list[r.Int64s]:
    """Of each path the numbers of its requests in the whole log: of two paths, the first one has the short prompts."""
    every = np.arange(len(costs.log.prompt))
    if len(paths) == 1:
        return [every]
    short, long = paths
    assert len(short.log.prompt) + len(long.log.prompt) == len(every)
    shortest = int(long.log.prompt.min()) if len(long.log.prompt) else r.NEVER
    is_long = costs.log.prompt >= shortest
    return [np.flatnonzero(~is_long), np.flatnonzero(is_long)]


def lane_ticks(path: Path, details: NDArray[np.int64], admission: int, tpn: int) -> dict[str, r.Int64s]:
    """The lanes of the complete requests of a path in ticks, one entry each in their order.

    ``admission`` is in ticks, ``tpn`` ticks per nanosecond. Raises ArithmeticError unless the lanes of every request add up to its
    E2E, and those up to its first token to its TTFT.
    """
    complete = details[:, r.LAST_TOKEN] != r.UNSET
    stamps, arrival = details[complete], path.log.arrival_ns[complete] * tpn
    before = arrival + admission
    lanes = {LANES[0]: before - arrival}
    for name, column in zip(LANES[1:], _ENDS, strict=True):
        end = np.where(stamps[:, column] == r.UNSET, before, stamps[:, column])
        lanes[name], before = end - before, end
    early = isinstance(path, MixedPath) or path.stages.first_here
    first = LANES[: _AFTER_PREFILL if early else _AFTER_DECODE_STEP]
    wrong = sum(lanes.values()) != stamps[:, r.LAST_TOKEN] - arrival
    wrong |= sum(lanes[name] for name in first) != stamps[:, r.FIRST_TOKEN] - arrival
    wrong |= np.any([own < 0 for own in lanes.values()], axis=0)
    if np.any(wrong):
        raise ArithmeticError(f"request {int(np.flatnonzero(complete)[wrong][0])} of its path: lanes do not add up")
    return lanes


def lane_means(costs: Costs, paths: Sequence[Path], outcome: Outcome) -> dict[str, float] | None:
    """Mean seconds of each lane over the complete requests of all paths, to the exported digits; None where there are none."""
    sums, count = dict.fromkeys(LANES, 0), 0
    for path, details in zip(paths, outcome.details, strict=True):
        own = lane_ticks(path, details, costs.setting.admission_ticks, costs.tpn)
        count += len(own[LANES[0]])
        for name, ticks in own.items():
            sums[name] += _exact_sum(ticks)
    return {name: seconds(total, costs.ticks_per_s * count) for name, total in sums.items()} if count else None


def _exact_sum(ticks: r.Int64s) -> int:
    """The sum of ticks, whatever its size."""
    return int((ticks & r.LOW_MASK).sum()) + (int((ticks >> r.LOW_BITS).sum()) << r.LOW_BITS)


def requests_frame(costs: Costs, paths: Sequence[Path], outcome: Outcome) -> pl.DataFrame:
    """Every request of a replay that kept its details, in order of the log: a :class:`ReplayedRequests` frame."""
    parts = [
        _frame(costs, path, details, numbers)
        for path, details, numbers in zip(paths, outcome.details, numbers_of(paths, costs), strict=True)
    ]
    return ReplayedRequests.validate(pl.concat(parts).sort("request"))


def _frame(costs: Costs, path: Path, details: NDArray[np.int64], numbers: r.Int64s) -> pl.DataFrame:
    complete = details[:, r.LAST_TOKEN] != r.UNSET
    log, stamps = path.log, details[complete]
    lanes = lane_ticks(path, details, costs.setting.admission_ticks, costs.tpn)
    arrival, steps = log.arrival_ns[complete] * costs.tpn, log.output[complete] - 1
    first, last = stamps[:, r.FIRST_TOKEN], stamps[:, r.LAST_TOKEN]
    one_token = steps == 0
    tpot = np.where(one_token, np.nan, (last - first) / np.where(one_token, 1, steps))
    times = lanes | {"ttft_s": first - arrival, "tpot_s": tpot, "e2e_s": last - arrival}
    times |= {"stall_s": stamps[:, r.LONGEST_GAP]}
    met = {f"met_{name}": _bit(details[:, r.OBJECTIVES], complete, place) for place, name in enumerate(_OBJECTIVES)}
    preempted = pl.Series(details[:, r.TIMES_PREEMPTED]).set(pl.Series(~complete), None)
    tokens = {"prompt_tokens": log.prompt, "cached_prompt_tokens": log.cached, "output_tokens": log.output}
    return pl.DataFrame(
        {"request": numbers, "arrival_ns": log.arrival_ns}
        | {name: own.astype(np.int64) for name, own in tokens.items()}
        | _in_seconds(times, complete, costs.ticks_per_s)
        | {"preemptions": preempted}
        | met
    )


def _bit(objectives: r.Int64s, complete: Bools, place: int) -> Bools:
    """Whether one objective is met; nothing is met by what is not complete."""
    found: Bools = complete & ((objectives >> place) & 1 == 1)
    return found


def _in_seconds(times: Mapping[str, NDArray[np.generic]], complete: Bools, per_second: int) -> dict[str, pl.Series]:
    """Ticks of complete requests as seconds of all requests, absent for the others."""
    found = {}
    for name, ticks in times.items():
        column = np.full(len(complete), np.nan)
        column[complete] = ticks / per_second  # type: ignore[operator]
        found[name] = pl.Series(name, column).fill_nan(None)
    return found
