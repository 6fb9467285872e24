"""Ed25519 keys in PEM: made, written once, and read with every reason why a file holds none."""

import os
import re
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from securesystemslib.signer import CryptoSigner, SSlibKey

from pipelines.declarations.problems import DeclarationProblems, Problem

PUBLIC_SUFFIX = ".pub"

_PRIVATE, _PUBLIC, _ENCRYPTED = "PRIVATE KEY", "PUBLIC KEY", "ENCRYPTED PRIVATE KEY"
_LABEL = re.compile(rb"^-----BEGIN ([A-Z0-9 ]+)-----", re.MULTILINE)
_LONGEST = 1 << 16
_OLDER = {"RSA PRIVATE KEY": "RSA", "EC PRIVATE KEY": "EC", "DSA PRIVATE KEY": "DSA", "RSA PUBLIC KEY": "RSA"}
"""Labels of forms that are for one kind of key each."""


def new_signer() -> CryptoSigner:
    """A new private key."""
    return CryptoSigner.generate_ed25519()


def write_key_pair(file: Path, signer: CryptoSigner) -> Path:
    """Write the private key to ``file``, for its owner alone, and the public one beside it, whose path is returned.

    DeclarationProblems, and nothing written, where one of the two is there already or cannot be written.
    """
    public = Path(f"{file}{PUBLIC_SUFFIX}")
    found = "exists already; expected a new file: a key is never overwritten"
    there = [Problem(str(path), 1, 1, "", found) for path in (file, public) if os.path.lexists(path)]
    if there:
        raise DeclarationProblems(there)
    written: list[Path] = []
    texts = ((file, _private_pem(signer), 0o600), (public, _public_pem(signer), 0o644))
    path = file
    try:
        for path, text, mode in texts:
            _write_new(path, text, mode, written)
    except OSError as error:
        _remove(written)
        reason = found if isinstance(error, FileExistsError) else f"cannot be written: {error.strerror}"
        raise DeclarationProblems([Problem(str(path), 1, 1, "", reason)]) from None
    except BaseException:
        _remove(written)
        raise
    return public


def _write_new(path: Path, text: bytes, mode: int, written: list[Path]) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    written.append(path)
    with os.fdopen(handle, "wb") as opened:
        os.fchmod(opened.fileno(), mode)  # whatever the umask says
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())


def _remove(written: list[Path]) -> None:
    for path in written:
        path.unlink(missing_ok=True)


def _private_pem(signer: CryptoSigner) -> bytes:
    pem: bytes = signer.private_bytes
    return pem


def _public_pem(signer: CryptoSigner) -> bytes:
    private = load_pem_private_key(signer.private_bytes, None)
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def read_signer(file: Path) -> CryptoSigner:
    """The private key in ``file``; DeclarationProblems where there is none that can sign."""
    text = _pem(file, _PRIVATE)
    try:
        key = load_pem_private_key(text, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _problem(
            file, "cannot be read as a private key: what its PEM holds is damaged or of no known kind"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _other_kind(file, key)
    return CryptoSigner(key)


def read_public_key(file: Path) -> SSlibKey:
    """The public key in ``file``; DeclarationProblems where there is none that a signature can be checked with."""
    text = _pem(file, _PUBLIC)
    try:
        key = load_pem_public_key(text)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _problem(
            file, "cannot be read as a public key: what its PEM holds is damaged or of no known kind"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise _other_kind(file, key)
    return SSlibKey.from_crypto(key)


def _other_kind(file: Path, key: object) -> DeclarationProblems:
    kind = type(key).__name__.removesuffix("PrivateKey").removesuffix("PublicKey")
    return _problem(file, f"holds a key of the kind {kind}; expected Ed25519")


def _pem(file: Path, wanted: str) -> bytes:
    """The content of ``file``, which is one block of PEM of the label that is wanted."""
    text = _content(file)
    labels = [label.decode("ascii") for label in _LABEL.findall(text)]
    meant = "a private key" if wanted == _PRIVATE else "a public key"
    if not labels:
        raise _problem(file, f"is no PEM; expected {meant} in PEM, as phaseledger keygen writes it")
    if len(labels) > 1:
        raise _problem(file, f"holds {len(labels)} blocks of PEM; expected one, of {meant}")
    if labels[0] != wanted:
        raise _wrong_label(file, labels[0], wanted, meant)
    return text


def _wrong_label(file: Path, label: str, wanted: str, meant: str) -> DeclarationProblems:
    is_private = label.endswith(_PRIVATE)
    if wanted == _PUBLIC and is_private:
        hint = f"phaseledger keygen writes it as {file.name}{PUBLIC_SUFFIX}"
        return _problem(file, "holds a private key; expected the public one", hint)
    if wanted == _PRIVATE and label.endswith(_PUBLIC):
        return _problem(file, "holds a public key; expected the private one, which signs")
    if label == _ENCRYPTED:
        hint = "openssl pkey -in FILE -out COPY writes it without its passphrase"
        return _problem(file, "holds an encrypted key; expected one that is not encrypted", hint)
    if label in _OLDER:
        return _problem(file, f"holds a key of the kind {_OLDER[label]}; expected Ed25519")
    form = "PKCS #8" if wanted == _PRIVATE else "SubjectPublicKeyInfo"
    return _problem(file, f"holds {label}; expected {meant} ({form}, BEGIN {wanted})")


def _content(file: Path) -> bytes:
    try:
        if file.exists() and not file.is_file():
            what = "a directory" if file.is_dir() else "not a regular file"
            raise _problem(file, f"cannot be read: it is {what}; expected a key in PEM")
        with file.open("rb") as opened:
            text = opened.read(_LONGEST + 1)
    except (OSError, ValueError) as error:
        raise _problem(file, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(text) > _LONGEST:
        raise _problem(file, "is too long for a key; expected one block of PEM")
    return text


def _problem(file: Path, found: str, hint: str | None = None) -> DeclarationProblems:
    return DeclarationProblems([Problem(str(file), 1, 1, "", found, hint)])
