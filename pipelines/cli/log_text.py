"""A description of a request log as a person reads it."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from pipelines.traces.describe import Description

_WIDTH, _LONGEST_VALUE = 140, 60


def print_description(found: "Description") -> None:
    """Facts in lines, figures in tables, doubts at the end."""
    click.echo(f"{plain(found.file)}: {found.format}")
    click.echo()
    for name, text in _summary(found):
        click.echo(f"{name:<14}{text}")
    for title, table in _tables(found):
        click.echo()
        click.echo(title)
        _print_table(table)
    if found.warnings:
        click.echo()
        for warning in found.warnings:
            click.echo(f"warning: {warning}")


def _summary(found: "Description") -> list[tuple[str, str]]:
    """What is said in one line each."""
    lines = [
        ("rows", f"{found.rows_read:,}" + (f", of which {found.rows_invalid:,} invalid" if found.rows_invalid else ""))
    ]
    if found.rate_windows is not None:
        rates = found.rate_windows
        lines = [
            (
                "windows",
                f"{rates['windows']:,} of {rates['window_s']:,} s, of which {rates['nonempty_windows']:,} have requests",
            ),
            ("requests", f"{rates['expected_requests']:,.6g} expected; the log states rates, not requests"),
            ("peak", f"{_figure(rates['peak_rps'])} requests/s"),
        ]
    else:
        lines.append(("requests", f"{found.requests:,}"))
    lines.append(("duration", "-" if found.duration_s is None else _long(found.duration_s)))
    lines.append(("rate", "-" if found.rate_rps is None else f"{_figure(found.rate_rps)} requests/s"))
    if found.rate_windows is None:
        scv = "-" if found.arrival_scv is None else _figure(found.arrival_scv)
        lines.append(("burstiness", f"{scv} squared coefficient of variation of the gaps (Poisson arrivals: 1)"))
        if found.rate_rps is None:
            lines.append(("", _without_rate(found)))
    if found.cached_share is not None:
        lines.append(("cached", f"{100 * found.cached_share:.4g} % of all prompt tokens, as the log states"))
    if found.prefix_cache is not None:
        hits = found.prefix_cache
        lines.append(
            (
                "prefix cache",
                f"{100 * hits.hit_ratio:.4g} % of all prompt tokens would hit without a limit "
                f"(blocks of {hits.block_tokens} tokens, one cache shared by all)",
            )
        )
    lines += [("step", f"{step}: {detail}") for step, detail in found.steps]
    if found.requests_sha256 is not None:
        lines.append(("digest", f"{found.requests_sha256} (SHA-256 of the requests)"))
    return lines


def _without_rate(found: "Description") -> str:
    if found.duration_s is None and found.requests != 1:
        return "the log does not say when requests arrive; a cohort declares requests.arrivals"
    why = "a single request has" if found.requests == 1 else "requests that all arrive at one instant have"
    return f"{why} no rate; a cohort declares requests.arrivals"


def _tables(found: "Description") -> list[tuple[str, "Table"]]:
    tables = []
    if found.windows:
        columns = ["window", "windows", "dispersion", "peak rate"]
        rows = [
            [
                f"{row['window_s']:,} s",
                f"{row['windows']:,}",
                _figure(row["dispersion"]),
                f"{_figure(row['peak_rps'])}/s",
            ]
            for row in found.windows
        ]
        tables.append(
            ("arrivals per window (dispersion is variance over mean: 1 for Poisson arrivals)", _table(columns, rows))
        )
    if found.tokens:
        columns = ["tokens", "mean", "2nd moment", "min", "max", "sum"]
        rows = [
            [name, _figure(one.mean), _figure(one.m2), f"{one.min:,}", f"{one.max:,}", f"{one.sum:,}"]
            for name, one in found.tokens.items()
        ]
        rows.append(["prompt x output", _figure(found.prompt_output_mean), "", "", "", ""])
        tables.append(("tokens per request", _table(columns, rows)))
    if found.buckets:
        tables.append(("buckets of prompt tokens", _buckets(found)))
    for name, group in found.groups.items():
        shown = [[plain(value, _LONGEST_VALUE), f"{count:,}"] for value, count in group.top]
        rest = (found.requests or 0) - group.requests_without - sum(count for _, count in group.top)
        shown += [[f"{group.values - len(group.top):,} others", f"{rest:,}"]] if rest else []
        shown += [["(none)", f"{group.requests_without:,}"]] if group.requests_without else []
        tables.append((f"requests by {name}", _table([name, "requests"], shown)))
    if found.invalid:
        columns = ["invalid rows", "column", "rows", "first at"]
        rows = [
            [one.kind, plain(one.column, _LONGEST_VALUE), f"{one.rows:,}", ", ".join(map(str, one.first_rows))]
            for one in found.invalid
        ]
        tables.append(("rows that cannot be read (on_invalid: drop leaves them out)", _table(columns, rows)))
    return tables


def _buckets(found: "Description") -> "Table":
    columns = ["bucket", "requests", "share", "rate", "burstiness", "mean prompt", "max", "mean output", "max"]
    rows = [
        [
            row["bucket"],
            f"{row['requests']:,}",
            f"{100 * row['requests'] / (found.requests or 1):.4g} %",
            "-" if row["rate_rps"] is None else f"{_figure(row['rate_rps'])}/s",
            _figure(row["arrival_scv"]),
            _figure(row["prompt_tokens_mean"]),
            f"{row['prompt_tokens_max']:,}",
            _figure(row["output_tokens_mean"]),
            f"{row['output_tokens_max']:,}",
        ]
        for row in found.buckets
    ]
    return _table(columns, rows)


def _table(columns: list[str], rows: list[list[str]]) -> "Table":
    """The first column to the left, figures to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="right" if place else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _print_table(table: "Table") -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width if console.is_terminal else 0, _WIDTH)
    console.print(table)


def _figure(value: float | None) -> str:
    """Four digits, all of them before the point, with thousands separators.

    >>> _figure(2.56639), _figure(12035.2), _figure(0.00012346), _figure(3.2e30), _figure(None)
    ('2.566', '12,035', '0.0001235', '3.2e+30', '-')
    """
    if value is None:
        return "-"
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _long(seconds: float) -> str:
    """A length of time in seconds, and in the unit that people would say it in."""
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return (
                f"{seconds:,.6g} s ({seconds / length:.4g} {unit})"
                if seconds < 1e6
                else f"{seconds:,.0f} s ({seconds / length:.4g} {unit})"
            )
    return f"{seconds:.6g} s"


def plain(text: str, longest: int | None = None) -> str:
    """A name on one line, of at most ``longest`` letters: what a log holds or is called must not steer the terminal."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown if longest is None or len(shown) <= longest else shown[: longest - 1] + "…"


def plural(count: int, word: str) -> str:
    """The word as it stands behind a count."""
    return word if count == 1 else f"{word}s"
