"""The transfer budget as a person reads it."""

import math
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from pipelines.arithmetic.kv import BoundedLayers, CacheModel, in_blocks
from pipelines.arithmetic.transfer import TransferModel
from pipelines.declarations.transfer_table import parse_curve
from pipelines.frames.digits import RESULT_DIGITS
from pipelines.gates.wording import shown

_WIDTH = 140
ANY, NONE = "any", "none"
"""Whatever is looked at fits, or nothing does."""

Json = dict[str, Any]


def print_budget(receipt: Json) -> None:
    """Envelope, what each bucket uses of it, staging, and the KV memory of a worker."""
    console = Console(highlight=False)
    console.width = max(console.width if console.is_terminal else 0, _WIDTH)
    moved, budget = receipt["transfer"], receipt["transfer"]["budget"]
    sources = {"affine": "fixed overhead and effective bandwidth", "curve": "a declared curve"}
    click.echo(f"{receipt['cohort']['name']}: {budget['scenario']} (times are modeled means, not measurements)")
    click.echo(f"transfer   {' outside of '.join(sources[name] for name in moved['sources'])}: {_each(moved)}")
    reserve = (
        "" if budget["reserve"] is None else f", {shown(budget['reserve'], 'ratio')} of it for KV movement and queueing"
    )
    click.echo(f"envelope   TTFT may grow by {shown(budget['envelope_s'], 's')}{reserve}")
    click.echo()
    if budget["rows"]:
        console.print(_used(receipt, budget))
    _print_marks(receipt, budget)
    _print_refusals(receipt, budget["scenario"])
    click.echo()
    if budget["staging"]:
        console.print(_staging(budget))
        click.echo()
    console.print(_memory(receipt["kv"]))
    if any(moved[bound]["leaves_curve"] for bound in ("nominal", "conservative")):
        click.echo("note: some transfers are smaller or larger than any in the curve; phaseledger plan says how many")


def _print_marks(receipt: Json, budget: Json) -> None:
    """What the marks in the table mean, where there are any."""
    if any(_bandwidth(receipt, row).endswith("!") for row in budget["rows"]):
        line = _declared(receipt, "network.line_rate")
        assert line is not None
        click.echo(f"! above the declared line rate of {line / 1e9:.4g} GB/s")
    if any(
        cell.endswith("*") for row in budget["rows"] for cell in (_fitting_bytes(receipt, row), _prompt(receipt, row))
    ):
        click.echo("* outside of the declared curve, not measured")


def _print_refusals(receipt: Json, scenario: str) -> None:
    bounds = next(row["bounds"] for row in receipt["scenarios"] if row["scenario"] == scenario)
    for bound in ("nominal", "conservative"):
        reason = bounds[bound]["refusal"]
        if reason is not None:
            said = f"{reason['kind'].replace('_', ' ')} of {reason['resource']} {reason['figure']:.4g}, ceiling {reason['limit']:.4g}"
            click.echo(f"{bound}: the scenario is refused ({said}), so there is nothing to budget")


def _each(moved: Json) -> str:
    nominal = moved["nominal"]
    parts = [f"hand-over {shown(nominal['handover_s'], 's')}"] if nominal["handover_s"] else []
    if nominal["overhead_s"] is not None:
        parts.append(f"overhead {shown(nominal['overhead_s'], 's')}")
        parts.append(f"{nominal['bandwidth_bytes_per_s'] / 1e9:.4g} GB/s")
    return ", ".join([*parts, f"{nominal['channels']} at once"])


