"""What a path is evaluated on, and what its evaluation yields: arrays with one entry per row, a scenario's sizes or a changed cohort."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipelines.arithmetic import queues, service
from pipelines.arithmetic.batches import Batch, batch_of
from pipelines.arithmetic.numbers import Bools, Floats, Number, column, where
from pipelines.arithmetic.prefill import PrefillTimes
from pipelines.arithmetic.queues import Dispatch, Wait
from pipelines.arithmetic.stalls import long_step_s
from pipelines.arithmetic.steps import DecodeSteps
from pipelines.topologies.constants import Constants
from pipelines.topologies.requests import Computed, PathRequests
from pipelines.topologies.transfers import Transfers

SHORTEST_FIRST = "shortest_first"

VARIABLE_ARRIVALS, EVEN_ARRIVALS = 2.0, 0.5
LONG_RUNS, LONG_RUNS_ALONE = 0.25, 0.1
FULL_LANE = 0.6
SPREAD_PROMPTS = 2.0
FULL_SLOTS = 0.7
"""From where on rows are for screening: docs/arithmetic.md, section 7, after docs/accuracy.md."""


@dataclass(frozen=True)
class Sizes:
    """Pool sizes and chunk budgets of the rows; those that a path does not have are not read."""

    mixed: Floats | None = None
    prefill: Floats | None = None
    decode: Floats | None = None
    chunk_tokens: Floats | None = None

    def at(self, places: NDArray[np.int64]) -> "Sizes":
        """The sizes of the rows at ``places``."""
        own = (self.mixed, self.prefill, self.decode, self.chunk_tokens)
        return Sizes(*(None if one is None else one[places] for one in own))


@dataclass(frozen=True)
class PathWork:
    """The requests of a path at ``rate`` (Λ, requests/s) and ``ca2`` under one bound; ``moved`` on separated paths only.

    ``alike`` says that rows differ in their sizes only: what depends on one of them is then worked out once per size.
    """

    constants: Constants
    requests: PathRequests
    computed: Computed
    rate: Number
    ca2: Number
    moved: Transfers | None = None
    alike: bool = False

    def dispatched(self, workers: Floats) -> Dispatch:
        """How the requests reach a pool of ``workers``."""
        return queues.dispatched(self.constants.dispatch, workers, self.ca2)

    @property
    def log_n(self) -> float:
        """Of N requests ln N: a gap that is exceeded more rarely than once in N requests is not among those looked for."""
        return float(np.log(max(2, self.requests.count)))


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
class PrefillWait:
    """The wait before prefill: the queue's part, which keeps its distribution, other parts that follow its order, and the rest, per row.

    ``order`` is ω of the strata, None for fifo.
    """

    queue: Wait
    ordered_s: Floats
    rest_s: Floats
    order: Floats | None = None

    def of_strata(self) -> Floats:
        """Wait of each stratum, rows x strata or rows x 1."""
        ordered = np.asarray(column(self.queue.mean_s + self.ordered_s))
        return (ordered if self.order is None else ordered * self.order) + column(self.rest_s)

    def queue_of_strata(self) -> Floats:
        """The queue's part of it."""
        queue = np.asarray(column(np.asarray(self.queue.mean_s)))
        return queue if self.order is None else queue * self.order

    def kept(self) -> Wait:
        """The queue with its distribution, rows x strata or rows x 1."""
        return Wait(np.asarray(column(np.asarray(self.queue.probability))), self.queue_of_strata())

    def of_buckets(self, requests: PathRequests) -> Floats:
        """Mean wait of each bucket, rows x buckets or rows x 1."""
        waits = self.of_strata()
        return waits if self.order is None else requests.strata.per_bucket(waits)

    def mean(self, requests: PathRequests) -> Floats:
        """Mean wait over all requests of the path."""
        factor = 1.0 if self.order is None else requests.strata.mean(self.order)
        mean: Floats = factor * (self.queue.mean_s + self.ordered_s) + self.rest_s
        return mean


