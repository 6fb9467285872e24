"""Kernels do not check indices, which costs time: here they are compiled once more so that they do."""

import os
import subprocess
import sys
from pathlib import Path

from tests.replay.by_step import replay
from tests.replay.cases import random_cases
from tests.replay.compared import differences

ROOT = Path(__file__).parent.parent.parent


def test_no_kernel_reaches_outside_an_array(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tests.replay.within_bounds"],
        cwd=ROOT,
        env=os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.stderr, found.returncode) == ("", 0)


def test_more_sequences_may_return_than_a_worker_has_slots() -> None:
    case = random_cases("separated", 4, 9003)[3]  # at some time seven return to the two slots of its decode worker
    assert differences(case, replay(case, 10**9), 10**9) == []