def _used(receipt: Json, budget: Json) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("bound", no_wrap=True)
    table.add_column("bucket", no_wrap=True)
    for name in (
        "used",
        "of envelope",
        "limit",
        "of limit",
        "transfer",
        "fits up to",
        "needs a link of",
        "longest prompt",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in budget["rows"]:
        table.add_row(
            row["bound"],
            row["bucket"],
            shown(row["used_s"], "s"),
            shown(row["envelope_share"], "ratio"),
            shown(row["limit_s"], "s"),
            shown(row["limit_share"], "ratio"),
            _size(row["bytes_mean"]),
            _fitting_bytes(receipt, row),
            _bandwidth(receipt, row),
            _prompt(receipt, row),
        )
    return table


def _fitting_bytes(receipt: Json, row: Json) -> str:
    size = row["bytes_at_limit"]
    if size is None:
        return ANY if row["limit_share"] <= 1 else NONE
    return _size(size) + _beyond(receipt, size)


def _bandwidth(receipt: Json, row: Json) -> str:
    """The bandwidth of a link that it takes, marked where the declared lines do not carry it."""
    bandwidth, line = row["bandwidth_at_limit_bytes_per_s"], _declared(receipt, "network.line_rate")
    if receipt["transfer"]["sources"] != ["affine"]:
        return "-"
    if bandwidth is None:
        return ANY if row["limit_share"] <= 1 else NONE
    return f"{bandwidth / 1e9:.4g} GB/s" + ("!" if line is not None and bandwidth > line else "")


def _prompt(receipt: Json, row: Json) -> str:
    tokens = row["largest_prompt_tokens"]
    if tokens is None:
        return ANY
    if tokens == 0:
        return NONE
    kv, relayout = receipt["kv"], _declared(receipt, "network.relayout_factor", row["bound"])
    kept, block = kv[row["bound"]], kv["block_tokens"]
    windows = tuple(BoundedLayers(one["window_tokens"], 0, one["bytes_per_token"]) for one in kept["windows"])
    cache = CacheModel(kept["growth_bytes_per_token"], 0, windows, kept["state_bytes_per_sequence"], 0, block)
    model = TransferModel(cache, None, None, relayout=1.0 if relayout is None else relayout)
    return f"{tokens:,} tokens{_beyond(receipt, float(model.size_bytes(in_blocks(tokens, block))))}"


def _beyond(receipt: Json, size: float) -> str:
    """The mark of a size that the declared curve does not cover, up to the exported digits."""
    text = next((row["value"] for row in receipt["inputs"] if row["path"] == "network.transfer_curve"), None)
    if text is None:
        return ""
    curve = parse_curve(text)
    return "" if curve[0].bytes <= size <= curve[-1].bytes * (1 + 10.0 ** (1 - RESULT_DIGITS)) else "*"


def _declared(receipt: Json, path: str, bound: str = "nominal") -> float | None:
    """An input of the receipt; None where it is not declared."""
    member = "value" if bound == "nominal" else "conservative"
    return next((float(row[member]) for row in receipt["inputs"] if row["path"] == path), None)


def _staging(budget: Json) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("staging, per decode worker", no_wrap=True)
    for name in ("sequences in flight", "free slots", "bytes in flight", "free KV memory"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in budget["staging"]:
        table.add_row(
            row["bound"],
            f"{row['in_flight_sequences']:.4g}",
            f"{row['free_sequences']:.4g}",
            _size(row["in_flight_bytes"]),
            _size(row["free_bytes"]),
        )
    return table


def _memory(kv: Json) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("KV memory, per worker", no_wrap=True)
    for name in ("topology", "memory", "tokens", "mean sequence", "sequences at once"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in kv["batch_caps"]:
        tokens = row["resident_tokens"]
        table.add_row(
            row["bound"],
            row["topology"],
            _size(kv[row["bound"]]["kv_memory_bytes"]),
            "-" if tokens is None else f"{int(tokens):,}",
            f"{row['sequence_tokens']:,.4g} tokens, {_size(row['sequence_bytes'])}",
            f"{int(row['sequences']):,}",
        )
    return table


def _size(size: float | None) -> str:
    """Bytes in the largest binary unit of which there is one, to four digits."""
    if size is None:
        return "-"
    power = max(0, min(4, int(math.log(abs(size), 1024)))) if abs(size) >= 1 else 0
    return f"{size / 1024**power:.4g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
