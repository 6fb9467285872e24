"""A killed run leaves the old file or the new one."""

import os
import stat
from pathlib import Path

import pytest

from pipelines.receipts.write import write_atomically


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
    def killed(*_: object) -> None:
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

    def recorded_replace(source: str, target: Path) -> None:
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
