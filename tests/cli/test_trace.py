"""`phaseledger trace`, as a person or a script calls it."""

import gzip
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result

from pipelines.cli import command
from pipelines.cli.log_reading import Progress
from pipelines.traces.formats.generic import GENERIC
from pipelines.traces.formats.native import PHASELEDGER
from pipelines.traces.formats.servegen import SERVEGEN
from pipelines.traces.log import LogOptions, read_log
from pipelines.traces.registry import FORMATS
from tests.conftest import Command

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
ROWS = ("2023-11-16 18:17:03,5,2", "2023-11-16 18:17:04,700,1", "2023-11-16 18:17:07,9,3")


@pytest.fixture(autouse=True)
def _formats(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (GENERIC, PHASELEDGER, SERVEGEN):
        monkeypatch.setitem(FORMATS, known.name, known)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, and the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trace(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["trace", *arguments])


def described(*arguments: str) -> dict[str, Any]:
    run = trace("describe", *arguments, "--format", "json")
    assert run.exit_code == 0, run.output
    read: dict[str, Any] = json.loads(run.stdout)
    return read


def write_log(path: Path, *rows: str) -> str:
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path.name


def test_a_description_for_people_names_units(here: Path) -> None:
    run = trace("describe", write_log(here / "log.csv", *ROWS), "--edges", "512")
    assert run.exit_code == 0
    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    assert lines[0] == "log.csv: azure-llm"
    assert "duration 4 s" in lines
    assert "rate 0.5 requests/s" in lines
    assert "burstiness 0.25 squared coefficient of variation of the gaps (Poisson arrivals: 1)" in lines
    assert "prompt 238 163,369 5 700 714" in lines
    assert "[1,512) 2 66.67 % 0.3333/s - 7 9 2.5 3" in lines


def test_a_description_in_json_is_one_object_and_nothing_else(phaseledger: Command, tmp_path: Path) -> None:
    name = write_log(tmp_path / "log.csv", *ROWS)
    run = phaseledger("trace", "describe", name, "--format", "json", cwd=tmp_path)
    assert (run.code, run.err) == (0, "")
    found = json.loads(run.out)
    assert (found["requests"], found["rate_rps"], found["file"]) == (3, 0.5, "log.csv")


def test_invalid_rows_are_reported_and_do_not_fail(here: Path) -> None:
    run = trace("describe", write_log(here / "log.csv", *ROWS, "2023-11-16 18:17:08,5,0"))
    assert run.exit_code == 0
    assert "4, of which 1 invalid" in run.stdout
    assert ["output_tokens_zero", "GeneratedTokens", "1", "5"] in [line.split() for line in run.stdout.splitlines()]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2\n", "the format is not recognised"),
        (f"{HEADER}\n", "no requests"),
        (f"{HEADER}\n2023-11-16 18:17:03,5,0\n", "all 1 rows are invalid"),
    ],
)
def test_a_file_that_holds_no_requests_is_bad_input(content: str, said: str, here: Path) -> None:
    (here / "log.csv").write_text(content)
    text, scripted = trace("describe", "log.csv"), trace("describe", "log.csv", "--format", "json")
    assert (text.exit_code, scripted.exit_code) == (2, 2)
    assert text.stderr.startswith("log.csv:1:1: ")
    assert said in text.stderr
    assert text.stderr.endswith("nothing was run or written\n")
    assert said in json.loads(scripted.stdout)["problems"][0]["message"]


@pytest.mark.parametrize("name", ["none.csv", "."])
def test_a_file_that_is_not_there_is_bad_input(name: str, here: Path) -> None:
    run = trace("describe", name)
    assert run.exit_code == 2
    assert run.stderr.startswith(f"{name}:1:1: cannot be read: ")


def test_problems_are_those_of_a_plan(phaseledger: Command, project: Path, tmp_path: Path) -> None:
    (tmp_path / "requests.csv").write_text("a,b\n1,2\n")
    text = (project / "cohorts" / "moderate-chat" / "cohort.yaml").read_text().replace("    format: azure-llm\n", "")
    (tmp_path / "cohort.yaml").write_text(text)
    plan = phaseledger("plan", ".", "--out", "out", cwd=tmp_path)
    describe = phaseledger("trace", "describe", "requests.csv", cwd=tmp_path)
    assert (plan.code, describe.code) == (2, 2)
    assert plan.err == describe.err


