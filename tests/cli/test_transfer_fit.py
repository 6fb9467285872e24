"""`phaseledger transfer fit`, as a person or a script calls it."""

import json
import re
import shlex
import shutil
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cli import command
from pipelines.cli.transfer_fit_text import rate, seconds
from pipelines.declarations.load import load_cohort
from pipelines.declarations.units import exact
from tests.conftest import Command

_BLOCK = re.compile(r"<!-- (?P<what>file|output|problem): (?P<of>[^>]*?) -->\n```\n(?P<shown>.*?)```", re.DOTALL)
AFFINE = ("bytes,transfer_ms", "10000000,2", "20000000,3", "40000000,5")
"""1 ms and 10 GB/s."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, and the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fit(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["transfer", "fit", *arguments])


def write(*lines: str, name: str = "t.csv") -> str:
    Path(name).write_text("".join(f"{line}\n" for line in lines))
    return name


def fitted(*arguments: str) -> dict[str, Any]:
    run = fit(*arguments, "--format", "json")
    assert run.exit_code == 0, run.output
    read: dict[str, Any] = json.loads(run.stdout)
    return read


def documented(project: Path, what: str) -> dict[str, str]:
    found = _BLOCK.finditer((project / "docs" / "transfer.md").read_text(encoding="utf-8"))
    return {block["of"]: block["shown"] for block in found if block["what"] == what}


def test_the_documented_example_is_what_the_command_prints(project: Path, here: Path) -> None:
    ((name, content),) = documented(project, "file").items()
    (here / name).write_text(content)
    outputs = documented(project, "output")
    (good,) = (call for call in outputs if call.startswith("phaseledger transfer fit "))
    shown = outputs[good]
    ((bad, said),) = documented(project, "problem").items()
    run, refused = (CliRunner().invoke(command, shlex.split(call)[1:]) for call in (good, bad))
    assert (run.exit_code, run.stdout, run.stderr) == (0, shown, "")
    assert (refused.exit_code, refused.stdout, refused.stderr) == (2, "", said)


def test_every_key_of_the_json_is_documented(project: Path, here: Path) -> None:
    text = (project / "docs" / "transfer.md").read_text(encoding="utf-8")
    section = text[text.index("### `--format json`") :]
    keys = re.findall(
        r"^((?:\w+, )*\w+) +\S", section[section.index("```\n") + 4 : section.rindex("```")], re.MULTILINE
    )
    documented_keys = [key for line in keys for key in line.split(", ")]
    found = fitted(write(*AFFINE))
    assert list(dict.fromkeys(documented_keys)) == documented_keys
    assert set(found) == set(documented_keys)
    for nested in (found["points"][0], found["constant_of_largest"]):
        assert all(key in section for key in nested)


def test_figures_in_json(here: Path) -> None:
    found = fitted(write(*AFFINE), "--line-rate", "50 Gbit/s", "--links", "2")
    assert (found["overhead_s"], found["bandwidth_bytes_per_s"], found["stretch"]) == (0.001, 1e10, 1.0)
    assert (found["transfers"], found["sizes"], found["bytes_min"], found["bytes_max"]) == (3, 3, 10**7, 4 * 10**7)
    assert (found["half_performance_bytes"], found["largest_residual"], found["curvature"]) == (1e7, 0.0, "none")
    assert found["constant_of_largest"] == {
        "bandwidth_bytes_per_s": 8e9,
        "says_s": 0.00125,
        "measured_s": 0.002,
        "wrong_by": 1.6,
        "most_wrong_by": 1.6,
    }
    assert (found["constant_misleads"], found["affine_misleads"], len(found["warnings"])) == (True, False, 1)
    assert (found["links"], found["line_rate_bytes_per_s"]) == (2, 12.5e9)
    assert found["columns"] == {
        "bytes": {"name": "bytes", "unit": "B"},
        "seconds": {"name": "transfer_ms", "unit": "ms"},
        "high": None,
    }


def test_the_command_prints_one_object_and_nothing_else(phaseledger: Command, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\n".join(AFFINE))
    run = phaseledger("transfer", "fit", "t.csv", "--format", "json", cwd=tmp_path)
    assert (run.code, run.err) == (0, "")
    assert json.loads(run.out)["overhead_s"] == 0.001


@pytest.mark.parametrize("name", ["t.csv", "a b: {c}, #.csv", "2024"])
def test_lines_for_a_cohort_are_yaml_whatever_the_file_is_called(name: str, here: Path) -> None:
    found = fitted(write(*AFFINE, name=name))
    assert yaml.safe_load(found["network"]) == {
        "effective_bandwidth": {"value": "10 GB/s", "low": "10 GB/s", "provenance": "observed", "source": name},
        "registration": {"value": "1 ms", "high": "1 ms", "provenance": "observed", "source": name},
        "synchronization": {"value": "0 s", "provenance": "observed", "source": name},
        "receiver_visibility": {"value": "0 s", "provenance": "observed", "source": name},
    }


def test_a_cohort_declares_the_bandwidth_of_one_of_the_links(here: Path) -> None:
    found = fitted(write(*AFFINE), "--links", "8")
    network = yaml.safe_load(found["network"])
    assert network["links_per_transfer"] == {"value": 8, "provenance": "observed", "source": "t.csv"}
    assert (network["effective_bandwidth"]["value"], found["bandwidth_bytes_per_s"]) == ("1.25 GB/s", 1e10)
    assert "per link          1.25 GB/s on each of 8 links\n" in fit("t.csv", "--links", "8").stdout


OVERHEAD = """\
  effective_bandwidth: {value: 10 GB/s, low: 10 GB/s, provenance: observed, source: t.csv}
  # The fitted overhead holds everything that was measured before and after the payload.
  registration: {value: 1 ms, high: 1 ms, provenance: observed, source: t.csv}
  # Raise these two to what the measurement did not include.
  synchronization: {value: 0 s, provenance: observed, source: t.csv}
  receiver_visibility: {value: 0 s, provenance: observed, source: t.csv}
