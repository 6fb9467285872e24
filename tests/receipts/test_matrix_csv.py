"""The matrix as CSV: the receipt's values again, each beside its provenance, in a file that spreadsheets read as it is."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from pipelines.receipts.matrix_csv import COLUMNS_OF_BOUND, cell, matrix_csv
from tests.receipts.conftest import Built

LEADING = ["fingerprint", "scenario", "topology", "latency_label"]


def read(text: str) -> Any:
    """A cell as the JSON value that it stands for."""
    if text == "":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def scenario_of(built: Built, row: dict[str, str]) -> dict[str, Any]:
    return next(one for one in built.receipt["scenarios"] if one["scenario"] == row["scenario"])


@pytest.fixture(params=["good", "hopeless", "one_pool", "paced", "looped", "routed"])
def any_built(request: pytest.FixtureRequest) -> Built:
    found: Built = request.getfixturevalue(request.param)
    return found


class TestForm:
    def test_lines_end_as_rfc_4180_says_and_all_have_as_many_cells(self, any_built: Built) -> None:
        text = any_built.matrix.decode("utf-8")
        assert text.endswith("\r\n")
        assert text.count("\n") == text.count("\r") == text.count("\r\n") == len(any_built.receipt["scenarios"]) + 1
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        assert {len(line) for line in lines} == {len(any_built.receipt["matrix"]["columns"])}

    def test_there_is_no_byte_order_mark(self, good: Built) -> None:
        assert good.matrix.startswith(b"fingerprint,scenario,topology,latency_label,")

    def test_each_value_is_followed_by_its_provenance(self, any_built: Built) -> None:
        columns = any_built.receipt["matrix"]["columns"]
        assert columns[:4] == LEADING
        values, provenances = columns[4::2], columns[5::2]
        assert provenances == [f"{name}_provenance" for name in values]

    def test_the_columns_in_their_documented_order(self, good: Built) -> None:
        gates = [
            "below_ceilings_conservative",
            "goodput",
            "ttft_worst",
            "tpot_worst",
            "stall",
            "transfer_envelope",
        ]
        assert good.receipt["matrix"]["columns"][4::2] == [
            "prefill_tokens_per_second",
            "decode_tokens_per_second",
            "effective_bandwidth_bytes_per_s",
            "ttft_objective_s",
            "tpot_objective_s",
            "rate_rps",
            "threshold_tokens",
            "workers_mixed",
            "workers_prefill",
            "workers_decode",
            "chunk_tokens",
            "gpus",
            "operating_parts",
            *(f"{name}_nominal" for name in COLUMNS_OF_BOUND),
            *(f"{name}_conservative" for name in COLUMNS_OF_BOUND),
            *(f"gate_{name}" for name in gates),
            "passes",
            "chosen",
        ]

    def test_a_gate_on_the_reserve_has_its_column_where_one_is_declared(self, good: Built, measured: Built) -> None:
        assert "gate_transfer_reserve" not in good.receipt["matrix"]["columns"]
        columns = measured.receipt["matrix"]["columns"]
        assert columns.index("gate_transfer_envelope") - columns.index("gate_transfer_reserve") == 2

    def test_a_gate_that_does_not_apply_has_no_column(self, one_pool: Built) -> None:
        assert "gate_stall" not in one_pool.receipt["matrix"]["columns"]
        assert "gate_tpot_worst" in one_pool.receipt["matrix"]["columns"]


class TestValues:
    def test_one_row_a_scenario_in_matrix_order(self, any_built: Built) -> None:
        names = [scenario["scenario"] for scenario in any_built.receipt["scenarios"]]
        assert [row["scenario"] for row in any_built.rows] == names
        for row in any_built.rows:
            assert row["fingerprint"] == any_built.receipt["fingerprint"]
            assert row["latency_label"] == "modeled"

    def test_figures_are_those_of_the_receipt(self, any_built: Built) -> None:
        for row in any_built.rows:
            scenario = scenario_of(any_built, row)
            for bound in ("nominal", "conservative"):
                shown = scenario["bounds"][bound]
                for name in COLUMNS_OF_BOUND:
                    reason = (shown["refusal"] or {}).get(name.removeprefix("refusal_"))
                    figures = shown | {"screening": " ".join(shown["screening"]) or None}
                    expected = reason if name.startswith("refusal_") else figures[name]
                    assert read(row[f"{name}_{bound}"]) == expected

    def test_knobs_verdicts_and_choice_are_those_of_the_receipt(self, any_built: Built) -> None:
        for row in any_built.rows:
            scenario = scenario_of(any_built, row)
            for name in (
                "threshold_tokens",
                "workers_mixed",
                "workers_prefill",
                "workers_decode",
                "chunk_tokens",
                "gpus",
                "operating_parts",
            ):
                assert read(row[name]) == scenario[name]
            verdicts = {f"gate_{verdict['gate']}": verdict["verdict"] for verdict in scenario["verdicts"]}
            assert {name: text for name, text in row.items() if text and is_gate(name)} == verdicts
            assert read(row["passes"]) is scenario["passes"]
            assert read(row["chosen"]) is (scenario["scenario"] == any_built.receipt["decision"]["scenario"])

    def test_inputs_are_those_at_work(self, good: Built) -> None:
        for row in good.rows:
            assert (row["prefill_tokens_per_second"], row["decode_tokens_per_second"]) == ("11800", "4000")
            separate = row["topology"] in ("disaggregated", "routed")
            assert row["effective_bandwidth_bytes_per_s"] == ("18000000000" if separate else "")
            assert (row["ttft_objective_s"], row["tpot_objective_s"]) == ("0.8", "0.04")
            assert read(row["rate_rps"]) == good.receipt["workload"]["buckets"][0]["rate_rps"]

    def test_a_refused_row_has_empty_latencies(self, hopeless: Built) -> None:
        refused = [row for row in hopeless.rows if row["status_nominal"] == "refused"]
        assert refused
        for row in refused:
            assert row["refusal_figure_nominal"] != ""
            for name in ("ttft_worst_s", "tpot_worst_s", "e2e_worst_s", "stall_s", "goodput", "decode_batch"):
                assert (row[f"{name}_nominal"], row[f"{name}_nominal_provenance"]) == ("", "")


def is_gate(name: str) -> bool:
    return name.startswith("gate_") and not name.endswith("_provenance")


class TestProvenance:
    def test_it_stands_beside_every_value_and_beside_no_other(self, any_built: Built) -> None:
        for row in any_built.rows:
            for name, text in row.items():
                if name in LEADING or name.endswith("_provenance"):
                    continue
                beside = row[f"{name}_provenance"]
                assert beside in ({"observed", "supplied", "derived"} if text else {""})

    def test_inputs_keep_theirs_and_results_are_derived(self, good: Built) -> None:
        inputs = {
            "prefill_tokens_per_second": "observed",
            "decode_tokens_per_second": "supplied",
            "effective_bandwidth_bytes_per_s": "supplied",
            "ttft_objective_s": "supplied",
            "tpot_objective_s": "supplied",
            "chunk_tokens": "supplied",
        }
        for row in good.rows:
            for name, text in row.items():
                if name not in LEADING and not name.endswith("_provenance") and text:
                    assert row[f"{name}_provenance"] == inputs.get(name, "derived"), name

    def test_a_rate_is_derived_unless_it_is_declared(self, good: Built, paced: Built, looped: Built) -> None:
        for built, provenance in ((good, "derived"), (paced, "observed"), (looped, "derived")):
            assert {row["rate_rps_provenance"] for row in built.rows} == {provenance}
            for row in built.rows:
                assert read(row["rate_rps"]) == scenario_of(built, row)["bounds"]["nominal"]["rate_rps"]

    def test_an_observed_bandwidth_is_shown_as_such(self, built_with: Callable[..., Built]) -> None:
        old = "value: 18 GB/s, low: 12 GB/s, provenance: supplied"
        built = built_with((old, old.replace("supplied", "observed, source: transfer benchmark")))
        separate = [row for row in built.rows if row["topology"] == "disaggregated"]
        assert {row["effective_bandwidth_bytes_per_s_provenance"] for row in separate} == {"observed"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (12, "12"),
        (3.0, "3"),
        (-0.25, "-0.25"),
        (1e-7, "1e-7"),
        (1e21, "1e+21"),
        (0.01470588235, "0.01470588235"),
        ("chunked/n1/c512", "chunked/n1/c512"),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@sum", "'@sum"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_a_cell(value: Any, text: str) -> None:
    assert cell(value) == text


def test_words_with_commas_quotes_and_breaks_are_quoted(good: Built) -> None:
    """No such word is exported today; the file has to survive the first."""
    odd = 'a,"b"\r\n=c'
    scenario = good.receipt["scenarios"][0] | {"scenario": odd}
    _, rows, data, _ = matrix_csv(good.receipt | {"scenarios": [scenario]})
    lines = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    assert (rows, len(lines), lines[1][1]) == (1, 2, odd)
