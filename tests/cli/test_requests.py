"""`phaseledger requests`: four numbers of each request, as the digest in a receipt is of them."""

import csv
import gzip
import hashlib
import json
import os
import stat
import struct
from pathlib import Path

import pytest

from tests.cli.small_receipt import Small, call, small

HEADER = "arrival_ns,prompt_tokens,cached_prompt_tokens,output_tokens"
EIGHT = f"""{HEADER}
0,374,0,44
120000000,1420,0,180
310000000,96,0,212
480000000,3051,0,87
700000000,640,0,150
860000000,2048,0,1
1150000000,511,0,96
1300000000,780,0,260
"""
"""The log of the cohort by hand: seconds since its first arrival, in nanoseconds."""


@pytest.fixture
def made(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    made = small(project, tmp_path / "project")
    monkeypatch.chdir(made.project)
    return made


def digest(text: str) -> str:
    """``requests_sha256`` as docs/verification.md has it."""
    rows = [[int(field) for field in row] for row in list(csv.reader(text.splitlines()))[1:]]
    found = hashlib.sha256(b"phaseledger requests v2\n")
    for place, form in enumerate("qiii"):
        found.update(b"".join(struct.pack(f"<{form}", row[place]) for row in rows))
    return found.hexdigest()


def test_the_file_is_what_the_digest_in_the_receipt_is_of(made: Small) -> None:
    run = call("requests", "small", "requests.csv")
    assert run.exit_code == 0, run.output
    text = Path("requests.csv").read_text()
    assert text == EIGHT
    assert digest(text) == json.loads(made.receipt.read_bytes())["workload"]["requests_sha256"]
    assert run.stdout == f"requests.csv: 8 requests, requests_sha256 {digest(text)}\n"
    verified = call("verify", "out", "--requests", "requests.csv", "--format", "json")
    assert verified.exit_code == 0, verified.output
    assert not any("requests were not given" in note for note in json.loads(verified.stdout)["notes"])


@pytest.mark.parametrize("out", [["-"], []])
def test_standard_output_has_the_rows_alone(out: list[str], made: Small) -> None:
    run = call("requests", made.cohort / "cohort.yaml", *out)
    assert (run.exit_code, run.stdout, run.stderr) == (0, EIGHT, "")


def test_packed_it_is_the_same_and_the_same_bytes_each_time(made: Small) -> None:
    assert call("requests", "small", "a.csv.gz").exit_code == 0
    os.utime(made.cohort / "requests.csv", (1, 1))
    assert call("requests", "small", "b.csv.gz").exit_code == 0
    assert Path("a.csv.gz").read_bytes() == Path("b.csv.gz").read_bytes()
    assert gzip.decompress(Path("a.csv.gz").read_bytes()).decode() == EIGHT
    assert Path("a.csv.gz").read_bytes()[4:8] == bytes(4)  # no time (RFC 1952, MTIME)
    assert Path("a.csv.gz").read_bytes()[3] == 0  # no name (FLG)
    assert call("verify", "out", "--requests", "a.csv.gz").exit_code == 0


def test_nothing_else_of_a_request_gets_in(made: Small) -> None:
    secrets = ["alice@example.org", "tell me about", "s-4711", "internal-llama", "lora-payroll", "vip"]
    rows = [
        f"{place * 250},{100 + place},{20 + place},{secrets[0]},{secrets[1]} {place},{secrets[2]},{','.join(secrets[3:])}"
        for place in range(6)
    ]
    header = "ts,in,out,user,prompt,session_id,served,lora,prio"
    (made.cohort / "requests.csv").write_text("\n".join([header, *rows, ""]))
    made.edit(
        made.cohort / "cohort.yaml",
        "    format: azure-llm\n",
        "    format: generic\n    columns: {arrival: ts, unit: ms, prompt_tokens: in, output_tokens: out,"
        " model: served, adapter: lora, priority: prio}\n",
    )
    made.edit(made.cohort / "cohort.yaml", "[512, 2048]", "[103]")
    for out in ("requests.csv", "requests.csv.gz"):
        run = call("requests", "small", out)
        assert run.exit_code == 0, run.output
        data = Path(out).read_bytes()
        text = (gzip.decompress(data) if out.endswith(".gz") else data).decode()
        assert text == HEADER + "\n" + "".join(f"{n * 250_000_000},{100 + n},0,{20 + n}\n" for n in range(6))
        assert not [secret for secret in secrets if secret in text + run.output]


def test_a_file_that_is_there_is_kept_unless_it_may_be_overwritten(made: Small) -> None:
    Path("requests.csv").write_text("mine")
    run = call("requests", "small", "requests.csv")
    assert run.exit_code == 2
    assert "requests.csv:1:1: exists already; expected a new file (hint: --force overwrites it)" in run.stderr
    assert Path("requests.csv").read_text() == "mine"
    assert call("requests", "small", "requests.csv", "--force").exit_code == 0
    assert Path("requests.csv").read_text() == EIGHT
    assert stat.S_IMODE(Path("requests.csv").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("requests.parquet", "an ending of no known kind; expected .csv or .csv.gz"),
        ("requests.csv.zst", "an ending of no known kind"),
        ("nowhere/requests.csv", "its directory does not exist"),
        ("taken.csv", "is a directory"),
    ],
)
def test_a_place_that_cannot_be_written(out: str, said: str, made: Small) -> None:
    Path("taken.csv").mkdir()
    run = call("requests", "small", out)
    assert run.exit_code == 2
    assert run.stderr.startswith(f"{out}:1:1: ")
    assert said in run.stderr


def test_a_cohort_with_problems_is_reported_as_everywhere_and_nothing_is_written(made: Small) -> None:
    with (made.cohort / "requests.csv").open("a") as log:
        log.write("2024-05-10 00:00:02.000000,0,1\n")
    run = call("requests", "small", "requests.csv")
    assert run.exit_code == 2
    assert "requests.csv:10:" in run.stderr
    assert not Path("requests.csv").exists()
    assert "small-talk:1:1:" in call("requests", "small-talk").stderr


def test_it_shows_examples() -> None:
    run = call("requests", "--help")
    assert run.exit_code == 0
    assert "phaseledger requests moderate-chat requests.csv" in run.stdout.split("Examples:")[1]