"""
MISLED = ("bytes,t_ms", "1000,1", "3000,1.1", "4000,2")
"""No line is near all three."""


def pasted(project: Path, network: str) -> Path:
    """A cohort with ``network`` in place of the same keys of its network block, as a person would paste it."""
    shutil.copytree(project / "tests" / "declarations" / "good", "good")
    file = Path("good/cohort.yaml")
    keys = [line.split(":")[0] for line in network.splitlines() if not line.startswith("  #")]
    before, head, block = file.read_text().partition("\nnetwork:\n")
    kept = [line for line in block.splitlines() if line.split(":")[0] not in keys]
    file.write_text(f"{before}{head}{network}" + "".join(f"{line}\n" for line in kept))
    return file.parent


@pytest.mark.parametrize("links", [1, 2])
def test_lines_are_pasted_in_place_of_the_same_keys_of_a_cohort(links: int, project: Path, here: Path) -> None:
    found = fitted(write(*AFFINE), "--links", str(links))
    inputs = {row.path: row for row in load_cohort(pasted(project, found["network"])).inputs}
    assert inputs["network.effective_bandwidth"].value == 1e10 / links
    overheads = ("registration", "synchronization", "receiver_visibility")
    assert [inputs[f"network.{name}"].value for name in overheads] == [0.001, 0, 0]
    assert inputs["network.synchronization"].source == "t.csv"


def test_lines_say_what_they_replace_and_what_is_to_be_raised(here: Path) -> None:
    name = write(*AFFINE)
    assert fitted(name)["network"] == OVERHEAD
    assert fit(name).stdout.endswith(f"for the network block of a cohort, in place of the same keys:\n\n{OVERHEAD}")
    assert fitted(name, "--links", "4")["network"].startswith(
        "  # links of the cohort has to be at least links_per_transfer.\n"
        "  links_per_transfer: {value: 4, provenance: observed, source: t.csv}\n"
        "  effective_bandwidth: {value: 2.5 GB/s, "
    )


def test_a_table_that_no_line_describes_is_declared_itself(project: Path, here: Path) -> None:
    found = fitted(write(*MISLED))
    curve = (
        "  # file is relative to the directory of the cohort. effective_bandwidth, registration, synchronization and\n"
        "  # receiver_visibility hold outside of the measured sizes: keep all four of them, or none.\n"
        "  transfer_curve: {file: t.csv, provenance: observed, source: t.csv}\n"
    )
    assert found["network"] == curve
    assert fit("t.csv").stdout.endswith(f"for the network block of a cohort, in place of the same keys:\n\n{curve}")
    assert "declare the overhead" not in " ".join(found["warnings"])
    cohort = pasted(project, curve)
    shutil.copy("t.csv", cohort / "t.csv")
    inputs = {row.path: row for row in load_cohort(cohort).inputs}
    assert inputs["network.transfer_curve"].value == "1000:0.001 3000:0.0011 4000:0.002"


def test_a_curve_is_measured_on_all_links_of_a_transfer(here: Path) -> None:
    network = yaml.safe_load(fitted(write(*MISLED), "--links", "2")["network"])
    assert list(network) == ["links_per_transfer", "transfer_curve"]


@pytest.mark.parametrize(
    ("lines", "options", "why"),
    [
        (
            ["bytes,t_ms", "1000,1", "3000,0.9", "4000,2"],
            [],
            "on line 3, 3000 bytes took 0.0009 s, less than 0.001 s for 1000 bytes on line 2",
        ),
        (
            ["size,p50", "1000,1", "3000,1.1", "4000,2"],
            ["--bytes-column", "size=B", "--seconds-column", "p50=ms"],
            "a cohort reads columns by their names alone; rename them so that they state their units",
        ),
        (
            ["bytes,t_ms,p50_us", "1000,1,1", "3000,1.1,1", "4000,2,1"],
            ["--seconds-column", "t_ms"],
            "a cohort reads columns by their names alone; rename them so that they state their units",
        ),
        (
            ["bytes,t_ms", *(f"{size},1" for size in range(1, 1001)), "4000,2"],
            [],
            "it has 1,001 sizes, and a curve at most 1,000 points",
        ),
    ],
)
def test_a_table_that_no_cohort_takes_leaves_the_line_and_is_told_why(
    lines: list[str], options: list[str], why: str, here: Path
) -> None:
    found = fitted(write(*lines), *options)
    said = f"% off a measured time, and the table cannot be network.transfer_curve instead: {why}"
    assert [warning for warning in found["warnings"] if warning.endswith(said)]
    assert next(iter(yaml.safe_load(found["network"]))) == "effective_bandwidth"


def test_lines_for_a_cohort_are_read_by_a_cohort(project: Path, here: Path) -> None:
    shutil.copytree(project / "cohorts" / "slow-link", "slow-link")
    file = here / "slow-link" / "cohort.yaml"
    cohort = yaml.safe_load(file.read_text())
    write(*AFFINE)
    cohort["network"] |= yaml.safe_load(fitted("t.csv", "--links", "4")["network"])
    cohort["network"]["line_rate"]["value"] = "20 Gbit/s"
    del cohort["network"]["peak_bandwidth"]
    file.write_text(yaml.safe_dump(cohort))
    inputs = {row.path: row for row in load_cohort(file.parent).inputs}
    assert (inputs["network.effective_bandwidth"].value, inputs["network.registration"].value) == (2.5e9, 0.001)
    assert inputs["network.links_per_transfer"].value == 4


@pytest.mark.parametrize("high", ["", ",transfer_high_ms"])
def test_what_is_pasted_covers_every_measurement(high: str, here: Path) -> None:
    rows = [(1, "1.137"), (7, "1.9111"), (31, "4.03"), (101, "11.77")]
    lines = [f"{size * 10**6 + 1},{time}" + (f",{float(time) * 1.3}" if high else "") for size, time in rows]
    network = yaml.safe_load(fitted(write(f"bytes,transfer_ms{high}", *lines))["network"])
    overhead = exact(network["registration"]["high"], "s")
    bandwidth = exact(network["effective_bandwidth"]["low"], "B/s")
    for line in lines:
        size, *times = line.split(",")
        assert all(Fraction(time) / 1000 <= overhead + int(size) / bandwidth for time in times)


@given(st.decimals("1e-9", "1e5", allow_nan=False))
def test_figures_are_shown_to_four_digits(value: Decimal) -> None:
    shown = exact(seconds(Fraction(value)), "s")
    assert abs(shown - Fraction(value)) <= Fraction(value) / 2000
    below = exact(rate(Fraction(value) * 10**9, "ROUND_FLOOR"), "B/s")
    assert Fraction(value) * 10**9 * Fraction(999, 1000) <= below <= Fraction(value) * 10**9


def test_columns_and_their_units_can_be_named(here: Path) -> None:
    name = write("size,p50,p99,bytes", "10,2000,3000,1", "20,3000,4000,1")
    found = fitted(name, "--bytes-column", "size=MB", "--seconds-column", "p50=us", "--high-column", "p99=us")
    assert (found["overhead_s"], found["bandwidth_bytes_per_s"], found["stretch"]) == (0.001, 1e10, 1.5)
    assert found["notes"] == [
        "columns that are not read: bytes",
        "a line goes through any two measurements, so residuals say nothing; measure more sizes",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bytes-column", "size=mb"], 'unknown unit "mb"; expected one of B, kB, MB, GB, KiB, MiB, GiB (did you mean MB?)'),
        (["--bytes-column", "size="], 'unknown unit ""; expected one of B, kB'),
        (["--bytes-column", "=MiB"], '"=MiB" names no column; expected NAME or NAME=GiB'),
        (["--seconds-column", "t=min"], 'unknown unit "min"; expected one of s, ms, us'),
        (["--line-rate", "200"], "has no unit; expected a bandwidth with its unit"),
        (["--line-rate", "200 ms"], "expected a bandwidth"),
        (["--line-rate", "0 GB/s"], "0 GB/s is zero; expected more than 0"),
        (["--line-rate", "1 GB/s", "--links", "0"], "0 is not in the range"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_a_usage_error(arguments: list[str], said: str, here: Path) -> None:
    run = fit(write(*AFFINE), *arguments)
    assert run.exit_code == 2
    assert said in " ".join(run.stderr.split())


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["bytes,t_s", "5,1"],
            "t.csv:1:1: transfers of a single size; expected at least two sizes for an overhead and a bandwidth",
        ),
        (
            ["bytes,t_s", "5,2", "10,1"],
            "t.csv:1:1: times that do not grow with bytes; expected larger transfers to take longer "
            "(hint: measure larger transfers: all of these took about the overhead)",
        ),
        (
            ["bytes,t_s", "5,0", "10,1"],
            "t.csv:2:3: t_s: 0 s; expected more than 0",
        ),
    ],
)
def test_a_table_without_a_line_is_bad_input(lines: list[str], said: str, here: Path) -> None:
    text, scripted = fit(write(*lines)), fit(write(*lines), "--format", "json")
    assert (text.exit_code, scripted.exit_code) == (2, 2)
    assert text.stderr == f"{said}\n1 problem; nothing was run or written\n"
    assert json.loads(scripted.stdout)["problems"][0]["message"] in said


LINE = "t.csv:1:1: --line-rate: the fitted bandwidth is 10 GB/s"


@pytest.mark.parametrize(
    ("line_rate", "said"),
    [
        ("9.5 GB/s", [f"{LINE}, 1.05 times the line rate of 9.5 GB/s; expected at most that (hint: sizes in GB read as GiB?"]),
        ("9 GB/s", [f"{LINE}, 1.11 times the line rate of 9 GB/s; expected at most that (hint: only the last chunk timed?"]),
        (
            "10 Gbit/s",
            [
                f"{LINE}, 8 times the line rate of 1.25 GB/s; expected at most that (hint: Gbit/s for GB/s?",
                "t.csv:4:1: --line-rate: the fastest of 3 transfers ran at 8 GB/s, 6.4 times the line rate of 1.25 GB/s; "
                "expected at most that (hint: Gbit/s for GB/s?",
            ],
        ),
        (
            "12 MB/s",
            [
                f"{LINE}, 833 times the line rate of 12 MB/s; expected at most that (hint: times in s read as ms, or in ms read as us?",
                "t.csv:4:1: --line-rate: the fastest of 3 transfers ran at 8 GB/s, 667 times the line rate of 12 MB/s; "
                "expected at most that (hint: times in s read as ms, or in ms read as us?",
            ],
        ),
    ],
)  # fmt: skip
def test_faster_than_the_line_is_refused_with_the_likely_mistake(line_rate: str, said: list[str], here: Path) -> None:
    run = fit(write(*AFFINE), "--line-rate", line_rate)
    assert run.exit_code == 2
    end = " or several links, which --links would say?)"
    count = f"{len(said)} problem{'s' if len(said) > 1 else ''}; nothing was run or written"
    assert run.stderr.splitlines() == [*(one + end for one in said), count]


def test_one_transfer_above_the_line_is_refused_where_the_fit_is_below(here: Path) -> None:
    name = write("bytes,t_ms", "10000000,2", "10000000,0.7", "40000000,5")
    run = fit(name, "--line-rate", "6.5 GB/s", "--links", "2")
    assert run.exit_code == 2
    assert "t.csv:3:1: --line-rate: this transfer ran at 14.29 GB/s, 1.1 times the line rate of 13 GB/s;" in run.stderr
    assert "--links" not in run.stderr


def test_at_the_line_rate_is_not_above_it(here: Path) -> None:
    assert fit(write(*AFFINE), "--line-rate", "10 GB/s").exit_code == 0
    assert fit(write(*AFFINE), "--line-rate", "40 Gbit/s", "--links", "2").exit_code == 0


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["bytes,t_us", "10000000000,2000", "40000000000,3000"],
            "30 TB/s is more than any link carries; times in s read as ms, or in ms read as us? sizes in kB read as MB?",
        ),
        (
            ["bytes,t_s", "1000,2", "4000,3"],
            "3 kB/s is less than any link carries; times in us or ms read as s? sizes in kB or MB read as bytes?",
        ),
        (
            ["bytes,t_ms", "1000,1", "3000,1.1", "4000,2"],
            "an overhead and a bandwidth are up to 24.4 % off a measured time; declare the table as network.transfer_curve instead",
        ),
        (
            ["bytes,t_ms", "1000,1", "2000,2", "3000,4"],
            "one bandwidth misleads: the 750 kB/s of the largest transfer, without overhead, is up to 1.33 times wrong here",
        ),
        (
            [*AFFINE],
            "one bandwidth misleads: the 8 GB/s of the largest transfer, without overhead, is up to 1.6 times wrong here; "
            "declare the overhead as well",
        ),
    ],
)
def test_what_misleads_is_a_warning(lines: list[str], said: str, here: Path) -> None:
    name = write(*lines)
    assert said in fitted(name)["warnings"]
    assert f"\nwarning: {said}\n" in fit(name).stdout


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["1,1", "2,2", "3,4"], ["the best line would have an overhead below 0; fitted with an overhead of 0"]),
        (
            ["1,1", "1,1.1", "2,1.5"],
            ["two sizes: residuals say how repeats scatter, not whether a line is the right form; measure more sizes"],
        ),
        (["1,1", "2,1.5", "3,2.1"], []),
    ],
)
def test_what_a_fit_does_not_say_is_a_note(rows: list[str], said: list[str], here: Path) -> None:
    name = write("kv_mb,t_ms", *rows)
    assert fitted(name)["notes"] == said
    assert all(f"note: {note}\n" in fit(name).stdout for note in said)


def test_an_overhead_of_zero_can_be_pasted_and_has_no_half_speed(here: Path) -> None:
    name = write("kv_mb,t_ms", "1,1", "2,2", "3,3.1")
    found = fitted(name)
    network = yaml.safe_load(found["network"])
    assert (network["registration"]["value"], network["registration"]["high"]) == ("0 s", "0 s")
    assert found["half_performance_bytes"] == 0
    assert "half speed" not in fit(name).stdout


def test_help_names_exit_codes_and_examples() -> None:
    group, verb = CliRunner().invoke(command, ["transfer", "-h"]), fit("-h")
    assert "fit" in group.stdout
    assert "Exit code 0: fitted. 2: bad input, or a bandwidth above --line-rate." in " ".join(verb.stdout.split())
    assert "phaseledger transfer fit transfers.csv --line-rate '200 Gbit/s' --links 8" in verb.stdout


def test_the_documented_figures_of_a_published_table(project: Path, shared: Path) -> None:
    found = fitted(
        str(shared / "measurements" / "kv_transfer_qwen3_8b_8xroce.csv"), "--line-rate", "200 Gbit/s", "--links", "8"
    )
    text = (project / "docs" / "transfer.md").read_text(encoding="utf-8")
    section = text[text.index("### A published measurement") : text.index("### `--format json`")]
    constant = found["constant_of_largest"]
    for figure in (
        f"{1000 * found['overhead_s']:.3f} ms",
        f"{found['bandwidth_bytes_per_s'] / 1e9:.1f} GB/s",
        f"{100 * found['largest_residual']:.1f} % off",
        f"{100 * found['median_residual']:.1f} % at the median",
        f"{constant['bandwidth_bytes_per_s'] / 1e9:.1f} GB/s, says {1000 * constant['says_s']:.3f} ms",
        f"{constant['wrong_by']:.2f} times too short",
        f"{found['half_performance_bytes'] / 1e6:.1f} MB",
    ):
        assert figure in section
    assert all(abs(point["residual"]) < 0.08 for point in found["points"])
    assert constant["wrong_by"] > 4
