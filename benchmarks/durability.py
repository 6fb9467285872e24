"""Kills plans at random instants and looks at what is left: `benchmarks/durability.py [--plans N] [--puts N] [--seed N]`.

Two things are killed with SIGKILL. First a process that does nothing but put receipts in place, in the store and in a directory
of its own, one after the other: most of its instants lie within a change. Then whole plans of a cohort; beside every fourth,
another plan of the same cohort runs, and has to end as if nothing had happened. The cohort's title changes from plan to plan, so
that each has another receipt to put in place of the one before.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
COMMAND = Path(sys.executable).with_name("phaseledger")
COHORT = "moderate-chat"
BESIDE_EVERY = 4
PUTTING = """\
import itertools, pathlib, sys
sys.path.insert(0, sys.argv[1])
from pipelines.receipts.store import keep, put_beside_others, read_pair
root, pairs = pathlib.Path(sys.argv[2]), [read_pair(pathlib.Path(place)) for place in sys.argv[3:]]
print("ready", flush=True)
for pair in itertools.cycle(pairs):
    keep(root / "receipts", "shown", pair)
    put_beside_others(root / "out", pair)
"""


class TornError(Exception):
    """What a kill left is neither the old receipt nor the new one."""


def holds_a_pair(directory: Path) -> str | None:
    """The digest of the receipt in a directory, None where there is none; TornError where it and its matrix are not of one plan."""
    receipt = directory / "receipt.json"
    if not receipt.exists():
        return None
    data = receipt.read_bytes()
    try:
        named = json.loads(data)["matrix"]["sha256"]
    except (ValueError, LookupError) as error:
        raise TornError(f"{receipt} is not a whole receipt") from error
    matrix = receipt.resolve().parent / "matrix.csv"
    if not matrix.exists() or hashlib.sha256(matrix.read_bytes()).hexdigest() != named:
        raise TornError(f"{matrix} is not that of {receipt}")
    return hashlib.sha256(data).hexdigest()


def check_store(receipts: Path) -> int:
    """How many receipts a store holds, each whole and of its name; TornError otherwise, or where index or link lead elsewhere."""
    store = receipts / "_store"
    kept = {place.name for place in store.iterdir() if not place.name.startswith(".")} if store.is_dir() else set()
    for name in kept:
        if holds_a_pair(store / name) != name:
            raise TornError(f"{store / name} is not what its name says")
    if (receipts / "index.json").exists():
        listed = {row["sha256"] for row in json.loads((receipts / "index.json").read_bytes())["receipts"]}
        if not listed <= kept:
            raise TornError("the index lists what is not there")
    for link in receipts.iterdir() if receipts.is_dir() else ():
        if link.is_symlink() and not link.name.startswith(".") and holds_a_pair(link) not in kept:
            raise TornError(f"{link} leads nowhere")
    return len(kept)


def unfinished(directory: Path) -> int:
    """What lies half written below a directory."""
    return sum(1 for _ in directory.rglob(".phaseledger-unfinished-*"))


@contextmanager
def project() -> Iterator[Path]:
    """A project of its own, on the disk of the checkout."""
    with tempfile.TemporaryDirectory(dir=PROJECT.parent, prefix="durability-") as place:
        home = Path(place)
        shutil.copytree(PROJECT / "cohorts" / COHORT, home / "cohorts" / COHORT)
        shutil.copytree(PROJECT / "rules", home / "rules", ignore=shutil.ignore_patterns("tests"))
        shutil.copy(PROJECT / "workspace.yaml", home)
        yield home


def retitled(home: Path, number: int) -> None:
    """Give the cohort another title, and so another receipt."""
    file = home / "cohorts" / COHORT / "cohort.yaml"
    lines = file.read_text().splitlines()
    lines = [f"  title: Plan {number}" if line.startswith("  title:") else line for line in lines]
    temporary = file.with_suffix(".new")
    temporary.write_text("\n".join(lines) + "\n")
    temporary.replace(file)


def plan(home: Path) -> subprocess.Popen[bytes]:
    """A plan of the cohort, begun."""
    environment = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    return subprocess.Popen(
        [COMMAND, "plan", COHORT, "--quiet"],
        cwd=home,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def kill_puts(count: int, chance: random.Random) -> Counter[str]:
    """Kill a process that puts receipts in place, `count` times."""
    seen: Counter[str] = Counter()
    with project() as home:
        pairs = []
        for number in range(2):
            retitled(home, number)
            ended = plan(home)
            _, said = ended.communicate()
            if ended.returncode:
                raise RuntimeError(said.decode())
            pairs.append(home / f"pair-{number}")
            shutil.copytree((home / "receipts" / COHORT).resolve(), pairs[-1])
        root = home / "killed"
        for _ in range(count):
            putting = subprocess.Popen(
                [sys.executable, "-c", PUTTING, PROJECT, root, *pairs],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert putting.stdout is not None
            putting.stdout.readline()
            time.sleep(chance.uniform(0, 0.05))
            putting.send_signal(signal.SIGKILL)
            putting.wait()
            check_store(root / "receipts")
            left = holds_a_pair(root / "out")
            seen["no receipt in the directory"] += left is None
            seen["killed within a change"] += unfinished(root) > 0 or left is None
            seen["kills"] += 1
    return seen


def kill_plans(count: int, chance: random.Random) -> Counter[str]:
    """Kill a plan beside which another runs, `count` times."""
    seen: Counter[str] = Counter()
    with project() as home:
        began = time.monotonic()
        _, said = plan(home).communicate()
        longest = (time.monotonic() - began) * 1.2
        for number in range(count):
            retitled(home, number + 10)
            victim = plan(home)
            time.sleep(chance.uniform(0, 0.3))
            survivor = plan(home) if number % BESIDE_EVERY == BESIDE_EVERY - 1 else None
            try:
                victim.wait(chance.uniform(0, longest))
                seen["ended before it was killed"] += 1
            except subprocess.TimeoutExpired:
                victim.send_signal(signal.SIGKILL)
                victim.wait()
            check_store(home / "receipts")
            if survivor is not None:
                _, said = survivor.communicate()
                if survivor.returncode:
                    raise TornError(f"the plan beside ended with {survivor.returncode}: {said.decode()}")
                seen["plans beside that ended well"] += 1
                seen["left unfinished after one"] += unfinished(home)
            check_store(home / "receipts")
            seen["kills"] += 1
            if number % 20 == 19:
                print(f"  {number + 1} plans, {time.monotonic() - began:.0f} s", file=sys.stderr)
        seen["receipts in the store"] = check_store(home / "receipts")
    return seen


def main() -> None:
    """Kill, look, say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=200, help="plans to kill")
    parser.add_argument("--puts", type=int, default=1000, help="processes that put receipts in place, to kill")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    for name, kill, count in (("putting in place", kill_puts, options.puts), ("plans", kill_plans, options.plans)):
        began = time.monotonic()
        seen = kill(count, chance)
        print(f"{name}: {time.monotonic() - began:.0f} s, nothing torn")
        for what, often in seen.items():
            print(f"  {often:6,}  {what}")


if __name__ == "__main__":
    main()
