"""The closed forms beside the replay of whole logs: replay them anew and record that, or rewrite the tables of docs/accuracy.md.

``python benchmarks/agreement.py`` replays (half a minute, needs the logs in ../shared/traces beside the checkout) and writes
tests/replay/agreement.json; with ``--page`` it writes the tables from what is recorded.
"""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy_table import ABSENT, table
from tests.replay.agreeing import PROJECT, RECORDED, WORST_MINUTES, record, recorded

PAGE = PROJECT / "docs" / "accuracy.md"
TRACES = PROJECT.parent / "shared" / "traces"
BLOCK = re.compile(r"(?<=<!-- agreement: )(\w+)( -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
Row = dict[str, Any]


def beside(arrivals: str) -> str:
    """Every finalist: what the closed forms say, and what the replay sees; who is refused once, with the arrivals of the log."""
    head = ("cohort", "scenario", "regimes", "utilization", "`ca²`", "mean TTFT, s", "error, %", "mean TPOT, ms")
    head += ("error, %", "goodput, %", "points", "stall bound / longest, ms")
    shown = [row for row in recorded()[arrivals] if arrivals == "log" or row["status"] != "refused"]
    return table(head, (_cells(row) for row in shown), texts=3)


def _cells(row: Row) -> tuple[object, ...]:
    own = row["cohort"], f"`{row['scenario']}`"
    load = f"{row['utilization']:.2f}", f"{row['arrival_scv']:.1f}"
    if row["ttft_s"] is None:
        return *own, row["status"], *load, *([ABSENT] * 7)
    ttft, tpot = ((row[f"{name}_s"], row[f"replayed_{name}_mean_s"]) for name in ("ttft", "tpot"))
    met = row["goodput"], row["replayed_modeled_goodput"]
    return (
        *own,
        ", ".join(row["screening"].split()) or "none",
        *load,
        f"{ttft[0]:.3f} / {ttft[1]:.3f}",
        _error(*ttft),
        f"{1000 * tpot[0]:.1f} / {1000 * tpot[1]:.1f}",
        _error(*tpot),
        f"{100 * met[0]:.1f} / {100 * met[1]:.1f}",
        _signed(met[0] - met[1]),
        f"{1000 * row['stall_s']:,.0f} / {1000 * row['replayed_stall_s']:,.0f}",
    )


def _error(modeled: float, seen: float) -> str:
    """How much more the closed form says, in percent of what was seen."""
    return _signed(modeled / seen - 1)


def _signed(share: float) -> str:
    """A share in percent, or points; none is more than nothing."""
    return f"{round(100 * share, 1) + 0.0:+.1f}"


def demand() -> str:
    """Workers that prompts ask for in short spans and in long ones, which windows and means do not show."""
    own = recorded()["blind"]["demand"]
    head = ("workers that prompts keep busy", *(f"busiest {span} s" for span in own if span != "all"), "whole log")
    return table(head, [("prompt tokens of all requests", *(f"{workers:.2f}" for workers in own.values()))], texts=1)


def scenarios() -> str:
    """The scenario that the closed forms choose, and the smallest that meets by the replay, in minutes."""
    blind = recorded()["blind"]
    head = ("scenario", "GPUs", "prefill utilization", "in its busiest minute", "goodput, %", "peak queue")
    head += (
        "worst minute",
        "of it meet",
        f"minutes below {100 * blind['attainment']:.0f} %",
        "stall bound / longest, ms",
    )
    return table(head, (_in_minutes(row, blind) for row in blind["scenarios"]), texts=1)


def _in_minutes(row: Row, blind: Row) -> tuple[object, ...]:
    shares = [met / requests for met, requests in zip(row["met"], blind["requests"], strict=True)]
    worst = worst_minutes(row, blind)[0]
    return (
        f"`{row['scenario']}`",
        row["gpus"],
        f"{row['load_prefill']:.2f}",
        f"{max(row['prefill']):.2f}",
        f"{100 * row['goodput']:.1f} / {100 * row['replayed_goodput']:.1f}",
        f"{row['replayed_peak_queue']:.0f}",
        worst,
        f"{row['met'][worst]} of {blind['requests'][worst]}",
        f"{sum(share < blind['attainment'] for share in shares)} of {len(shares)}",
        f"{1000 * row['stall_s']:.1f} / {1000 * row['replayed_stall_s']:.1f}",
    )


def worst_minutes(row: Row, blind: Row) -> list[int]:
    """The minutes by requests that do not meet, most first, the earlier of equal ones first."""
    unmet = [requests - met for met, requests in zip(row["met"], blind["requests"], strict=True)]
    return sorted(range(len(unmet)), key=lambda minute: (-unmet[minute], minute))


def minutes() -> str:
    """The worst minutes of the scenario that the closed forms choose."""
    blind = recorded()["blind"]
    chosen, *_ = both = blind["scenarios"]
    names = [f"`{row['scenario']}`" for row in both]
    head = ("minute", "requests", "of them documents", *(f"{name}: prefill utilization" for name in names))
    head += tuple(f"{name}: meet, %" for name in names)

    def cells(minute: int) -> Sequence[object]:
        requests = blind["requests"][minute]
        busy = [f"{row['prefill'][minute]:.2f}" for row in both]
        return minute, requests, blind["documents"][minute], *busy, *(_share(row, minute, requests) for row in both)

    return table(head, (cells(minute) for minute in worst_minutes(chosen, blind)[:WORST_MINUTES]), texts=0)


def _share(row: Row, minute: int, requests: int) -> str:
    return f"{100 * row['met'][minute] / requests:.1f}"


TABLES: dict[str, Callable[[], str]] = {
    "log": lambda: beside("log"),
    "poisson": lambda: beside("poisson"),
    "demand": demand,
    "blind": scenarios,
    "minutes": minutes,
}


def rewritten(page: str) -> str:
    """The page with its tables as they are recorded."""
    return BLOCK.sub(lambda block: f"{block[1]}{block[2]}{TABLES[block[1]]()}", page)


def main(arguments: Sequence[str]) -> None:
    """Record, or rewrite the tables; print them."""
    if arguments == ["--page"]:
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    elif arguments:
        sys.exit(f"{Path(sys.argv[0]).name}: no argument, or --page")
    elif not TRACES.is_dir():
        sys.exit(f"{TRACES}: no such directory; expected the logs of the cohorts in tests/cohorts")
    else:
        record()
        print(f"recorded in {RECORDED.relative_to(PROJECT)}")
    print("\n".join(make() for make in TABLES.values()))


if __name__ == "__main__":
    main(sys.argv[1:])
