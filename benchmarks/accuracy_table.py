"""Rewrite the tables of docs/accuracy.md: the planner beside the recorded runs of the reference simulation.

``python benchmarks/accuracy_table.py``; simulates nothing, and needs the logs in ../shared/traces beside the checkout.
"""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

from pipelines.topologies.figures import REGIMES
from tests.reference.cases import TRACES
from tests.reference.compared import Compared, compared
from tests.reference.lists import LISTS

PROJECT = Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "accuracy.md"
BLOCK = re.compile(r"(?<=<!-- table: )(\w+)( -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
TOPOLOGIES = ("aggregated", "chunked", "disaggregated", "routed")
MIXED = ("aggregated", "chunked")
OBJECTIVE = {"tight": "1.2x", "loose": "2x"}
LONG_MIXES = ("conv", "cached")
ABSENT = "-"
ERRORS = ("ttft", "tpot", "tight", "loose")
"""The columns with the median and the worst of an error: two means, and goodput under two pairs of objectives."""


def every() -> list[Compared]:
    """The cases of both lists."""
    return [one for name in LISTS for one in compared(name)]


def logged(one: Compared) -> bool:
    """Whether the arrivals are those of a log."""
    return one.case.arrivals == "log"


def spread(cases: Sequence[Compared], error: str) -> str:
    """Median and worst size of an error in percent: of a mean, or points of goodput.

    A case that the planner refuses has none.
    """
    sizes = [abs(value) for one in cases if (value := getattr(one, error)) is not None]
    return f"{100 * median(sizes):.1f} / {100 * max(sizes):.1f}" if sizes else ABSENT


def stalls(cases: Sequence[Compared]) -> str:
    """The stall bound over the longest gap seen: smallest, median and largest."""
    ratios = [one.stall for one in cases if one.stall is not None]
    return f"{min(ratios):.2f} / {median(ratios):.2f} / {max(ratios):.2f}" if ratios else ABSENT


def line(*cells: object) -> str:
    """A row in Markdown."""
    return f"| {' | '.join(map(str, cells))} |\n"


def table(head: Sequence[str], rows: Iterable[Sequence[object]], texts: int) -> str:
    """A table in Markdown; the first `texts` columns are words, the others figures."""
    rule = ["---"] * texts + ["---:"] * (len(head) - texts)
    return line(*head) + line(*rule) + "".join(line(*row) for row in rows)


def by_topology() -> str:
    """How far the planner is off, by list and topology."""
    head = ("list", "topology", "cases", "TTFT, %", "TPOT, %", "stall bound / seen", "goodput at 1.2x", "goodput at 2x")

    def row(title: str, label: str, own: Sequence[Compared]) -> tuple[object, ...]:
        errors = {error: spread(own, error) for error in ERRORS}
        return title, label, len(own), errors["ttft"], errors["tpot"], stalls(own), errors["tight"], errors["loose"]

    def rows() -> Iterable[Sequence[object]]:
        for name, frozen in LISTS.items():
            steady = [one for one in compared(name) if not logged(one)]
            for topology in TOPOLOGIES:
                own = [one for one in steady if one.case.layout.topology == topology]
                yield row(frozen.title, topology, own)
            yield row(frozen.title, "all", steady)
            if len(steady) < len(compared(name)):
                yield row(frozen.title, "all, logged arrivals", [one for one in compared(name) if logged(one)])

    return table(head, rows(), texts=2)


def by_regime() -> str:
    """How far the planner is off within each regime and outside of all, over both lists."""
    head = ("regime", "cases", "TTFT, %", "TPOT, %", "goodput at 1.2x", "goodput at 2x")
    cases = every()
    steady = [one for one in cases if "arrivals" not in one.screening]

    def rows() -> Iterable[Sequence[object]]:
        yield "none", *_errors([one for one in cases if not one.screening])
        for regime in REGIMES:
            if regime != "tpot":
                among = cases if regime == "arrivals" else steady
                yield f"`{regime}`", *_errors([one for one in among if regime in one.screening])
        mixed = [
            one for one in cases if not one.screening and one.case.layout.topology in MIXED and one.tight is not None
        ]
        for words, near in (
            ("mixed pools, none but `tpot` at 1.2x", True),
            ("mixed pools, none at 1.2x either", False),
        ):
            yield words, *_errors([one for one in mixed if one.tpot_near == near])

    return table(head, rows(), texts=1)


def _errors(cases: Sequence[Compared]) -> tuple[object, ...]:
    return len(cases), *(spread(cases, error) for error in ERRORS)


def misses() -> str:
    """Every case that is off by more than the targets, with the regimes that its row names."""
    head = ("list", "case", "misses", "regimes", "TTFT, %", "TPOT, %", "goodput at 1.2x", "goodput at 2x")

    def signed(value: float | None) -> str:
        return ABSENT if value is None else f"{100 * value:+.1f}"

    def rows() -> Iterable[Sequence[object]]:
        for name, frozen in LISTS.items():
            for one in compared(name):
                what = (*one.missed, *(f"goodput at {OBJECTIVE[pair]}" for pair in one.goodput_missed))
                if what:
                    named = (*one.screening, *(("tpot at 1.2x",) if one.tpot_near else ()))
                    errors = [signed(getattr(one, error)) for error in ERRORS]
                    yield frozen.title, f"`{one.case.name}`", ", ".join(what), ", ".join(named) or "none", *errors

    return table(head, rows(), texts=4)


def noise() -> str:
    """How far the recorded means themselves may be off: their standard errors."""
    seen = LISTS["held_out"].seen()
    steady = [one for one in compared("held_out") if not logged(one)]
    full = [one for one in steady if "slots" in one.screening]
    long = [one for one in steady if one not in full and one.case.mix in LONG_MIXES]
    short = [one for one in steady if one not in full and one not in long]

    def row(label: str, own: list[Compared]) -> tuple[object, ...]:
        sizes = [[seen[one.case.name][f"{name}_noise"] for one in own] for name in ("ttft", "tpot")]
        return label, len(own), *(f"{100 * median(size):.1f} / {100 * max(size):.1f}" for size in sizes)

    rows = [row("code, chat, reason, short, few", short), row("conv, cached", long), row("in the regime `slots`", full)]
    return table(("held out", "cases", "TTFT, %", "TPOT, %"), rows, texts=1)


def independence() -> str:
    """What goodput loses where TTFT and TPOT are taken to be independent: product less what was seen, no planner in it."""
    head = ("topology", "cases", "at 1.2x", "at 2x")

    def rows() -> Iterable[Sequence[object]]:
        for topology in TOPOLOGIES:
            own = [
                figures
                for frozen in LISTS.values()
                for case in frozen.cases
                if case.layout.topology == topology and case.arrivals != "log"
                for figures in (frozen.seen()[case.name],)
            ]
            yield topology, len(own), *(_products(own, pair) for pair in ("tight", "loose"))

    return table(head, rows(), texts=1)


def _products(seen: Sequence[dict[str, float]], pair: str) -> str:
    off = [100 * (one[f"ttft_met_{pair}"] * one[f"tpot_met_{pair}"] - one[f"met_{pair}"]) for one in seen]
    return f"{min(off):+.1f} / {median(off) + 0.0:+.1f} / {max(off):+.1f}"


TABLES: dict[str, Callable[[], str]] = {
    "topologies": by_topology,
    "noise": noise,
    "misses": misses,
    "regimes": by_regime,
    "independence": independence,
}


def rewritten(page: str) -> str:
    """The page with its tables as they are now."""
    return BLOCK.sub(lambda block: f"{block[1]}{block[2]}{TABLES[block[1]]()}", page)


def main() -> None:
    """Rewrite the tables; say what they are."""
    if not TRACES.is_dir():
        sys.exit(f"{TRACES}: no such directory; expected the logs that lengths are drawn from")
    page = rewritten(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page, encoding="utf-8")
    print("".join(block[2] for block in BLOCK.findall(page)))


if __name__ == "__main__":
    main()
