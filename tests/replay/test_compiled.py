"""Where compiled kernels are kept."""

import os
from pathlib import Path

import pytest

from pipelines.replay import compiled


def test_another_source_is_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.py").write_text("a = 1\n")
    monkeypatch.setattr(compiled, "_HERE", tmp_path)
    first = compiled.kept_in()
    (tmp_path / "one.py").write_text("a = 2\n")
    assert Path(first).parent == tmp_path / "__pycache__"
    assert compiled.kept_in() != first


def test_of_many_sources_only_the_last_ones_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_HERE", tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "kernels-gone").symlink_to("thrown away by another process")
    kept = []
    for number in range(6):
        (tmp_path / "one.py").write_text(f"a = {number}\n")
        kept.append(Path(compiled.kept_in()))
        os.utime(kept[-1], (number, number))
    assert [directory.exists() for directory in kept] == [False, False, True, True, True, True]


def test_where_the_sources_cannot_be_written_to_the_users_cache_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "__pycache__").write_text("a file, where a directory would have to be\n")
    monkeypatch.setattr(compiled, "_HERE", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert Path(compiled.kept_in()).parent == tmp_path / "cache" / "phaseledger"


def test_what_is_kept_and_cannot_be_read_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged, other = tmp_path / "mixed._instants-111.py311.1.nbc", tmp_path / "another.nbc"
    damaged.write_bytes(b"")
    other.write_bytes(b"")
    monkeypatch.setattr(compiled, "_KEPT", str(tmp_path))

    def kernel(number: int) -> int:
        if damaged.exists():
            raise EOFError
        return number

    assert compiled.forgiving(kernel, 3) == 3
    assert (damaged.exists(), other.exists()) == (False, True)
