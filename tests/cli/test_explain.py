"""``phaseledger explain``: a page that repeats a receipt, in units that people read, whatever the file is."""

import copy
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.cli import command
from pipelines.gates.wording import shown
from tests.conftest import Command, Planned

Json = dict[str, Any]

COHORTS = ["bursty-documents", "moderate-chat", "overloaded", "slow-link"]
_BLOCK = re.compile(r"<!-- output: phaseledger explain receipts/(?P<of>\S+) -->\n```\n(?P<shown>.*?)```", re.DOTALL)
_WITH_UNIT = re.compile(r"(?<![\w./])([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?) (ms|s|%|GB/s|GiB|tokens/s|requests/s)(?![\w/])")
_SCALES = {"ms": 1e3, "s": 1.0, "%": 100.0, "GB/s": 1e-9, "GiB": 2.0**-30, "tokens/s": 1.0, "requests/s": 1.0}


def explain(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, ["explain", *map(str, arguments)])


def page(*arguments: str | Path) -> str:
    run = explain(*arguments)
    assert run.exit_code == 0, run.output
    return run.stdout


def part(text: str, number: int) -> list[str]:
    """The lines of one numbered part."""
    found = re.search(rf"^{number}\. [^\n]*\n(.*?)(?=^\d+\. |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1].strip().splitlines()


@pytest.fixture(scope="module")
def receipts(planned: dict[str, Planned]) -> dict[str, Json]:
    return {name: json.loads((one.directory / "receipt.json").read_text()) for name, one in planned.items()}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Json], Path]:
    def written(receipt: Json) -> Path:
        (tmp_path / "receipt.json").write_text(json.dumps(receipt))
        return tmp_path

    return written


