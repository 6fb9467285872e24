"""The workload against itself: honest ones hold, whatever the requests; forged ones do not, whatever is mended."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.oracle import render_text
from pipelines.oracle.findings import Ledger
from pipelines.oracle.windows import may_be_dispersion
from pipelines.oracle.workload import check_workload
from tests.oracle import forging as forge
from tests.oracle.forging import Receipt
from tests.oracle.handmade import Request, digits12, receipt_of, with_steps_to, workload_of
from tests.oracle.rejection import check, rejected_at

Mutation = Callable[[Receipt], None]
KINDS: dict[str, dict[str, Any]] = {
    "open": {"kind": "open"},
    "open, with hits": {"kind": "open", "cached": True},
    "rate": {"kind": "rate"},
    "rate, with hits": {"kind": "rate", "cached": True},
    "rate, with a declared hit ratio": {"kind": "rate", "hit_ratio": (0.3, 0.2)},
    "closed": {"kind": "closed"},
    "closed, with hits": {"kind": "closed", "cached": True},
    "closed, with a declared hit ratio": {"kind": "closed", "hit_ratio": (0.9, 0.0)},
}


@pytest.fixture(scope="module")
def receipts() -> dict[str, Receipt]:
    return {name: receipt_of(**kind) for name, kind in KINDS.items()}


def disagreements(workload: Receipt) -> list[str]:
    ledger = Ledger()
    assert check_workload(ledger, workload) or ledger.disagreements
    return [f"{item.where}: {item.found} {item.expected} {item.why}" for item in ledger.disagreements]


@pytest.mark.parametrize("name", KINDS)
def test_an_honest_receipt_of_every_kind_is_verified(name: str, receipts: dict[str, Receipt], tmp_path: Path) -> None:
    verification = forge.verified(tmp_path, copy.deepcopy(receipts[name]))
    assert verification.passed, render_text(verification)


@st.composite
def logs(draw: st.DrawFn) -> list[Request]:
    longest = draw(st.sampled_from([1, 3, 600, 6000, 200_000, 2_000_000]))
    requests, at = [], 0
    for _ in range(draw(st.integers(3, 40))):
        p = draw(st.integers(1, longest))
        u = draw(st.sampled_from([1, p])) if draw(st.booleans()) else draw(st.integers(1, p))
        requests.append(Request(p, u, draw(st.integers(1, 4000)), at))
        at += draw(st.integers(0, 5000))
    last = requests[-1]
    return [*requests[:-1], Request(last.p, last.u, last.o, last.at_ms + 1)]


@given(logs(), st.sampled_from(["open", "rate", "closed"]))
def test_no_log_is_refused(requests: list[Request], kind: str) -> None:
    workload = workload_of(requests, kind)
    with_steps_to(workload, 1)
    assert disagreements(workload) == []


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(1, 3000), st.booleans())
def test_no_large_log_is_refused(seed: int, ones: int, cached: bool) -> None:
    """Mostly equal requests and a few far larger ones: the moments lie at the edge of what is possible."""
    dice = random.Random(seed)
    sizes = [1] * ones + [dice.randint(1, 10**6) for _ in range(dice.randint(2, 5))]
    at = sorted(dice.randrange(10**6) for _ in sizes)
    requests = [Request(p, dice.randint(1, p) if cached else p, 1, t) for p, t in zip(sizes, at, strict=True)]
    workload = workload_of([Request(r.p, r.u, r.o, r.at_ms - at[0] + i) for i, r in enumerate(requests)], "open")
    with_steps_to(workload, 1)
    assert disagreements(workload) == []


def test_a_repeated_log_multiplies_every_bucket(receipts: dict[str, Receipt]) -> None:
    workload = copy.deepcopy(receipts["rate"]["workload"])
    with_steps_to(workload, 1)
    assert disagreements(workload) == []
    with_steps_to(workload, 7)
    assert any("steps[repeat].requests" in item for item in disagreements(workload))
    with_steps_to(workload, 480)
    assert any(item.startswith("workload.buckets[[1,512)].requests") for item in disagreements(workload))


def bucket(receipt: Receipt, place: int = 0) -> Receipt:
    row: Receipt = receipt["workload"]["buckets"][place]
    return row


def nudge(name: str, share: float = 1e-9, places: tuple[int, ...] = (0, 1, 2, 3)) -> Mutation:
    """A mean moved by the same share in all buckets, so that the parts still add up."""

    def mutate(receipt: Receipt) -> None:
        for place in places:
            row = bucket(receipt, place)
            row[name] = digits12(row[name] * (1 + share))
        forge.recompute(receipt)

    return mutate


def in_workload(**members: Any) -> Mutation:
    def mutate(receipt: Receipt) -> None:
        receipt["workload"].update(copy.deepcopy(members))

    return mutate


def in_bucket(place: int, **members: Any) -> Mutation:
    return lambda receipt: bucket(receipt, place).update(members)


def in_cache(**members: Any) -> Mutation:
    return lambda receipt: receipt["workload"]["prefix_cache"].update(members)


def without_hits(receipt: Receipt) -> None:
    """Cached tokens denied in the means that prefill reads, and everywhere recomputed."""
    for row in [*receipt["workload"]["buckets"], *receipt["workload"]["strata"]]:
        row["uncached_tokens_mean"] = row["prompt_tokens_mean"]
    forge.recompute(receipt)


def with_hits(receipt: Receipt) -> None:
    """A third of the tokens called cached, in every mean consistently scaled."""
    for row in receipt["workload"]["buckets"]:
        for name, power in (("uncached_tokens_mean", 1), ("uncached_tokens_m2", 2), ("prompt_uncached_mean", 1)):
            row[name] = digits12(row[name] * (2 / 3) ** power)
    for row in receipt["workload"]["strata"]:
        row["uncached_tokens_mean"] = digits12(row["uncached_tokens_mean"] * 2 / 3)
    forge.recompute(receipt)


def less_attention(receipt: Receipt) -> None:
    for row in [*receipt["workload"]["buckets"], *receipt["workload"]["strata"]]:
        row["attention_mean"] = digits12(row["attention_mean"] * (1 - 1e-6))
    forge.recompute(receipt)


def step(name: str, requests: int) -> Mutation:
    def mutate(receipt: Receipt) -> None:
        next(row for row in receipt["workload"]["steps"] if row["step"] == name)["requests"] = requests

    return mutate


def steps(*order: int) -> Mutation:
    def mutate(receipt: Receipt) -> None:
        rows = receipt["workload"]["steps"]
        receipt["workload"]["steps"] = [copy.deepcopy(rows[i]) for i in order]

    return mutate


def window(name: str, change: Callable[[Any], Any], place: int = 0) -> Mutation:
    def mutate(receipt: Receipt) -> None:
        row = receipt["workload"]["windows"][place]
        row[name] = change(row[name])

    return mutate


def calmer(receipt: Receipt) -> None:
    """Every burst flattened to the mean: no peak, no dispersion."""
    for row in receipt["workload"]["windows"]:
        row.update(dispersion=1, peak_rps=digits12(max(1, round(row["window_s"] / 2)) / row["window_s"]))


def windows_of_the_longest_dropped(receipt: Receipt) -> None:
    longest = max(row["window_s"] for row in receipt["workload"]["windows"])
    windows = receipt["workload"]["windows"]
    receipt["workload"]["windows"] = [row for row in windows if row["window_s"] != longest]


def scaled_rates(receipt: Receipt) -> None:
    for row in receipt["workload"]["buckets"]:
        row["rate_rps"] = digits12(row["rate_rps"] / 2)


FORGERIES: dict[str, tuple[str, Mutation, str]] = {
    # moments
    "attention alone, everywhere": ("open", less_attention, r"buckets\[all\]\.attention_mean$"),
    "attention alone, with hits": ("open, with hits", less_attention, r"buckets\[all\]\.attention_mean$"),
    "uncached second moment": ("open", nudge("uncached_tokens_m2"), r"\.attention_mean$"),
    "prompt x uncached": ("open, with hits", nudge("prompt_uncached_mean"), r"\.attention_mean$"),
    "more attention than prompts can have": ("open", nudge("attention_m2", 1.0), r"\.attention_m2$"),
    "less attention than its mean can have": ("open", nudge("attention_m2", -0.9), r"\.attention_m2$"),
    "uncached x attention, too much": ("open", nudge("uncached_attention_mean", 0.5), r"\.uncached_attention_mean$"),
    "uncached x attention, too little": ("open", nudge("uncached_attention_mean", -0.5), r"\.uncached_att.*mean$"),
    "prompt x attention, too much": ("open", nudge("prompt_attention_mean", 1e-6), r"\.prompt_attention_mean$"),
    "prompt x attention, too little": ("open", nudge("prompt_attention_mean", -1e-6), r"\.prompt_attention_mean$"),
    "a moment of one bucket": ("open", nudge("attention_m2", 1e-6, (1,)), r"buckets\[all\]\.attention_m2$"),
    "hits denied": ("open, with hits", without_hits, r"\.(attention_mean|uncached_tokens_m2)$"),
    "hits invented": ("rate", with_hits, r"\.attention_mean$"),
    "no longest uncached": ("open", in_bucket(0, uncached_tokens_max=5), r"buckets\[all\]\.uncached_tokens_max$"),
    "the largest attention is the longest prompt's": (
        "open",
        in_bucket(3, attention_max=4096**2),
        r"buckets\[\[4096,inf\)\]\.attention_max$",
    ),
    "a largest attention that is no count": ("open", in_bucket(1, attention_max=260000.5), r"\.attention_max$"),
    "sums that are not whole": ("open", nudge("uncached_tokens_mean", 1e-8), r"buckets\[all\]\.uncached_tokens_mean$"),
    # rows, steps, cache
    "rows dropped for no reason": ("open", in_workload(dropped=[]), r"^workload\.rows_dropped$"),
    "a kind of dropped rows twice": (
        "open",
        in_workload(dropped=[{"kind": "arrival", "rows": 15}, {"kind": "arrival", "rows": 15}]),
        r"^workload\.dropped$",
    ),
    "kinds of dropped rows out of order": (
        "open",
        in_workload(dropped=[{"kind": "arrival", "rows": 10}, {"kind": "output_tokens", "rows": 20}]),
        r"^workload\.dropped",
    ),
    "no row dropped of a kind": (
        "open",
        in_workload(dropped=[{"kind": "arrival", "rows": 30}, {"kind": "output_tokens", "rows": 0}]),
        r"^workload\.dropped\[output_tokens\]\.rows$",
    ),
    "a format that nobody knows": ("open", in_workload(format="nonsense"), r"^workload\.format$"),
    "a kind of dropped rows that steers a terminal": (
        "open",
        in_workload(dropped=[{"kind": "\x1b[31m", "rows": 30}]),
        r"^workload\.dropped\[.*\]\.kind$",
    ),
    "a log repeated otherwise than it says": (
        "open",
        lambda receipt: receipt["workload"]["steps"][2].update(detail="7 times"),
        r"^workload\.steps\[repeat\]\.requests$",
    ),
    "a log thinned otherwise than it says": (
        "open",
        lambda receipt: receipt["workload"]["steps"][1].update(step="thin", detail="1 of every 100"),
        r"^workload\.steps\[thin\]\.requests$",
    ),
    "more rows read": ("open", in_workload(rows_read=1001), r"^workload\.steps\[spread_ties\]\.requests$"),
    "steps denied": ("open", in_workload(steps=[]), r"^workload\.requests$"),
    "a step denied": ("open", steps(0, 2, 3), r"^workload\.steps\[repeat\]\.requests$"),
    "a step twice": ("open", steps(0, 1, 1, 2, 3), r"^workload\.steps"),
    "steps out of order": ("open", steps(0, 1, 3, 2), r"^workload\.steps"),
    "an unknown step": ("open", lambda r: r["workload"]["steps"][1].update(step="pick"), r"^workload\.steps\[pick\]"),
    "a cut that adds requests": ("open", step("where", 971), r"^workload\.steps\[where\]\.requests$"),
    "nothing left": ("open", step("where", 0), r"^workload\.steps\[where\]\.requests$"),
    "repeated one time and a bit": ("open", step("where", 479), r"^workload\.steps\[repeat\]\.requests$"),
    "a cache without hits": (
        "open",
        in_workload(prefix_cache={"capacity_tokens": None, "scope": "shared", "workers": 1, "block_tokens": 16,
                                  "hit_ratio": 0.25}),
        r"^workload\.prefix_cache\.hit_ratio$",
    ),
    "a better cache": ("open, with hits", in_cache(hit_ratio=0.5), r"^workload\.prefix_cache\.hit_ratio$"),
    "a cache of no scope": ("open, with hits", in_cache(scope="global"), r"^workload\.prefix_cache\.scope$"),
    "a warning that claims a measurement": (
        "open",
        in_workload(warnings=["TTFT was measured at 0.2 s"]),
        r"^workload\.warnings\[0\]$",
    ),
    # kinds
    "open called rate": ("open", in_workload(kind="rate"), r"^workload\.kind$"),
    "rate called open": ("rate", in_workload(kind="open"), r"^workload\.kind$"),
    "closed called rate": ("closed", in_workload(kind="rate"), r"^workload\.kind$"),
    "a duration of no trace": ("rate", in_workload(duration_s=500.0), r"^workload\.duration_s$"),
    "a trace of no duration": ("open", in_workload(duration_s=None), r"^workload\.duration_s$"),
    "a trace of no rate": ("open", in_bucket(1, rate_rps=None), r"^workload\.buckets\[.*\]\.rate_rps$"),
    "a closed loop of a rate": ("closed", in_bucket(0, rate_rps=3.5), r"^workload\.buckets\[all\]\.rate_rps$"),
    "half the declared rate": ("rate", scaled_rates, r"^workload\.buckets\[all\]\.rate_rps$"),
    "another share of the declared rate": ("rate", in_bucket(1, rate_rps=0.5), r"^workload\.buckets\[.*\]\.rate_rps$"),
    "a variation of declared arrivals": ("rate", in_bucket(0, arrival_scv=1), r"buckets\[all\]\.arrival_scv$"),
    "more variation than gaps": ("open", in_bucket(1, arrival_scv=1e4), r"^workload\.buckets\[.*\]\.arrival_scv$"),
    "classes that arrive": ("open", in_workload(format="classes"), r"^workload\.kind$"),
    # windows
    "windows of no trace": (
        "rate",
        in_workload(windows=[{"bucket": "all", "window_s": 1, "windows": 500, "dispersion": 1, "peak_rps": 4}]),
        r"^workload\.windows$",
    ),
    "no windows": ("open", in_workload(windows=[]), r"^workload\.windows$"),
    "a length of windows dropped": ("open", windows_of_the_longest_dropped, r"^workload\.windows$"),
    "a window of another length": ("open", window("window_s", lambda value: 2), r"^workload\.windows"),
    "a window more": ("open", window("windows", lambda value: value + 1), r"^workload\.windows\[all/1\]\.windows$"),
    "half a request at the peak": ("open", window("peak_rps", lambda value: value + 0.5), r"^workload\.windows.*peak"),
    "a higher peak": ("open", window("peak_rps", lambda value: value + 40), r"^workload\.windows\[all/1\]\.peak_rps$"),
    "a lower peak": ("open", window("peak_rps", lambda value: 1), r"^workload\.windows\[all/1\]"),
    "no dispersion": ("open", window("dispersion", lambda value: None), r"^workload\.windows\[all/1\]\.dispersion$"),
    "a negative dispersion": ("open", window("dispersion", lambda value: -1), r"^workload\.windows.*\.dispersion$"),
    "dispersion of no counts": (
        "open",
        window("dispersion", lambda value: digits12(value * (1 + 1e-9))),
        r"^workload\.windows\[all/1\]\.dispersion$",
    ),
    "more dispersion than peak": ("open", window("dispersion", lambda value: 99), r"^workload\.windows.*\.dispersion$"),
    "all bursts flattened": ("open", calmer, r"^workload\.windows"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORGERIES)
def test_forgeries(form: str, receipts: dict[str, Receipt], tmp_path: Path) -> None:
    name, mutation, pattern = FORGERIES[form]
    check(copy.deepcopy(receipts[name]), tmp_path, mutation, pattern)


def test_hits_that_count_twice(receipts: dict[str, Receipt], tmp_path: Path) -> None:
    """A declared hit ratio on requests with cached tokens of their own."""
    receipt = copy.deepcopy(receipts["open, with hits"])
    row = forge.input_row(receipt, "service.prefill.prefix_hit_ratio")
    row.update(value=0.3, conservative=0.3, note=None)
    forge.recompute(receipt)
    forge.name_anew(receipt)
    where = r"^inputs\[service\.prefill\.prefix_hit_ratio\]\.value$"
    rejected_at(forge.verified(tmp_path, copy.deepcopy(receipt)), where)
    receipt["workload"]["prefix_cache"] = None
    rejected_at(forge.verified(tmp_path, receipt), where)


def declared_away(receipt: Receipt) -> None:
    forge.input_row(receipt, "service.prefill.prefix_hit_ratio").update(value=0.6, low=0.6, conservative=0.6)
    forge.recompute(receipt)


def scv_at_its_low_end(receipt: Receipt) -> None:
    forge.input_row(receipt, "requests.arrival_scv").update(value=2, low=1, high=4, conservative=1, note=None)
    forge.recompute(receipt)
    forge.name_anew(receipt)


def scv_of_another_default(receipt: Receipt) -> None:
    forge.input_row(receipt, "requests.arrival_scv").update(value=0, conservative=0)
    forge.recompute(receipt)
    forge.name_anew(receipt)


def both_a_rate_and_a_concurrency(receipt: Receipt) -> None:
    row = forge.input_row(receipt, "requests.rate")
    receipt["inputs"].insert(1, {**row, "path": "requests.concurrency", "unit": "count", "value": 9, "high": None,
                                 "conservative": 9})  # fmt: skip
    forge.name_anew(receipt)


def nominal_rate_in_both_bounds(receipt: Receipt) -> None:
    for row in receipt["scenarios"]:
        forge.at_rate(receipt, row, "conservative", row["bounds"]["nominal"]["rate_rps"])


def without_what_it_declares(receipt: Receipt) -> None:
    entries = receipt["decision"]["rests_on"]
    receipt["decision"]["rests_on"] = [entry for entry in entries if entry["path"] != "requests.rate"]


def service_of_another_ratio(receipt: Receipt) -> None:
    for row in receipt["service"]:
        row["prefill_mean_s"] = forge.digits(row["prefill_mean_s"] * 0.9)


def nominal_service_alone(receipt: Receipt) -> None:
    for row in receipt["service"]:
        row["bound"] = "nominal"


ARRIVALS: dict[str, tuple[str, Mutation, str]] = {
    "a better hit ratio, under the old fingerprint": (
        "rate, with a declared hit ratio", declared_away, r"^fingerprint$"),
    "a variation at its low end": ("rate", scv_at_its_low_end, r"^inputs\[requests\.arrival_scv\]\.conservative$"),
    "another default": ("closed", scv_of_another_default, r"^inputs\[requests\.arrival_scv\]"),
    "a rate and a concurrency": ("rate", both_a_rate_and_a_concurrency, r"^inputs\[requests\.rate\]$"),
    "the nominal rate in both bounds": ("rate", nominal_rate_in_both_bounds, r"\.conservative\.rate_rps$"),
    "a decision that does not rest on the rate": ("rate", without_what_it_declares, r"^decision\.rests_on$"),
    "prefill of another hit ratio": ("rate, with a declared hit ratio", service_of_another_ratio, r"^service\[.*mean_s$"),
    "a second moment of prefill": (
        "open", lambda r: r["service"][1].update(prefill_m2_s2=1), r"^service\[nominal/\[1,512\)\]\.prefill_m2_s2$"),
    "service of a bucket dropped": ("open", lambda r: r["service"].pop(), r"^service$"),
    "service of the nominal bound alone": (
        "open", nominal_service_alone, r"^service\[\d+\]$"),
}  # fmt: skip


@pytest.mark.parametrize("form", ARRIVALS)
def test_forged_arrivals_and_service(form: str, receipts: dict[str, Receipt], tmp_path: Path) -> None:
    name, mutation, pattern = ARRIVALS[form]
    check(copy.deepcopy(receipts[name]), tmp_path, mutation, pattern)


def test_a_rate_of_the_matrix_has_the_provenance_of_its_input(receipts: dict[str, Receipt], tmp_path: Path) -> None:
    for name, provenance in (("open", "derived"), ("closed", "derived"), ("rate", "supplied")):
        rows = forge.matrix_rows(receipts[name])
        place = rows[0].index("rate_rps_provenance")
        assert {row[place] for row in rows[1:]} == {provenance}
        rows[1][place] = "observed"
        verification = forge.verified(tmp_path, copy.deepcopy(receipts[name]), rows)
        rejected_at(verification, r"^matrix\.csv\[aggregated/n1\]\.rate_rps_provenance$")


@given(st.lists(st.integers(0, 30), min_size=2, max_size=40).filter(any), st.integers(0, 50))
def test_whole_counts_have_a_possible_dispersion(counts: list[int], outside: int) -> None:
    total, squares = sum(counts), sum(count**2 for count in counts)
    dispersion = digits12(squares / total - total / len(counts))
    assert may_be_dispersion(dispersion, max(counts), len(counts), total + outside)
    assert not may_be_dispersion(max(counts) + 1.0, max(counts), len(counts), total + outside)


def test_many_requests_are_held_to_bounds() -> None:
    # a million requests in a thousand windows, one of them with ten times the mean: at least (10⁴ - 10³)²/(999 x 10³)
    assert may_be_dispersion(90.0, 10_000, 1000, 1_000_000)
    assert not may_be_dispersion(80.0, 10_000, 1000, 1_000_000)
    assert not may_be_dispersion(9_999.0, 10_000, 1000, 1_000_000)