@dataclass(frozen=True)
class Generation:
    """How the time after the first token varies: D·t(1), and more with mean w + D·(t - t(1)).

    Variance: ``wait_scv``·w², ``per_step`` (s²) for each of D steps, and what the changing number of sequences adds:
    ``others`` (s²/step²) times D²·2·(X - 1 + e^(-X))/X² with X = ``turnover``·D. A TPOT of ``surely_s`` is met by all.
    """

    t: Floats
    alone: Number
    wait: Floats
    wait_scv: Number
    per_step: Number
    others: Number
    turnover: Number
    surely_s: Number = np.inf
    places: NDArray[np.int64] | None = None
    """Of each row of the path, its place among these rows; None where they are the same."""


@dataclass(frozen=True)
class PathResult:
    """Waits, pace, loads of a path, all in seconds, one entry per row; ``execution``, ``movement`` per row (or one) and stratum or bucket.

    ``kept`` is the queue that keeps its distribution in goodput, rows x strata (or 1), with its probability; it is part of the waits.
    ``after_wait`` is the decode wait of a request of two tokens or more, ``first_step`` the first decode step, ``spread`` δ of the strata.
    ``floor_ttft`` is per row (or one) and bucket. ``screening`` says by name of a regime which rows are in it.
    """

    requests: PathRequests
    first_token: str
    admission: Number
    prefill_wait: PrefillWait
    transfer_wait: Floats
    after_wait: Floats
    first_step: Floats
    t: Floats
    batch: Floats
    stall: Floats
    execution_strata: Floats
    execution_buckets: Floats
    movement_strata: Floats
    movement_buckets: Floats
    spread: Floats
    kept: Wait
    generation: Generation
    floor_ttft: Floats
    floor_tpot: Number
    loads: tuple[Load, ...] = field(default=())
    screening: dict[str, Bools] = field(default_factory=dict)


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
    longest_context_s: Number

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

    def slot_wait(self, batch: Floats, sharing: Number, t: Floats) -> Number:
        """W_slot in seconds."""
        return queues.slot_wait_s(batch, self.cap, sharing, self.d1, self.d2, t)

    def batch(self, rho_prefill: Number, x: Number) -> Batch:
        """How the number of sequences on a worker varies."""
        return batch_of(self.steps, rho_prefill, x)

    def most(self, batch: Batch, log_n: float) -> Floats:
        """k_N: at least 1, at most what slots and memory allow; 1 where nothing is decoded."""
        if self.d1 <= 0:
            return np.ones(1)
        most: Floats = np.clip(batch.most(log_n), 1.0, np.maximum(1.0, self.cap))
        return most

    def long_step(self, usual: Floats, most: Floats, log_n: float) -> Floats:
        """θ_N: a decode step that is exceeded about once in N."""
        return long_step_s(self.steps, usual, most, self.longest_context_s, log_n)


def decoding(work: PathWork, pool: str, *, prefill_emits: bool) -> Decoding:
    """Decode of the path's requests on a worker of ``pool``."""
    known, moments = work.constants, work.requests.moments
    g = 1 if prefill_emits else 0
    d1, d2, pd = service.decode_steps(moments["o1"], moments["o2"], moments["po"], moments["p1"], g=g)
    assert isinstance(d1, float)
    assert isinstance(d2, float)
    assert isinstance(pd, float)
    resident, times = service.resident_tokens(d1, d2, pd), known.decode[pool]
    steps = DecodeSteps(times.t0, np.divide(1.0, times.r_d), times.gamma * resident, times.curve)
    return Decoding(
        d1=d1,
        d2=d2,
        pd=pd,
        steps=steps,
        sequence_tokens=resident,
        sequence_bytes=known.memory.resident(resident, 1.0),
        kv_memory=known.kv_memory[pool],
        slots=times.slots,
        longest_context_s=steps.c + times.gamma * (moments["p_max"] + moments["o_max"] - resident),
    )