def scenario(receipt: Json, name: str) -> Json:
    return next(row for row in receipt["scenarios"] if row["scenario"] == name)


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from numbers(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def differences(receipt: Json, pairs: list[Json]) -> set[float]:
    """By how much the times of two scenarios of the receipt differ, lane by lane."""
    found = set()
    for pair in pairs:
        before, after = (scenario(receipt, pair[side])["bounds"]["nominal"] for side in ("baseline", "scenario"))
        rows = [*zip(before["lanes"], after["lanes"], strict=bool(before["lanes"] and after["lanes"])), (before, after)]
        for one, other in rows:
            found |= {
                other[name] - one[name]
                for name in one
                if name.endswith("_s") and one[name] is not None and other[name] is not None
            }
    return found


def test_the_page_shows_what_the_command_prints(project: Path, planned: dict[str, Planned]) -> None:
    block = _BLOCK.search((project / "docs" / "explain.md").read_text(encoding="utf-8"))
    assert block is not None
    assert page(planned[block["of"]].directory) == block["shown"]


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from keys(one)


def test_the_page_documents_every_key(project: Path, planned: dict[str, Planned]) -> None:
    documented = (project / "docs" / "explain.md").read_text(encoding="utf-8").partition("## `--format json`")[2]
    found = json.loads(page(planned["bursty-documents"].directory, "--format", "json"))
    for row in found["compared"]:
        assert row.pop("knobs")
    assert set(keys(found)) <= set(re.findall(r"[a-z_0-9]+", documented))


@pytest.mark.parametrize("name", COHORTS)
def test_every_figure_with_a_unit_is_one_of_the_receipt(
    name: str, planned: dict[str, Planned], receipts: dict[str, Json]
) -> None:
    found = json.loads(page(planned[name].directory, "--format", "json"))
    held = set(numbers(receipts[name]))
    factors = {one["factor"] - 1 for row in receipts[name]["changes"]["speaking"] for one in row["break_even"]}
    known = held | differences(receipts[name], found["lanes"]) | factors
    said = _WITH_UNIT.findall(page(planned[name].directory))
    assert len(said) > 50
    for text, unit in said:
        figure = float(text.replace(",", ""))
        scaled = (value * _SCALES[unit] for value in known)
        assert any(float(f"{value:.4g}") == figure or round(value, 3) == figure for value in scaled), f"{text} {unit}"


@pytest.mark.parametrize("name", COHORTS)
def test_every_number_of_the_json_is_one_of_the_receipt(
    name: str, planned: dict[str, Planned], receipts: dict[str, Json]
) -> None:
    found = json.loads(page(planned[name].directory / "receipt.json", "--format", "json"))
    known = set(numbers(receipts[name])) | differences(receipts[name], found["lanes"])
    known |= set(range(100))  # counts of scenarios, inputs, parts, break-evens
    assert set(numbers(found)) <= known


@pytest.mark.parametrize("name", COHORTS)
def test_a_page_is_a_page(name: str, planned: dict[str, Planned]) -> None:
    lines = page(planned[name].directory).splitlines()
    assert max(map(len, lines)) <= 140
    assert 60 <= len(lines) <= 135
    assert [line[0] for line in lines if re.match(r"\d+\. ", line)] == list("12345678911")


def test_the_decision_is_said_in_one_sentence(planned: dict[str, Planned], receipts: dict[str, Json]) -> None:
    decision = receipts["moderate-chat"]["decision"]
    said = " ".join(part(page(planned["moderate-chat"].directory), 2))
    assert said == f"Choose {decision['topology']}, as {decision['scenario']}: {decision['reason']}."
    nothing = " ".join(part(page(planned["overloaded"].directory), 2))
    assert nothing.startswith("No topology qualifies: ")


def test_a_chosen_separation_is_held_against_its_baselines(
    planned: dict[str, Planned], receipts: dict[str, Json]
) -> None:
    receipt = receipts["bursty-documents"]
    (row,) = [row for row in receipt["search"]["baselines"] if row["scenario"] == receipt["decision"]["scenario"]]
    pairs = json.loads(page(planned["bursty-documents"].directory, "--format", "json"))["lanes"]
    assert pairs[0]["baseline"] == row["aggregated"]
    assert pairs[1]["baseline"] in row["chunked"]
    assert {pair["scenario"] for pair in pairs} == {receipt["decision"]["scenario"]}


def test_a_chosen_single_pool_is_held_against_the_others(planned: dict[str, Planned]) -> None:
    pairs = json.loads(page(planned["moderate-chat"].directory, "--format", "json"))["lanes"]
    assert {pair["baseline"] for pair in pairs} == {"aggregated/n2"}
    assert [pair["scenario"].partition("/")[0] for pair in pairs] == ["chunked", "disaggregated"]


def test_each_bucket_names_the_lanes_that_change_most(receipts: dict[str, Json], write: Callable[[Json], Path]) -> None:
    receipt = copy.deepcopy(receipts["moderate-chat"])
    before, after = (scenario(receipt, name) for name in ("aggregated/n2", "disaggregated/p1/d1"))
    for row, lanes in itertools.product((before, after), range(3)):
        row["bounds"]["nominal"]["lanes"][lanes].update(prefill_wait_s=0.25, decode_wait_s=0.0)
    after["bounds"]["nominal"]["lanes"][0].update(prefill_wait_s=0.05, decode_wait_s=0.5)
    lines = part(page(write(receipt), "--topology", "disaggregated"), 4)
    (sentence,) = [line for line in lines if line.startswith("  [1,512): ")]
    assert "prefill wait shrinks most, 250 ms -> 50 ms; decode wait grows most, 0 ms -> 500 ms" in sentence
    (row,) = [line.split() for line in lines if line.startswith("[1,512) ")]
    assert "-200" in row
    assert "+500" in row


def test_a_refused_baseline_has_no_lanes(planned: dict[str, Planned]) -> None:
    lines = part(page(planned["overloaded"].directory), 4)
    assert any("is refused, so it has no lanes: the mixed pool would be busy" in line for line in lines)


def test_of_one_topology_there_are_no_lanes_to_compare(planned: dict[str, Planned]) -> None:
    text = page(planned["moderate-chat"].directory, "--topology", "aggregated")
    assert part(text, 4) == ["There is no second scenario to hold lanes against."]
    assert not any("chunked" in line for number in (3, 5, 6, 8) for line in part(text, number))


def test_a_floor_says_that_no_number_of_workers_helps(planned: dict[str, Planned]) -> None:
    found = json.loads(page(planned["bursty-documents"].directory, "--format", "json"))["refused"]
    floors = [row for row in found if row["kind"] == "ttft_floor"]
    assert floors
    assert all(not row["more_workers_help"] and "no number of workers helps" in row["reason"] for row in floors)
    assert all(row["more_workers_help"] for row in found if row["kind"] == "utilization")
    text = " ".join(part(page(planned["bursty-documents"].directory), 5))
    assert "no number of workers helps" in text
    assert "What helps where no number of workers does" in text


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (
            {"kind": "prefill_starved", "resource": "prefill_lane", "figure": 0.4, "limit": 1},
            "leave 0.4 tokens of a step",
        ),
        (
            {"kind": "slots", "resource": "slots_mixed", "figure": 0.9, "limit": 0.85},
            "sequences would take 90 % of slots",
        ),
        ({"kind": "kv_memory", "resource": "kv_mixed", "figure": 1.5, "limit": 1}, "150 % of KV memory (mixed)"),
        (
            {"kind": "tpot_floor", "resource": "[1,512)", "figure": 0.05, "limit": 0.04},
            "takes 50 ms per token, above 40 ms",
        ),
        ({"kind": "of_tomorrow", "resource": "moon", "figure": 2, "limit": 1}, "moon: 200 %, and the limit is 100 %"),
    ],
)
def test_every_refusal_has_words(
    refusal: Json, words: str, receipts: dict[str, Json], write: Callable[[Json], Path]
) -> None:
    receipt = copy.deepcopy(receipts["moderate-chat"])
    scenario(receipt, "aggregated/n1")["bounds"]["nominal"]["refusal"] = refusal
    assert words in " ".join(part(page(write(receipt)), 5))


