"""A killed run leaves the old files or the new ones."""

import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.receipts.write import alone_in, link_to, put_directory, put_together, write_atomically


class KilledError(Exception):
    """Stands for whatever ends a run."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "receipt.json"
    path.write_bytes(b"old")
    return path


def test_a_new_file_in_a_new_directory(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "receipt.json"
    write_atomically(path, b"\x00\xff\r\n")
    assert path.read_bytes() == b"\x00\xff\r\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(path.parent.iterdir()) == [path]


def test_an_old_file_is_replaced(old: Path) -> None:
    write_atomically(old, b"new and longer")
    write_atomically(old, b"new")
    assert old.read_bytes() == b"new"
    assert list(old.parent.iterdir()) == [old]


@pytest.mark.parametrize("step", ["replace", "fsync", "chmod"])
def test_a_run_that_ends_before_the_rename_leaves_the_old_file_alone(
    old: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KilledError

    monkeypatch.setattr(os, step, killed)
    with pytest.raises(KilledError):
        write_atomically(old, b"new")
    monkeypatch.undo()
    assert old.read_bytes() == b"old"
    assert list(old.parent.iterdir()) == [old]


def test_an_interrupt_leaves_nothing_behind_either(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(old, b"new")
    assert list(old.parent.iterdir()) == [old]


def test_the_data_is_on_disk_before_it_has_the_name_and_the_name_after_it(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    replace, fsync = os.replace, os.fsync

    def recorded_replace(source: Path, target: Path) -> None:
        assert Path(source).read_bytes() == b"new"
        assert Path(source).parent == old.parent  # a rename across directories might not be atomic
        steps.append("replace")
        replace(source, target)

    def recorded_fsync(handle: int) -> None:
        steps.append("fsync directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "fsync file")
        fsync(handle)

    monkeypatch.setattr(os, "replace", recorded_replace)
    monkeypatch.setattr(os, "fsync", recorded_fsync)
    write_atomically(old, b"new")
    assert steps == ["fsync file", "replace", "fsync directory"]


OLD, NEW = (
    {"matrix.csv": f"{age} matrix".encode(), "receipt.json": f"{age} receipt".encode()} for age in ("old", "new")
)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_directory_appears_with_all_of_its_files(tmp_path: Path) -> None:
    put_directory(tmp_path / "store" / "a1", NEW)
    assert contents(tmp_path / "store" / "a1") == NEW
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["a1"]
    assert stat.S_IMODE((tmp_path / "store" / "a1").stat().st_mode) == 0o755


def stopped_at(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Let the process end at the n-th call that changes a directory: nothing that comes after it happens, no tidying up either."""
    left = [calls]

    def counting(original: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise KilledError
            return original(*arguments, **options)

        return call

    for name in ("replace", "rename", "unlink", "symlink", "mkdir", "rmdir"):
        monkeypatch.setattr(os, name, counting(getattr(os, name)))


@pytest.mark.parametrize("calls", range(6))
def test_files_that_belong_together_are_never_seen_mixed(
    tmp_path: Path, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_together(tmp_path, OLD)
    with monkeypatch.context() as patch, contextlib.suppress(KilledError):
        stopped_at(patch, calls)
        put_together(tmp_path, NEW)
    seen = contents(tmp_path)
    if "receipt.json" in seen:
        assert {name: seen[name] for name in NEW} in (OLD, NEW)
    put_together(tmp_path, NEW)
    assert {name: contents(tmp_path)[name] for name in NEW} == NEW


def test_a_link_leads_to_the_old_place_or_to_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    link_to(tmp_path / "shown", "a")
    for calls in range(3):
        with monkeypatch.context() as patch, contextlib.suppress(KilledError):
            stopped_at(patch, calls)
            link_to(tmp_path / "shown", "b")
        assert (tmp_path / "shown").resolve().name in ("a", "b")
    link_to(tmp_path / "shown", "b")
    assert os.readlink(tmp_path / "shown") == "b"


def test_what_was_left_unfinished_is_cleared_away_by_the_next_one_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / ".phaseledger-unfinished-abc").write_bytes(b"half")
    (tmp_path / ".phaseledger-unfinished-dir").mkdir()
    (tmp_path / ".phaseledger-unfinished-dir" / "receipt.json").write_bytes(b"half")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    with alone_in(tmp_path):
        assert contents(tmp_path) == {"notes.txt": b"mine"}


def test_two_processes_are_not_in_a_directory_at_once(tmp_path: Path) -> None:
    script = (
        "import sys, time, pathlib\n"
        "from pipelines.receipts.write import alone_in\n"
        "place = pathlib.Path(sys.argv[1])\n"
        "for _ in range(20):\n"
        "    with alone_in(place):\n"
        "        (place / 'taken').touch(exist_ok=False)\n"
        "        time.sleep(0.001)\n"
        "        (place / 'taken').unlink()\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(2)]
    assert [one.wait(timeout=60) for one in both] == [0, 0]
