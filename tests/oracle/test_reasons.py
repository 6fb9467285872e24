"""Reasons are made anew from exported figures, word by word."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.oracle.deciding import Candidate, Choice
from pipelines.oracle.judging import Judged
from pipelines.oracle.reasons import quantity, reason_of_choice, reason_of_rejection
from pipelines.oracle.verifying import verify
from tests.oracle.forging import Receipt, attach, load, matrix_rows, write
from tests.oracle.handmade import RULE

PREFER = ("operating_parts", "gpus", "margin")


def gate(name: str = "stall", unit: str = "s", **others: Any) -> Receipt:
    return {**RULE, "id": name, "metric": name, "unit": unit, "op": "lte", **others}


def candidate(name: str, *judged: Judged, parts: float = 3, gpus: int = 2, refusal: Receipt | None = None) -> Candidate:
    nominal = {"status": "refused" if refusal else "evaluated", "refusal": refusal, "pressure": 0.5}
    row = {"scenario": name, "topology": name.partition("/")[0], "operating_parts": parts, "gpus": gpus,
           "bounds": {"nominal": nominal}}  # fmt: skip
    return Candidate(0, row, judged)


def judged(figure: float | None, limit: float | None, verdict: str = "fail", **of_gate: Any) -> Judged:
    margin = None if figure is None or not limit else (limit - figure) / limit
    return Judged(gate(**of_gate), figure, limit, verdict, margin)


def refused(kind: str, resource: str, figure: float, limit: float) -> str:
    refusal = {"kind": kind, "resource": resource, "figure": figure, "limit": limit}
    return reason_of_rejection(candidate("chunked/n1/c512", refusal=refusal), None, PREFER)


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (1.0, "s", "1 s"),
        (0.99999, "s", "1000 ms"),
        (0.0000123456, "s", "0.01235 ms"),
        (12345.6, "s", "1.235e+04 s"),
        (0.123456, "ratio", "12.35 %"),
        (-0.0, "ratio", "0 %"),
        (1, "days", "1 day"),
        (1234567890.0, "days", "1234567890 days"),
        (123456.75, "count", "123456.75"),
        (None, "ratio", "-"),
    ],
)
def test_a_figure_has_its_unit(value: float | None, unit: str, words: str) -> None:
    assert quantity(value, unit) == words


def test_a_refused_scenario_says_by_what() -> None:
    assert refused("utilization", "kv_mixed", 1.23456, 0.8) == "refused: utilization of kv mixed 1.235, ceiling 0.8"
    assert refused("link_saturated", "link", 1, 1) == "refused: link saturated of link 1, ceiling 1"
    starved = "refused: prefill starved, prefill lane with room for 0.25 tokens in a step, needs 1"
    assert refused("prefill_starved", "prefill_lane", 0.25, 1.0) == starved
    floor = "refused: TTFT of [512,2048) is 334.3 ms on idle workers, objective 220 ms"
    assert refused("ttft_floor", "[512,2048)", 0.33431, 0.22) == floor
    assert (
        refused("tpot_floor", "[1,inf)", 1.5, 1) == "refused: TPOT of [1,inf) is 1.5 s on idle workers, objective 1 s"
    )


def test_a_nearest_miss_says_which_gates_it_fails() -> None:
    verdicts = [
        judged(3.188, 0.045),
        judged(3.7, 1.0, name="transfer_envelope", unit="ratio", op="lt", bound="conservative"),
        judged(None, 2, "refused", name="gpus", unit="count", op="gte", bound="conservative"),
        judged(0.5, None, "refused", name="gain"),
        judged(0.1, 0.2, "pass"),
        judged(1.0, 0.5, name="informs", blocking=False),
    ]
    assert reason_of_rejection(candidate("aggregated/n1", *verdicts), None, PREFER) == (
        "stall 3.188 s, not <= 45 ms; transfer_envelope 370 % (conservative), not < 100 %;"
        " gpus refused: no conservative figure to hold against >= 2; gain refused: no nominal limit"
    )
    assert reason_of_rejection(candidate("aggregated/n1"), None, PREFER) == "no blocking gate applies to it"


def test_a_gate_with_a_message_speaks_with_it() -> None:
    message = "{{{scenario}}} {topology} {gate} {metric} {bound} {owner}: {figure} of {limit}, {margin}"
    own = judged(0.5, 0.4, message=message, owner="capacity-team")
    words = "{chunked/n1/c512} chunked stall stall nominal capacity-team: 500 ms of 400 ms, -25 %"
    assert reason_of_rejection(candidate("chunked/n1/c512", own), None, PREFER) == words
    absent = judged(None, None, "refused", message="{figure} {limit} {margin}")
    assert reason_of_rejection(candidate("chunked/n1/c512", absent), None, PREFER) == "- - -"


def test_what_passes_says_what_it_has_more_of() -> None:
    chosen = candidate("aggregated/n2", judged(0.9, 1.0, "pass"))

    def reason(other: Candidate, prefer: tuple[str, ...] = PREFER) -> str:
        return reason_of_rejection(other, chosen, prefer)

    more_parts = candidate("chunked/n1/c512", judged(0.95, 1.0, "pass"), parts=4.5, gpus=1)
    assert reason(more_parts) == "passes, but with 4.5 operating parts where aggregated/n2 has 3 operating parts"
    assert reason(more_parts, ("margin", "gpus")) == "passes, but with 5 % margin where aggregated/n2 has 10 % margin"
    more_gpus = candidate("chunked/n3/c512", judged(0.9, 1.0, "pass"), gpus=3)
    assert reason(more_gpus) == "passes, but with 3 GPUs where aggregated/n2 has 2 GPUs"
    assert reason(more_gpus, ("margin",)) == "passes, but comes after aggregated/n2 in the matrix"
    assert reason_of_choice(Choice(chosen, (more_gpus,)), [chosen, more_gpus, candidate("chunked/n1/c512")]) == (
        "the smallest of 2 passing scenarios of 3: 3 operating parts, 2 GPUs, 10 % margin"
    )
    assert reason_of_choice(Choice(None, (more_gpus,)), [more_gpus]) == (
        "no scenario of the compared topologies passes every blocking gate"
    )


def _of_decision(receipt: Receipt) -> str:
    receipt["decision"]["reason"] = receipt["decision"]["reason"].replace("smallest", "best").replace("every", "each")
    return "decision.reason"


def _of_rejected(receipt: Receipt) -> str:
    row = receipt["rejected"][0]
    row["reason"] += " "
    return f"rejected[{row['topology']}].reason"


@pytest.mark.parametrize("cohort", ["moderate-chat", "overloaded"], ids=["chosen", "none chosen"])
@pytest.mark.parametrize("change", [_of_decision, _of_rejected])
def test_a_reason_in_other_words_is_named(
    cohort: str, change: Callable[[Receipt], str], receipt_directories: dict[str, Path], tmp_path: Path
) -> None:
    receipt = copy.deepcopy(load(receipt_directories[cohort]))
    place = change(receipt)
    found = verify(write(tmp_path, receipt, attach(receipt, matrix_rows(receipt)))).disagreements
    assert [item.where for item in found] == [place]
    assert json.dumps(found[0].expected) != json.dumps(found[0].found)
