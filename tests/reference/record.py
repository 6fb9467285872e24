"""Runs every case and writes seen.json: `python -m tests.reference.record`, about five minutes on one core."""

import json

from tests.reference.cases import CASES, RECORDED, Case, simulate
from tests.reference.simulation import Seen, time_per_token

Figures = dict[str, float]
OBJECTIVES = (1.2, 2.0)
"""Objectives of TTFT and TPOT, as multiples of the means seen: a tight and a loose pair."""


def per_path(case: Case, seen: Seen) -> Figures:
    """Mean TTFT and TPOT (s) of the short and the long path of a routed layout."""
    if case.layout.topology != "routed":
        return {}
    figures: Figures = {}
    for path in ("short", "long"):
        kept = [r for r in seen.requests if (r.prompt < case.layout.threshold) == (path == "short")]
        figures[f"{path}_ttft_s"] = sum(r.ttft for r in kept) / len(kept)
        figures[f"{path}_tpot_s"] = sum(r.e2e - r.ttft for r in kept) / sum(r.output - 1 for r in kept)
    return figures


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


def rounded(values: Figures) -> Figures:
    """Eight significant digits: a run is the same on every machine but for the last digits of a logarithm."""
    return {name: float(f"{value:.8g}") for name, value in values.items()}


def main() -> None:
    """Run all cases, write the figures."""
    recorded = {case.name: rounded(figures(case, simulate(case))) for case in CASES}
    RECORDED.write_text(json.dumps(recorded, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
