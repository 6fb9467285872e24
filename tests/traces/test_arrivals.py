"""Dispersion and peak rates over windows, against numbers worked out by hand and a slow count."""

from itertools import pairwise
from math import isclose
from random import Random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.traces import arrivals as windowed
from pipelines.traces.arrivals import window_lengths_s
from pipelines.traces.workload import arrival_scv, window_frame

NS = 10**9


def arrivals(*seconds: float) -> pl.Series:
    return pl.Series([int(second * NS) for second in seconds], dtype=pl.Int64)


def window_figures(arrival_ns: pl.Series, window_s: int, span_ns: int) -> dict[str, object]:
    """The figures of one window length."""
    return windowed.window_figures(arrival_ns, [window_s], span_ns)[0]


def test_a_window_length_needs_ten_windows() -> None:
    assert window_lengths_s(10 * NS - 1) == []
    assert window_lengths_s(10 * NS) == [1]
    assert window_lengths_s(604_800 * NS) == [1, 10, 60, 600, 3600]


def test_even_arrivals_have_no_dispersion() -> None:
    assert window_figures(arrivals(*(i / 2 for i in range(21))), 1, 10 * NS) == {
        "window_s": 1,
        "windows": 10,
        "dispersion": 0.0,
        "peak_rps": 2.0,  # the last arrival, at 10 s, begins an eleventh window
    }


def test_arrivals_in_one_window_of_ten() -> None:
    """Counts 4 and nine zeros: mean 0.4, E[c^2] = 1.6, variance 1.44, over the mean 3.6."""
    figures = window_figures(arrivals(3.0, 3.1, 3.2, 3.9), 1, 10 * NS)
    assert figures == {"window_s": 1, "windows": 10, "dispersion": 3.6, "peak_rps": 4.0}


def test_an_arrival_on_a_border_belongs_to_the_later_window() -> None:
    assert window_figures(arrivals(0, 1, 1.5), 1, 2 * NS)["peak_rps"] == 2.0


def test_windows_without_any_arrival_have_no_dispersion() -> None:
    """The bucket's only request comes after the last whole window."""
    assert window_figures(arrivals(10.5), 1, 10 * NS) == {
        "window_s": 1,
        "windows": 10,
        "dispersion": None,
        "peak_rps": 0.0,
    }


@given(st.lists(st.integers(0, 60 * NS), min_size=1, max_size=300), st.integers(1, 5))
@settings(max_examples=80)
def test_windows_agree_with_a_slow_count(times: list[int], window_s: int) -> None:
    """With more windows than arrivals, and with fewer."""
    times.sort()
    span = max(times[-1], 10 * window_s * NS)
    windows = span // (window_s * NS)
    counts = [sum(i * window_s * NS <= at < (i + 1) * window_s * NS for at in times) for i in range(windows)]
    figures = window_figures(pl.Series(times, dtype=pl.Int64), window_s, span)
    mean = sum(counts) / windows
    assert figures["windows"] == windows
    assert figures["peak_rps"] == float(f"{max(counts) / window_s:.11e}")
    if mean:
        expected = sum((count - mean) ** 2 for count in counts) / windows / mean
        assert isclose(figures["dispersion"], expected, rel_tol=1e-9, abs_tol=1e-9)


def test_poisson_like_arrivals_have_a_dispersion_near_one_and_bursts_far_above() -> None:
    """Independent gaps of a seeded stream; then the same requests, each at the last full hundred seconds."""
    draw = Random(5)
    times = pl.Series([draw.expovariate(1.0) for _ in range(10_000)]).cum_sum()
    steady = (times * NS).cast(pl.Int64)
    bursty = ((times // 100) * 100 * NS).cast(pl.Int64)
    span = int(steady[-1])
    assert 0.7 < window_figures(steady, 10, span)["dispersion"] < 1.3
    assert window_figures(bursty, 10, span)["dispersion"] > 50


def test_gaps_of_hours_in_nanoseconds_do_not_overflow() -> None:
    """Gaps of 2^40 and 3 * 2^40 ns: mean 2, variance 1 in units of 2^40."""
    assert arrival_scv(pl.Series([0, 2**40, 2**42], dtype=pl.Int64)) == 0.25
    assert arrival_scv(pl.Series([0, 2**61, 2**61 + 1], dtype=pl.Int64)) == pytest.approx(1.0)


@given(st.lists(st.integers(0, 2**61), min_size=3, max_size=40))
@settings(max_examples=80)
def test_scv_is_exact(times: list[int]) -> None:
    times.sort()
    gaps = [later - earlier for earlier, later in pairwise(times)]
    found = arrival_scv(pl.Series(times, dtype=pl.Int64))
    if sum(gaps) == 0:
        assert found is None
    else:
        exact = (len(gaps) * sum(gap * gap for gap in gaps) - sum(gaps) ** 2) / sum(gaps) ** 2
        assert found == float(f"{exact:.11e}")


def test_every_bucket_that_holds_a_request_has_its_windows() -> None:
    requests = pl.DataFrame(
        {
            "arrival_ns": [i * NS for i in range(21)],
            "prompt_tokens": [5, 50, 50] * 7,
            "cached_prompt_tokens": [0] * 21,
            "output_tokens": [1] * 21,
        }
    )
    frame = window_frame(requests, [10, 100])
    assert frame.select("bucket", "window_s", "windows", "peak_rps").rows() == [
        ("all", 1, 20, 1.0),
        ("[1,10)", 1, 20, 1.0),
        ("[10,100)", 1, 20, 1.0),
    ]
    assert window_frame(requests, [], kind="rate").is_empty()
