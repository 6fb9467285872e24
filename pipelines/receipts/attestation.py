"""Who stands for a receipt: an in-toto Statement of it in a DSSE envelope (docs/receipts.md, Signing)."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner, Key, Signature

from pipelines.declarations.problems import show
from pipelines.frames.canonical import canonical_bytes
from pipelines.receipts.finding import RECEIPT

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:phaseledger:predicate:topology-decision:v1"

Json = dict[str, Any]

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FROM_BASE64: tuple[tuple[Callable[[str], bytes], Callable[[bytes], bytes]], ...] = (
    (base64.standard_b64decode, base64.standard_b64encode),
    (base64.urlsafe_b64decode, base64.urlsafe_b64encode),
)
"""DSSE lets both alphabets be used."""


class MalformedError(Exception):
    """A text that is no envelope, or that two readers could understand differently; says why."""


def statement(raw: bytes, receipt: Mapping[str, Any]) -> bytes:
    """The in-toto Statement of the receipt whose bytes are ``raw``: what is signed, in canonical form."""
    decision, versions = receipt["decision"], receipt["versions"]
    predicate = {
        "cohort": receipt["cohort"]["name"],
        "fingerprint": receipt["fingerprint"],
        "rules_fingerprint": receipt["rules"]["fingerprint"],
        "as_of": receipt["as_of"],
        **{name: decision[name] for name in ("outcome", "topology", "scenario", "accepted")},
        "versions": {name: versions[name] for name in ("product", "arithmetic")},
        "latency_label": receipt["truth_boundary"]["latency_label"],
    }
    return canonical_bytes(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": RECEIPT, "digest": {"sha256": hashlib.sha256(raw).hexdigest()}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": predicate,
        }
    )


@dataclass(frozen=True)
class Signed:
    """An envelope as it was read: the JSON object, and what its payload and signatures are as bytes."""

    json: Json
    payload: bytes
    signatures: tuple[tuple[str | None, bytes], ...]

    @property
    def payload_type(self) -> str:
        """What the payload is said to be."""
        return str(self.json["payloadType"])

    def is_signed_by(self, key: Key) -> bool:
        """Whether some signature is of ``key``, whatever key it is said to be of: nobody vouches for the ids."""
        return any(self._is_of(key, signature) for _, signature in self.signatures)

    def names(self, key: Key) -> bool:
        """Whether some signature is said to be of ``key``."""
        return any(keyid == key.keyid for keyid, _ in self.signatures)

    def _is_of(self, key: Key, signature: bytes) -> bool:
        envelope = Envelope(self.payload, self.payload_type, {key.keyid: Signature(key.keyid, signature.hex())})
        try:
            envelope.verify([key], 1)
        except VerificationError:
            return False
        return True


def read_envelope(text: bytes) -> Signed:
    """The envelope that ``text`` is, one line of JSON; MalformedError where it is none."""
    found = _parsed(text, "an envelope")
    if not isinstance(found, dict):
        raise MalformedError("is no JSON object; expected one envelope")
    for name, kind, said in (("payload", str, "text"), ("payloadType", str, "text"), ("signatures", list, "a list")):
        if not isinstance(found.get(name), kind):
            raise MalformedError(f"has no {name} that is {said}; expected a DSSE envelope")
    try:
        canonical_bytes(found)
    except (ValueError, RecursionError):
        raise MalformedError("holds a value without a canonical form; expected a DSSE envelope") from None
    return Signed(found, _bytes_of(found["payload"], "payload"), tuple(_signatures(found["signatures"])))


def _signatures(rows: list[Any]) -> Iterator[tuple[str | None, bytes]]:
    for place, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get("sig"), str):
            raise MalformedError(f"has no text in signatures[{place}].sig; expected a DSSE envelope")
        keyid = row.get("keyid")
        if keyid is not None and not isinstance(keyid, str):
            raise MalformedError(f"has no text in signatures[{place}].keyid; expected a DSSE envelope")
        yield keyid, _bytes_of(row["sig"], f"signatures[{place}].sig")


def _bytes_of(text: str, name: str) -> bytes:
    """What a base64 text stands for; a text that is not what its bytes are written as has no one meaning."""
    for decoded, encoded in _FROM_BASE64:
        try:
            data = decoded(text)
        except (binascii.Error, ValueError):
            continue
        if encoded(data).decode("ascii") == text:
            return data
    raise MalformedError(f"has a {name} that is not base64; expected a DSSE envelope")


def _parsed(text: bytes, what: str) -> Any:
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise MalformedError(f"is not UTF-8; expected {what} as JSON") from None
    except json.JSONDecodeError as error:
        found = f"is not JSON ({error.msg} at line {error.lineno}, column {error.colno})"
        raise MalformedError(f"{found}; expected {what}") from None
    except (RecursionError, ValueError):
        raise MalformedError(f"cannot be read as JSON; expected {what}") from None


def _once(pairs: list[tuple[str, Any]]) -> Json:
    value: Json = {}
    for name, item in pairs:
        if name in value:
            raise MalformedError(f"has the name {show(name)} twice in one object; expected it once")
        value[name] = item
    return value


def _no_constant(text: str) -> float:
    raise MalformedError(f"holds {text}, which is no number; expected JSON")


def with_signature(expected: bytes, signer: CryptoSigner, before: Signed | None) -> bytes:
    """The text of an envelope of the statement ``expected`` with a signature of ``signer``, beside those that were there ``before``.

    ``before`` has to be an envelope of the same statement. What it holds is kept, but for a signature that is said to be of this
    key and is not.
    """
    envelope = Envelope(expected, PAYLOAD_TYPE, {})
    envelope.sign(signer)
    own = envelope.to_dict()
    if before is None:
        return canonical_bytes(own) + b"\n"
    key = signer.public_key
    kept = [row for row in before.json["signatures"] if row.get("keyid") != key.keyid]
    return canonical_bytes(before.json | {"signatures": kept + own["signatures"]}) + b"\n"


def signature_fault(signed: Signed, key: Key, expected: bytes) -> str | None:
    """Why ``signed`` is no signature of the statement ``expected`` by ``key``, in words; None if it is one."""
    if signed.payload_type != PAYLOAD_TYPE:
        return _type_fault(signed)
    if signed.is_signed_by(key):
        return statement_fault(signed, expected)
    if signed.names(key):
        return "the signature that is said to be of this key is not: it, or what is signed, was changed"
    others = len(signed.signatures)
    return f"no signature is of this key; there {'is 1' if others == 1 else f'are {others}'} of other keys"


def _type_fault(signed: Signed) -> str:
    return f"the payload type is {show(signed.payload_type)}; expected {show(PAYLOAD_TYPE)}"


def statement_fault(signed: Signed, expected: bytes) -> str | None:
    """How what is signed differs from the statement ``expected``, in words; None if it is that, byte by byte."""
    if signed.payload_type != PAYLOAD_TYPE:
        return _type_fault(signed)
    if signed.payload == expected:
        return None
    try:
        found = _parsed(signed.payload, "an in-toto Statement")
    except MalformedError as error:
        return f"what is signed {error}"
    if not isinstance(found, dict):
        return "what is signed is no JSON object; expected an in-toto Statement"
    return _difference(found, json.loads(expected))


def _difference(found: Json, wanted: Json) -> str:
    """The first thing in which a statement is not the one that is wanted."""
    for name, said in (("_type", "statement type"), ("predicateType", "predicate type")):
        if found.get(name) != wanted[name]:
            return f"the {said} is {show(found.get(name))}; expected {show(wanted[name])}"
    subject = found.get("subject")
    if not isinstance(subject, list) or len(subject) != 1:
        count = len(subject) if isinstance(subject, list) else "no list of"
        return f"the statement has {count} subjects; expected one, {RECEIPT}"
    if subject != wanted["subject"]:
        return _subject_difference(subject[0], wanted["subject"][0])
    predicate = found.get("predicate")
    if not isinstance(predicate, dict):
        return f"the predicate is {show(predicate)}; expected what the receipt says"
    left, right = _flat(predicate), _flat(wanted["predicate"])
    for name in sorted(left.keys() | right.keys()):
        if not (name in left and name in right and left[name] == right[name]):
            said, is_so = (show(of[name]) if name in of else "no such member" for of in (left, right))
            return f"the predicate has {said} as {name if name in right else show(name)}; the receipt has {is_so}"
    return "what is signed is not the canonical form of the statement, or says more than it"


def _flat(predicate: Json) -> Json:
    """Members by name, those of ``versions`` one by one."""
    versions = predicate.get("versions")
    if not isinstance(versions, dict):
        return predicate
    inner = {f"versions.{name}": value for name, value in versions.items()}
    return {name: value for name, value in predicate.items() if name != "versions"} | inner


def _subject_difference(found: object, wanted: Json) -> str:
    digest = found.get("digest") if isinstance(found, dict) else None
    sha256 = digest.get("sha256") if isinstance(digest, dict) else None
    if sha256 != wanted["digest"]["sha256"]:
        said = sha256 if isinstance(sha256, str) and _DIGEST.fullmatch(sha256) else show(sha256)
        return f"the subject is another receipt, of the digest {said}; this one has {wanted['digest']['sha256']}"
    return f"the subject is not {RECEIPT} with its SHA-256 alone"