def test_what_to_measure_next_has_its_break_even_in_readable_units(
    planned: dict[str, Planned], receipts: dict[str, Json]
) -> None:
    receipt = receipts["bursty-documents"]
    (chosen,) = [row for row in receipt["changes"]["speaking"] if row["scenario"] == receipt["decision"]["scenario"]]
    (even,) = [row for row in chosen["break_even"] if row["path"] == "service.prefill.tokens_per_second"]
    (line,) = [
        line
        for line in part(page(planned["bursty-documents"].directory), 7)
        if line.startswith("service.prefill.tokens_per_second")
    ]
    assert line.split() == [
        *("service.prefill.tokens_per_second", "12,000", "tokens/s"),
        *(f"{even['value']:,.0f}", "tokens/s", f"{even['factor']:.4g}"),
        *(chosen["scenario"], "no", "longer", "passes"),
    ]


def test_observed_inputs_are_not_counted_as_unmeasured(
    receipts: dict[str, Json], write: Callable[[Json], Path]
) -> None:
    receipt = copy.deepcopy(receipts["moderate-chat"])
    rests_on = receipt["decision"]["rests_on"]
    for row in rests_on[1:]:
        row["provenance"] = "observed"
    receipt["decision"]["unobserved_share"] = share = 1 / len(rests_on)
    said = part(page(write(receipt)), 7)[0]
    assert (
        said == f"1 of {len(rests_on)} inputs behind the decision ({shown(share, 'ratio')}) are not observed: model 1"
    )


def test_screening_regimes_are_named(receipts: dict[str, Json], write: Callable[[Json], Path]) -> None:
    receipt = copy.deepcopy(receipts["moderate-chat"])
    bounds = scenario(receipt, "aggregated/n2")["bounds"]
    bounds["nominal"]["screening"] = bounds["conservative"]["screening"] = ["slots"]
    scenario(receipt, "chunked/n2/c2048")["bounds"]["nominal"]["screening"] = ["of_tomorrow"]
    lines = part(page(write(receipt)), 7)
    assert "for screening only: aggregated/n2 (nominal and conservative): most sequence slots are taken" in lines
    assert "for screening only: chunked/n2/c2048 (nominal): of tomorrow" in lines


def test_a_worker_less_that_fails_oscillates(planned: dict[str, Planned]) -> None:
    lines = part(page(planned["moderate-chat"].directory), 8)
    expected = "mixed 2 -> 1, load per worker times 2, no longer passes: consolidating to 1 would oscillate"
    assert f"  one worker less: {expected}" in lines
    found = json.loads(page(planned["overloaded"].directory, "--format", "json"))["changes"]
    assert not any(one["oscillates"] for row in found for one in row["one_worker_less"])


def test_a_nearest_miss_names_its_fix_and_more_gpus(planned: dict[str, Planned], receipts: dict[str, Json]) -> None:
    (row,) = [row for row in receipts["overloaded"]["changes"]["speaking"] if row["topology"] == "chunked"]
    said = " ".join(" ".join(part(page(planned["overloaded"].directory, "--topology", "chunked"), 8)).split())
    assert f"would pass with {row['fix']['path']}" in said
    assert f"on {row['more_gpus']['gpus']} GPUs, {row['more_gpus']['scenario']} does" in said


