"""Every form in which a cohort may say which requests it stands for becomes the documented objects."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from pipelines.declarations import Cohort, DeclarationProblems, Input, load_cohort
from pipelines.declarations.known_formats import TRACE_FORMATS
from pipelines.declarations.typed import (
    ChosenEdges,
    Classes,
    ColumnMap,
    PrefixCache,
    RequestClass,
    Slice,
    TraceSource,
)

GOOD = Path(__file__).parent / "good"
TEXT = (GOOD / "cohort.yaml").read_text(encoding="utf-8")
HEAD, REST = TEXT.partition("requests:\n")[0], "model:\n" + TEXT.partition("model:\n")[2]
LOG = "  trace: {file: requests.csv, provenance: supplied}\n"
GENERIC = "  trace: {file: requests.csv, format: generic, provenance: supplied, columns: {prompt_tokens: in, output_tokens: out}}\n"
RATE = "  arrivals: {rate: {value: 3.2/s, provenance: supplied}}\n"

Declared = Callable[..., Cohort]


@pytest.fixture
def declared(tmp_path: Path) -> Declared:
    """A function that loads a cohort with the given requests block."""
    (tmp_path / "requests.csv").touch()

    def load(requests: str, edges: str = "[]", rest: str = REST) -> Cohort:
        text = f"{HEAD}requests:\n{requests}  bucket_edges_tokens: {edges}\n{rest}"
        (tmp_path / "cohort.yaml").write_text(text, encoding="utf-8")
        return load_cohort(tmp_path)

    return load


def row(cohort: Cohort, path: str) -> Input:
    return next(row for row in cohort.inputs if row.path == path)


def test_a_log_alone_is_read_as_it_is(declared: Declared, tmp_path: Path) -> None:
    cohort = declared(LOG)
    assert cohort.trace == TraceSource(tmp_path / "requests.csv", None, "supplied", None, None)
    assert (cohort.classes, cohort.slice, cohort.prefix_cache) == (None, Slice(), None)
    assert cohort.kind == "open"
    assert not [row.path for row in cohort.inputs if row.path.startswith("requests.")]


def test_a_log_of_no_known_format_with_all_that_can_be_said_of_one() -> None:
    cohort = load_cohort(GOOD / "generic_log.yaml")
    assert cohort.trace == TraceSource(
        file=GOOD / "requests.csv",
        format="generic",
        provenance="observed",
        source="gateway log of 2026-11-02",
        note="one day",
        columns=ColumnMap("ts", "ms", "usage.in", "usage.out", "usage.hit", "served model", "lora", "prio"),
        on_invalid="drop",
        context_tokens=131072,
        spread_ties_ns=10**9,
    )
    assert cohort.slice == Slice(
        window_ns=(7200 * 10**9, 10800 * 10**9),
        where={"model": ("llama-70b",), "adapter": ("",), "priority": ("0", "1")},
        prompt_tokens=(512, 8192),
        thin=(1, 10),
        repeat=3,
        scale_rate=Fraction(3, 2),
    )
    assert list(cohort.slice.where) == ["model", "adapter", "priority"]
    assert cohort.bucket_edges_tokens == ChosenEdges("quantiles", 4)


def test_a_log_with_turns_block_hashes_and_declared_arrivals() -> None:
    cohort = load_cohort(GOOD / "log_of_turns.yaml")
    assert cohort.trace is not None
    assert (cohort.trace.turn_time_ns, cohort.trace.turn_time_per_output_token_ns) == (3 * 10**9, 20 * 10**6)
    assert cohort.slice == Slice(window_ns=(None, 3600 * 10**9), repeat=2)
    assert cohort.prefix_cache == PrefixCache(2_000_000, "per_worker", 4)
    assert cohort.bucket_edges_tokens == ChosenEdges("log", 32)
    assert cohort.kind == "rate"
    assert cohort.inputs[:2] == (
        Input("requests.rate", "requests/s", 3.2, 3.0, 4.0, 4.0, "observed", "dashboard", "peak hour"),
        Input("requests.arrival_scv", "ratio", 1.5, None, 4.0, 4.0, "supplied", None, None),
    )


def test_classes_in_place_of_a_log() -> None:
    cohort = load_cohort(GOOD / "classes.yaml")
    members = (RequestClass(3, 800, 600, 200), RequestClass(1, 1, 0, 1))
    assert cohort.classes == Classes(members, "observed", "a survey", "last year")
    assert (cohort.trace, cohort.slice, cohort.prefix_cache) == (None, Slice(), None)
    assert cohort.kind == "closed"
    assert cohort.inputs[:2] == (
        Input("requests.concurrency", "count", 64, None, 80, 80, "supplied", None, None),
        Input("requests.arrival_scv", "ratio", 1.0, None, None, 1.0, "supplied", None, "not declared: default"),
    )
    assert type(cohort.inputs[0].value) is int


def test_a_generic_log_without_arrivals_needs_them_declared(declared: Declared) -> None:
    cohort = declared(GENERIC + RATE)
    assert cohort.trace is not None
    assert cohort.trace.columns == ColumnMap(None, None, "in", "out")
    with pytest.raises(DeclarationProblems, match=r"required because requests\.trace\.columns name no arrival"):
        declared(GENERIC)


def test_the_hit_ratio_of_a_log_that_says_nothing_of_hits(declared: Declared) -> None:
    ratio = "    prefix_hit_ratio: {value: 30 %, low: 0, provenance: supplied}\n    utilization_ceiling: {value: 0.8,"
    cohort = declared(LOG, rest=REST.replace("    utilization_ceiling: {value: 0.8,", ratio))
    hits = row(cohort, "service.prefill.prefix_hit_ratio")
    assert (hits.value, hits.low, hits.conservative, hits.unit) == (0.3, 0.0, 0.0, "ratio")
    paths = [declared.path for declared in cohort.inputs]
    assert paths.index(hits.path) == paths.index("service.prefill.seconds_per_token_squared") + 1


def test_classes_without_hits_may_have_a_hit_ratio(declared: Declared) -> None:
    ratio = "    prefix_hit_ratio: {value: 0.3, provenance: supplied}\n    utilization_ceiling: {value: 0.8,"
    classes = (
        "  classes: [{weight: 1, prompt_tokens: 9, cached_prompt_tokens: 0, output_tokens: 9}]\n"
        "  classes_from: {provenance: supplied}\n"
    )
    cohort = declared(classes + RATE, rest=REST.replace("    utilization_ceiling: {value: 0.8,", ratio))
    assert row(cohort, "service.prefill.prefix_hit_ratio").value == 0.3


@pytest.mark.parametrize("name", [name for name in TRACE_FORMATS if name != "generic"])
def test_every_known_format_can_be_named(declared: Declared, name: str) -> None:
    cohort = declared(LOG.replace("requests.csv", f"requests.csv, format: {name}"))
    assert cohort.trace is not None
    assert cohort.trace.format == name


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", "datetime"])
def test_every_unit_of_an_arrival(declared: Declared, unit: str) -> None:
    cohort = declared(GENERIC.replace("columns: {", f"columns: {{arrival: ts, unit: {unit}, "))
    assert cohort.trace is not None
    assert cohort.trace.columns == ColumnMap("ts", unit, "in", "out")


@pytest.mark.parametrize(
    ("written", "cache"),
    [
        ("{capacity: unlimited, scope: shared}", PrefixCache(None, "shared", 1)),
        ("{capacity: {tokens: 1}, scope: shared}", PrefixCache(1, "shared", 1)),
        ("{capacity: unlimited, scope: per_worker, workers: 2}", PrefixCache(None, "per_worker", 2)),
    ],
)
def test_prefix_caches(declared: Declared, written: str, cache: PrefixCache) -> None:
    assert declared(f"{LOG}  prefix_cache: {written}\n").prefix_cache == cache


@pytest.mark.parametrize(
    ("written", "cut"),
    [
        ("window: {from: 0 s}", Slice(window_ns=(0, None))),
        ("window: {from: 1 ns, to: 2.000000001 s}", Slice(window_ns=(1, 2_000_000_001))),
        ("prompt_tokens: {from: 1}", Slice(prompt_tokens=(1, None))),
        ("prompt_tokens: {to: 2}", Slice(prompt_tokens=(None, 2))),
        ("thin: {keep: 9, of: 10}", Slice(thin=(9, 10))),
        ("repeat: 1000", Slice(repeat=1000)),
        ("scale_rate: 0.1", Slice(scale_rate=Fraction(1, 10))),
        ("scale_rate: 1e-3", Slice(scale_rate=Fraction(1, 1000))),
        ("scale_rate: 2", Slice(scale_rate=Fraction(2))),
        ("scale_rate: 1.", Slice(scale_rate=Fraction(1))),
        ("scale_rate: 0x10", Slice(scale_rate=Fraction(16))),
    ],
)
def test_slices(declared: Declared, written: str, cut: Slice) -> None:
    assert declared(f"{LOG}  slice: {{{written}}}\n").slice == cut


def test_a_window_and_the_order_of_turns_are_kept_beside_declared_arrivals(declared: Declared) -> None:
    log = LOG.replace("requests.csv", "requests.csv, turn_time: 1 s")
    assert declared(f"{log}  slice: {{window: {{from: 1 h}}}}\n{RATE}").slice == Slice(window_ns=(3600 * 10**9, None))


@pytest.mark.parametrize(
    ("written", "edges"),
    [
        ("[]", ()),
        ("[2, 512.0]", (2, 512)),
        ("{quantiles: 2}", ChosenEdges("quantiles", 2)),
        ("{log: 2}", ChosenEdges("log", 2)),
    ],
)
def test_bucket_edges(declared: Declared, written: str, edges: tuple[int, ...] | ChosenEdges) -> None:
    assert declared(LOG, written).bucket_edges_tokens == edges
