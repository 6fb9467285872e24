"""``phaseledger`` and ``python -m pipelines``."""

import contextlib
import errno
import os
import sys

import click

from pipelines.cli import command
from pipelines.cli.exits import BAD_INPUT, INTERRUPTED

_READER_WENT_AWAY = 141
"""What a shell shows for a program that a closed pipe ended: 128 + SIGPIPE."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EFBIG)


def main() -> None:
    """Run the command; the exit code is the process's."""
    _open_what_is_closed()
    try:
        code = _run()
    except OSError as error:
        # files that are named are reported where they are opened; what is left is standard output, and standard error
        if error.filename is not None or error.errno not in _NO_ROOM:
            raise
        with contextlib.suppress(OSError):
            print(f"standard output: cannot be written: {error.strerror}", file=sys.stderr)  # noqa: T201
        _forget_output()
        code = BAD_INPUT
    sys.exit(code)


def _run() -> int:
    """Run the command; its exit code."""
    try:
        code: int = command.main(prog_name="phaseledger", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as left:  # how click leaves a closed pipe: with the code 1, which means something else here
        if not type(sys.stdout).__name__.endswith("PacifyFlushWrapper"):
            raise
        code = _READER_WENT_AWAY if left.code else 0
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    return code


def _open_what_is_closed() -> None:
    """Where a standard stream was closed, what is written to it goes nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _forget_output() -> None:
    """Let what is still to be written to standard output and standard error go nowhere: the interpreter would try again, and complain."""
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
