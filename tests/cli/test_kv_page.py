"""What docs/kv.md shows is what `phaseledger kv` says."""

import json
import re
import shlex
from pathlib import Path

from benchmarks.kv_table import BLOCK, FOLDERS, rows, table, worked
from tests.conftest import Command


def page(project: Path) -> str:
    return (project / "docs" / "kv.md").read_text(encoding="utf-8")


def test_the_page_documents_every_key(project: Path, phaseledger: Command) -> None:
    documented = page(project).partition("## JSON")[2].partition("\n## ")[0]
    shape = "full:18x8x64 window:18x8x64@128"
    read = json.loads(phaseledger("kv", "--shape", shape, "--tokens", "5", "--format", "json").out)
    nested = (read["windows"][0], read["layers"][0], read["formula"][0], read["formula"][0]["factors"][0])
    assert {*read, *(key for one in nested for key in one)} <= set(re.findall(r"[a-z_]+", documented))


def test_the_page_shows_what_the_command_prints(project: Path, phaseledger: Command) -> None:
    shown = dict(re.findall(r"<!-- output: phaseledger kv (.*?) -->\n```\n(.*?)```", page(project), re.DOTALL))
    assert shown
    for arguments, output in shown.items():
        run = phaseledger("kv", *shlex.split(arguments))
        assert (run.code, run.err) == (0, "")
        assert run.out == output


def test_the_table_of_published_configurations_is_what_the_reader_says(project: Path, shared: Path) -> None:
    (shown,) = BLOCK.findall(page(project))
    assert shown == table(shared / "models"), "stale: run benchmarks/kv_table.py"
    assert shown.count("\n") - 2 == sum(len(list((shared / "models" / name).glob("*.json"))) for name in FOLDERS)


def test_what_published_configurations_take_is_what_others_say(shared: Path) -> None:
    assert {row.name: row.differs for row in rows(shared / "models") if row.differs} == {}


def test_arithmetic_by_hand_is_worked_out() -> None:
    assert worked("28 x 8192 x 16 x 4 + 28 x 8192 x 3 x 2") == 16_056_320
