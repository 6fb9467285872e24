"""What the kernels compute with: requests, service times, limits, and the records of workers and of requests under way."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Records = NDArray[np.void]
Record = Any

NEVER = np.iinfo(np.int64).max
"""A tick that no event is at."""
LAST_TICK = 2**62
"""The replay stops here (docs/replay.md, The clock)."""
DONE = NEVER - 1
"""What something that has ended is due at, until something new is chosen; no event is there either."""
MOST_TICKS = 4e18
"""Runs of steps are planned up to so many ticks, so that where they end fits 64 bits."""
BEYOND = 2**62 + 1024
"""More ticks, and more nanoseconds, than the clock has; a double, so that it is no other number where doubles are cut off at it."""
COUNTABLE = 9e18
"""What is less in double precision fits 64 bits."""
WHOLE_NANOSECONDS = 2**52
"""To a whole number below this one, a double can have a half added that rounding takes away again."""
UNSET = -1
NOTHING_FULL, LINE_FULL, SLOTS_FULL, LINKS_FULL, ARRIVED_FULL, RETURNING_FULL = 0, 1, 2, 3, 4, 5
"""Why a run of instants stops: there are no more, or something has to grow first."""
NANOSECONDS = 1e9

RECOMPUTE, SWAP, WAIT = 0, 1, 2
ONE_LINE, ROUND_ROBIN, SHORTEST_QUEUE = 0, 1, 2
SHARED, PER_PREFILL_WORKER, PER_DECODE_WORKER = 0, 1, 2

IDLE, PREFILLING, STEPPING, CHUNK_STEP, CHUNK_RUN, SWAPPING_IN, SWAPPING_OUT = 0, 1, 2, 3, 4, 5, 6
"""What a worker does. A CHUNK_RUN is several steps, each filled up by the same prompt."""


class Log(NamedTuple):
    """Requests in order of arrival: nanoseconds since the first arrival of the log, tokens of prompt, cache hits and output."""

    arrival_ns: Int64s
    prompt: Int32s
    cached: Int32s
    output: Int32s


class Times(NamedTuple):
    """Service times of one kind of worker.

    ``base`` are ticks of a step by its sequences, ``gamma`` ticks per resident token, ``tpn`` ticks per nanosecond; ``d``, ``rate`` and
    ``q`` those of prefill (s, tokens/s, s/token²), or a curve of ``tokens`` and ``seconds``, empty if there is none; ``penalty`` is ψ.
    """

    base: Int64s
    gamma: int
    tpn: int
    d: float
    rate: float
    q: float
    tokens: Floats
    seconds: Floats
    penalty: float


class Memory(NamedTuple):
    """Memory of one kind of worker in bytes: capacity, growth per token, state per sequence, windows (bytes per token, tokens), β.

    ``policy`` is one of RECOMPUTE, SWAP and WAIT; ``swap`` is bytes/s between GPU and host.
    """

    capacity: int
    growth: int
    state: int
    window_bytes: Int64s
    window_tokens: Int64s
    block: int
    policy: int
    swap: float


class Limits(NamedTuple):
    """Objectives in ticks by bucket of prompt tokens, whose inner ``edges`` ascend; UNSET where there is none."""

    edges: Int64s
    ttft: Int64s
    tpot: Int64s
    e2e: Int64s
    stall: int


class Windows(NamedTuple):
    """Windows of ``length`` ticks: requests that meet all objectives by window of arrival, work in ticks by pool (rows) and window.

    Of work, ``clocks`` counts what was taken out because 64 bits had no room for it: 2⁶² ticks each time.
    """

    length: int
    met: Int64s
    work: NDArray[np.int64]
    clocks: NDArray[np.int64]


class Pool(NamedTuple):
    """What workers of one kind are: service times, memory, and how many sequences one holds at most."""

    times: Times
    memory: Memory
    most: int


class Run(NamedTuple):
    """What one replay is of and what it adds to.

    ``dispatch`` is of the lines before prefill, ``admission`` is in ticks. ``details`` has a row for each request, or none.
    """

    log: Log
    dispatch: int
    admission: int
    limits: Limits
    windows: Windows
    counts: Int64s
    details: Int64s


class Transfers(NamedTuple):
    """Of each request the nanoseconds until its cache arrives and for which its channel is kept; how channels are shared, and their number
    in each line.
    """

    move_ns: Int64s
    keep_ns: Int64s
    sharing: int
    channels: int


class Slots(NamedTuple):
    """Requests under way. ``free`` is a stack of slots to be used again: its height is in the last place but one, and in the last one
    how many slots were ever used.
    """

    of: Records
    free: Int64s


class Lines(NamedTuple):
    """Lines, one per row: a ring of numbers, where it starts and how many wait; or, if ``ordered``, a heap with the shortest first."""

    ring: Int64s
    start: Int64s
    waiting: Int64s
    ordered: bool


class Agenda(NamedTuple):
    """A heap of events by tick and, of one tick, by ``tag``: the number of the event << 24 | slot. ``size`` has how many there are."""

    tick: Int64s
    tag: Int64s
    size: Int64s


class Batches(NamedTuple):
    """What workers of a pool that decode hold, one row per worker.

    ``heap``: sequences of the batch by the step in which they are complete (step << 24 | slot); ``joiners``: slots that have not been in
    a step yet; ``returning``: a stack of slots that were preempted; ``gap`` and ``since``: the longest times between steps (ticks) since
    some step, longest first, with the number of that step.
    """

    heap: Int64s
    joiners: Int64s
    returning: Int64s
    gap: Int64s
    since: Int64s


SLOT_BITS = 24
SLOT_MASK = (1 << SLOT_BITS) - 1

WORKER = np.dtype(
    [
        ("does", np.int64),
        ("row", np.int64),  # of the work of its pool in the windows
        ("begin", np.int64),  # of what it does
        ("due", np.int64),
        ("steps", np.int64),  # that are planned
        ("each", np.int64),  # ticks of one of them, beside what it reads from the cache
        ("pieces", np.int64),  # those of them that are prefill
        ("boundary", np.int64),  # the last one between its steps that was looked for
        ("until", np.int64),  # steps up to it
        ("done", np.int64),  # steps of all its life
        ("batch", np.int64),
        ("resident", np.int64),  # tokens that the next step reads
        ("held", np.int64),  # U
        ("peak", np.int64),
        ("last_step", np.int64),  # tick at which the last step ended
        ("joining", np.int64),
        ("returns", np.int64),
        ("gaps", np.int64),
        ("gap_number", np.int64),
        ("slot", np.int64),  # that is prefilled or swapped in, or the partial prompt
        ("taken", np.int64),  # requests taken in all its life
        ("load", np.int64),  # requests that are its own and not complete
        ("seen", np.int64),  # head of the line that it could not take, as the number of heads before it
        ("completing", np.int64),  # prompts whose last piece is in the step
        ("window", np.int64),
        ("window_end", np.int64),
        ("prefill", np.int64),  # ticks spent
        ("decode", np.int64),
        ("swap", np.int64),
    ]
)

SLOT = np.dtype(
    [
        ("request", np.int64),
        ("prompt", np.int64),
        ("cached", np.int64),
        ("output", np.int64),
        ("tokens", np.int64),  # emitted, up to when it joined the batch
        ("complete", np.int64),  # number of the step in which it is complete
        ("computed", np.int64),  # prompt tokens in the cache (chunks)
        ("order", np.int64),  # in which its worker took it
        ("swapped", np.int64),
        ("preempted", np.int64),
        ("prefill_start", np.int64),
        ("prefill_end", np.int64),
        ("transfer_start", np.int64),
        ("arrived", np.int64),
        ("decode_start", np.int64),
        ("first_step_end", np.int64),
        ("first_token", np.int64),
        ("last_token", np.int64),  # up to when it joined the batch
        ("stall", np.int64),
        ("since", np.int64),  # number of the first time between steps that is its own
        ("keeper", np.int64),  # prefill worker that holds its cache
        ("target", np.int64),  # its decode worker
        ("channel", np.int64),  # line of the links whose channel it keeps, or UNSET
        ("complete_early", np.int64),  # it was complete before its channel was free
    ]
)

# places of the counts of one run
(
    FINISHED,
    MET_TTFT,
    MET_TPOT,
    MET_E2E,
    MET_STALL,
    MET_MODELED,
    MET,
    MET_TOKENS,
    TTFT_LOW,
    TTFT_HIGH,
    GENERATION_LOW,
    GENERATION_HIGH,
    STALL,
    END,
    PREEMPTIONS,
    RECOMPUTED,
    SWAPPED,
    PEAK_QUEUE,
    PEAK_TRANSFERS,
    PEAK_DECODE,
    LINK_LOW,
    LINK_HIGH,
    STEPS,
) = range(23)
COUNTS = 23
LOW_BITS = 30
LOW_MASK = (1 << LOW_BITS) - 1

# columns of what is kept of single requests, all ticks but the last two
(
    PREFILL_START,
    PREFILL_END,
    TRANSFER_START,
    ARRIVED,
    DECODE_START,
    FIRST_STEP_END,
    FIRST_TOKEN,
    LAST_TOKEN,
    LONGEST_GAP,
    TIMES_PREEMPTED,
    OBJECTIVES,
) = range(11)
DETAILS = 11
"""OBJECTIVES has a bit for each that is met: 1 TTFT, 2 TPOT, 4 E2E, 8 stall."""
