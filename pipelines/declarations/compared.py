"""The topologies that a cohort compares, with those that it need not name, and what there is of each."""

from collections.abc import Iterator

from pipelines.declarations.documents import Document, whole
from pipelines.declarations.typed import TOPOLOGIES, Topology

SEPARATED: tuple[Topology, ...] = ("disaggregated", "routed")
"""Topologies with separate pools. They are never compared alone: the others of as many GPUs are their baselines."""
BASELINES: tuple[Topology, ...] = ("aggregated", "chunked")
DEFAULT_BUDGETS = (256, 512, 1024, 2048)
"""Chunk budgets, in tokens, of a chunked topology that is compared without being declared."""


def separated(document: Document) -> Topology | None:
    """The first declared topology with separate pools; None where there is none."""
    return next((name for name in SEPARATED if document.has(f"topologies.{name}")), None)


def compared(document: Document) -> tuple[Topology, ...]:
    """The compared topologies in their order."""
    added = BASELINES if separated(document) else ()
    return tuple(name for name in TOPOLOGIES if name in added or document.has(f"topologies.{name}"))


def chunk_budgets(document: Document) -> tuple[int, ...]:
    """The chunk budgets in tokens: those declared, else the default where chunked is compared."""
    if document.has("topologies.chunked"):
        return listed_tokens(document, "topologies.chunked.chunk_tokens")
    return DEFAULT_BUDGETS if "chunked" in compared(document) else ()


def listed_tokens(document: Document, path: str) -> tuple[int, ...]:
    """The whole numbers of the list at ``path``; none where there is no list."""
    return tuple(_whole(document.get(path)))


def _whole(listed: object) -> Iterator[int]:
    for item in listed if isinstance(listed, list) else []:
        count = whole(item)
        if count is not None:
            yield count
