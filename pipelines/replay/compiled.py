"""How kernels are compiled, and where the result is kept.

What numba keeps of a function does not change with the functions that it calls, so that everything is kept under a digest of all
sources of the room: no kernel is ever made of old parts.
"""

import gc
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeVar, cast

# these loops gain nothing from more, and a cold cache is filled an eighth sooner
os.environ.setdefault("NUMBA_OPT", "1")
os.environ.setdefault("NUMBA_LOOP_VECTORIZE", "0")

import numba
import numpy as np
from numba import njit

_HERE = Path(__file__).parent
_MOST_KEPT = 4


def _digest() -> str:
    """Of the sources of this room and the version of numba."""
    sources = [source.read_bytes() for source in sorted(_HERE.glob("*.py"))]
    return hashlib.sha256(b"\0".join([numba.__version__.encode(), *sources])).hexdigest()[:16]


def _writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK | os.X_OK)


def kept_in() -> str:
    """Where compiled kernels are kept: beside the sources, or else in the user's cache; empty where neither can be written to."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    for base in (_HERE / "__pycache__", cache / "phaseledger"):
        directory = base / f"kernels-{_digest()}"
        new = not directory.exists()
        if _writable(directory):
            if new:
                _forget_older(base)
            return str(directory)
    return ""


def _forget_older(base: Path) -> None:
    """Of the kernels of several sources only those made last are kept."""
    made = {}
    for directory in base.glob("kernels-*"):
        with suppress(OSError):  # another process that begins just now throws it away
            made[directory] = directory.stat().st_mtime
    for directory in sorted(made, key=lambda one: made[one], reverse=True)[_MOST_KEPT:]:
        shutil.rmtree(directory, ignore_errors=True)


def is_cold() -> bool:
    """Whether nothing is kept yet, so that a first replay has to compile: some 15 seconds, once."""
    return not _KEPT or not any(Path(_KEPT).rglob("*.nbc"))


_config: Any = numba.config
_KEPT = os.environ.get("NUMBA_CACHE_DIR") or kept_in()
_config.CACHE_DIR = _KEPT

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")
_njit: Any = njit  # its types lack the options below


def loop(function: Function) -> Function:
    """Called from Python; makes no arrays, and counts no references to them."""
    return cast(Function, _njit(cache=bool(_KEPT), nogil=True, no_cfunc_wrapper=True, _nrt=False)(function))


def part(function: Function) -> Function:
    """A piece of a loop: costs no call, however much it is given. Python itself cannot call it, and crashes where it tries."""
    compiled = _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False, forceinline=True)
    return cast(Function, compiled(function))


def forgiving(kernel: Callable[..., Result], *given: Any) -> Result:
    """What ``kernel`` gives. Where what is kept of it cannot be read or written, it is thrown away, and the kernel compiled."""
    with _collector_at_rest():
        try:
            return kernel(*given)
        except (EOFError, OSError, UnpicklingError):  # of the files: kernels themselves raise nothing
            for file in Path(_KEPT).rglob("*._instants-*.nb?") if _KEPT else ():
                file.unlink(missing_ok=True)
            return kernel(*given)


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Compiling makes many objects and few cycles: looking for those would take a twentieth of it."""
    worked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if worked:
            gc.enable()


def rare(function: Function) -> Function:
    """A piece of a loop that is seldom run: called, and so not compiled again wherever it is used."""
    return cast(Function, _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)(function))


wide: Any = np.int64
"""A whole number in 64 bits, whether it is read from 32 or written in the source: one type, so that one function is compiled."""
