"""Freezing a cohort: the inputs table, and the fingerprint that every row computed from it carries."""

import polars as pl

from pipelines.declarations import Cohort, DeclarationProblems, Input, Problem
from pipelines.frames.canonical import digest
from pipelines.frames.frozen import FrozenCohort
from pipelines.frames.inputs import Inputs, inputs_json
from pipelines.traces.log import RequestLog, read_requests, requests_sha256
from pipelines.traces.workload import duration_s

FEWEST_REQUESTS = 3
"""Two gaps are the fewest that have a variation, which every wait is computed from."""


def read_cohort_requests(cohort: Cohort, *, shown_as: str | None = None) -> RequestLog:
    """The request log of ``cohort``; DeclarationProblems where it is faulty, or too short to be planned for."""
    file = cohort.trace.file
    log = read_requests(file, cohort.trace.format, shown_as=shown_as)
    if log.requests.height < FEWEST_REQUESTS:
        found = f"{log.requests.height} requests, whose arrivals have no variation; expected {FEWEST_REQUESTS} or more"
        raise DeclarationProblems([Problem(shown_as or str(file), 1, 1, "", found, None)])
    return log


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


def frozen_cohort(cohort: Cohort, log: RequestLog, inputs: pl.DataFrame) -> pl.DataFrame:
    """What was read, under which fingerprint: a :class:`FrozenCohort` frame of one row.

    The fingerprint is the SHA-256 of the canonical form of inputs, digest of the requests, and bucket edges: the same
    requests in another file, or keys in another order, give the same one.
    """
    requests = requests_sha256(log.requests)
    edges = list(cohort.bucket_edges_tokens)
    row = {
        "name": cohort.name,
        "title": cohort.title,
        "model_name": cohort.model_name,
        "fingerprint": digest(
            {"inputs": inputs_json(inputs), "requests_sha256": requests, "bucket_edges_tokens": edges}
        ),
        "requests_sha256": requests,
        "format": log.format,
        "provenance": cohort.trace.provenance,
        "source": cohort.trace.source,
        "note": cohort.trace.note,
        "kind": cohort.kind,
        "requests": log.requests.height,
        "duration_s": duration_s(log.requests),
        "dropped": "[]",
        "steps": "[]",
        "prefix_cache": None,
        "warnings": "[]",
        "rows_read": log.rows_read,
        "rows_dropped": log.rows_dropped,
        "bucket_edges_tokens": " ".join(str(edge) for edge in edges),
    }
    schema = {name: column.dtype.type for name, column in FrozenCohort.to_schema().columns.items()}
    return FrozenCohort.validate(pl.DataFrame([row], schema=schema))