def test_columns_of_a_log_of_no_known_format_are_named(here: Path) -> None:
    (here / "gateway.csv").write_text("id,ts,in,out,hit,m\na,1000,5,2,0,x\nb,3000,9,3,4,y\n")
    columns = "arrival=ts,unit=ms,prompt_tokens=in,output_tokens=out,cached_prompt_tokens=hit,model=m"
    found = described("gateway.csv", "--columns", columns)
    assert (found["format"], found["duration_s"], found["tokens"]["cached"]["sum"]) == ("generic", 2.0, 4)
    assert found["groups"]["model"]["values"] == 2


def test_a_log_without_arrivals_is_described(here: Path) -> None:
    (here / "lengths.csv").write_text("in,out\n5,2\n9,3\n")
    found = described("lengths.csv", "--columns", "prompt_tokens=in,output_tokens=out")
    assert (found["requests"], found["duration_s"], found["rate_rps"], found["windows"]) == (2, None, None, [])
    text = trace("describe", "lengths.csv", "--columns", "prompt_tokens=in,output_tokens=out")
    assert "the log does not say when requests arrive; a cohort declares requests.arrivals" in text.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--columns", "prompt_tokens"], "names no column"),
        (["--columns", "prompt_token=a,output_tokens=b"], "did you mean prompt_tokens?"),
        (["--columns", "prompt_tokens=a"], "output_tokens is missing"),
        (["--columns", "arrival=t,prompt_tokens=a,output_tokens=b"], "arrival and unit go together"),
        (["--columns", "arrival=t,unit=m,prompt_tokens=a,output_tokens=b"], "unknown unit"),
        (["--columns", "prompt_tokens=a,output_tokens=a"], "two roles"),
        (["--columns", "prompt_tokens=a,prompt_tokens=b,output_tokens=c"], "given twice"),
        (["--as", "mooncake", "--columns", "prompt_tokens=a,output_tokens=b"], "mooncake knows its columns"),
        (["--as", "generic"], "needs --columns"),
        (["--edges", "9,5"], "ascending"),
        (["--edges", "1"], "2 tokens or more"),
        (["--edges", "a"], "whole tokens"),
        (["--turn-time", "3"], "no unit"),
        (["--context", "1"], "--context"),
    ],
)
def test_wrong_options_are_named(arguments: list[str], said: str, here: Path) -> None:
    run = trace("describe", write_log(here / "log.csv", *ROWS), *arguments)
    assert run.exit_code == 2
    assert said in " ".join(run.stderr.split())


def test_the_context_makes_longer_requests_invalid(here: Path) -> None:
    found = described(write_log(here / "log.csv", *ROWS), "--context", "100")
    assert (found["requests"], [(one["kind"], one["rows"]) for one in found["invalid"]]) == (2, [("above_context", 1)])


def test_a_log_of_rates_shows_its_windows(here: Path) -> None:
    (here / "rates.csv").write_text("0,0.5,1.0,Gamma,1.0,2.0\n600,0.0,0.0,,0.0,0.0\n")
    run = trace("describe", "rates.csv")
    assert run.exit_code == 0
    lines = [" ".join(line.split()) for line in run.stdout.splitlines()]
    assert "windows 2 of 600 s, of which 1 have requests" in lines
    assert "requests 300 expected; the log states rates, not requests" in lines


def test_names_in_a_log_do_not_steer_the_terminal(here: Path) -> None:
    (here / "log.jsonl").write_text('{"t": 1, "in": 5, "out": 2, "m": "a\\u001b[31m[bold]b\\nc"}\n')
    run = trace("describe", "log.jsonl", "--columns", "arrival=t,unit=s,prompt_tokens=in,output_tokens=out,model=m")
    assert run.exit_code == 0
    assert "a?[31m[bold]b?c" in run.stdout
    assert "\x1b" not in run.stdout


