"""Replays random cases with kernels that check every index: ``python -m tests.replay.within_bounds``, with NUMBA_BOUNDSCHECK=1."""

import sys

from tests.replay.cases import SCHEDULERS, random_cases
from tests.replay.compared import through_kernels

COUNT, SEEDS = 250, (2026, 9003)
SECOND = 10**9


def outside() -> list[str]:
    """The cases in which a kernel reaches outside an array."""
    found = []
    for scheduler in SCHEDULERS:
        for seed in SEEDS:
            for number, case in enumerate(random_cases(scheduler, COUNT, seed)):
                try:
                    through_kernels(case, SECOND)
                except IndexError as error:
                    found.append(f"{scheduler}, seed {seed}, case {number}: {error}")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(outside()) or None)
