"""The same question gives the same bytes, on any number of threads and whatever Python's hash seed."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

SCRIPT = """
import hashlib, sys
from pathlib import Path
from pipelines.frames.canonical import canonical_bytes
from pipelines.receipts.build import build_receipt
from tests.plans import plan_of
receipt, matrix = build_receipt(plan_of(Path(sys.argv[1]), Path(sys.argv[2])))
print(hashlib.sha256(canonical_bytes(receipt)).hexdigest(), hashlib.sha256(matrix).hexdigest())
"""


def test_threads_and_hash_seed_change_no_byte(project: Path) -> None:
    def digests(threads: str, seed: str) -> str:
        settings = {"POLARS_MAX_THREADS": threads, "PYTHONHASHSEED": seed, "PYTHONPATH": str(project)}
        command = [sys.executable, "-c", SCRIPT, str(project / "cohorts" / "moderate-chat"), str(project / "rules")]
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=True)
        return done.stdout

    with ThreadPoolExecutor(max_workers=2) as pool:
        found = set(pool.map(digests, *zip(*product("12", "01"), strict=True)))
    assert len(found) == 1
    assert len(found.pop().split()) == 2