def test_a_closed_loop_counts_requests_at_once(receipts: dict[str, Json], write: Callable[[Json], Path]) -> None:
    receipt = copy.deepcopy(receipts["moderate-chat"])
    of = {"path": "requests.concurrency", "unit": "count", "value": 48, "conservative": 60, "provenance": "supplied"}
    receipt["inputs"].insert(0, of | {"low": None, "high": 60, "source": None, "note": None})
    receipt["workload"].update(kind="closed", duration_s=None)
    for row in receipt["workload"]["buckets"]:
        row.update(rate_rps=None, arrival_scv=None)
    for row in receipt["changes"]["speaking"]:
        row["rate"]["rate_rps"] = None
        row["break_even"][0].update(path="requests.concurrency", value=75.04628641)
    receipt["changes"]["measure_next"] = ["requests.concurrency"]
    text = page(write(receipt))
    assert "in a closed loop of 48 at once" in part(text, 1)[0]
    factor = next(row for row in receipt["changes"]["speaking"] if row["topology"] == "aggregated")["rate"]["factor"]
    growth = f"traffic may grow from 48 to 75.05 requests at once (+{(factor - 1) * 100:.4g} %)"
    assert growth in " ".join(part(text, 8))


def test_limits_of_their_own_bucket_stand_beside_the_figure(
    receipts: dict[str, Json], write: Callable[[Json], Path]
) -> None:
    receipt = copy.deepcopy(receipts["moderate-chat"])
    (verdict,) = [row for row in scenario(receipt, "aggregated/n2")["verdicts"] if row["gate"] == "ttft_worst"]
    verdict.update(limit=0.3, figure=0.1, margin=0.6667)
    (line,) = [line for line in part(page(write(receipt)), 3) if line.startswith("TTFT")]
    assert "of a bucket" in line
    assert "100 ms <= 300 ms (66.67 %)" in line


def test_the_frontier_shows_its_ends(planned: dict[str, Planned], receipts: dict[str, Json]) -> None:
    rows = [row for row in receipts["bursty-documents"]["search"]["frontier"] if row["figure"] == "tpot"]
    lines = [line for line in part(page(planned["bursty-documents"].directory), 9) if line.startswith("tpot")]
    assert len(lines) == len({row["operating_parts"] for row in rows})
    assert f"{shown(rows[0]['value_s'], 's')} on {rows[0]['gpus']} GPUs ({rows[0]['scenario']})" in lines[0]
    assert lines[-1].endswith(f"{shown(rows[-1]['value_s'], 's')} on {rows[-1]['gpus']} ({rows[-1]['scenario']})")


def test_the_truth_boundary_is_repeated(planned: dict[str, Planned], receipts: dict[str, Json]) -> None:
    text = " ".join(page(planned["slow-link"].directory).split())
    assert receipts["slow-link"]["truth_boundary"]["statement"] in text
    assert all(one in text for one in receipts["slow-link"]["truth_boundary"]["unmeasured"])


def test_a_topology_that_was_not_compared_is_bad_input(planned: dict[str, Planned]) -> None:
    run = explain(planned["moderate-chat"].directory, "--topology", "routed")
    assert run.exit_code == 2
    assert "--topology routed: not in this receipt; expected one of aggregated, chunked, disaggregated" in run.stderr


