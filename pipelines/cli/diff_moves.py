"""What moved, as a ledger: the figures in OLD, what each step adds to them, and the figures in NEW."""

from decimal import Decimal
from typing import Any

from pipelines.cli.diff_words import cut
from pipelines.cli.explain_layout import WIDTH, columns, wrapped
from pipelines.cli.explain_words import STANDINGS
from pipelines.cli.log_text import plain

Json = dict[str, Any]

_COLUMNS = (
    ("TTFT ms", "ttft_worst_s", 1000, "0.001"),
    ("TPOT ms", "tpot_worst_s", 1000, "0.001"),
    ("stall ms", "stall_s", 1000, "0.001"),
    ("goodput %", "goodput", 100, "0.001"),
)
_MARGIN = ("margin %", "margin", 100, "0.001")
_MARKS = {"nominal": "", "conservative": "*"}
_LEAST = 20
_NOTHING = "."


def moves_lines(facts: Json) -> list[str]:
    """A ledger for each scenario that one of the receipts chooses, or that stands for one which chooses nothing."""
    lines: list[str] = []
    if not facts["steps"]:
        return lines
    for place, of in enumerate(facts["scenarios"]):
        lines += [*([""] if place else []), *_ledger(of, place, facts)]
    return [
        *lines,
        *wrapped(
            "* with every declared range at its bad end; . moves nothing; margin: the smallest of the gates that block it"
        ),
    ]


def _ledger(of: Json, place: int, facts: Json) -> list[str]:
    standings = [f"{STANDINGS[of[name]]} in {name}" for name in ("old", "new") if of[name]]
    rows = [["", "", *(f"{name}{mark}" for mark in _MARKS.values() for name, *_ in _COLUMNS), _MARGIN[0]]]
    rows.append(["", "old", *_states(of["figures"]["before"])])
    quiet = 0
    for number, step in enumerate(facts["steps"], start=1):
        figures = step["figures"][place]
        cells = [
            _cell(before, after)
            for before, after in zip(_exact(figures["before"]), _exact(figures["after"]), strict=True)
        ]
        if set(cells) <= {_NOTHING, ""}:
            quiet += 1
        else:
            rows.append([str(number), step["name"], *cells])
    if rows[2:]:
        rows.append(["", "new", *_states(of["figures"]["after"])])
        others = f"; {quiet} of {len(facts['steps'])} changes move nothing of it" if quiet else ""
    else:
        others = "; no change moves anything of it"
    return [*wrapped(plain(f"{of['scenario']} ({', '.join(standings)}){others}")), *_fitted(rows)]


def _fitted(rows: list[list[str]]) -> list[str]:
    """The table with the names of the steps as long as there is room for them."""
    others = max(map(len, columns([[row[0], *row[2:]] for row in rows], left=())))
    room = max(_LEAST, WIDTH - others - 2)
    return columns([[row[0], cut(row[1], room), *row[2:]] for row in rows], left=(1,))


def _exact(state: Json | None) -> list[tuple[Decimal, Decimal] | None]:
    """Every figure as it is printed, and as it is exported: the printed ones are what is subtracted, so that a column adds up."""
    found: list[tuple[Decimal, Decimal] | None] = []
    for bound in _MARKS:
        of = {} if state is None else state[bound]
        found += [_printed(of.get(name), scale, least) for _, name, scale, least in _COLUMNS]
    _, name, scale, least = _MARGIN
    return [*found, _printed(None if state is None else state[name], scale, least)]


def _printed(figure: float | None, scale: int, least: str) -> tuple[Decimal, Decimal] | None:
    if figure is None:
        return None
    exact = Decimal(repr(figure)) * scale
    return exact.quantize(Decimal(least)), exact


def _states(state: Json | None) -> list[str]:
    return ["-" if one is None else f"{one[0]:,f}" for one in _exact(state)]


def _cell(before: tuple[Decimal, Decimal] | None, after: tuple[Decimal, Decimal] | None) -> str:
    """What a step adds to a figure; where there was none before, what it is then."""
    if before is None and after is None:
        return ""
    if after is None:
        return "gone"
    if before is None:
        return f"= {after[0]:,f}"
    if before[1] == after[1]:
        return _NOTHING
    moved = after[0] - before[0]
    return f"{moved:+,f}" if moved else "~0"
