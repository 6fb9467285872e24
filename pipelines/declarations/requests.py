"""The ``requests`` block of a cohort: its numbers, and the typed log, classes, slice, prefix cache and bucket edges."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import cast

from pipelines.declarations.documents import Document, optional_text, texts, whole
from pipelines.declarations.problems import Problem
from pipelines.declarations.typed import (
    CacheScope,
    ChosenEdges,
    Classes,
    ColumnMap,
    OnInvalid,
    PrefixCache,
    RequestClass,
    Slice,
    TraceSource,
)
from pipelines.declarations.units import Domain, QuantityError, exact_decimal, whole_ns, within

_TRACE, _SLICE = "requests.trace", "requests.slice"
_DURATIONS: Mapping[str, Domain] = {
    f"{_TRACE}.spread_ties": "positive",
    f"{_TRACE}.turn_time": "positive",
    f"{_TRACE}.turn_time_per_output_token": "positive",
    f"{_SLICE}.window.from": "not_negative",
    f"{_SLICE}.window.to": "positive",
}
_SCALE_RATE = f"{_SLICE}.scale_rate"
_FIELDS = ("model", "adapter", "priority")


@dataclass(frozen=True)
class RequestNumbers:
    """The numbers of the block that have to be parsed: whole nanoseconds by path, and the exact factor of the rate."""

    durations_ns: Mapping[str, int]
    scale_rate: Fraction = Fraction(1)


def read_request_numbers(document: Document) -> tuple[RequestNumbers, list[Problem]]:
    """Every number that is well formed, and the problems of those that are not."""
    durations: dict[str, int] = {}
    scale_rate = Fraction(1)
    problems: list[Problem] = []
    for path, domain in _DURATIONS.items():
        raw = document.get(path)
        if not document.has(path) or isinstance(raw, dict | list):
            continue
        try:
            durations[path] = whole_ns(raw, document.text(path), domain)
        except QuantityError as error:
            problems.append(document.problem(path, error.message, error.hint))
    factor, written = document.get(_SCALE_RATE), document.text(_SCALE_RATE)
    if isinstance(factor, int | float) and not isinstance(factor, bool):
        try:
            scale_rate = exact_decimal(factor, written)
            within(scale_rate, "positive", "ratio", written)
        except QuantityError as error:
            problems.append(document.problem(_SCALE_RATE, error.message, error.hint))
    return RequestNumbers(durations, scale_rate), problems


def trace_source(document: Document, numbers: RequestNumbers, directory: Path) -> TraceSource | None:
    """The log and how it is to be read; None where classes are declared instead. ``directory`` holds the cohort."""
    if not document.has(_TRACE):
        return None
    trace = document.mapping(_TRACE)
    lengths = optional_text(trace, "lengths")
    return TraceSource(
        file=directory / str(trace["file"]),
        format=optional_text(trace, "format"),
        provenance=str(trace["provenance"]),
        source=optional_text(trace, "source"),
        note=optional_text(trace, "note"),
        columns=_columns(document),
        on_invalid=cast(OnInvalid, trace.get("on_invalid", "reject")),
        context_tokens=whole(trace.get("context_tokens")),
        spread_ties_ns=numbers.durations_ns.get(f"{_TRACE}.spread_ties"),
        turn_time_ns=numbers.durations_ns.get(f"{_TRACE}.turn_time"),
        lengths=None if lengths is None else directory / lengths,
        turn_time_per_output_token_ns=numbers.durations_ns.get(f"{_TRACE}.turn_time_per_output_token"),
    )


def _columns(document: Document) -> ColumnMap | None:
    columns = document.mapping(f"{_TRACE}.columns")
    if not columns:
        return None
    return ColumnMap(**{column.name: cast(str, columns.get(column.name)) for column in fields(ColumnMap)})


def request_classes(document: Document) -> Classes | None:
    """The requests that are declared without a log, with the provenance of all of them."""
    listed = document.get("requests.classes")
    if not isinstance(listed, list):
        return None
    said = document.mapping("requests.classes_from")
    return Classes(
        members=tuple(_class(document.mapping(("requests", "classes", place))) for place in range(len(listed))),
        provenance=str(said["provenance"]),
        source=optional_text(said, "source"),
        note=optional_text(said, "note"),
    )


def _class(declared: dict[str, object]) -> RequestClass:
    return RequestClass(**{count.name: whole(declared.get(count.name)) or 0 for count in fields(RequestClass)})


def request_slice(document: Document, numbers: RequestNumbers) -> Slice:
    """The part of the log that the cohort stands for; the whole log where nothing is declared."""
    window, prompt = f"{_SLICE}.window", document.mapping(f"{_SLICE}.prompt_tokens")
    thin = document.mapping(f"{_SLICE}.thin")
    ends = (numbers.durations_ns.get(f"{window}.from"), numbers.durations_ns.get(f"{window}.to"))
    where = document.mapping(f"{_SLICE}.where")
    return Slice(
        window_ns=ends if document.has(window) else None,
        where={name: tuple(texts(where[name])) for name in _FIELDS if name in where},
        prompt_tokens=(whole(prompt.get("from")), whole(prompt.get("to"))) if prompt else None,
        thin=(whole(thin["keep"]) or 0, whole(thin["of"]) or 0) if thin else None,
        repeat=whole(document.get(f"{_SLICE}.repeat")) or 1,
        scale_rate=numbers.scale_rate,
    )


def prefix_cache(document: Document) -> PrefixCache | None:
    """The cache of prompt blocks to simulate on the log; None where none is declared."""
    cache = document.mapping("requests.prefix_cache")
    if not cache:
        return None
    return PrefixCache(
        capacity_tokens=whole(document.get("requests.prefix_cache.capacity.tokens")),
        scope=cast(CacheScope, cache["scope"]),
        workers=whole(cache.get("workers")) or 1,
    )


def bucket_edges(document: Document) -> tuple[int, ...] | ChosenEdges:
    """The declared edges in tokens, or how they are to be chosen."""
    edges = document.get("requests.bucket_edges_tokens")
    if isinstance(edges, dict):
        quantiles = whole(edges.get("quantiles"))
        return ChosenEdges("quantiles", quantiles) if quantiles else ChosenEdges("log", whole(edges["log"]) or 0)
    return tuple(int(edge) for edge in edges) if isinstance(edges, list) else ()
