"""What an engine does when the memory of a worker is full (docs/replay.md, Memory)."""

from pipelines.frames.inputs import InputTable
from pipelines.replay.records import RECOMPUTE, SWAP, WAIT

POLICY_INPUT = "service.when_memory_is_full"
SWAP_INPUT = "service.swap_bandwidth"
POLICIES = {"recompute": RECOMPUTE, "swap": SWAP, "wait": WAIT}
USUAL = "recompute"


def memory_policy(inputs: InputTable) -> str:
    """What the cohort declares, or recompute."""
    return inputs.word(POLICY_INPUT) if inputs.has(POLICY_INPUT) else USUAL
