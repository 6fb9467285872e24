"""The topologies as data: one YAML file each beside this module (docs/architecture.md). To add one, add its file."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from pipelines.frames.digits import significant
from pipelines.topologies.requests import PROMPTS

PART_KINDS = ("pools", "queues", "state_transfers", "failure_edges")
KINDS = ("whole_prompts", "chunks", "separated", "whole_prompts_or_chunks")
"""Kinds of path; the last leaves it to the scenario: chunks where it has a chunk budget."""


@dataclass(frozen=True)
class TopologyPath:
    """One way that requests take: which ``prompts`` (of :data:`PROMPTS`), over which ``kind`` of pools (of :data:`KINDS`)."""

    prompts: str
    kind: str


@dataclass(frozen=True)
class Topology:
    """A serving layout: its paths, and the parts that somebody has to operate. ``order`` is its place among the topologies."""

    name: str
    title: str
    order: int
    paths: tuple[TopologyPath, ...]
    pools: tuple[str, ...]
    queues: tuple[str, ...]
    state_transfers: tuple[str, ...]
    failure_edges: tuple[str, ...]

    def operating_parts(self, weights: Mapping[str, float]) -> float:
        """Weighted number of parts that somebody has to operate; ``weights`` has one entry per part kind."""
        return significant(sum(weights[kind] * len(getattr(self, kind)) for kind in PART_KINDS))

    @property
    def separates(self) -> bool:
        """Whether KV caches move between pools."""
        return any(path.kind == "separated" for path in self.paths)

    @property
    def routes(self) -> bool:
        """Whether prompts are routed by their length."""
        return len(self.paths) > 1


def read_topology(file: Path) -> Topology:
    """The topology that ``file`` declares; ValueError, naming the file, where it is none."""
    try:
        declared = yaml.safe_load(file.read_text(encoding="utf-8"))
        parts = declared["parts"]
        paths = tuple(TopologyPath(path["prompts"], path["kind"]) for path in declared["paths"])
        topology = Topology(
            name=declared["metadata"]["name"],
            title=declared["metadata"]["title"],
            order=declared["metadata"]["order"],
            paths=paths,
            **{kind: tuple(parts[kind]) for kind in PART_KINDS},
        )
    except (KeyError, TypeError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{file}: no topology: {error!r}") from None
    unknown = [path for path in paths if path.prompts not in PROMPTS or path.kind not in KINDS]
    if unknown:
        raise ValueError(f"{file}: no such path: {unknown[0]}; expected prompts {PROMPTS} and kinds {KINDS}")
    return topology


@cache
def topologies() -> dict[str, Topology]:
    """All declared topologies by name, in their order."""
    found = [read_topology(file) for file in sorted(Path(__file__).parent.glob("*.yaml"))]
    return {topology.name: topology for topology in sorted(found, key=lambda one: one.order)}


TOPOLOGIES: dict[str, Topology] = topologies()
