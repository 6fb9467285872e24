"""What is said of logs that can be read but look wrong."""

import polars as pl
import pytest

from pipelines.traces.doubts import doubts, tick_ns, tie_doubt, unit_doubt

NS = 10**9
THREE_HOURS_S = 10_800


def every(step_ns: int, count: int) -> pl.Series:
    return pl.Series([i * step_ns for i in range(count)], dtype=pl.Int64)


def test_three_hours_that_span_ten_seconds_are_named_as_a_wrong_unit() -> None:
    """Seconds read as milliseconds."""
    assert unit_doubt(27_000, THREE_HOURS_S * NS // 1000) == (
        "27,000 requests within 10.8 s are 2,500 requests/s: is the unit of the timestamps right? "
        "Read as a unit a thousand times longer (s where ms were read), they would be 2.5 requests/s over 3 h"
    )


def test_three_hours_that_span_months_are_named_as_a_wrong_unit() -> None:
    """Milliseconds read as seconds."""
    assert unit_doubt(27_000, THREE_HOURS_S * NS * 1000) == (
        "27,000 requests over 125 days are 0.0025 requests/s: is the unit of the timestamps right? "
        "Read as a unit a thousand times shorter (ms where s were read), they would be 2.5 requests/s over 3 h"
    )


def test_years_are_doubted_at_any_rate() -> None:
    assert (unit_doubt(10**9, 3 * 366 * 86_400 * NS) or "").startswith("1,000,000,000 requests over 1098 days")


@pytest.mark.parametrize(
    ("requests", "span_s"),
    [
        (8_819, 3_436),  # Azure 2023, code
        (44_107_694, 604_800),  # Azure 2024, a week
        (1_429_737, 61 * 86_400),  # BurstGPT 1
        (5_344_021, 213 * 86_400),  # BurstGPT 3
        (7_106, 604_603),  # RAGPulse
        (12_031, 3_537),  # Mooncake
        (3, 0.001),
        (100, 0),
    ],
)
def test_known_logs_are_not_doubted(requests: int, span_s: float) -> None:
    assert unit_doubt(requests, int(span_s * NS)) is None


def test_whole_seconds_look_like_bursts_and_spreading_is_offered() -> None:
    times = pl.Series([i // 4 * NS for i in range(100)])
    assert tie_doubt(times) == (
        "100 of 100 requests share their timestamp with another; timestamps lie 1 s apart. "
        "If they came one after the other, not at once, spread_ties: 1 s places them evenly within it"
    )


def test_a_few_ties_are_no_matter() -> None:
    times = [i * 1_000_003 for i in range(1_000)]
    times[500] = times[499]
    assert tie_doubt(pl.Series(times)) is None


def test_the_tick_divides_all_distances_even_where_some_are_skipped() -> None:
    assert tick_ns(pl.Series([0, 3, 5, 9]) * NS) == NS


def test_distances_without_a_common_tick_are_told_by_their_median() -> None:
    """Distances 2,999,999,999, 3,000,000,003 and 2,999,999,999 ns have no common divisor above 1 ms."""
    assert tick_ns(pl.Series([0, 2_999_999_999, 6_000_000_002, 9_000_000_001])) == 2_999_999_999


def test_rows_out_of_order_are_counted() -> None:
    rows = pl.DataFrame({"timestamp_ns": every(NS, 60)})
    assert doubts(rows, 1) == ["1 row comes before the row above; the log was sorted by time"]
    assert doubts(rows, 1234) == ["1,234 rows come before the row above; the log was sorted by time"]
    assert doubts(rows, 0) == []


def test_a_log_without_arrivals_is_not_doubted() -> None:
    assert doubts(pl.DataFrame({"prompt_tokens": [1]}), 0) == []
