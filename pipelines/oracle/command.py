"""The verifier's command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO
from zipimport import zipimporter

from .reading import Unreadable
from .rendering import render_json, render_text
from .verifying import verify

VERIFIED, UNREADABLE, FAILED = 0, 2, 3


def main(argv: Sequence[str] | None = None) -> int:
    """Verify one receipt; return 0 if it is verified, 2 if it cannot be read, 3 if a value disagrees."""
    options = _parser().parse_args(argv)
    try:
        verification = verify(options.receipt, options.matrix, options.requests)
    except Unreadable as error:
        if options.format == "json":
            failure = {"receipt": str(options.receipt), "passed": False, "error": str(error)}
            _write(sys.stdout, json.dumps(failure) + "\n")
        else:
            _write(sys.stderr, f"{error}\n")
        return UNREADABLE
    render = render_json if options.format == "json" else render_text
    _write(sys.stdout, render(verification))
    return VERIFIED if verification.passed else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_program(),
        description="Recompute a topology receipt from the inputs it exports.",
        epilog="exit codes: 0 verified, 2 unreadable input, 3 verification failed",
    )
    parser.add_argument("receipt", type=Path, help="receipt.json, or the directory that holds it")
    parser.add_argument("--matrix", type=Path, help="matrix.csv (default: the one beside the receipt, if there is one)")
    parser.add_argument("--requests", type=Path, help="CSV of the requests: recompute the workload from them, too")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="how to write the outcome")
    return parser


def _program() -> str:
    """How the verifier was started: packed into an archive, as a module, or as a directory."""
    if isinstance(getattr(sys.modules[__name__], "__loader__", None), zipimporter):
        return "phaseledger-oracle"
    package = __name__.rpartition(".")[0]
    return f"python -m {package}" if "." in package else f"python {sys.argv[0]}"


def _write(stream: TextIO | None, text: str) -> None:
    """Write text to a stream whose encoding may lack some of its characters; nowhere if the stream was closed."""
    if stream is None:
        return
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
