"""ServeGen's logs of rates: read as windows, and turned into the same requests every time."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.servegen import SERVEGEN, gap_starts_ns, read_windows
from pipelines.traces.formats.servegen_lengths import read_lengths
from pipelines.traces.log import Log, LogOptions, read_as, read_log
from pipelines.traces.log_file import LogFile
from pipelines.traces.registry import FORMATS
from pipelines.traces.trace_format import ReadOptions

WINDOW_NS = 600 * 10**9
LENGTHS = {"0": {"input_tokens": "{100: 0.5, 300: 0.5}", "output_tokens": "{10: 0.25, 20: 0.75}"}}


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    return tmp_path / "chunk-0-trace.csv"


def windows_file(path: Path, *rows: str) -> LogFile:
    path.write_text("".join(f"{row}\n" for row in rows))
    return LogFile(path, "trace.csv")


def expanded(file: LogFile, lengths: object = LENGTHS, *, drop: bool = False) -> Log:
    path = file.path.parent / "chunk-0-dataset.json"
    path.write_text(json.dumps(lengths))
    return read_as(
        file, SERVEGEN, LogOptions(on_invalid="drop" if drop else "reject", reading=ReadOptions(lengths=path))
    )


def refusal(file: LogFile, lengths: object = LENGTHS) -> str:
    with pytest.raises(DeclarationProblems) as caught:
        expanded(file, lengths)
    return str(caught.value)


@pytest.mark.parametrize("row", ["0,0,0,,0,0", "2400,0.085,6.69,Gamma,0.022,73.0", "0,1,2,Weibull,4,5"])
def test_a_window_on_the_first_line_is_recognised(rates: Path, row: str) -> None:
    assert SERVEGEN.detect(windows_file(rates, row).head)


@pytest.mark.parametrize(
    "row",
    [
        "start,rate,cv,name,a,b",
        "0,0,0,,0",
        "0,0,0,,0,0,0",
        "0.5,0,0,,0,0",
        "-600,0,0,,0,0",
        "0,0,0,12,0,0",
        "0,nan,0,Gamma,0,0",
        "1,GPT-4,2,3,5,API log",
        '{"timestamp": 0}',
    ],
)
def test_what_is_no_window_is_not(rates: Path, row: str) -> None:
    assert not SERVEGEN.detect(windows_file(rates, row).head)


def test_the_real_log_of_rates(shared: Path) -> None:
    file = LogFile(shared / "traces/servegen_reason_r1_chunk0_trace.csv", "trace.csv")
    assert SERVEGEN.detect(file.head)
    rates = read_windows(file)
    assert (rates.windows, rates.window_s, rates.duration_s, rates.nonempty_windows) == (144, 600, 86_400, 26)
    # rates are counts divided by 600 s, so that the sum is a whole number
    assert rates.expected_requests == 4926
    assert rates.rate_rps == 4926 / 86_400
    assert rates.peak_rate_rps == 0.455
    assert rates.frame.row(4) == (2400, 0.085, 6.69324386291654, "Gamma", 0.02232167101916883, 73.01783087211976)
    assert rates.frame["distribution"].null_count() == 118


def test_a_log_of_rates_holds_no_requests(rates: Path) -> None:
    file = windows_file(rates, "0,1,1,Gamma,1,1", "600,1,1,Gamma,1,1")
    with pytest.raises(
        DeclarationProblems,
        match=r"holds no requests; its data set of lengths is needed .*requests\.trace\.lengths.*--lengths",
    ):
        read_as(file, SERVEGEN, LogOptions())


def test_all_rows_that_are_no_windows_are_named_at_once(rates: Path) -> None:
    rows = [
        "0,1,1,Gamma,1,1",
        "600,1,1",
        "1200,x,1,Gamma,1,1",
        "1800,1,1,,0,0",
        "2400,1,1,Pareto,1,1",
        "3000,1,1,Gamma,0,1",
        "3600,0,0,,0,0",
        "4300,0,0,,0,0",
    ]
    lines = refusal(windows_file(rates, *rows)).splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "3", "4", "5", "6"]


def test_windows_are_of_one_length(rates: Path) -> None:
    uneven = windows_file(rates, "0,0,0,,0,0", "600,0,0,,0,0", "1800,0,0,,0,0", "2400,0,0,,0,0", "2400,0,0,,0,0")
    assert "a window that does not begin where the one above ends in 2 rows (rows 3, 5)" in refusal(uneven)
    assert "fewer than two windows" in refusal(windows_file(rates, "0,0,0,,0,0"))


def test_requests_that_do_not_fill_a_window_are_carried_on(rates: Path) -> None:
    # 0.4 of a request in each of five windows: two in all, one each where the sum passes 0.5 and 1.5
    file = windows_file(rates, *(f"{at},0.04,1,Exponential,1,1" for at in range(0, 50, 10)))
    log = expanded(file)
    assert log.rows.height == 2
    assert log.rows["timestamp_ns"].to_list() == [0, 20 * 10**9]  # windows 2 and 4


def test_gaps_fill_the_window_and_long_and_short_ones_take_turns() -> None:
    starts = gap_starts_ns("Weibull", 1.0, 4, 1000)
    # quantiles of the exponential at 1/8, 3/8, 5/8, 7/8 in the order 0, 2, 1, 3; their sum is 3.663562
    gaps = np.array([0.133531, 0.980829, 0.470004, 2.079442])
    assert starts.to_list() == [0, *(np.cumsum(gaps)[:3] / gaps.sum() * 1000).astype(int)]


@pytest.mark.parametrize(
    ("name", "shape", "cv"),
    [("Gamma", 0.25, 2.0), ("Gamma", 4.0, 0.5), ("Weibull", 2.0, 0.5227), ("Exponential", 0.0, 1.0)],
)
def test_gaps_vary_as_the_distribution_does(name: str, shape: float, cv: float) -> None:
    starts = gap_starts_ns(name, shape, 20_000, WINDOW_NS).to_numpy()
    gaps = np.diff(starts, append=WINDOW_NS)
    assert gaps.sum() == WINDOW_NS
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.01)


@pytest.mark.parametrize("shape", [1e-6, 0.0223, 1e6])
@pytest.mark.parametrize("name", ["Gamma", "Weibull"])
@pytest.mark.parametrize("count", [1, 2, 51])
def test_no_shape_puts_a_request_outside_its_window(name: str, shape: float, count: int) -> None:
    starts = gap_starts_ns(name, shape, count, WINDOW_NS)
    assert starts.len() == count
    assert starts.is_sorted()
    assert starts[0] == 0
    assert starts[-1] < WINDOW_NS


def test_lengths_have_the_shares_of_the_distribution(rates: Path) -> None:
    log = expanded(windows_file(rates, "0,1,1,Gamma,1,1", "600,0,0,,0,0"))
    assert log.rows.height == 600
    assert (log.rows["prompt_tokens"] == 100).sum() == pytest.approx(300, abs=3)
    assert (log.rows["output_tokens"] == 20).sum() == pytest.approx(450, abs=3)
    # prompt and output are independent: half of the outputs of 20 tokens follow prompts of 100
    both = log.rows.filter(prompt_tokens=100, output_tokens=20).height
    assert both == pytest.approx(225, abs=6)
    assert log.steps == (("expand", "1 windows of 600 s with requests"),)
    assert "none of them was observed" in log.warnings[0]


def test_reading_twice_gives_the_same_requests(rates: Path) -> None:
    file = windows_file(rates, "0,1,1,Gamma,0.3,1", "600,2,2,Weibull,0.4,1")
    assert expanded(file).rows.equals(expanded(file).rows)


def test_a_data_set_of_lengths_that_has_changed_is_read_again(rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, "servegen", SERVEGEN)
    windows_file(rates, "0,0.1,1,Gamma,1,1", "10,0,0,,0,0")
    lengths = rates.parent / "chunk-0-dataset.json"
    os.utime(rates, ns=(10**18, 10**18))
    for tokens in (7, 8):
        lengths.write_text(json.dumps({"0": {"input_tokens": f"{{{tokens}: 1.0}}", "output_tokens": "{1: 1.0}"}}))
        os.utime(lengths, ns=(10**18, 10**18 + tokens))
        log = read_log(rates, LogOptions(reading=ReadOptions(lengths=lengths)))
        assert log.rows["prompt_tokens"].to_list() == [tokens]


def test_a_window_takes_the_lengths_of_the_nearest_window_before_it_that_has_any(rates: Path) -> None:
    lengths = {
        "0": {"input_tokens": "{7: 1.0}", "output_tokens": "{1: 1.0}"},
        "10": {"input_tokens": "{}", "output_tokens": "{1: 1.0}"},
        "20": {"input_tokens": "{9: 1.0}", "output_tokens": "{1: 1.0}"},
    }
    file = windows_file(rates, *(f"{at},0.1,1,Gamma,1,1" for at in range(0, 40, 10)))
    assert expanded(file, lengths).rows["prompt_tokens"].to_list() == [7, 7, 9, 9]
    del lengths["0"]
    assert "trace.csv:1:1: requests before the first window of the data set of lengths" in refusal(file, lengths)


def test_images_count_as_prompt_tokens(rates: Path) -> None:
    lengths = {
        "0": {
            "text_tokens": "{50: 1.0}",
            "output_tokens": "{1: 1.0}",
            "image_count": "{0: 0.5, 2: 0.5}",
            "image_tokens": "{1000: 1.0}",
        }
    }
    log = expanded(windows_file(rates, "0,4.9,1,Gamma,1,1", "10,0,0,,0,0"), lengths)
    # the first 49 points of base 7 are all multiples of 1/49, of which 25 are below 1/2
    assert sorted(log.rows["prompt_tokens"]) == [50] * 25 + [2050] * 24


def test_a_length_of_0_is_no_request(rates: Path) -> None:
    lengths = {"0": {"input_tokens": "{0: 0.25, 5: 0.75}", "output_tokens": "{1: 1.0}"}}
    log = expanded(windows_file(rates, "0,0.8,1,Gamma,1,1", "10,0,0,,0,0"), lengths, drop=True)
    assert log.rows_read == 8
    assert log.invalid.by_code() == {"prompt_tokens_zero": 3}  # of 0, 1/3, 2/3, 1/9, 4/9, 7/9, 2/9, 5/9


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ({}, "not a data set of lengths"),
        ([1], "not a data set of lengths"),
        ({"a": {}}, "not a data set of lengths"),
        ({"0": {"input_tokens": "{1: 1.0}"}}, "no such distributions"),
        ({"0": {"input_tokens": "{}", "output_tokens": "{}"}}, "no window of the data set has lengths"),
        ({"0": {"input_tokens": "__import__('os')", "output_tokens": "{1: 1.0}"}}, "not a distribution"),
        ({"0": {"input_tokens": "{1.5: 1.0}", "output_tokens": "{1: 1.0}"}}, "not a distribution"),
        ({"0": {"input_tokens": "{1: -1.0}", "output_tokens": "{1: 1.0}"}}, "not a distribution"),
        ({"0": {"input_tokens": "{1: 0.5}", "output_tokens": "{1: 1.0}"}}, "do not add up to 1"),
        ({"0": {"input_tokens": "{9999999999: 1.0}", "output_tokens": "{1: 1.0}"}}, "not a distribution"),
    ],
)
def test_a_wrong_data_set_of_lengths_is_refused(rates: Path, lengths: object, expected: str) -> None:
    file = windows_file(rates, "0,1,1,Gamma,1,1", "600,0,0,,0,0")
    message = refusal(file, lengths)
    assert expected in message
    assert "import" not in message


def test_two_wrong_distributions_are_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps({"0": {"input_tokens": 1, "output_tokens": "{1: 0.5}"}}))
    with pytest.raises(DeclarationProblems) as caught:
        read_lengths(LogFile(path, "dataset.json"))
    assert len(caught.value.problems) == 2


def test_rates_beyond_all_measure_are_refused(rates: Path) -> None:
    assert "more than 50,000,000 requests" in refusal(windows_file(rates, "0,1e9,1,Gamma,1,1", "600,0,0,,0,0"))
    assert "expected a number from 0 to 1e+12" in refusal(windows_file(rates, "0,9e307,1,Gamma,1,1", "600,0,0,,0,0"))
