"""Runs the cases of a list and writes what was seen: `python -m tests.reference.record LIST [PATTERN ...]`.

A list takes about five minutes on one core; with patterns (`*.reason.*`), only the cases whose name fits one are run.
"""

import json
import sys
from fnmatch import fnmatchcase
from math import sqrt
from statistics import mean, stdev

from tests.reference.cases import Case, simulate
from tests.reference.engine import Request
from tests.reference.lists import LISTS
from tests.reference.simulation import Seen, time_per_token

Figures = dict[str, float]
OBJECTIVES = (1.2, 2.0)
"""Objectives of TTFT and TPOT, as multiples of the means seen: a tight and a loose pair."""
BATCHES = 20
"""Parts of a run whose means say how far its own mean may be off."""


def per_path(case: Case, seen: Seen) -> Figures:
    """Mean TTFT and TPOT (s) of the short and the long path of a routed layout."""
    if case.layout.topology != "routed":
        return {}
    figures: Figures = {}
    for path in ("short", "long"):
        kept = [r for r in seen.requests if (r.prompt < case.layout.threshold) == (path == "short")]
        figures[f"{path}_ttft_s"] = mean_ttft(kept)
        figures[f"{path}_tpot_s"] = mean_tpot(kept)
    return figures


def mean_ttft(requests: list[Request]) -> float:
    """Mean time to the first token (s)."""
    return sum(request.ttft for request in requests) / len(requests)


def mean_tpot(requests: list[Request]) -> float:
    """Sum of (E2E - TTFT) over sum of (output - 1) (s/token)."""
    return sum(request.e2e - request.ttft for request in requests) / sum(request.output - 1 for request in requests)


def noise(seen: Seen) -> Figures:
    """Standard errors of mean TTFT and TPOT, as shares of them, from the means of consecutive parts of the run."""
    size = len(seen.requests) // BATCHES
    parts = [list(seen.requests[size * part : size * (part + 1)]) for part in range(BATCHES)]
    found = {"ttft": [mean_ttft(part) for part in parts], "tpot": [mean_tpot(part) for part in parts]}
    return {f"{name}_noise": stdev(means) / mean(means) / sqrt(BATCHES) for name, means in found.items()}


def figures(case: Case, seen: Seen) -> Figures:
    """What is kept of a run: means (s), the longest stall (s), utilizations, and shares that meet objectives.

    `met_tight` is the share with both TTFT and TPOT at most 1.2 times their means, `met_loose` at most 2 times;
    `ttft_met_*` and `tpot_met_*` are those of one objective alone.
    """
    span = seen.requests[-1].arrival - seen.requests[0].arrival
    shares: Figures = {}
    for name, times in zip(("tight", "loose"), OBJECTIVES, strict=True):
        ttft, tpot = times * seen.ttft, times * seen.tpot
        shares[f"met_{name}"] = seen.goodput(ttft, tpot)
        shares[f"ttft_met_{name}"] = sum(r.ttft <= ttft for r in seen.requests) / len(seen.requests)
        shares[f"tpot_met_{name}"] = sum(time_per_token(r) <= tpot for r in seen.requests) / len(seen.requests)
    return {
        "rate_rps": (len(seen.requests) - 1) / span,
        "ttft_s": seen.ttft,
        "tpot_s": seen.tpot,
        "e2e_s": seen.e2e,
        "stall_s": seen.stall,
        **seen.utilization,
        **shares,
        **per_path(case, seen),
    }


def recorded(name: str, case: Case) -> Figures:
    """What is written of a case of a list, with the noise of those held out.

    Eight significant digits: a run is the same on every machine but for the last digits of a logarithm.
    """
    seen = simulate(case)
    values = figures(case, seen) | (noise(seen) if name == "held_out" else {})
    return {figure: float(f"{value:.8g}") for figure, value in values.items()}


def main() -> None:
    """Run the cases of a list that are asked for, write the figures."""
    name, *patterns = sys.argv[1:] or [""]
    if name not in LISTS:
        sys.exit(f"which list? {' or '.join(LISTS)}")
    frozen = LISTS[name]
    kept = dict(frozen.seen()) if patterns else {}
    for case in frozen.cases:
        if not patterns or any(fnmatchcase(case.name, pattern) for pattern in patterns):
            kept[case.name] = recorded(name, case)
            print(case.name, flush=True)  # noqa: T201
    frozen.recorded.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
