"""What adds up must add up in the exported digits, up to half a unit of the last digit of each term."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .findings import Ledger, unit_of_last_digit
from .names import LANES
from .traffic import Requests


def check_additions(ledger: Ledger, where: str, found: Mapping[str, Any], requests: Requests) -> None:
    """Check headroom, and the sums of the lanes, of one bound."""
    _check_sum(ledger, f"{where}.headroom", found["headroom"], [1.0, -found["pressure"]], "headroom = 1 - pressure")
    output_mean = {k.bucket: k.o1 for k in requests.buckets}
    for lanes in found["lanes"]:
        place, values = f"{where}.lanes[{lanes['bucket']}]", [lanes[f"{lane}_s"] for lane in LANES]
        _check_sum(ledger, f"{place}.e2e_s", lanes["e2e_s"], values, "the eight lanes add up to E2E")
        sums = (values[:3], values[:7])
        closest = min(sums, key=lambda part: abs(math.fsum(part) - lanes["ttft_s"]))
        _check_sum(ledger, f"{place}.ttft_s", lanes["ttft_s"], closest, "the lanes to the first token add up to TTFT")
        later = output_mean.get(lanes["bucket"], 1.0) - 1
        if lanes["tpot_s"] is not None and later > 0:
            terms = [lanes["e2e_s"], -lanes["ttft_s"]]
            slack = later * unit_of_last_digit(lanes["tpot_s"], 10)
            _check_sum(
                ledger, f"{place}.tpot_s", lanes["tpot_s"] * later, terms, "TPOT x (outputs - 1) = E2E - TTFT", slack
            )


def _check_sum(ledger: Ledger, where: str, total: float, terms: Sequence[float], why: str, slack: float = 0.0) -> None:
    expected = math.fsum(terms)
    slack += sum(unit_of_last_digit(value, 10) for value in (total, *terms)) + 1e-15
    ledger.holds("additions", where, abs(total - expected) <= slack, total, expected, why)
