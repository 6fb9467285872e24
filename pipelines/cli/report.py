"""A plan as a person reads it."""

from typing import Any

import click
import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table

from pipelines.cli.replay_words import why_not, worst_minute
from pipelines.cli.run import PlanResult
from pipelines.gates.wording import SYMBOLS, shown

_WIDTH, _LEAST_OF_GATES, _OF_SCENARIO = 150, 50, 32
"""Columns that the tables may take, more where many scenarios stand side by side: cut figures would be worse than wrapped lines."""

_COLUMNS = (
    "GPUs",
    "parts",
    "TTFT",
    "TPOT",
    "stall",
    "goodput",
    "replayed\ngoodput",
    "utilization",
    "headroom",
    "queue",
    "transfer",
    "gates",
)


def print_report(result: PlanResult) -> None:
    """Topologies, verdicts, decision, what was rejected and why, and where the exports are."""
    console = Console(highlight=False)
    cells = [_verdict_cell(row) for row in result.verdicts.iter_rows(named=True)]
    names = max((len(gate) for gate in result.verdicts["gate"]), default=0) + len(" (informs)  conservative  ")
    of_gates = names + (max(map(len, cells), default=0) + 3) * len(result.headlines)
    needed = max(_LEAST_OF_GATES + _OF_SCENARIO * len(result.headlines), of_gates)
    console.width = max(console.width if console.is_terminal else 0, _WIDTH, needed)
    click.echo(
        f"{result.cohort}: the scenario that speaks for each topology (latencies are modeled means, not measurements)"
    )
    click.echo()
    console.print(_topologies(result.headlines, result.verdicts))
    click.echo()
    console.print(_verdicts(result))
    click.echo()
    _print_decision(result)
    click.echo()
    _print_requests(result)
    click.echo(f"receipt  {result.receipt}  ({result.values_compared} values recomputed by the verifier)")
    click.echo(f"matrix   {result.matrix}")
    click.echo(f"sha256   {result.sha256}")


def _echo(line: str) -> None:
    """A line with words of people in it, without what a terminal would act on."""
    click.echo("".join(letter if letter.isprintable() else "?" for letter in line))


def _print_requests(result: PlanResult) -> None:
    """What the plan is for, what was left out of the log, and what is doubtful about it."""
    of, ratio = result.requests, result.requests["hit_ratio"]
    rate = f"at {of['rate_rps']:.4g}/s" if of["rate_rps"] else "in a closed loop"
    cached = f", {shown(ratio, 'ratio')} of their prompt tokens in the prefix cache" if ratio is not None else ""
    click.echo(f"requests: {of['count']:,} ({of['format']}) {rate}{cached}")
    for step in of["steps"]:
        click.echo(f"  {step['step']} {step['detail']}: {step['requests']:,}")
    if result.dropped:
        kinds = ", ".join(f"{row['kind']} {row['rows']:,}" for row in result.dropped)
        total = sum(row["rows"] for row in result.dropped)
        click.echo(f"dropped: {total:,} of {result.rows_read:,} rows of the log were invalid ({kinds})")
    for warning in result.warnings:
        click.echo(f"warning: {warning}")
    click.echo()


def _topologies(headlines: list[dict[str, Any]], verdicts: pl.DataFrame) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("scenario", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in headlines:
        loads = "\n".join(f"{pool} {shown(load, 'ratio')}" for pool, load in row["utilization"].items())
        own = verdicts.filter(pl.col("scenario") == row["scenario"])
        passed = own.filter(pl.col("verdict") == "pass").height
        table.add_row(
            row["scenario"],
            str(row["gpus"]),
            shown(row["operating_parts"], "count"),
            *(shown(row[name], "s") for name in ("ttft_worst_s", "tpot_worst_s", "stall_s")),
            shown(row["goodput"], "ratio"),
            _replayed(row["replay"]),
            loads,
            shown(row["headroom"], "ratio"),
            row["dominant_queue"] or "-",
            shown(row["transfer_envelope_share"], "ratio"),
            f"{passed} of {own.height}",
        )
    return table


def _replayed(replay: dict[str, Any] | None) -> str:
    figures = None if replay is None else replay["figures"]
    return shown(None if figures is None else figures["replayed_goodput"], "ratio")


def _verdicts(result: PlanResult) -> Table:
    scenarios = [row["scenario"] for row in result.headlines]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("gate", no_wrap=True)
    table.add_column("bound", no_wrap=True)
    for scenario in scenarios:
        table.add_column(scenario, no_wrap=True)
    for gate in result.verdicts["gate"].unique(maintain_order=True):
        own = {row["scenario"]: row for row in result.verdicts.filter(pl.col("gate") == gate).iter_rows(named=True)}
        first = next(iter(own.values()))
        decides = first["blocking"] or any(row["waived"] for row in own.values())
        table.add_row(
            gate if decides else f"{gate} (informs)",
            first["bound"],
            *(_verdict_cell(own.get(scenario)) for scenario in scenarios),
        )
    return table


def _verdict_cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    figure = "" if row["figure"] is None else f"{shown(row['figure'], row['unit'])} "
    verdict = f"{row['verdict']}, waived" if row["waived"] else row["verdict"]
    return f"{verdict}  {figure}({SYMBOLS[row['op']]} {shown(row['limit'], row['unit'])})"


def _print_replay(scope: dict[str, Any], replay: dict[str, Any] | None) -> None:
    """What the trace itself met in the chosen scenario, and where it was worst."""
    reason: str | None = scope["reason"] or (None if replay is None else replay["reason"])
    if reason is not None:
        click.echo(f"replay: {why_not(reason)}")
    elif replay is not None:
        goodput = shown(replay["figures"]["replayed_goodput"], "ratio")
        click.echo(
            f"replay: {goodput} of the requests meet all objectives (modeled); {worst_minute(replay['worst_minute'])}"
        )


def _print_decision(result: PlanResult) -> None:
    chosen = result.outcome["scenario"]
    for row in result.headlines:
        if row["standing"] == "chosen":
            click.echo(f"decision: {row['topology']} ({row['scenario']}), {row['reason']}")
            if row["screening"]:
                regimes = ", ".join(row["screening"].split())
                click.echo(
                    f"for screening ({regimes}): the closed forms may be off there, see docs/accuracy.md; replay or measure"
                )
            _print_replay(result.replay, row["replay"])
    if chosen is None:
        click.echo("decision: no topology qualifies")
        _print_replay(result.replay, None)
    for row in result.headlines:
        label = {"passes_but_larger": "not chosen", "nearest_miss": "rejected"}.get(row["standing"])
        if label is not None:
            nearest = "nearest miss " if row["standing"] == "nearest_miss" else ""
            _echo(f"{label}: {row['topology']} ({nearest}{row['scenario']}): {row['reason']}")
    for said in result.on_decision:
        _echo(f"on the decision: {said}")
    for line in result.rules:
        _echo(line)
    if chosen is not None and result.objections:
        _echo(f"not accepted: {'; '.join(result.objections)}")
