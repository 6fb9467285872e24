"""A cohort document -> :class:`Cohort`, or everything that is wrong with it."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from pipelines.declarations.bucket_objectives import bucket_problems, bucket_rows, read_bucket_objectives
from pipelines.declarations.cache import CacheShape, shape_text
from pipelines.declarations.compared import chunk_budgets, compared, listed_tokens, separated
from pipelines.declarations.documents import Document, optional_text, read_documents
from pipelines.declarations.model import model_problems, model_shape
from pipelines.declarations.places import meant_cohort
from pipelines.declarations.problems import Problem, show
from pipelines.declarations.quantities import QUANTITIES, Quantity, Reading, Readings, read_quantities
from pipelines.declarations.relations import related_problems
from pipelines.declarations.request_relations import request_problems
from pipelines.declarations.requests import (
    RequestNumbers,
    bucket_edges,
    prefix_cache,
    read_request_numbers,
    request_classes,
    request_slice,
    trace_source,
)
from pipelines.declarations.schema import schema_problems, without_repeats
from pipelines.declarations.search_size import search_problems
from pipelines.declarations.service_curve import (
    SERVICE_CURVES,
    declared_service_curve,
    service_curve_problems,
    service_curve_text,
)
from pipelines.declarations.service_relations import service_problems
from pipelines.declarations.text import reason
from pipelines.declarations.transfer_curve import FILE as CURVE_FILE
from pipelines.declarations.transfer_curve import curve_problems, declared_curve
from pipelines.declarations.transfer_table import curve_text
from pipelines.declarations.typed import RULE_KINDS, Cohort, Input
from pipelines.declarations.worker_relations import worker_problems

EXPECTED = "a cohort (kind: Cohort)"
DEFAULT_NOTE = "not declared: default"
_READ_WITH = ("model.config", CURVE_FILE, *(f"{curve}.file" for curve in SERVICE_CURVES))
CHUNK_BUDGETS = "topologies.chunked.chunk_tokens"
OF_DESCRIPTORS = ("network.seconds_per_descriptor", "network.regions_per_block")
"""Mean nothing without a bandwidth: a measured curve includes them."""


def read_cohort(path: str | os.PathLike[str]) -> tuple[Cohort | None, Document | None, list[Problem]]:
    """The cohort at ``path`` (its file or directory) with its document, or None and the problems."""
    file = Path(path)
    if os.path.isdir(file):
        file = file / "cohort.yaml"
    documents, problems = read_documents(file, EXPECTED)
    if not documents:
        hint = None if os.path.exists(file) else meant_cohort(Path(path))
        return None, None, [replace(problem, hint=problem.hint or hint) for problem in problems]
    document = documents[0]
    for extra in documents[1:]:
        problems.append(extra.problem((), "a second document; expected one cohort in a file"))
    readings, numbers = read_quantities(document)
    of_requests, more_numbers = read_request_numbers(document)
    files = list(_file_problems(document, file.parent))
    meaning = [*numbers, *more_numbers, *files, *request_problems(document, of_requests)]
    meaning += _related(document, readings)
    meaning += _read_from_files(document, readings, file.parent, {problem.path for problem in files})
    structure = schema_problems(document, "cohort.v1")
    if document.get("kind") in RULE_KINDS:  # a rules file in place of a cohort is one mistake, not fifty
        structure, meaning = [problem for problem in structure if problem.path == "kind"], []
    problems += without_repeats(document, meaning, structure)
    if problems:
        return None, document, problems
    return _cohort(document, readings, of_requests, file), document, []


def _related(document: Document, readings: Readings) -> Iterator[Problem]:
    """What must hold between values, on whatever is well formed."""
    buckets, numbers = read_bucket_objectives(document)
    yield from numbers
    yield from bucket_problems(document, buckets, readings)
    yield from related_problems(document, readings)
    yield from worker_problems(document, readings)
    yield from service_problems(document, readings)
    yield from search_problems(document, readings)


def _read_from_files(
    document: Document, readings: Readings, directory: Path, unreadable: set[str]
) -> Iterator[Problem]:
    """What is wrong with what the files of a cohort hold, where they can be read."""
    yield from model_problems(document, directory, readable="model.config" not in unreadable)
    if CURVE_FILE not in unreadable:
        yield from curve_problems(document, readings, directory)
    for curve in SERVICE_CURVES:
        if f"{curve}.file" not in unreadable:
            yield from service_curve_problems(document, readings, curve, directory)


def _file_problems(document: Document, directory: Path) -> Iterator[Problem]:
    """Files that a cohort names and that cannot be read."""
    for path, what in (
        ("requests.trace.file", "a request log"),
        ("requests.trace.lengths", "a data set of lengths"),
        ("model.config", "a model's config.json"),
        (CURVE_FILE, "a table of measured transfers"),
        *((f"{curve}.file", "a table of measured times") for curve in SERVICE_CURVES),
    ):
        name = document.get(path)
        if isinstance(name, str) and name.strip():
            yield from _unreadable(document, path, name, directory, f"expected {what}, relative to {directory}")


def _unreadable(document: Document, path: str, name: str, directory: Path, expected: str) -> Iterator[Problem]:
    try:
        mode = os.stat(directory / name).st_mode
        if stat.S_ISDIR(mode):
            yield document.problem(path, f"{show(name)} is a directory; {expected}")
        elif not stat.S_ISREG(mode):
            yield document.problem(path, f"{show(name)} is not a regular file; {expected}")
        elif not os.access(directory / name, os.R_OK):
            yield document.problem(path, f"{show(name)} cannot be read: Permission denied; {expected}")
    except FileNotFoundError:
        yield document.problem(path, f"{show(name)} does not exist; {expected}")
    except (OSError, ValueError) as error:
        yield document.problem(path, f"{show(name)} cannot be read: {reason(error)}; {expected}")


def _cohort(document: Document, readings: Readings, of_requests: RequestNumbers, file: Path) -> Cohort:
    directory = file.parent
    return Cohort(
        name=str(document.get("metadata.name")),
        title=str(document.get("metadata.title")),
        description=optional_text(document.mapping("metadata"), "description"),
        model_name=str(document.get("model.name")),
        directory=directory,
        trace=trace_source(document, of_requests, directory),
        classes=request_classes(document),
        slice=request_slice(document, of_requests),
        prefix_cache=prefix_cache(document),
        bucket_edges_tokens=bucket_edges(document),
        inputs=tuple(_inputs(document, readings, directory)),
        file=file,
        read_with=tuple(
            dict.fromkeys(directory / str(document.get(path)) for path in _READ_WITH if document.has(path))
        ),
    )


def _inputs(document: Document, readings: Readings, directory: Path) -> Iterator[Input]:
    hidden = {
        "network": separated(document) is None,
        "requests": not document.has("requests.arrivals"),
    }
    affine_only = () if document.has("network.effective_bandwidth") else OF_DESCRIPTORS
    for quantity in QUANTITIES:
        if hidden.get(quantity.block) or quantity.path in affine_only:
            continue
        if quantity.form in ("knob", "shape", "curve"):
            value = _composed(document, quantity, directory)
            if value:
                yield _input(quantity, value, _said(document, quantity))
        elif quantity.form == "buckets":
            said = _said(document, quantity)
            yield from (_input(replace(quantity, path=path), s, said) for path, s in bucket_rows(document))
        elif document.has(quantity.place):
            yield _declared(document, quantity, readings)
        elif quantity.default is not None:
            yield _input(quantity, quantity.default, {"note": DEFAULT_NOTE})


def _declared(document: Document, quantity: Quantity, readings: Readings) -> Input:
    said = _said(document, quantity)
    if quantity.unit == "text":
        return _input(quantity, str(document.get(quantity.path)), said)
    reading = readings[quantity.path]
    return _input(quantity, _si(quantity, reading.value), said, reading)


def _said(document: Document, quantity: Quantity) -> dict[str, object]:
    """Where the provenance of an input is written."""
    about = {
        "quantity": quantity.place,
        "curve": quantity.place,
        "block": quantity.block,
        "shape": quantity.block,
        "buckets": quantity.block,
    }.get(quantity.form)
    if quantity.path == CHUNK_BUDGETS and not document.has(CHUNK_BUDGETS):
        return {"note": DEFAULT_NOTE}
    return document.mapping(about) if about else {}


def _composed(document: Document, quantity: Quantity, directory: Path) -> str:
    """The text of an input that several keys or a file make; none where nothing is declared."""
    if quantity.form == "knob":
        return _knob(document, quantity.path)
    if quantity.form == "curve":
        return _curve(document, quantity.path, directory)
    shape: CacheShape | None = None
    if document.has("model.config") or document.has("model.cache"):
        shape = model_shape(document, directory)
    return shape_text(shape) if shape else ""


def _input(
    quantity: Quantity, value: float | int | str, said: dict[str, object], reading: Reading | None = None
) -> Input:
    low = None if reading is None or reading.low is None else _si(quantity, reading.low)
    high = None if reading is None or reading.high is None else _si(quantity, reading.high)
    hurting = {"low": low, "high": high, None: None}[quantity.hurts]
    return Input(
        path=quantity.path,
        unit=quantity.unit,
        value=value,
        low=low,
        high=high,
        conservative=value if hurting is None else hurting,
        provenance=optional_text(said, "provenance") or "supplied",
        source=optional_text(said, "source"),
        note=optional_text(said, "note"),
    )


def _si(quantity: Quantity, figure: Fraction) -> float | int:
    return int(figure) if quantity.unit == "count" else float(figure)


def _curve(document: Document, path: str, directory: Path) -> str:
    if path in SERVICE_CURVES:
        measured = declared_service_curve(document, path, directory)
        return service_curve_text(measured) if measured else ""
    curve = declared_curve(document, directory)
    return curve_text(curve) if curve else ""


def _knob(document: Document, path: str) -> str:
    if path == "topologies.compared":
        return " ".join(compared(document))
    counts = chunk_budgets(document) if path == CHUNK_BUDGETS else listed_tokens(document, path)
    return " ".join(str(count) for count in counts)
