"""What must hold within the ``requests`` block of a cohort, and between it and the rest, on whatever is well formed."""

import math
from collections.abc import Iterator

from pipelines.declarations.documents import Document, whole
from pipelines.declarations.known_formats import GENERIC, TRACE_FORMATS
from pipelines.declarations.problems import Problem, show
from pipelines.declarations.requests import RequestNumbers

MOST_WEIGHT = 1_000_000
"""The weights of classes, divided by what divides them all, add up to at most this: each unit becomes a request of the cohort."""

_COLUMNS = "requests.trace.columns"
_ARRIVALS = "requests.arrivals"
_CLASSES = "requests.classes"
_CACHE = "requests.prefix_cache"
_HIT_RATIO = "service.prefill.prefix_hit_ratio"


def request_problems(document: Document, numbers: RequestNumbers) -> Iterator[Problem]:
    """Problems that only two or more values together show."""
    if not isinstance(document.get("requests"), dict):
        return
    yield from _log_or_classes(document)
    yield from _arrivals(document)
    yield from _columns(document)
    yield from _unknown_to_generic(document)
    yield from _slice(document, numbers)
    yield from _classes(document)
    yield from _prefix_cache(document)
    yield from _hits_counted_twice(document)


def _log_or_classes(document: Document) -> Iterator[Problem]:
    log, classes = document.has("requests.trace"), document.has(_CLASSES)
    if log and classes:
        message = "declared beside trace; expected one of the two: a log, or classes in place of one"
        yield document.problem(_CLASSES, message, on="key")
    if not log and not classes:
        yield document.problem("requests.trace", "missing; expected trace (a log) or classes (no log)")
    if classes and not document.has("requests.classes_from"):
        because = "required because classes are declared: where are they from?"
        hint = "classes_from: {provenance: supplied}"
        yield document.problem("requests.classes_from", f"missing; {because}", hint)
    if document.has("requests.classes_from") and not classes:
        message = "the provenance of classes, and none are declared; expected it beside classes only"
        said_of_log = "provenance, source and note of a log stand in trace" if log else None
        yield document.problem("requests.classes_from", message, said_of_log, on="key")
    if classes and not log:
        for path, needs in (("requests.slice", "a log to cut"), (_CACHE, "a log with block hashes")):
            if document.has(path):
                yield document.problem(path, f"declared beside classes; expected {needs}", on="key")


def _arrivals(document: Document) -> Iterator[Problem]:
    if not document.has(_ARRIVALS):
        hint = "arrivals: {rate: ...} or {concurrency: ...}"
        if document.has(_CLASSES):
            because = "required because classes do not say when requests arrive"
            yield document.problem(_ARRIVALS, f"missing; {because}", hint)
        elif _without_timestamps(document):
            because = f"required because {_COLUMNS} name no arrival"
            yield document.problem(_ARRIVALS, f"missing; {because}", hint)
        return
    if isinstance(document.get(_ARRIVALS), dict):
        rate, concurrency = document.has(f"{_ARRIVALS}.rate"), document.has(f"{_ARRIVALS}.concurrency")
        if rate and concurrency:
            message = "declared beside rate; expected one of the two: requests at a rate, or a closed loop"
            yield document.problem(f"{_ARRIVALS}.concurrency", message, on="key")
        if not rate and not concurrency:
            yield document.problem(_ARRIVALS, "neither rate nor concurrency is declared; expected one of the two")
    unused = "the timestamps of the log, which are not used where arrivals are declared"
    for path, does, instead in (
        ("requests.trace.spread_ties", "spreads", None),
        ("requests.slice.scale_rate", "scales", "declare the scaled rate in arrivals"),
    ):
        if document.has(path):
            yield document.problem(path, f"{does} {unused}; expected one of the two", instead, on="key")


def _is_generic(document: Document) -> bool:
    return document.get("requests.trace.format") == GENERIC


def _without_timestamps(document: Document) -> bool:
    columns = document.mapping(_COLUMNS)
    return _is_generic(document) and bool(columns) and "arrival" not in columns


def _columns(document: Document) -> Iterator[Problem]:
    declared, format_name = document.has(_COLUMNS), document.get("requests.trace.format")
    if not declared:
        if _is_generic(document):
            because = "required because format is generic: which column holds what?"
            yield document.problem(_COLUMNS, f"missing; {because}")
        return
    if format_name is None:
        message = "declared without a format; expected format: generic beside them"
        yield document.problem(_COLUMNS, message, "add format: generic", on="key")
    elif format_name in TRACE_FORMATS and not _is_generic(document):
        message = f"declared beside format {format_name}, which knows its columns; expected them with generic only"
        yield document.problem(_COLUMNS, message, on="key")
    named: dict[object, str] = {}
    for role, name in document.mapping(_COLUMNS).items():
        if role == "unit" or not isinstance(name, str):
            continue
        if name in named:
            message = f"{show(name)} is also {named[name]}; expected a column of its own for each"
            yield document.problem(f"{_COLUMNS}.{role}", message)
        named.setdefault(name, role)


