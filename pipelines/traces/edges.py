"""Bucket edges, declared or chosen from the requests."""

from itertools import pairwise

import polars as pl

from pipelines.declarations.typed import ChosenEdges

SHORTEST_EDGE = 2
"""An edge below would leave the first bucket without a prompt length."""


def bucket_edges(
    requests: pl.DataFrame, declared: tuple[int, ...] | ChosenEdges, forced: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """The inner edges of the prompt buckets of a :class:`~pipelines.frames.requests.Requests` frame, in tokens, ascending.

    ``forced`` are edges that there must be: thresholds, and those of objectives.
    """
    edges = _chosen(requests, declared) if isinstance(declared, ChosenEdges) else declared
    return tuple(sorted({*edges, *forced}))


def _chosen(requests: pl.DataFrame, how: ChosenEdges) -> list[int]:
    prompts = requests["prompt_tokens"]
    chosen = _by_quantile(prompts, how.buckets) if how.by == "quantiles" else _by_log(prompts, how.buckets)
    # an edge at the shortest prompt would leave the bucket below it empty
    return [edge for edge in chosen if edge >= SHORTEST_EDGE and edge > int(prompts.min())]  # type: ignore[arg-type]


def empty_buckets(requests: pl.DataFrame, edges: tuple[int, ...]) -> list[str]:
    """Sentences about the buckets between ``edges`` that hold no request."""
    prompts = requests["prompt_tokens"]
    ends: list[int | None] = [1, *edges, None]
    return [
        f"bucket [{low},{'inf' if high is None else high}) of prompt tokens holds no request"
        for low, high in pairwise(ends)
        if not ((prompts >= low) & (True if high is None else prompts < high)).any()
    ]


def _by_quantile(prompts: pl.Series, buckets: int) -> list[int]:
    """The prompt lengths below which lie 1/n, 2/n, … of the requests."""
    ordered = prompts.sort()
    below = [(ordered.len() * part + buckets - 1) // buckets for part in range(1, buckets)]
    # with fewer requests than buckets, the last edges would lie above every prompt
    return [int(ordered[place]) for place in below if place < ordered.len()]


def _by_log(prompts: pl.Series, buckets: int) -> list[int]:
    """Edges of n buckets between the shortest and the longest prompt, each the same factor above the one before, up to whole tokens.

    The n-th root is taken in integers: the smallest e with e^n >= low^(n-i)·high^i, so that no rounding of a logarithm decides.
    """
    low, high = int(prompts.min()), int(prompts.max())  # type: ignore[arg-type]
    return [_root_up(low ** (buckets - part) * high**part, buckets) for part in range(1, buckets)]


def _root_up(value: int, degree: int) -> int:
    """The smallest integer whose ``degree``-th power is ``value`` or more.

    >>> _root_up(1000, 3), _root_up(1001, 3)
    (10, 11)
    """
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**degree < value else (low, middle)
    return low
