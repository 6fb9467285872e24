"""A receipt against the keys that are to stand for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from securesystemslib.signer import Key

from pipelines.cli.recomputed import Recomputed
from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.receipts.attestation import MalformedError, Signed, read_envelope, signature_fault, statement
from pipelines.receipts.finding import ENVELOPE
from pipelines.receipts.keys import read_public_key

Json = dict[str, Any]


@dataclass(frozen=True)
class SignatureCheck:
    """Whether one key stands for the receipt, and if not, why."""

    key: str
    keyid: str
    reason: str | None

    def as_json(self) -> Json:
        """For programs."""
        return {"key": self.key, "keyid": self.keyid, "valid": self.reason is None, "reason": self.reason}

    def line(self) -> str:
        """For people."""
        return f"signature of {self.key} ({self.keyid}): {'valid' if self.reason is None else self.reason}"


@dataclass(frozen=True)
class Expected:
    """The keys that a receipt is to be signed by, and the envelope beside it, if there is one."""

    keys: tuple[tuple[str, Key], ...]
    envelope: Signed | None


def read_expected(files: Sequence[Path], receipt: Path, signature: Path | None) -> Expected:
    """Keys and envelope; DeclarationProblems where one cannot be read, or a key is given twice."""
    keys: list[tuple[str, Key]] = []
    problems: list[Problem] = []
    for file in files:
        try:
            key = read_public_key(file)
        except DeclarationProblems as found:
            problems += found.problems
            continue
        same = next((name for name, other in keys if other.keyid == key.keyid), None)
        if same is not None:
            problems.append(Problem(str(file), 1, 1, "", f"holds the same key as {same}; expected another one"))
        keys.append((str(file), key))
    try:
        envelope = envelope_in(signature or receipt.parent / ENVELOPE, is_named=signature is not None)
    except DeclarationProblems as found:
        problems += found.problems
    if problems:
        raise DeclarationProblems(problems)
    return Expected(tuple(keys), envelope)


def envelope_in(file: Path, *, is_named: bool) -> Signed | None:
    """The envelope in ``file``; None where nobody named the file and there is none. DeclarationProblems where it is none."""
    from pipelines.oracle.reading import Unreadable, read_bytes

    if not is_named and not file.exists():
        return None
    try:
        return read_envelope(read_bytes(file))
    except Unreadable as error:
        found = str(error).removeprefix(f"{file}: ")
    except MalformedError as error:
        found = str(error)
    raise DeclarationProblems([Problem(str(file), 1, 1, "", found)])


def checked_signatures(receipt: Recomputed, expected: Expected) -> list[SignatureCheck]:
    """Whether each key signed the bytes that were verified."""
    return [SignatureCheck(name, key.keyid, _fault(receipt, expected.envelope, key)) for name, key in expected.keys]


def _fault(receipt: Recomputed, envelope: Signed | None, key: Key) -> str | None:
    if envelope is None:
        return f"the receipt is not signed: there is no {ENVELOPE} beside it"
    if not receipt.is_whole:
        return "not checked: this does not have the structure of a receipt, so there is no statement of it"
    return signature_fault(envelope, key, statement(receipt.raw, receipt.receipt))
