"""What comes out of a replay: a ledger that is written while it runs, and the counts and windows made of it at its end."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.replay.by_step_requests import Record
from tests.replay.by_step_times import ticks
from tests.replay.cases import Case

POOLS = ("mixed", "prefill", "decode", "link")


@dataclass(frozen=True)
class Work:
    """What an activity counts for in the window in which it begins."""

    pool: str
    began: int
    ticks: int


@dataclass
class Ledger:
    """Sums, largest figures and activities of the paths of one replay."""

    sums: Counter[str] = field(default_factory=Counter)
    largest: Counter[str] = field(default_factory=Counter)
    work: list[Work] = field(default_factory=list)
    servers: dict[str, int] = field(default_factory=dict)
    """Workers of each pool that is used, and channels of all links."""
    records: list[Record] = field(default_factory=list)
    unfinished: int = 0

    def saw(self, name: str, figure: int) -> None:
        """A figure of which the largest is kept."""
        self.largest[name] = max(self.largest[name], figure)


@dataclass(frozen=True)
class Outcome:
    """The result of a replay."""

    requests: list[Record]
    """Those that are complete, in order of the log."""
    counts: dict[str, int]
    """The names of docs/replay.md; those of a pool begin with it: mixed_decode_ticks."""
    windows: list[dict[str, int]]
    """requests, met, and ticks of work: mixed, prefill, decode, link."""
    worst_minute: int | None
    """Which window has the most requests that are not met."""
    windows_above: int
    """Windows in which a pool is above its ceiling."""


def outcome_of(case: Case, ledger: Ledger, window_ns: int) -> Outcome:
    """Counts and windows of a replay that has ended."""
    records = sorted(ledger.records, key=lambda record: record.number)
    windows = _windows(case, ledger, records, ticks(window_ns, case.ticks_per_second))
    missed = [window["requests"] - window["met"] for window in windows]
    return Outcome(
        requests=records,
        counts=_counts(case, ledger, records),
        windows=windows,
        worst_minute=missed.index(max(missed)) if max(missed) > 0 else None,
        windows_above=sum(_above(case, ledger, window, window_ns) for window in windows),
    )


def _counts(case: Case, ledger: Ledger, records: list[Record]) -> dict[str, int]:
    """Everything that the table "Of a scenario" names."""

    def number(which: Callable[[Record], bool]) -> int:
        return sum(which(record) for record in records)

    counts = {
        "requests": len(case.requests),
        "output_tokens": sum(o for *_, o in case.requests),
        "unfinished": ledger.unfinished,
        "met_ttft": number(lambda record: record.met_ttft),
        "met_tpot": number(lambda record: record.met_tpot),
        "met_e2e": number(lambda record: record.met_e2e),
        "met_stall": number(lambda record: record.met_stall),
        "met_modeled": number(lambda record: record.met_modeled),
        "met": number(lambda record: record.met),
        "met_tokens": sum(record.output_tokens for record in records if record.met),
        "ttft_ticks": sum(record.ttft for record in records),
        "generation_ticks": sum(record.generation for record in records),
        "generation_steps": sum(record.output_tokens - 1 for record in records),
        "stall_ticks": max((record.stall for record in records), default=0),
        "end_ticks": max((record.last_token for record in records), default=0),
    }
    spent = [f"{pool}_{what}_ticks" for pool in POOLS[:3] for what in ("prefill", "decode", "swap")]
    for name in (*spent, "link_ticks", "preemptions", "recomputed_tokens", "swapped_bytes"):
        counts[name] = ledger.sums[name]
    peaks = [f"{pool}_peak_kv_bytes" for pool in POOLS[:3]]
    for name in ("peak_queue", "peak_transfer_queue", "peak_decode_queue", *peaks):
        counts[name] = ledger.largest[name]
    return counts


def _windows(case: Case, ledger: Ledger, records: list[Record], length: int) -> list[dict[str, int]]:
    """Requests by arrival, work by the beginning of the activity; what begins after the last window is in none."""
    first = case.requests[0][0]
    arrivals = [ticks(at - first, case.ticks_per_second) for at, *_ in case.requests]
    windows = [dict.fromkeys(("requests", "met", *POOLS), 0) for _ in range(arrivals[-1] // length + 1)]
    for arrival in arrivals:
        windows[arrival // length]["requests"] += 1
    for record in records:
        windows[record.arrival // length]["met"] += record.met
    for work in ledger.work:
        if work.began // length < len(windows):
            windows[work.began // length][work.pool] += work.ticks
    return windows


def _above(case: Case, ledger: Ledger, window: dict[str, int], window_ns: int) -> bool:
    """Whether any pool that is used does as much work in a window as its ceiling allows, or more."""
    length = ticks(window_ns, case.ticks_per_second)
    return any(
        window[pool] >= getattr(case.ceilings, pool) * (servers * length) for pool, servers in ledger.servers.items()
    )
