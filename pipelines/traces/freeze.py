"""Freezing a cohort: its requests, the inputs table, and the fingerprint that every row computed from it carries."""

import json
from collections.abc import Iterator

import polars as pl

from pipelines.declarations import Cohort, DeclarationProblems, Input, Problem
from pipelines.frames.canonical import digest
from pipelines.frames.frozen import FrozenCohort
from pipelines.frames.inputs import Inputs, inputs_json
from pipelines.traces.edges import bucket_edges, empty_buckets
from pipelines.traces.log import Log, LogOptions, read_log
from pipelines.traces.requests import CohortRequests, CutProblem, of_classes, of_log, requests_sha256
from pipelines.traces.workload import duration_s, rounded_ratio

FEWEST_REQUESTS = 3
"""Two gaps are the fewest that have a variation, which every wait is computed from."""


def read_cohort_requests(cohort: Cohort, *, shown_as: str | None = None) -> CohortRequests:
    """The requests of ``cohort``; DeclarationProblems where its log is faulty, does not have what is declared, or is too short."""
    if cohort.trace is None:
        assert cohort.classes is not None
        return of_classes(cohort.classes)
    file = cohort.trace.file
    log = read_log(file, LogOptions.of(cohort.trace), shown_as=shown_as)
    name = shown_as or str(file)
    problems = [Problem(name, 1, 1, "", found, hint) for found, hint in _not_in_the_log(cohort, log)]
    if problems:
        raise DeclarationProblems(problems)
    try:
        requests = of_log(log, cohort)
    except CutProblem as cut:
        raise DeclarationProblems(
            [Problem(str(cohort.directory / "cohort.yaml"), 1, 1, cut.path, cut.message, None)]
        ) from None
    if cohort.kind == "open":
        _check_arrivals(requests.requests, name)
    return requests


def _not_in_the_log(cohort: Cohort, log: Log) -> Iterator[tuple[str, str | None]]:
    """What a cohort declares of a log that this one does not have, and a hint: an option would be accepted and ignored."""
    trace = cohort.trace
    assert trace is not None
    if cohort.kind == "open" and not log.is_timed:
        yield (
            "a log without arrivals; expected timestamps, or requests.arrivals in the cohort: a rate or a concurrency",
            None,
        )
    if cohort.prefix_cache is not None and log.block_tokens is None:
        hint = "declare service.prefill.prefix_hit_ratio instead"
        yield f"no block hashes in a log of the format {log.format}; expected them, for requests.prefix_cache", hint
    if "cached_prompt_tokens" in log.rows.columns and _hit_ratio_declared(cohort):
        twice = "hits would count twice"
        yield (
            f"cached prompt tokens in the log beside service.prefill.prefix_hit_ratio; expected one of them: {twice}",
            None,
        )
    turns = trace.turn_time_ns is not None or trace.turn_time_per_output_token_ns is not None
    if turns and "place_turns" not in {step for step, _ in log.steps}:
        yield "no delays between turns in the log; expected some, for requests.trace.turn_time", "leave turn_time out"
    if trace.lengths is not None and "expand" not in {step for step, _ in log.steps}:
        yield "a log of requests, not of rates; expected no requests.trace.lengths beside it", "leave lengths out"
    for field in cohort.slice.where:
        if field not in log.rows.columns:
            yield f"no {field} in a log of the format {log.format}; expected it, for requests.slice.where", None


def _hit_ratio_declared(cohort: Cohort) -> bool:
    return any(row.path == "service.prefill.prefix_hit_ratio" and row.value for row in cohort.inputs)


def _check_arrivals(requests: pl.DataFrame, name: str) -> None:
    """DeclarationProblems where there are too few arrivals, or all at one time, so that they have no rate or no variation."""
    found = None
    if requests.height < FEWEST_REQUESTS:
        count = "a single request has" if requests.height == 1 else f"{requests.height} requests have"
        found = f"{count} arrivals without variation; expected {FEWEST_REQUESTS} requests or more"
    elif requests["arrival_ns"][-1] == 0:
        found = f"{requests.height} requests that all arrive at one instant; expected different times, so that there is a rate"
    if found:
        raise DeclarationProblems([Problem(name, 1, 1, "", found, None)])


def inputs_frame(cohort: Cohort) -> pl.DataFrame:
    """The cohort's declared values as an :class:`Inputs` frame."""
    schema = {name: column.dtype.type for name, column in Inputs.to_schema().columns.items()}
    return Inputs.validate(pl.DataFrame([_row(declared) for declared in cohort.inputs], schema=schema))


def _row(declared: Input) -> dict[str, object]:
    row: dict[str, object] = {
        name: getattr(declared, name) for name in ("path", "unit", "low", "high", "provenance", "source", "note")
    }
    if isinstance(declared.value, str):
        return row | {"value": None, "conservative": None, "text": declared.value}
    return row | {"value": float(declared.value), "conservative": float(declared.conservative), "text": None}


def frozen_cohort(cohort: Cohort, found: CohortRequests, inputs: pl.DataFrame) -> pl.DataFrame:
    """What was read, under which fingerprint: a :class:`FrozenCohort` frame of one row.

    The fingerprint is the SHA-256 of the canonical form of inputs, digest of the requests, and bucket edges: the same
    requests in another file, or keys in another order, give the same one.
    """
    requests = requests_sha256(found.requests)
    edges = list(bucket_edges(found.requests, cohort.bucket_edges_tokens))
    said = cohort.trace or cohort.classes
    assert said is not None
    warnings = [*found.warnings, *empty_buckets(found.requests, tuple(edges))]
    row = {
        "name": cohort.name,
        "title": cohort.title,
        "model_name": cohort.model_name,
        "fingerprint": digest(
            {"inputs": inputs_json(inputs), "requests_sha256": requests, "bucket_edges_tokens": edges}
        ),
        "requests_sha256": requests,
        "format": found.format,
        "provenance": said.provenance,
        "source": said.source,
        "note": said.note,
        "kind": cohort.kind,
        "requests": found.requests.height,
        "duration_s": duration_s(found.requests) if cohort.kind == "open" else None,
        "rows_read": found.rows_read,
        "rows_dropped": sum(found.dropped.values()),
        "dropped": json.dumps([{"kind": kind, "rows": rows} for kind, rows in found.dropped.items()]),
        "steps": json.dumps([vars(step) for step in found.steps]),
        "prefix_cache": _prefix_cache(cohort, found),
        "warnings": json.dumps(warnings),
        "bucket_edges_tokens": " ".join(str(edge) for edge in edges),
    }
    schema = {name: column.dtype.type for name, column in FrozenCohort.to_schema().columns.items()}
    return FrozenCohort.validate(pl.DataFrame([row], schema=schema))


def _prefix_cache(cohort: Cohort, found: CohortRequests) -> str | None:
    cache = cohort.prefix_cache
    if cache is None:
        return None
    return json.dumps(
        {
            "capacity_tokens": cache.capacity_tokens,
            "scope": cache.scope,
            "workers": cache.workers,
            "block_tokens": found.block_tokens,
            "hit_ratio": hit_ratio(found.requests),
        }
    )


def hit_ratio(requests: pl.DataFrame) -> float:
    """Share of all prompt tokens that the prefix cache holds."""
    cached, prompt = (int(requests[name].cast(pl.Int64).sum()) for name in ("cached_prompt_tokens", "prompt_tokens"))
    return rounded_ratio(cached, prompt)
