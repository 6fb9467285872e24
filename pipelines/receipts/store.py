"""The store of receipts: one directory per receipt, named by its SHA-256, a link per cohort, and an index (docs/receipts.md)."""

import errno
import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from pipelines.frames.canonical import canonical_bytes
from pipelines.receipts.finding import ENVELOPE, MATRIX, RECEIPT, STORE
from pipelines.receipts.write import alone_in, clear_unfinished, link_to, put_directory, put_together, write_atomically

INDEX = "index.json"
_DIGEST_DIGITS = 64
_MAY_BE_ABSENT = frozenset({"as_of", "topology", "scenario"})
_MEMBERS = _MAY_BE_ABSENT | {
    "sha256",
    "cohort",
    "title",
    "fingerprint",
    "rules_fingerprint",
    "seal",
    "arithmetic",
    "product",
    "outcome",
    "accepted",
}
"""Of an entry of the index, but for whether it is signed, which is looked up every time."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """The bytes of a receipt and of its matrix."""

    receipt: bytes
    matrix: bytes

    @property
    def sha256(self) -> str:
        """The name of the receipt."""
        return hashlib.sha256(self.receipt).hexdigest()

    @property
    def files(self) -> dict[str, bytes]:
        """By file name; the receipt last, since it names the matrix."""
        return {MATRIX: self.matrix, RECEIPT: self.receipt}


def read_pair(directory: Path) -> Pair:
    """The two files in ``directory``."""
    return Pair((directory / RECEIPT).read_bytes(), (directory / MATRIX).read_bytes())


def put_beside_others(directory: Path, pair: Pair) -> None:
    """Put a pair into a directory that somebody named; FileExistsError where that leads to a receipt that is kept."""
    if directory.resolve().parent.name == STORE:
        raise FileExistsError(errno.EEXIST, "leads to a receipt that is kept", str(directory))
    with alone_in(directory):
        _put_into(directory, pair)


def _put_into(directory: Path, pair: Pair) -> None:
    """Replace the pair in a directory; a signature of another receipt does not stay beside it."""
    if _holds(directory, pair):
        return
    put_together(directory, pair.files, stale=[] if _receipt_in(directory) == pair.receipt else [ENVELOPE])


def keep(root: Path, cohort: str, pair: Pair) -> Path:
    """Put a pair into the store under ``root``, let the cohort's name lead to it, and bring the index up to date.

    Returns the directory of the store. A pair that is there already is left as it is. Raises FileExistsError where a file has the
    cohort's name.
    """
    name, store = pair.sha256, root / STORE
    with alone_in(root):
        store.mkdir(exist_ok=True)
        clear_unfinished(store)
        kept = store / name
        if not _holds(kept, pair):
            _put_into(kept, pair) if kept.is_dir() else put_directory(kept, pair.files)
        seen = root / cohort
        if os.path.lexists(seen) and not seen.is_symlink() and not seen.is_dir():
            raise FileExistsError(errno.EEXIST, "a file is in the place of the cohort's link", str(seen))
        if seen.is_dir() and seen.resolve().parent != store.resolve():
            _put_into(seen, pair)  # a directory from elsewhere, or a link to one
        else:
            link_to(seen, f"{STORE}/{name}")
        with suppress(OSError):  # the receipt is in its place: the index can be made from it at any time
            _write_index(root, indexed(root, known=_read_index(root)).entries)
    return kept


def _receipt_in(directory: Path) -> bytes | None:
    try:
        return (directory / RECEIPT).read_bytes()
    except OSError:
        return None


def _holds(directory: Path, pair: Pair) -> bool:
    try:
        return read_pair(directory) == pair
    except OSError:
        return False


@dataclass(frozen=True)
class Index:
    """What is in a store: its receipts by cohort and digest, and the directories that hold none, with the reason."""

    entries: list[Json]
    unreadable: dict[str, str]


def reindexed(root: Path) -> Index:
    """Read every receipt under ``root``, and write the index anew where it says something else."""
    if not (root / STORE).is_dir():
        return Index([], {})
    with alone_in(root):
        found = indexed(root, known={})
        _write_index(root, found.entries)
    return found


def indexed(root: Path, known: Mapping[str, Json]) -> Index:
    """The receipts under ``root``; those ``known`` by digest are not read again."""
    entries, unreadable = [], {}
    for place in sorted((root / STORE).iterdir()):
        if len(place.name) != _DIGEST_DIGITS:
            continue
        try:
            if not (place / RECEIPT).is_file():
                raise FileNotFoundError(errno.ENOENT, "there is none")
            entry = known.get(place.name) or _entry(place)
        except (OSError, ValueError, LookupError, TypeError) as error:
            unreadable[place.name] = _why(error)
            continue
        entries.append(entry | {"signed": (place / ENVELOPE).is_file()})
    return Index(sorted(entries, key=lambda entry: (entry["cohort"], entry["sha256"])), unreadable)


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{RECEIPT} cannot be read: {error.strerror}"
    return str(error) if isinstance(error, _NotItsNameError) else f"{RECEIPT} is not that of a plan"


class _NotItsNameError(ValueError):
    """A receipt in the store has another digest than its directory says."""


def _entry(place: Path) -> Json:
    data = (place / RECEIPT).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != place.name:
        raise _NotItsNameError(f"{RECEIPT} has the digest {digest}: it was changed after it was written")
    receipt = orjson.loads(data)
    decision, versions = receipt["decision"], receipt["versions"]
    entry = {
        "sha256": digest,
        "cohort": receipt["cohort"]["name"],
        "title": receipt["cohort"]["title"],
        "fingerprint": receipt["fingerprint"],
        "rules_fingerprint": receipt["rules"]["fingerprint"],
        "seal": receipt["seal"],
        "as_of": receipt["as_of"],
        "arithmetic": versions["arithmetic"],
        "product": versions["product"],
    } | {name: decision[name] for name in ("outcome", "topology", "scenario", "accepted")}
    if not _is_entry(entry):
        raise ValueError("what an index holds of a receipt is text")
    return entry


def _is_entry(entry: object) -> bool:
    """Whether something is an entry of an index, apart from its being true: text on one line, absent where it may be."""
    if not isinstance(entry, dict) or entry.keys() - {"signed"} != _MEMBERS or not isinstance(entry["accepted"], bool):
        return False
    texts = [entry[name] for name in _MEMBERS - {"accepted"} if not (name in _MAY_BE_ABSENT and entry[name] is None)]
    return all(isinstance(text, str) and text.isprintable() for text in texts)


def _read_index(root: Path) -> dict[str, Json]:
    """What the index says by digest; nothing where it cannot be read."""
    try:
        entries = orjson.loads((root / INDEX).read_bytes())["receipts"]
        return {entry["sha256"]: entry for entry in entries if _is_entry(entry)}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def _write_index(root: Path, entries: list[Json]) -> None:
    wanted = canonical_bytes({"receipts": entries})
    try:
        unchanged = (root / INDEX).read_bytes() == wanted
    except OSError:
        unchanged = False
    if not unchanged:
        write_atomically(root / INDEX, wanted)


def shown_digests(root: Path) -> dict[str, str]:
    """Cohort -> digest of the receipt that its name leads to, where that is one of the store."""
    links = [place for place in root.iterdir() if place.is_symlink()] if root.is_dir() else []
    return {place.name: place.resolve().name for place in links if place.resolve().parent == (root / STORE).resolve()}
