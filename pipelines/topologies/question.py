"""One cohort, asked about any rows: the paths of a topology under one bound, for whatever pool sizes, rates and changed inputs."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipelines.arithmetic.numbers import Floats, Number
from pipelines.frames.inputs import Bound, InputTable
from pipelines.frames.varied import VariedInputs
from pipelines.frames.workload import ALL
from pipelines.topologies.constants import (
    Arrivals,
    Constants,
    Objectives,
    arrivals,
    constants,
    objectives,
)
from pipelines.topologies.declared import Topology, TopologyPath
from pipelines.topologies.paths import chunks, separated, whole_prompts
from pipelines.topologies.paths.path import PathResult, PathWork, Sizes
from pipelines.topologies.requests import Computed, PathRequests, path_requests
from pipelines.topologies.transfers import transfers

_LANES = {"whole_prompts": whole_prompts.evaluate, "chunks": chunks.evaluate, "separated": separated.evaluate}
"""The lane function of each kind of path."""


@dataclass(frozen=True)
class Layout:
    """Scenarios of one shape: a topology, its routing threshold where it has one, and whether its mixed pool works in chunks."""

    topology: Topology
    threshold: int | None
    chunked: bool

    def kind(self, path: TopologyPath) -> str:
        """The lane function of ``path`` in these scenarios."""
        if path.kind != "whole_prompts_or_chunks":
            return path.kind
        return "chunks" if self.chunked else "whole_prompts"


@dataclass(frozen=True)
class Workload:
    """What is known of the requests: the buckets, strata and output strata, and those of each path, looked up once."""

    buckets: pl.DataFrame
    strata: pl.DataFrame
    outputs: pl.DataFrame
    _paths: dict[tuple[str, int | None], PathRequests | None] = field(default_factory=dict)

    def of(self, prompts: str, threshold: int | None) -> PathRequests | None:
        """The requests of a path; None where it serves none."""
        key = (prompts, threshold if prompts != "all" else None)
        if key not in self._paths:
            self._paths[key] = path_requests(self.buckets, self.strata, self.outputs, *key)
        return self._paths[key]

    def thresholds(self, inputs: InputTable) -> list[int]:
        """The declared routing thresholds that leave both paths requests."""
        declared = [int(word) for word in inputs.words("topologies.routed.threshold_tokens")]
        return [one for one in declared if self.of("below_threshold", one) and self.of("from_threshold", one)]

    @cached_property
    def whole(self) -> dict[str, float]:
        """The row of all requests."""
        return self.buckets.filter(pl.col("bucket") == ALL).row(0, named=True)


@dataclass(frozen=True)
class Question:
    """A cohort under one bound. Where ``inputs`` vary, each row of an evaluation has its own."""

    inputs: InputTable
    workload: Workload
    bound: Bound
    _work: dict[tuple[str, int | None, bool], PathWork] = field(default_factory=dict)

    @cached_property
    def constants(self) -> Constants:
        """Everything declared that an evaluation reads."""
        return constants(self.inputs, self.bound)

    @cached_property
    def arrivals(self) -> Arrivals:
        """Λ, ca², K of all requests."""
        return arrivals(self.inputs, self.bound, self.workload.whole["rate_rps"], self.workload.whole["arrival_scv"])

    def objectives(self, requests: PathRequests) -> Objectives:
        """The objectives of a path's buckets."""
        return objectives(self.inputs, self.bound, [bucket.upper for bucket in requests.buckets])

    def at_rows(self, places: NDArray[np.int64]) -> "Question":
        """The same asked about other rows, by their places in those that the inputs vary over."""
        if not isinstance(self.inputs, VariedInputs):
            return self
        return Question(self.inputs.at(places), self.workload, self.bound)

    def paths(self, layout: Layout, sizes: Sizes, rate: Number | None = None) -> tuple[PathResult, ...]:
        """Every path of ``layout`` for all rows; ``rate`` (Λ of all requests) where the cohort does not have one of its own."""
        whole = self.arrivals.rate if rate is None else rate
        assert whole is not None
        with np.errstate(all="ignore"):  # rows at or above a ceiling have no meaning, and are refused
            return tuple(
                _LANES[layout.kind(path)](self._at(self.work(path, layout.threshold), whole), sizes)
                for path in layout.topology.paths
            )

    def _at(self, work: PathWork, whole: Number) -> PathWork:
        alike = np.ndim(whole) == 0 and not isinstance(self.inputs, VariedInputs)
        return replace(work, rate=whole * work.requests.part, alike=alike)

    def work(self, path: TopologyPath, threshold: int | None) -> PathWork:
        """The requests of ``path``, at no rate yet. Splitting a stream at random leaves ca²·g + 1 - g of its variation (Whitt 1983)."""
        key = (path.prompts, threshold if path.prompts != "all" else None, path.kind == "separated")
        if key not in self._work:
            requests, known = self.workload.of(path.prompts, threshold), self.constants
            assert requests is not None, f"no requests {path.prompts} {threshold}"
            computed = Computed.of(requests, known.alpha, known.beta)
            part = requests.part
            self._work[key] = PathWork(
                constants=known,
                requests=requests,
                computed=computed,
                rate=0.0,
                ca2=part * self.arrivals.ca2 + 1 - part if part < 1 else self.arrivals.ca2,
                moved=transfers(self.inputs, self.bound, known, requests, computed)
                if path.kind == "separated"
                else None,
            )
        return self._work[key]


def sizes_of(frame: pl.DataFrame) -> Sizes:
    """The knobs of a frame of scenarios as arrays."""

    def column(name: str) -> Floats:
        return frame[name].cast(pl.Float64).fill_null(np.nan).to_numpy()

    return Sizes(*(column(name) for name in ("workers_mixed", "workers_prefill", "workers_decode", "chunk_tokens")))
