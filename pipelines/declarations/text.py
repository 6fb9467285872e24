"""Read a declaration file as text, or say why it cannot be read."""

import os
import re
import stat
from pathlib import Path

from pipelines.declarations.problems import Problem

MAX_BYTES = 1 << 20
"""A declaration is written by hand; a larger file is a trace or a mistake, and would take minutes to parse."""

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_MARKS = ((b"\xef\xbb\xbf", "UTF-8"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def read_text(file: Path, expected: str) -> str | Problem:
    """The text of ``file``, or the one problem that stops anyone from reading it."""
    try:
        state = os.stat(file)
        if stat.S_ISDIR(state.st_mode):
            return _whole(file, f"is a directory; expected {expected}")
        if not stat.S_ISREG(state.st_mode):
            return _whole(file, f"is not a regular file; expected {expected}")
        if state.st_size > MAX_BYTES:
            return _whole(file, f"holds {state.st_size} bytes; expected {expected} of at most {MAX_BYTES} bytes")
        raw = file.read_bytes()
    except FileNotFoundError:
        return _whole(file, f"does not exist; expected {expected}")
    except (OSError, ValueError) as error:
        return _whole(file, f"cannot be read: {reason(error)}; expected {expected}")
    return _decode(file, raw)


def reason(error: OSError | ValueError) -> str:
    """Why the system refused, without the path that the message already names."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _decode(file: Path, raw: bytes) -> str | Problem:
    for mark, encoding in _MARKS:
        if raw.startswith(mark):
            found = f"a {encoding} byte order mark; expected plain UTF-8"
            return _whole(file, found, "save the file as UTF-8 without BOM")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _place(raw[: error.start].decode("utf-8"))
        found = f"byte 0x{raw[error.start]:02x} is not UTF-8; expected UTF-8 text"
        return Problem(str(file), line, column, "", found, "save the file as UTF-8")
    bad = _UNPRINTABLE.search(text)
    if bad:
        line, column = _place(text[: bad.start()])
        found = f"control character U+{ord(bad.group()):04X}; expected printable text"
        return Problem(str(file), line, column, "", found)
    return text


def _place(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _whole(file: Path, message: str, hint: str | None = None) -> Problem:
    return Problem(str(file), 1, 1, "", message, hint)
