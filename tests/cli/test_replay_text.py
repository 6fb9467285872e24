"""What people read of a replay, in a plan and on the page of a decision: figures, the worst minute, or why there is none."""

from typing import Any

import pytest

from pipelines.cli.explain_reading import Receipt
from pipelines.cli.explain_replay import replay, replay_lines
from pipelines.cli.report import _print_replay
from pipelines.frames.replays import FIGURES

Json = dict[str, Any]

CHOSEN, OTHER, UNNAMED = "chunked/n2/c512", "aggregated/n2", "aggregated/n1"
WORST = {"minute": 12, "requests": 1400, "met": 3}


def scenario(name: str, bound: str, goodput: float | None, **said: Any) -> Json:
    figures = None if goodput is None else dict.fromkeys(FIGURES, 0.25) | {"replayed_goodput": goodput}
    return {"scenario": name, "bound": bound, "reason": None, "figures": figures, "worst_minute": None} | said


def receipt(
    *scenarios: Json, reason: str | None = None, topologies: tuple[str, ...] = ("chunked", "aggregated")
) -> Receipt:
    of = {"which": "finalists", "reason": reason, "when_memory_is_full": "recompute", "window_s": 60}
    of |= {"sample": None if reason else {"first": 3, "requests": [[0, 1, 0, 1]]}, "scenarios": list(scenarios)}
    speaking = [{"topology": "chunked", "scenario": CHOSEN}, {"topology": "aggregated", "scenario": OTHER}]
    return Receipt({"replay": of, "changes": {"speaking": speaking}}, topologies)


REPLAYED = (
    scenario(OTHER, "nominal", None, reason="kv_memory"),
    scenario(OTHER, "conservative", None, reason="refused"),
    scenario(UNNAMED, "nominal", 0.1),
    scenario(UNNAMED, "conservative", 0.1),
    scenario(CHOSEN, "nominal", 0.9312, worst_minute=WORST),
    scenario(CHOSEN, "conservative", 0.5),
)


def test_the_page_has_the_speaking_scenarios_in_their_order() -> None:
    found = replay(receipt(*REPLAYED))
    assert [(row["scenario"], row["bound"]) for row in found["scenarios"]] == [
        (CHOSEN, "nominal"),
        (CHOSEN, "conservative"),
        (OTHER, "nominal"),
        (OTHER, "conservative"),
    ]
    assert (found["replayed"], found["sample_requests"]) == (2, 1)


def test_topologies_that_were_not_asked_for_are_left_out() -> None:
    found = replay(receipt(*REPLAYED, topologies=("aggregated",)))
    assert {row["scenario"] for row in found["scenarios"]} == {OTHER}


def test_the_page_says_modeled_the_worst_minute_and_what_was_not_replayed() -> None:
    lines = replay_lines({"replay": replay(receipt(*REPLAYED))})
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 140
    assert "modeled, not measured" in lines[0]
    assert f"{CHOSEN}: worst minute 12 (from 0): 3 of 1,400 requests meet all objectives" in lines
    assert f"{OTHER}: not replayed: a request does not fit into the KV memory of a worker even alone" in lines
    row = next(line for line in lines if line.startswith(CHOSEN))
    assert row.split()[1:3] == ["93.12", "%"]
    assert row.split()[-2:] == ["50", "%"]
    assert "2 scenarios replayed (finalists); full KV memory: recompute. The verifier replays 1 request" in text


@pytest.mark.parametrize(("reason", "said"), [("closed_loop", "a concurrency"), ("no_arrivals", "a rate, or classes")])
def test_a_cohort_without_arrivals_says_so(reason: str, said: str) -> None:
    (line,) = replay_lines({"replay": replay(receipt(reason=reason))})
    assert line.startswith("not replayed: ")
    assert said in line


@pytest.mark.parametrize(
    ("scope", "of", "said"),
    [
        (
            None,
            {"figures": {"replayed_goodput": 0.5}, "worst_minute": WORST},
            "50 % of the requests meet all objectives (modeled); worst",
        ),
        (
            None,
            {"figures": {"replayed_goodput": 1.0}, "worst_minute": None},
            "(modeled); all requests meet all objectives",
        ),
        (None, {"reason": "kv_memory"}, "not replayed: a request does not fit"),
        ("closed_loop", None, "not replayed: the cohort declares a concurrency"),
    ],
)
def test_a_plan_says_what_the_trace_met_in_the_chosen_scenario(
    scope: str | None, of: Json | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _print_replay({"which": "finalists", "reason": scope}, None if of is None else {"reason": None} | of)
    assert said in capsys.readouterr().out
