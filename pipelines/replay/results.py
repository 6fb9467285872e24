"""What a request that is complete adds to the counts (docs/replay.md, What comes out)."""

from pipelines.replay.compiled import part, wide
from pipelines.replay.records import (
    ARRIVED,
    DECODE_START,
    END,
    FINISHED,
    FIRST_STEP_END,
    FIRST_TOKEN,
    GENERATION_HIGH,
    GENERATION_LOW,
    LAST_TOKEN,
    LONGEST_GAP,
    LOW_BITS,
    LOW_MASK,
    MET,
    MET_E2E,
    MET_MODELED,
    MET_STALL,
    MET_TOKENS,
    MET_TPOT,
    MET_TTFT,
    OBJECTIVES,
    PREFILL_END,
    PREFILL_START,
    STALL,
    STEPS,
    TIMES_PREEMPTED,
    TRANSFER_START,
    TTFT_HIGH,
    TTFT_LOW,
    UNSET,
    Int64s,
    Record,
    Run,
)


@part
def add_ticks(counts: Int64s, low: int, ticks: int) -> None:
    """Add to a sum that may be larger than 64 bits: its low bits, and beside them the others."""
    counts[low] += ticks & LOW_MASK
    counts[low + 1] += ticks >> LOW_BITS


@part
def within(limit: int, ticks: int) -> bool:
    """Whether an objective is met, which it is where there is none."""
    return limit == UNSET or ticks <= limit


@part
def account(run: Run, slot: Record, tpn: int, last: int) -> None:
    """The request of ``slot`` has its last token at tick ``last``; its stall is complete."""
    limits, windows, counts, details = run.limits, run.windows, run.counts, run.details
    request = slot.request
    arrival = run.log.arrival_ns[request] * tpn
    bucket = 0
    while bucket < limits.edges.size and slot.prompt >= limits.edges[bucket]:
        bucket += 1
    ttft, generation, steps = slot.first_token - arrival, last - slot.first_token, slot.output - 1
    in_ttft = within(limits.ttft[bucket], ttft)
    in_tpot = steps == 0 or within(limits.tpot[bucket], (generation + steps - 1) // steps)
    in_e2e = within(limits.e2e[bucket], last - arrival)
    in_stall = within(limits.stall, slot.stall)
    counts[FINISHED] += 1
    counts[MET_TTFT] += in_ttft
    counts[MET_TPOT] += in_tpot
    counts[MET_E2E] += in_e2e
    counts[MET_STALL] += in_stall
    counts[STEPS] += steps
    modeled = in_ttft and in_tpot and in_e2e
    counts[MET_MODELED] += modeled
    if modeled and in_stall:
        counts[MET] += 1
        counts[MET_TOKENS] += slot.output
        windows.met[arrival // windows.length] += 1
    add_ticks(counts, wide(TTFT_LOW), ttft)
    add_ticks(counts, wide(GENERATION_LOW), generation)
    counts[STALL] = max(counts[STALL], slot.stall)
    counts[END] = max(counts[END], last)
    if details.shape[0]:
        own = details[request]
        own[PREFILL_START], own[PREFILL_END] = slot.prefill_start, slot.prefill_end
        own[TRANSFER_START], own[ARRIVED] = slot.transfer_start, slot.arrived
        own[DECODE_START], own[FIRST_STEP_END] = slot.decode_start, slot.first_step_end
        own[FIRST_TOKEN], own[LAST_TOKEN], own[LONGEST_GAP] = slot.first_token, last, slot.stall
        own[TIMES_PREEMPTED] = slot.preempted
        own[OBJECTIVES] = in_ttft + 2 * in_tpot + 4 * in_e2e + 8 * in_stall


assert (TTFT_HIGH, GENERATION_HIGH) == (TTFT_LOW + 1, GENERATION_LOW + 1)