def test_texts_and_ids_of_a_log_are_not_shown(here: Path) -> None:
    record = {
        "timestamp": 0,
        "input_length": 5,
        "output_length": 2,
        "hash_ids": [1],
        "prompt": "canary",
        "user": "canary",
    }
    (here / "log.jsonl").write_text(json.dumps(record) + "\n" + json.dumps(record | {"output_length": "canary"}) + "\n")
    run = trace("describe", "log.jsonl")
    assert (run.exit_code, "canary" in run.output) == (0, False)
    assert trace("convert", "log.jsonl", "out.csv", "--on-invalid", "drop").exit_code == 0
    assert "canary" not in (here / "out.csv").read_text()


def test_progress_is_told_on_a_terminal_and_wiped_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_terminal, quiet in ((False, False), (True, True)):
        monkeypatch.setattr("sys.stderr.isatty", lambda answer=is_terminal: answer)
        progress = Progress(quiet=quiet, started=0.0)
        progress(1_000_000)
        progress.clear()
        assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    progress = Progress(quiet=False, started=0.0)
    progress(1_000_000)
    progress.clear()
    assert capsys.readouterr().err == "\r1,000,000 rows read\r\x1b[K"
    fast = Progress(quiet=False)
    fast(5)
    fast.clear()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "parquet"])
def test_a_converted_log_holds_the_same_requests(ending: str, here: Path) -> None:
    name = write_log(here / "log.csv", *ROWS)
    run = trace("convert", name, f"out.{ending}")
    assert (run.exit_code, run.stdout) == (0, f"out.{ending}: 3 requests of 3 rows\n")
    before, after = described(name), described(f"out.{ending}")
    assert after["format"] == "phaseledger"
    assert after["requests_sha256"] == before["requests_sha256"]
    assert after["tokens"] == before["tokens"]  # a log that states no cached tokens still states none


def test_converting_refuses_invalid_rows_unless_they_are_dropped(here: Path) -> None:
    name = write_log(here / "log.csv", *ROWS, "2023-11-16 18:17:08,5,0")
    refused = trace("convert", name, "out.csv")
    assert refused.exit_code == 2
    assert "a token count of 0 in 1 row (row 5)" in refused.stderr
    assert not (here / "out.csv").exists()
    run = trace("convert", name, "out.csv", "--on-invalid", "drop")
    assert run.stdout == "out.csv: 3 requests of 4 rows (1 invalid)\n"
    assert run.stderr == "dropped: 1 row: output_tokens_zero\n"
    scripted = trace("convert", name, "out.csv", "--on-invalid", "drop", "--force", "--format", "json")
    dropped = {"output_tokens_zero": 1}
    assert json.loads(scripted.stdout) == {"file": "out.csv", "rows_read": 4, "dropped": dropped, "requests": 3}


@pytest.mark.parametrize(
    ("window", "kept"), [("1 s..4 s", [700]), ("..1 s", [5]), ("1 s..", [700, 9]), ("0..5 s", [5, 700, 9])]
)
def test_a_window_keeps_its_beginning_and_not_its_end(window: str, kept: list[int], here: Path) -> None:
    name = write_log(here / "log.csv", *ROWS)
    run = trace("convert", name, "out.parquet", "--window", window)
    assert run.exit_code == 0, run.output
    assert pl.read_parquet(here / "out.parquet")["prompt_tokens"].to_list() == kept


