"""Putting exports in place so that a killed run leaves the old ones or the new ones, never a part (docs/receipts.md)."""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_UNFINISHED = ".phaseledger-unfinished-"
"""How the names of what is not yet in place begin: nobody else's do."""


def write_atomically(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data``: written to a temporary name in the same directory, synced, renamed, directory synced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, _written(path.parent, data))
    _sync_directory(path.parent)


def put_directory(path: Path, files: Mapping[str, bytes]) -> None:
    """Make the directory ``path`` of ``files``, by name: it appears with all of them, or not at all. It must not be there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=_UNFINISHED))
    try:
        temporary.chmod(0o755)
        for name, data in files.items():
            _write(temporary / name, data)
        _sync_directory(temporary)
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_directory(path.parent)


def put_together(directory: Path, files: Mapping[str, bytes], stale: Iterable[str] = ()) -> None:
    """Replace ``files``, by name, in a directory that may hold others; the last of them vouches for the rest.

    It is taken away first and put in place last: whenever that is stopped, it is beside what it was written with, or not there.
    What is ``stale`` goes with it. Nothing goes before everything new is on the disk.
    """
    directory.mkdir(parents=True, exist_ok=True)
    *_, voucher = files
    waiting: dict[str, Path] = {}
    try:
        for name, data in files.items():
            waiting[name] = _written(directory, data)
        for old in (*stale, voucher):
            (directory / old).unlink(missing_ok=True)
        _sync_directory(directory)
        for name in files:
            _replace(directory / name, waiting.pop(name))
        _sync_directory(directory)
    finally:
        for left in waiting.values():
            left.unlink(missing_ok=True)


def link_to(path: Path, target: str) -> None:
    """Make ``path`` a link to ``target``, in one step where it is a link already. It must not be a directory."""
    temporary = path.with_name(f"{_UNFINISHED}{os.getpid()}-{path.name}")
    temporary.unlink(missing_ok=True)
    try:
        temporary.symlink_to(target)
        _replace(path, temporary)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_directory(path.parent)


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Keep others who ask the same from ``directory``, and clear away what they left unfinished when they were killed.

    The lock is on the directory itself, so that it leaves no file behind and ends with the process. File systems without such
    locks are written to all the same, and keep what was left.
    """
    directory.mkdir(parents=True, exist_ok=True)
    held = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.EINVAL):
                raise
        else:
            clear_unfinished(directory)
        yield
    finally:
        os.close(held)


def clear_unfinished(directory: Path) -> None:
    """Remove what was never put in place in ``directory``; only for who is alone in it."""
    for left in directory.glob(f"{_UNFINISHED}*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def _written(directory: Path, data: bytes) -> Path:
    """A file of ``data`` in ``directory`` that is still to be put in place, synced."""
    handle, name = tempfile.mkstemp(dir=directory, prefix=_UNFINISHED)
    os.close(handle)
    temporary = Path(name)
    try:
        _write(temporary, data)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(0o644)


def _replace(path: Path, temporary: Path) -> None:
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
