"""Plans the same cohorts under differing circumstances and compares the bytes: `benchmarks/determinism.py [--runs N] [--python PATH ...]`.

Each run differs from the one before in threads, hash seed, time zone, locale, umask, working directory and, where others are
given, in the interpreter (each with the project installed); every fifth run is made in a clone of the checkout in another place.
"""

import argparse
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
COHORTS = ("moderate-chat", "bursty-documents", "short-and-long", "slow-link", "overloaded")
ZONES, LOCALES, MASKS = ("UTC", "Pacific/Auckland", "America/St_Johns"), ("C", "C.UTF-8"), (0o022, 0o077, 0o002)
CLONED_EVERY = 5


def circumstances(number: int, pythons: list[str], clone: Path) -> tuple[list[str], Path, dict[str, str], int]:
    """Interpreter with its module, source, environment and umask of a run."""
    source = clone if number % CLONED_EVERY == CLONED_EVERY - 1 else PROJECT
    python = pythons[number % len(pythons)]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "PYTHONPATH": str(source),
        "PYTHONHASHSEED": "random" if number % 3 else str(number),
        "POLARS_MAX_THREADS": str(1 + number % 2),
        "TZ": ZONES[number % len(ZONES)],
        "LC_ALL": LOCALES[number % len(LOCALES)],
    }
    return [python, "-m", "pipelines"], source, environment, MASKS[number % len(MASKS)]


def planned(cohort: str, number: int, pythons: list[str], clone: Path) -> tuple[str, str]:
    """The digests of receipt and matrix of one run."""
    command, source, environment, mask = circumstances(number, pythons, clone)
    with tempfile.TemporaryDirectory(prefix=f"run-{number}-") as place:
        environment["DAGSTER_HOME"] = f"{place}/home"
        arguments = [
            "plan",
            str(source / "cohorts" / cohort),
            "--rules",
            str(source / "rules"),
            "--out",
            f"{place}/out",
            "--quiet",
        ]
        ended = subprocess.run(
            [*command, *arguments], cwd=place, env=environment, umask=mask, capture_output=True, text=True, check=False
        )
        if ended.returncode > 1:
            raise RuntimeError(ended.stderr)
        names = ("receipt.json", "matrix.csv")
        receipt, matrix = (hashlib.sha256(Path(place, "out", name).read_bytes()).hexdigest() for name in names)
        return receipt, matrix


def main() -> None:
    """Run, and print how many different bytes came out of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of each cohort")
    parser.add_argument("--python", action="append", default=[], help="another interpreter with the project's packages")
    parser.add_argument("--cohort", action="append", choices=COHORTS, default=[])
    options = parser.parse_args()
    pythons, began = [sys.executable, *options.python], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="clone-") as place:
        clone = Path(place) / "elsewhere"
        subprocess.run(["git", "clone", "--quiet", PROJECT, clone], check=True)
        for cohort in options.cohort or COHORTS:
            found = defaultdict(list)
            for number in itertools.islice(itertools.count(), options.runs):
                found[planned(cohort, number, pythons, clone)].append(number)
            for (receipt, matrix), runs in found.items():
                print(f"{cohort}: {len(runs)} of {options.runs} runs, receipt {receipt[:16]}, matrix {matrix[:16]}")
            if len(found) > 1:
                sys.exit(f"{cohort}: {len(found)} different exports: runs {list(found.values())}")
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
