"""What is doubtful about the inputs of a plan: declared, well formed, and perhaps not what was meant."""

from collections.abc import Iterator

import polars as pl

from pipelines.declarations.cohort import DEFAULT_NOTE
from pipelines.declarations.transfer_table import parse_curve
from pipelines.frames.inputs import BOUNDS, Bound, InputTable
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.question import Question, Workload
from pipelines.topologies.transfers import BANDWIDTH_INPUT, CURVE_INPUT, LINKS_INPUT, Transfers

RANKS_INPUT = "model.tensor_parallel"
LINE_RATE_INPUT = "network.line_rate"
LEAST_OF_LINE = 1 / 8
"""A bandwidth in bits that was meant in bytes is an eighth; engines that were measured reach a quarter of the line or more."""


def input_doubts(inputs: InputTable, workload: Workload) -> list[str]:
    """Everything that is doubtful, one sentence each."""
    found = [*_ranks(inputs)]
    if inputs.has(LINKS_INPUT):
        found += [
            *_slow_links(inputs),
            *_idle_links(inputs),
            *_nothing_cached(inputs, workload.strata),
            *_curve(inputs, workload),
        ]
    return found


def _ranks(inputs: InputTable) -> Iterator[str]:
    each = int(inputs.number("inventory.gpus_per_worker"))
    if each > 1 and inputs.rows[RANKS_INPUT]["note"] == DEFAULT_NOTE:
        yield (
            f"{RANKS_INPUT} is not declared, and a worker has {each} GPUs: the cache is counted once, "
            "although ranks that share a KV head or a latent hold copies of it"
        )


def _slow_links(inputs: InputTable) -> Iterator[str]:
    if not inputs.has(BANDWIDTH_INPUT) or not inputs.has(LINE_RATE_INPUT):
        return
    share = inputs.number(BANDWIDTH_INPUT) / inputs.number(LINE_RATE_INPUT)
    if share < LEAST_OF_LINE:
        yield f"{BANDWIDTH_INPUT} is {100 * share:.3g} % of the line rate: Gbit/s where GB/s was meant?"


def _idle_links(inputs: InputTable) -> Iterator[str]:
    links, each = int(inputs.number(LINKS_INPUT)), int(inputs.number("network.links_per_transfer"))
    if links % each:
        yield f"of {links} links in transfers of {each}, {links % each} stay idle"


def _nothing_cached(inputs: InputTable, strata: pl.DataFrame) -> Iterator[str]:
    declared = inputs.number("network.prefix_at_destination") > 0
    hits = inputs.has("service.prefill.prefix_hit_ratio") and inputs.number("service.prefill.prefix_hit_ratio") > 0
    if declared and not hits and (strata["prompt_tokens_mean"] == strata["uncached_tokens_mean"]).all():
        yield "network.prefix_at_destination changes nothing: no prompt has cached tokens"


def _curve(inputs: InputTable, workload: Workload) -> Iterator[str]:
    if not inputs.has(CURVE_INPUT):
        return
    if all(point.high_s is None for point in parse_curve(inputs.word(CURVE_INPUT))):
        yield f"{CURVE_INPUT} has no upper times: its conservative bound is its nominal one"
    then = "overhead and bandwidth hold there" if inputs.has(BANDWIDTH_INPUT) else "its ends are continued there"
    for bound in BOUNDS:
        moved = Question(inputs, workload, bound).work(TOPOLOGIES["disaggregated"].paths[0], None).moved
        if moved is not None:
            yield from _outside(moved, bound, then)


def _outside(moved: Transfers, bound: Bound, then: str) -> Iterator[str]:
    """How many transfers, by the means of their strata, are smaller or larger than any that was measured."""
    curve = moved.model.curve
    if curve is None or not moved.leaves_curve:
        return
    smallest, largest = curve.points[0][0], curve.points[-1][0]
    shares = moved.requests.strata.share
    below, above = (
        float(shares[outside].sum())
        for outside in (moved.moved.size_bytes < smallest, moved.moved.size_bytes > largest)
    )
    parts = [
        f"about {share:.3g} % of transfers are {side}"
        for share, side in ((100 * below, "smaller"), (100 * above, "larger"))
        if share
    ]
    said = (
        " and ".join(parts) or f"the longest prompt is {'larger' if moved.longest.size_bytes > largest else 'smaller'}"
    )
    yield f"{said} than any in {CURVE_INPUT} ({bound} bound): {then}"