def _unknown_to_generic(document: Document) -> Iterator[Problem]:
    """What needs something of the log that its declared columns do not give."""
    if not _is_generic(document):
        return
    for key in ("turn_time", "turn_time_per_output_token"):
        if document.has(f"requests.trace.{key}"):
            message = "a generic log has no delays between turns; expected a format that has them"
            yield document.problem(f"requests.trace.{key}", message, on="key")
    if document.has(_CACHE):
        message = "a generic log has no block hashes; expected a format that has them"
        hint = "if the log says how many tokens hit, name them in columns.cached_prompt_tokens"
        yield document.problem(_CACHE, message, hint, on="key")
    if _without_timestamps(document) and document.has("requests.slice.window"):
        message = f"a window of time, and {_COLUMNS} name no arrival; expected a log with arrivals"
        yield document.problem("requests.slice.window", message, on="key")
    columns = document.mapping(_COLUMNS)
    for name in ("model", "adapter", "priority"):
        if columns and name not in columns and document.has(f"requests.slice.where.{name}"):
            message = f"{_COLUMNS} name no {name}; expected the column that holds it"
            yield document.problem(f"requests.slice.where.{name}", message, on="key")


def _slice(document: Document, numbers: RequestNumbers) -> Iterator[Problem]:
    window, prompt, thin = (f"requests.slice.{part}" for part in ("window", "prompt_tokens", "thin"))
    ends = numbers.durations_ns
    yield from _empty_range(document, window, ends.get(f"{window}.from"), ends.get(f"{window}.to"))
    lengths = document.mapping(prompt)
    yield from _empty_range(document, prompt, whole(lengths.get("from")), whole(lengths.get("to")))
    keep, of = (whole(document.get(f"{thin}.{end}")) for end in ("keep", "of"))
    if keep is not None and of is not None and keep >= of > 1:
        message = f"{keep} of {of} thins nothing; expected keep below of"
        yield document.problem(f"{thin}.keep", message, "leave thin out to keep every request")
    for name in document.mapping("requests.slice.where"):
        listed = document.get(("requests", "slice", "where", name))
        values = listed if isinstance(listed, list) else []
        for place, value in enumerate(values):
            if isinstance(value, str) and value in values[:place]:
                message = f"{show(value)} is listed twice; expected each value once"
                yield document.problem(("requests", "slice", "where", name, place), message)


def _empty_range(document: Document, path: str, start: int | None, end: int | None) -> Iterator[Problem]:
    if start is None or end is None or start < end:
        return
    message = (
        f"from {document.text(f'{path}.from')} to {document.text(f'{path}.to')} holds nothing, since to is not included"
    )
    yield document.problem(f"{path}.to", f"{message}; expected from < to", "swapped?" if start > end else None)


def _classes(document: Document) -> Iterator[Problem]:
    listed = document.get(_CLASSES)
    weights = []
    for place in range(len(listed) if isinstance(listed, list) else 0):
        where = ("requests", "classes", place)
        declared = document.mapping(where)
        prompt, cached = whole(declared.get("prompt_tokens")), whole(declared.get("cached_prompt_tokens"))
        if prompt is not None and cached is not None and cached >= prompt >= 1:
            message = f"{cached} cached tokens of a prompt of {prompt}; expected fewer: one token at least is computed"
            yield document.problem((*where, "cached_prompt_tokens"), message)
        weights.append(max(whole(declared.get("weight")) or 0, 0))
    total = sum(weights) // (math.gcd(*weights) or 1)
    if total > MOST_WEIGHT:
        message = f"the weights add up to {total} in lowest terms; expected at most {MOST_WEIGHT}"
        yield document.problem(_CLASSES, message, "shorten them: 333, not 333333", on="key")


def _prefix_cache(document: Document) -> Iterator[Problem]:
    if document.get(f"{_CACHE}.scope") == "shared" and document.has(f"{_CACHE}.workers"):
        message = "one cache is shared by all; expected workers with scope: per_worker only"
        yield document.problem(f"{_CACHE}.workers", message, on="key")


def _hits_counted_twice(document: Document) -> Iterator[Problem]:
    if not document.has(_HIT_RATIO):
        return
    found = [path for path in (_CACHE, f"{_COLUMNS}.cached_prompt_tokens") if document.has(path)]
    listed = document.get(_CLASSES)
    for place in range(len(listed) if isinstance(listed, list) else 0):
        cached = whole(document.get(("requests", "classes", place, "cached_prompt_tokens")))
        if cached is not None and cached > 0:
            found.append(f"{_CLASSES}[{place}].cached_prompt_tokens")
            break
    for other in found:
        message = f"declared beside {other}; expected one of the two: hits would count twice"
        yield document.problem(_HIT_RATIO, message, on="key")