def test_block_hashes_become_cached_tokens(here: Path) -> None:
    rows = [{"timestamp": 1000 * at, "input_length": 1000, "output_length": 2, "hash_ids": [1, 2]} for at in range(3)]
    (here / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for capacity, cached in (("unlimited", [0, 999, 999]), ("512", [0, 512, 512])):
        assert trace("convert", "log.jsonl", "out.csv", "--force", "--prefix-cache", capacity).exit_code == 0
        assert pl.read_csv(here / "out.csv")["cached_prompt_tokens"].to_list() == cached
    run = trace("convert", "log.jsonl", "out.csv", "--force")
    assert "block hashes are not kept" in run.stderr
    assert pl.read_csv(here / "out.csv").columns == ["arrival_s", "prompt_tokens", "output_tokens"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["log.csv", "log.csv", "--force"], "is the log itself"),
        (["log.csv", "there.csv"], "exists already"),
        (["log.csv", "directory.csv"], "is a directory"),
        (["log.csv", "out.xlsx"], "expected one of .csv"),
        (["log.csv", "none/out.csv"], "its directory does not exist"),
        (["log.csv", "out.csv", "--window", "1 h.."], "none of 3 requests lies in the window"),
        (["log.csv", "out.csv", "--window", "2 s..1 s"], "holds nothing"),
        (["log.csv", "out.csv", "--window", "1 s"], "expected FROM..TO"),
        (["log.csv", "out.csv", "--prefix-cache", "unlimited"], "no block hashes"),
        (["log.csv", "out.csv", "--prefix-cache", "0"], "expected unlimited, or a whole number"),
        (["lengths.csv", "out.csv", "--columns", "prompt_tokens=in,output_tokens=out"], "a log without arrivals"),
    ],
)
def test_what_cannot_be_converted_is_refused_and_nothing_written(arguments: list[str], said: str, here: Path) -> None:
    write_log(here / "log.csv", *ROWS)
    (here / "there.csv").write_text("old")
    (here / "lengths.csv").write_text("in,out\n5,2\n9,3\n")
    (here / "directory.csv").mkdir()
    before = sorted(path.name for path in here.iterdir())
    run = trace("convert", *arguments)
    assert run.exit_code == 2
    assert said in " ".join(run.stderr.split())
    assert sorted(path.name for path in here.iterdir()) == before
    assert (here / "there.csv").read_text() == "old"


def test_an_interruption_is_no_verdict(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipelines.traces.export._write_text", interrupted)
    run = trace("convert", write_log(here / "log.csv", *ROWS), "out.csv")
    assert (run.exit_code, run.stderr) == (130, "interrupted; nothing was written\n")
    assert [path.name for path in here.iterdir()] == ["log.csv"]


def test_force_overwrites(here: Path) -> None:
    (here / "out.csv").write_text("old")
    assert trace("convert", write_log(here / "log.csv", *ROWS), "out.csv", "--force").exit_code == 0
    assert len(read_log(here / "out.csv", LogOptions()).rows) == 3


def test_the_mooncake_log_is_described_and_converted(shared: Path, here: Path) -> None:
    log = str(shared / "traces" / "mooncake_fast25_conversation.jsonl")
    found = described(log)
    assert (found["requests"], found["rows_invalid"]) == (12_031, 0)
    assert found["prefix_cache"]["block_tokens"] == 512
    assert 0.3 < found["prefix_cache"]["hit_ratio"] < 0.5
    assert any("spread_ties" in warning for warning in found["warnings"])
    assert trace("convert", log, "out.csv.gz", "--prefix-cache", "unlimited").exit_code == 0
    assert len(gzip.decompress((here / "out.csv.gz").read_bytes()).splitlines()) == 12_032
    share = described("out.csv.gz")["tokens"]["cached"]["share"]
    assert share == found["prefix_cache"]["hit_ratio"]


@pytest.mark.parametrize("verb", ["describe", "convert"])
def test_help_shows_examples(verb: str) -> None:
    run = trace(verb, "--help")
    assert run.exit_code == 0
    assert f"phaseledger trace {verb} " in run.stdout


@pytest.mark.parametrize("arguments", [("cohorts",), ("trace", "--help")])
def test_output_that_cannot_be_written_is_no_verdict(arguments: tuple[str, ...], project: Path) -> None:
    """The exit code 1 says that no topology qualifies: neither a full disk nor a reader that goes away may say so."""
    line = [sys.executable, "-m", "pipelines", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, cwd=project, check=False)
        silent = subprocess.run(line, stdout=full, stderr=full, cwd=project, check=False)
        refused = subprocess.run([*line, "--no-such"], stderr=full, cwd=project, check=False)
    assert (done.returncode, done.stderr) == (2, "standard output: cannot be written: No space left on device\n")
    assert (silent.returncode, refused.returncode) == (2, 2)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        gone = subprocess.run(line, stdout=pipe, stderr=subprocess.PIPE, text=True, cwd=project, check=False)
    assert (gone.returncode, gone.stderr) == (141, "")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["pipelines", "cohorts"], 0), (["pipelines", "verify", "nothing"], 2), (["pipelines.oracle", "nothing"], 2)],
)
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_the_exit_code_is_the_same_where_standard_streams_are_closed(
    arguments: list[str], code: int, closed: str, project: Path
) -> None:
    line = f"{shlex.join([sys.executable, '-m', *arguments])} {closed}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=project, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