@dataclass(frozen=True)
class WholePrompts:
    """Prefill of a path's prompts, each in one piece: S̄, E[S²], cs², E[p·S], S_max, S of strata and buckets, and δ, in seconds."""

    mean: Number
    second: Number
    cs2: Number
    token_seconds: Number
    longest: Number
    of_strata: Floats
    of_buckets: Floats
    slope: Floats
    """Seconds per uncached token, at each stratum."""


def whole_prompts(work: PathWork, times: PrefillTimes) -> WholePrompts:
    """Moments of S: from the requests' where a rate is declared, over the strata where a curve is."""
    computed, moments = work.computed, work.computed.moments
    strata = work.requests.strata
    of_strata = np.atleast_1d(times.rows().prompt_s(computed.u, computed.z, computed.uu))
    longest = times.longest_s(moments["u_max"], moments["z_max"])
    slope = np.atleast_1d(np.asarray(times.rows().slope(computed.u)))
    if times.curve is None:
        symbols = {"d": times.d, "r_p": times.r_p, "q": times.q}
        mean = service.prefill_s(moments["u1"], moments["z1"], **symbols)
        second = service.prefill_second_moment(*(moments[name] for name in ("u1", "u2", "z1", "z2", "uz")), **symbols)
        held = service.prefill_token_seconds(*(moments[name] for name in ("p1", "pu", "pz")), **symbols)
        of_buckets = np.atleast_1d(times.rows().prompt_s(computed.bucket_u, computed.bucket_z, 0.0))
        return WholePrompts(mean, second, service.scv(mean, second), held, longest, of_strata, of_buckets, slope)
    mean = strata.mean(of_strata)
    second = strata.mean(of_strata**2 + slope**2 * computed.variance)
    held = strata.mean(strata.p * of_strata + slope * computed.covariance)
    of_buckets = strata.per_bucket(of_strata)
    return WholePrompts(mean, second, service.scv(mean, second), held, longest, of_strata, of_buckets, slope)


def order_of(work: PathWork, rate_per_worker: Floats, seconds: Floats) -> Floats | None:
    """ω of the strata where the shortest prompt goes first, from the ``seconds`` that a prompt of each takes; None for fifo."""
    if work.constants.discipline != SHORTEST_FIRST:
        return None
    uncached = np.atleast_2d(work.computed.u)[0]  # all rows have one order: a hit ratio scales all alike
    ranks = np.argsort(uncached, kind="stable")
    loads = column(rate_per_worker) * np.atleast_2d(work.requests.strata.share * seconds)
    factors = np.empty_like(loads)
    factors[:, ranks] = queues.order_factors(np.cumsum(loads[:, ranks], axis=1))
    return factors


def screened(work: PathWork, of: Dispatch, cs2: Number, slots: Load, rows: int) -> dict[str, Bools]:
    """The regimes that any path may be in."""

    def rowed(condition: object) -> Bools:
        return np.broadcast_to(np.asarray(condition, dtype=bool), (rows,))

    ca2 = np.asarray(work.ca2)
    return {
        "arrivals": rowed((ca2 > VARIABLE_ARRIVALS) | (ca2 < EVEN_ARRIVALS)),
        "long_prompts": rowed(np.greater(of.sharing, 1) & np.greater(cs2, SPREAD_PROMPTS)),
        "slots": rowed(slots.utilization > FULL_SLOTS),
    }


def beyond_curves(
    times: PrefillTimes, tokens: Number, steps: DecodeSteps, rho_prefill: Number, x: Number
) -> dict[str, Bools]:
    """Whether a measured curve was left: by pieces of so many ``tokens``, or by the sequences of a step."""
    left = np.zeros(np.shape(x), dtype=bool)
    if times.curve is not None:
        left = left | (tokens > times.curve.sizes[-1])
    if steps.curve is not None:
        left = left | (1 + x * steps.pace_s(rho_prefill, x) > steps.curve.sizes[-1])
    return {"curve": left}


def rows_of(values: Number, rows: int) -> Floats:
    """``values`` as one entry per row."""
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (rows,))