def test_a_receipt_of_a_routed_cohort(project: Path, phaseledger: Command, tmp_path: Path) -> None:
    source = (project / "cohorts" / "bursty-documents" / "cohort.yaml").read_text()
    text = source.replace("  disaggregated: {}\n", "  disaggregated: {}\n  routed: {threshold_tokens: [8192]}\n")
    text = text.replace("  attainment:", "  buckets:\n    - {prompt_tokens_below: 1024, ttft: 1 s}\n  attainment:")
    (tmp_path / "cohort.yaml").write_text(text)
    (tmp_path / "requests.csv").write_bytes((project / "cohorts" / "bursty-documents" / "requests.csv").read_bytes())
    phaseledger("plan", tmp_path / "cohort.yaml", "--rules", project / "rules", "--out", tmp_path / "out")
    lines = page(tmp_path / "out", "--topology", "routed").splitlines()
    assert any(line.startswith("routed/t8192") for line in lines)
    assert max(map(len, page(tmp_path / "out").splitlines())) <= 140


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[]", "is not a receipt"),
        (b"{}", "is not a receipt"),
        (b'{"kind": "Cohort"}', "is not a receipt"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"kind": "TopologyReceipt", "apiVersion": "phaseledger/v1"}', "is not a receipt: "),
        (b'{"kind": "TopologyReceipt", "apiVersion": "phaseledger/v9"}', "apiVersion"),
        (
            b'{"kind": "TopologyReceipt", "apiVersion": "phaseledger/v1", "versions": {"arithmetic": "3"}}',
            "is a receipt of arithmetic '3'; expected 5 (hint: plan the cohort again)",
        ),
    ],
)
def test_what_is_no_receipt_of_this_version_is_bad_input(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "receipt.json").write_bytes(content)
    run = explain(tmp_path)
    assert run.exit_code == 2
    assert run.stdout == ""
    assert run.stderr.startswith(f"{tmp_path / 'receipt.json'}: ")
    assert said in run.stderr
    assert run.stderr.count("\n") == 1


def test_a_file_that_is_not_there_or_never_ends(tmp_path: Path) -> None:
    run = explain(tmp_path / "nowhere")
    assert run.exit_code == 2
    assert f"{tmp_path / 'nowhere'}:1:1: no such receipt; expected a file, its directory" in run.stderr
    os.mkfifo(tmp_path / "receipt.json")
    assert explain(tmp_path).exit_code == 2


@pytest.mark.parametrize(
    ("path", "name", "kind"),
    [
        (("changes", "speaking", 0, "scenario"), "aggregated/n99", "scenario"),
        (("search", "baselines", 0, "aggregated"), "aggregated/n99", "scenario"),
        (("changes", "measure_next", 0), "service.wishes", "input"),
        (("changes", "speaking", 1, "break_even", 0, "path"), "service.wishes", "input"),
        (("scenarios", 0, "verdicts", 0, "gate"), "fence", "gate"),
    ],
)
def test_a_receipt_that_refers_to_nothing_says_so(
    path: tuple[str | int, ...], name: str, kind: str, receipts: dict[str, Json], write: Callable[[Json], Path]
) -> None:
    receipt = copy.deepcopy(receipts["slow-link"])
    place = reduce(lambda at, step: at[step], path[:-1], receipt)
    place[path[-1]] = name
    if kind == "gate":
        for row in receipt["scenarios"]:
            row["verdicts"][0]["gate"] = name
    run = explain(write(receipt))
    assert run.exit_code == 2
    assert f"names the {kind} {name!r}, which it does not hold" in run.stderr


_ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, -1.0, 1e308, 1e-308]),
    st.sampled_from(["", "x", "\x1b[2J\n", "aggregated", "requests.rate"]),
    st.just([]),
    st.just({}),
)


@settings(max_examples=150)
@given(data=st.data(), output=st.sampled_from(["text", "json"]))
def test_a_receipt_with_anything_anywhere_is_explained_or_refused(
    data: st.DataObject, output: str, receipts: dict[str, Json], tmp_path: Path
) -> None:
    receipt = copy.deepcopy(receipts["overloaded"])
    path: list[str | int] = []
    place: Any = receipt
    while isinstance(place, dict | list) and place and (not path or data.draw(st.integers(0, 5))):
        path.append(data.draw(st.sampled_from([*place] if isinstance(place, dict) else range(len(place)))))
        place = place[path[-1]]
    place = reduce(lambda at, step: at[step], path[:-1], receipt)
    if data.draw(st.booleans()):
        place[path[-1]] = copy.deepcopy(data.draw(_ANYTHING))
    else:
        del place[path[-1]]
    (tmp_path / "receipt.json").write_text(json.dumps(receipt))
    run = explain(tmp_path, "--format", output)
    assert run.exception is None or isinstance(run.exception, SystemExit)
    assert run.exit_code in (0, 2)
    assert "\x1b" not in run.output
    assert run.exit_code == 0 or run.stderr.count("\n") == 1


def test_it_imports_neither_polars_nor_dagster_nor_numpy(planned: dict[str, Planned], project: Path) -> None:
    script = (
        "import sys\n"
        "from pipelines.cli import command\n"
        "code = command.main(sys.argv[1:], standalone_mode=False)\n"
        "heavy = {'polars', 'dagster', 'pandera', 'numpy', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "explain", str(planned["moderate-chat"].directory)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
