"""Objectives of prompt buckets: ``objectives.buckets``, a list of upper edges with the objectives of the prompts below."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from pipelines.declarations.documents import Document, whole
from pipelines.declarations.problems import Problem, Where
from pipelines.declarations.quantities import QUANTITIES, Readings, read_number

BUCKETS = "objectives.buckets"
EDGE = "prompt_tokens_below"
NAMES = ("ttft", "tpot", "e2e")
_QUANTITY = next(quantity for quantity in QUANTITIES if quantity.path == BUCKETS)


@dataclass(frozen=True)
class BucketObjectives:
    """One entry: where it stands, its edge in tokens (None where it is not well formed), its objectives in seconds by name."""

    where: Where
    edge: int | None
    seconds: dict[str, Fraction] = field(default_factory=dict)


def read_bucket_objectives(document: Document) -> tuple[list[BucketObjectives], list[Problem]]:
    """Every entry as far as it is well formed, and the problems of the numbers that are not."""
    entries: list[BucketObjectives] = []
    problems: list[Problem] = []
    listed = document.get(BUCKETS)
    for place, item in enumerate(listed if isinstance(listed, list) else []):
        where: Where = (*BUCKETS.split("."), place)
        seconds = {
            name: value
            for name in NAMES
            if (value := read_number(document, _QUANTITY, (*where, name), problems)) is not None
        }
        entries.append(BucketObjectives(where, whole(item.get(EDGE)) if isinstance(item, dict) else None, seconds))
    return entries, problems


def bucket_problems(document: Document, entries: list[BucketObjectives], readings: Readings) -> Iterator[Problem]:
    """Edges out of order, and objectives of one bucket that contradict each other."""
    yield from _edges(document, entries)
    everywhere = {name: readings[path].value for name in NAMES if (path := f"objectives.{name}") in readings}
    for entry in entries:
        at_work = everywhere | entry.seconds
        for name, above in (("tpot", "ttft"), ("ttft", "e2e")):
            own = [word for word in (name, above) if word in entry.seconds]
            if own and name in at_work and above in at_work and at_work[name] > at_work[above]:
                less, more = (_written(document, entry, word) for word in (name, above))
                message = f"{name} of this bucket, {less}, is more than its {above}, {more}; expected at most that"
                yield document.problem((*entry.where, own[0]), message)


def _written(document: Document, entry: BucketObjectives, name: str) -> str:
    own = name in entry.seconds
    return document.text((*entry.where, name)) if own else f"{document.text(f'objectives.{name}')} (objectives.{name})"


def _edges(document: Document, entries: list[BucketObjectives]) -> Iterator[Problem]:
    before: int | None = None
    for entry in entries:
        edge = entry.edge
        if edge is None:
            continue
        where = (*entry.where, EDGE)
        if edge < 2:
            yield document.problem(where, f"{edge} is no edge; expected whole tokens, 2 or more")
            continue
        if before is not None and edge == before:
            yield document.problem(where, f"{edge} is listed twice; expected each edge once, in ascending order")
        elif before is not None and edge < before:
            yield document.problem(where, f"{edge} comes after {before}; expected ascending order")
        before = edge


def bucket_rows(document: Document) -> Iterator[tuple[str, float]]:
    """Path and seconds of each objective, by edge and then by name, of a cohort with which nothing is wrong."""
    entries, _ = read_bucket_objectives(document)
    for entry in entries:
        for name in NAMES:
            if name in entry.seconds:
                yield f"{BUCKETS}.{entry.edge}.{name}", float(entry.seconds[name])
