"""Freezing a cohort: its requests, the inputs table, and the fingerprint that every row computed from it carries."""

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import polars as pl

from pipelines.declarations import Cohort, DeclarationProblems, Input, Problem, Rules
from pipelines.declarations.documents import read_documents
from pipelines.declarations.rules import bucket_problems
from pipelines.frames.canonical import digest
from pipelines.frames.frozen import FrozenCohort
from pipelines.frames.inputs import Inputs, inputs_json
from pipelines.traces.edges import bucket_edges, empty_buckets
from pipelines.traces.fitting import Misfit, declared_in_vain
from pipelines.traces.log import LogOptions, read_log
from pipelines.traces.requests import CohortRequests, CutError, of_classes, of_log, requests_sha256
from pipelines.traces.workload import bucket_labels, duration_s, rounded_ratio

FEWEST_REQUESTS = 3
"""Two gaps are the fewest that have a variation, which every wait is computed from."""


def read_cohort_requests(cohort: Cohort, *, shown_as: str | None = None) -> CohortRequests:
    """The requests of ``cohort``; DeclarationProblems where its log is faulty, does not have what is declared, or is too short."""
    found = _read(cohort, shown_as)
    _check_thresholds(cohort, found.requests)
    return found


def _check_thresholds(cohort: Cohort, requests: pl.DataFrame) -> None:
    """DeclarationProblems where no routing threshold leaves requests on both paths."""
    prompts = requests["prompt_tokens"].to_numpy()
    shortest, longest = int(prompts.min()), int(prompts.max())
    edges = cohort.threshold_tokens
    if not edges or any(shortest < edge <= longest for edge in edges):
        return
    lengths = f"{shortest} tokens" if shortest == longest else f"{shortest} to {longest} tokens"
    found = f"prompts are of {lengths}: no threshold leaves some below and some from it on"
    hint = "leave routed out" if shortest == longest else None
    raise _placed(cohort, [Misfit("topologies.routed.threshold_tokens", f"{found}; expected one within them", hint)])


def unknown_buckets(
    directory: Path, own: Path | None, rules: Rules | None, cohort: Cohort, found: CohortRequests
) -> list[Problem]:
    """The buckets that gates on ``cohort`` name and its requests do not have, each where it is written."""
    if rules is None or not any(gate.buckets for gate in rules.gates if gate.concerns(cohort.name)):
        return []
    edges = bucket_edges(found.requests, cohort.bucket_edges_tokens, cohort.forced_edges_tokens)
    prompts = found.requests["prompt_tokens"]
    labels = [
        label
        for label, (low, high) in zip(bucket_labels(edges), pairwise([1, *edges, None]), strict=True)
        if ((prompts >= low) & (True if high is None else prompts < high)).any()
    ]
    return list(bucket_problems(directory, own, cohort.name, labels))


def _read(cohort: Cohort, shown_as: str | None) -> CohortRequests:
    if cohort.trace is None:
        assert cohort.classes is not None
        return of_classes(cohort.classes)
    file = cohort.trace.file
    log = read_log(file, LogOptions.of(cohort.trace), shown_as=shown_as)
    name = shown_as or str(file)
    in_vain = list(declared_in_vain(cohort, cohort.trace, log))
    if in_vain:
        raise _placed(cohort, in_vain)
    try:
        requests = of_log(log, cohort)
    except CutError as cut:
        raise _placed(cohort, [cut.misfit]) from None
    if cohort.kind == "open":
        _check_arrivals(requests.requests, name)
    return requests


def _placed(cohort: Cohort, misfits: Iterable[Misfit]) -> DeclarationProblems:
    """Misfits as problems of the cohort's file, each where it is declared."""
    documents, _ = read_documents(cohort.file, "a cohort") if cohort.file is not None else ([], [])
    if not documents:
        file = str(cohort.file or cohort.directory)
        return DeclarationProblems(Problem(file, 1, 1, one.path, one.message, one.hint) for one in misfits)
    return DeclarationProblems(documents[0].problem(one.path, one.message, one.hint, on="key") for one in misfits)


def _check_arrivals(requests: pl.DataFrame, name: str) -> None:
    """DeclarationProblems where there are too few arrivals, or all at one time, so that they have no rate or no variation."""
    found = None
    if requests.height < FEWEST_REQUESTS:
        count = "a single request has" if requests.height == 1 else f"{requests.height} requests have"
        found = f"{count} no variation of their arrivals; expected {FEWEST_REQUESTS} requests or more, in the log and in its slice"
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
    edges = list(bucket_edges(found.requests, cohort.bucket_edges_tokens, cohort.forced_edges_tokens))
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
