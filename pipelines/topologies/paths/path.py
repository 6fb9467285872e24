"""What a path is evaluated on, and what its evaluation yields: arrays with one entry per row (a scenario's pool sizes, or a changed cohort)."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipelines.arithmetic import queues, service
from pipelines.arithmetic.numbers import Bools, Floats, Number, where
from pipelines.arithmetic.prefill import PrefillTimes
from pipelines.arithmetic.queues import Wait
from pipelines.arithmetic.steps import DecodeSteps
from pipelines.topologies.constants import Constants
from pipelines.topologies.requests import Computed, PathRequests
from pipelines.topologies.transfers import Transfers


@dataclass(frozen=True)
class Sizes:
    """Pool sizes and chunk budgets of the rows; those that a path does not have are not read."""

    mixed: Floats | None = None
    prefill: Floats | None = None
    decode: Floats | None = None
    chunk_tokens: Floats | None = None

    def at(self, places: NDArray[np.int64]) -> "Sizes":
        """The sizes of the rows at ``places``."""
        return Sizes(
            *(
                None if one is None else one[places]
                for one in (self.mixed, self.prefill, self.decode, self.chunk_tokens)
            )
        )


@dataclass(frozen=True)
class PathWork:
    """The requests of a path at ``rate`` (Λ, requests/s) and ``ca2`` under one bound; ``moved`` on separated paths only."""

    constants: Constants
    requests: PathRequests
    computed: Computed
    rate: Number
    ca2: Number
    moved: Transfers | None = None


@dataclass(frozen=True)
class Load:
    """Something that can be full: ``utilization`` per row, refused from ``ceiling`` on as ``kind``.

    ``room`` is set on a prefill lane: tokens that a step leaves for prompts; below 1 there is no figure. ``by_memory`` says where
    slots are what memory allows.
    """

    resource: str
    utilization: Floats
    ceiling: Number
    kind: str
    room: Floats | None = None
    by_memory: Bools | None = None


@dataclass(frozen=True)
class PathResult:
    """Waits, pace and loads of a path, all in seconds, one entry per row; ``execution``, ``movement`` per row (or one) and stratum or bucket.

    ``queue`` keeps its distribution in goodput, and is part of the waits. ``floor_ttft`` is per row (or one) and bucket.
    """

    requests: PathRequests
    first_token: str
    admission: Number
    prefill_wait: Floats
    transfer_wait: Floats
    decode_wait: Floats
    queue: Wait
    t: Floats
    batch: Floats
    stall: Floats
    execution_strata: Floats
    execution_buckets: Floats
    movement_strata: Floats
    movement_buckets: Floats
    floor_ttft: Floats
    floor_tpot: Number
    loads: tuple[Load, ...] = field(default=())


@dataclass(frozen=True)
class Decoding:
    """Decode of a path's requests on one worker: D1, D2, PD (section 3), R, a step's length, and the batch cap B."""

    d1: float
    d2: float
    pd: float
    steps: DecodeSteps
    sequence_tokens: float
    sequence_bytes: Number
    kv_memory: Number
    slots: Number

    @property
    def cap(self) -> Number:
        """B: the sequences that slots and memory allow."""
        if self.d1 <= 0:
            return self.slots
        return where(True, np.minimum(self.slots, np.divide(self.kv_memory, self.sequence_bytes)), 0.0)

    def seconds(self, t: Number) -> Number:
        """Seconds for which one request decodes: t·D1."""
        return t * self.d1

    def token_seconds(self, t: Number) -> Number:
        """Token-seconds of KV that one request holds while it decodes: t·(PD + D2/2)."""
        return t * (self.pd + self.d2 / 2)

    def slots_load(self, resource: str, batch: Floats, ceiling: Number) -> Load:
        """σ = b/B; 1/B where not one sequence fits."""
        cap = np.asarray(self.cap)
        return Load(
            resource,
            np.broadcast_to(where(cap < 1, 1 / cap, batch / cap), batch.shape),
            ceiling,
            "slots",
            by_memory=np.broadcast_to(cap < self.slots, batch.shape),
        )

    def waits(self, batch: Floats, t: Floats) -> Floats:
        """W_res + W_slot in seconds."""
        residual = queues.residual_step_s(batch, self.steps.seconds(np.maximum(1.0, batch)))
        return residual + queues.slot_wait_s(batch, self.cap, self.d1, self.d2, t)


def decoding(work: PathWork, pool: str, *, prefill_emits: bool) -> Decoding:
    """Decode of the path's requests on a worker of ``pool``."""
    known, moments = work.constants, work.requests.moments
    g = 1 if prefill_emits else 0
    d1, d2, pd = service.decode_steps(moments["o1"], moments["o2"], moments["po"], moments["p1"], g=g)
    assert isinstance(d1, float) and isinstance(d2, float) and isinstance(pd, float)
    resident, times = service.resident_tokens(d1, d2, pd), known.decode[pool]
    return Decoding(
        d1=d1,
        d2=d2,
        pd=pd,
        steps=DecodeSteps(times.t0, np.divide(1.0, times.r_d), times.gamma * resident, times.curve),
        sequence_tokens=resident,
        sequence_bytes=known.memory.resident(resident, 1.0),
        kv_memory=known.kv_memory[pool],
        slots=times.slots,
    )


@dataclass(frozen=True)
class WholePrompts:
    """Prefill of a path's prompts, each in one piece: S̄, E[S²], cs², E[p·S], S_max, and S of strata and buckets, in seconds."""

    mean: Number
    second: Number
    cs2: Number
    token_seconds: Number
    longest: Number
    of_strata: Floats
    of_buckets: Floats


def whole_prompts(work: PathWork, times: PrefillTimes) -> WholePrompts:
    """Moments of S: from the requests' where a rate is declared, over the strata where a curve is."""
    computed, moments = work.computed, work.computed.moments
    strata = work.requests.strata
    of_strata = np.atleast_1d(times.rows().prompt_s(computed.u, computed.z, computed.uu))
    longest = times.longest_s(moments["u_max"], moments["z_max"])
    if times.curve is None:
        symbols = {"d": times.d, "r_p": times.r_p, "q": times.q}
        mean = service.prefill_s(moments["u1"], moments["z1"], **symbols)
        second = service.prefill_second_moment(*(moments[name] for name in ("u1", "u2", "z1", "z2", "uz")), **symbols)
        held = service.prefill_token_seconds(*(moments[name] for name in ("p1", "pu", "pz")), **symbols)
        of_buckets = np.atleast_1d(times.rows().prompt_s(computed.bucket_u, computed.bucket_z, 0.0))
        return WholePrompts(mean, second, service.scv(mean, second), held, longest, of_strata, of_buckets)
    slope = times.slope(computed.u)
    mean = strata.mean(of_strata)
    second = strata.mean(of_strata**2 + slope**2 * computed.variance)
    held = strata.mean(strata.p * of_strata + slope * computed.covariance)
    return WholePrompts(mean, second, service.scv(mean, second), held, longest, of_strata, strata.per_bucket(of_strata))


def rows_of(values: Number, rows: int) -> Floats:
    """``values`` as one entry per row."""
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (rows,))
