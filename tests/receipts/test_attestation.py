"""Statements, envelopes and keys: what a signature binds, and everything that is not a signature of a receipt."""

import base64
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from securesystemslib.signer import CryptoSigner

from pipelines.declarations.problems import DeclarationProblems
from pipelines.frames.canonical import canonical_bytes
from pipelines.receipts.attestation import (
    MalformedError,
    read_envelope,
    signature_fault,
    statement,
    statement_fault,
    with_signature,
)
from pipelines.receipts.keys import new_signer, read_public_key, read_signer, write_key_pair
from tests.receipts.conftest import Built

Json = dict[str, Any]

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
"""The SHA-256 of the three bytes abc (FIPS 180-2, appendix B.1)."""

RECEIPT: Json = {
    "cohort": {"name": "chat", "title": "Chat"},
    "fingerprint": "f" * 64,
    "rules": {"fingerprint": "e" * 64},
    "as_of": None,
    "decision": {
        "outcome": "chosen",
        "topology": "chunked",
        "scenario": "chunked/n4/c512",
        "accepted": True,
        "margin": 0.25,
    },
    "versions": {"product": "0.1.0", "arithmetic": "5", "significant_digits": 10},
    "truth_boundary": {"latency_label": "modeled", "statement": "..."},
}
EXPECTED = statement(b"abc", RECEIPT)
SIGNER, OTHER = new_signer(), new_signer()
KEY = SIGNER.public_key


def envelope(payload: bytes = EXPECTED, payload_type: str = "application/vnd.in-toto+json", **more: Any) -> Json:
    """What ``SIGNER`` has signed, written here by hand: DSSE's pre-authentication encoding, and Ed25519 of it."""
    encoded = b"DSSEv1 %d %b %d %b" % (len(payload_type), payload_type.encode(), len(payload), payload)
    private = load_pem_private_key(SIGNER.private_bytes, None)
    assert isinstance(private, ed25519.Ed25519PrivateKey)
    signature = {"keyid": KEY.keyid, "sig": base64.b64encode(private.sign(encoded)).decode()}
    body = {"payload": base64.b64encode(payload).decode(), "payloadType": payload_type, "signatures": [signature]}
    return body | more


def fault(found: Json | bytes, signer: CryptoSigner = SIGNER, expected: bytes = EXPECTED) -> str | None:
    text = found if isinstance(found, bytes) else json.dumps(found).encode()
    return signature_fault(read_envelope(text), signer.public_key, expected)


def edited(change: Callable[[Json], object]) -> bytes:
    """The statement after ``change``, in canonical form."""
    found = json.loads(EXPECTED)
    change(found)
    return canonical_bytes(found)


def test_the_statement_is_the_one_of_the_page() -> None:
    assert json.loads(EXPECTED) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "receipt.json", "digest": {"sha256": ABC}}],
        "predicateType": "urn:phaseledger:predicate:topology-decision:v1",
        "predicate": {
            "cohort": "chat",
            "fingerprint": "f" * 64,
            "rules_fingerprint": "e" * 64,
            "as_of": None,
            "outcome": "chosen",
            "topology": "chunked",
            "scenario": "chunked/n4/c512",
            "accepted": True,
            "versions": {"product": "0.1.0", "arithmetic": "5"},
            "latency_label": "modeled",
        },
    }
    assert canonical_bytes(json.loads(EXPECTED)) == EXPECTED


def test_a_statement_of_a_real_receipt_names_its_decision(good: Built) -> None:
    raw = canonical_bytes(good.receipt)
    said = json.loads(statement(raw, good.receipt))["predicate"]
    assert said["scenario"] == good.receipt["decision"]["scenario"]
    assert said["rules_fingerprint"] == good.receipt["rules"]["fingerprint"]
    text = with_signature(statement(raw, good.receipt), SIGNER, None)
    assert fault(text, expected=statement(raw, good.receipt)) is None
    assert "another receipt" in str(fault(text, expected=statement(raw + b" ", good.receipt)))


def test_an_envelope_is_one_line_of_canonical_json_that_anybody_could_have_written() -> None:
    text = with_signature(EXPECTED, SIGNER, None)
    assert text == canonical_bytes(envelope()) + b"\n"
    assert text.count(b"\n") == 1
    assert with_signature(EXPECTED, SIGNER, None) == text
    assert fault(envelope()) is None


def test_a_second_signature_is_put_beside_the_first() -> None:
    first = with_signature(EXPECTED, SIGNER, None)
    second = with_signature(EXPECTED, OTHER, read_envelope(first))
    assert json.loads(second)["signatures"][0] == json.loads(first)["signatures"][0]
    assert [fault(second, one) for one in (SIGNER, OTHER)] == [None, None]
    assert fault(first, OTHER) == "no signature is of this key; there is 1 of other keys"
    assert "there are 2 of other keys" in str(fault(second, new_signer()))


def test_what_others_have_in_an_envelope_stays() -> None:
    theirs = envelope(note="kept") | {"signatures": [{"sig": "QUJD", "cert": "x"}]}
    both = json.loads(with_signature(EXPECTED, SIGNER, read_envelope(json.dumps(theirs).encode())))
    assert both["note"] == "kept"
    assert both["signatures"][0] == {"sig": "QUJD", "cert": "x"}
    assert fault(both) is None


def test_a_false_signature_under_ones_own_id_is_replaced() -> None:
    false = envelope()
    false["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()
    mended = json.loads(with_signature(EXPECTED, SIGNER, read_envelope(json.dumps(false).encode())))
    assert mended == envelope()


@pytest.mark.parametrize(
    "keyid", [KEY.keyid, OTHER.public_key.keyid, "", None], ids=["own", "of another", "empty", "absent"]
)
def test_the_id_of_a_key_is_a_hint_and_nothing_more(keyid: str | None) -> None:
    found = envelope()
    found["signatures"][0]["keyid"] = keyid
    assert fault(found) is None
    assert fault(found, OTHER) is not None  # whoever takes the id of a key has not signed with it
    if keyid is None:
        del found["signatures"][0]["keyid"]
        assert fault(found) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda of: of["subject"][0]["digest"].update(sha256="0" * 64),
            "the subject is another receipt, of the digest 000",
        ),
        (lambda of: of["subject"][0]["digest"].update(sha256=ABC.upper()), "the subject is another receipt"),
        (lambda of: of["subject"][0]["digest"].clear(), "the subject is another receipt, of the digest nothing"),
        (lambda of: of["subject"][0]["digest"].update(sha512="1"), "not receipt.json with its SHA-256 alone"),
        (lambda of: of["subject"][0].update(name="matrix.csv"), "not receipt.json with its SHA-256 alone"),
        (lambda of: of["subject"].append(of["subject"][0]), "the statement has 2 subjects; expected one"),
        (lambda of: of["subject"].insert(0, {"name": "x", "digest": {}}), "the statement has 2 subjects"),
        (lambda of: of["subject"].clear(), "the statement has 0 subjects"),
        (lambda of: of.update(subject="receipt.json"), "the statement has no list of subjects"),
        (lambda of: of.update(subject=["receipt.json"]), "the subject is another receipt"),
        (lambda of: of.update(_type="https://in-toto.io/Statement/v0.1"), "the statement type is"),
        (lambda of: of.pop("_type"), "the statement type is nothing"),
        (lambda of: of.update(predicateType="https://slsa.dev/provenance/v1"), "the predicate type is"),
        (lambda of: of.update(predicate=[]), "the predicate is a list"),
        (lambda of: of["predicate"].update(accepted=False), "has false as accepted; the receipt has true"),
        (lambda of: of["predicate"].update(topology="routed"), 'has "routed" as topology; the receipt has "chunked"'),
        (lambda of: of["predicate"].update(fingerprint="a" * 64), "as fingerprint"),
        (lambda of: of["predicate"]["versions"].update(arithmetic="4"), "as versions.arithmetic"),
        (lambda of: of["predicate"].pop("as_of"), "has no such member as as_of; the receipt has nothing"),
        (lambda of: of["predicate"].update(latency_label="measured"), 'has "measured" as latency_label'),
        (lambda of: of["predicate"].update({"p99\x1b": 1}), 'as "p99\\u001b"; the receipt has no such member'),
        (lambda of: of.update(extra=1), "not the canonical form of the statement, or says more than it"),
    ],
)
def test_a_statement_that_says_something_else_is_named(change: Callable[[Json], object], said: str) -> None:
    payload = edited(change)
    assert said in str(fault(envelope(payload)))
    assert said in str(statement_fault(read_envelope(json.dumps(envelope(payload)).encode()), EXPECTED))


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (EXPECTED.replace(b'"accepted":true', b'"accepted":true,"accepted":true'), 'has the name "accepted" twice'),
        (EXPECTED.replace(b'"accepted":true', b'"accepted":false,"accepted":true'), 'has the name "accepted" twice'),
        (EXPECTED.replace(b",", b", ", 1), "not the canonical form"),
        (EXPECTED + b"\n", "not the canonical form"),
        (b"\xef\xbb\xbf" + EXPECTED, "is not JSON"),
        (b"[" * 100_000, "cannot be read as JSON"),
        (b"NaN", "holds NaN"),
        (b"[]", "no JSON object"),
        (b"\xff", "is not UTF-8"),
        (b"", "is not JSON"),
    ],
)
def test_a_payload_with_two_readings_or_none_is_no_statement(payload: bytes, said: str) -> None:
    assert said in str(fault(envelope(payload)))


def test_a_payload_of_another_type_is_no_statement_even_if_its_bytes_are() -> None:
    signed = envelope(payload_type="application/json")
    assert fault(signed) == 'the payload type is "application/json"; expected "application/vnd.in-toto+json"'
    relabelled = envelope() | {"payloadType": "application/json"}
    assert "the payload type is" in str(fault(relabelled))
    assert "said to be of this key is not" in str(fault(signed | {"payloadType": "application/vnd.in-toto+json"}))


def test_every_bit_of_payload_and_signature_counts() -> None:
    signed = envelope()
    signature = bytearray(base64.b64decode(signed["signatures"][0]["sig"]))
    for place in range(0, 8 * len(signature), 37):
        changed = bytearray(signature)
        changed[place // 8] ^= 1 << place % 8
        row = {"keyid": KEY.keyid, "sig": base64.b64encode(changed).decode()}
        assert "said to be of this key is not" in str(fault(signed | {"signatures": [row]})), place
    for place in range(0, 8 * len(EXPECTED), 509):
        payload = bytearray(EXPECTED)
        payload[place // 8] ^= 1 << place % 8
        assert fault(signed | {"payload": base64.b64encode(payload).decode()}) is not None, place


@pytest.mark.parametrize("length", [0, 1, 63, 65])
def test_a_signature_of_another_length_is_none(length: int) -> None:
    row = {"keyid": KEY.keyid, "sig": base64.b64encode(bytes(length)).decode()}
    assert "said to be of this key is not" in str(fault(envelope(signatures=[row])))


def test_both_alphabets_of_base64_are_read_and_nothing_that_is_neither() -> None:
    payload = edited(lambda of: of["predicate"].update(note="\x7f>>>???~~~ÿ"))
    signed = envelope(payload)
    standard = signed["payload"]
    urlsafe = base64.urlsafe_b64encode(payload).decode()
    assert standard != urlsafe
    assert read_envelope(json.dumps(signed | {"payload": urlsafe}).encode()).is_signed_by(KEY)
    mixed = standard.replace("+", "-", 1).replace("/", "_", 1)
    for text in (mixed + "\n", standard.rstrip("=") + "*", standard + "=", " " + standard, standard + "QQ==", "ÿ"):
        with pytest.raises(MalformedError, match="has a payload that is not base64"):
            read_envelope(json.dumps(signed | {"payload": text}).encode())
    with pytest.raises(MalformedError, match="not base64"):
        read_envelope(json.dumps(signed | {"payload": "QR=="}).encode())  # QQ== in another dress


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is not JSON"),
        (b"{}\n{}\n", "is not JSON (Extra data at line 2"),
        (b"[]", "is no JSON object"),
        (b"{}", "has no payload that is text"),
        (b'{"payload":"","payloadType":1,"signatures":[]}', "has no payloadType that is text"),
        (b'{"payload":"","payloadType":"x","signatures":{}}', "has no signatures that is a list"),
        (b'{"payload":"","payloadType":"x","signatures":[1]}', "has no text in signatures[0].sig"),
        (b'{"payload":"","payloadType":"x","signatures":[{"sig":"","keyid":7}]}', "has no text in signatures[0].keyid"),
        (b'{"payload":"","payload":"","payloadType":"x","signatures":[]}', 'has the name "payload" twice'),
        (b'{"payload":"","payloadType":"x","signatures":[],"n":1e999}', "holds a value without a canonical form"),
        (b'{"payload":"","payloadType":"\\ud800","signatures":[]}', "holds a value without a canonical form"),
        (b"\xff", "is not UTF-8"),
    ],
)
def test_what_is_no_envelope_says_why(text: bytes, said: str) -> None:
    with pytest.raises(MalformedError) as found:
        read_envelope(text)
    assert said in str(found.value)


def test_an_envelope_without_signatures_is_signed_by_nobody() -> None:
    assert fault(envelope(signatures=[])) == "no signature is of this key; there are 0 of other keys"


def test_a_key_pair_is_written_for_its_owner_and_read_again(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        public = write_key_pair(tmp_path / "release.key", SIGNER)
    finally:
        os.umask(before)
    assert public == tmp_path / "release.key.pub"
    assert stat.S_IMODE((tmp_path / "release.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(public.stat().st_mode) == 0o644
    assert read_signer(tmp_path / "release.key").public_key == read_public_key(public) == KEY
    assert isinstance(load_pem_public_key(public.read_bytes()), ed25519.Ed25519PublicKey)


@pytest.mark.parametrize("there", ["release.key", "release.key.pub"])
@pytest.mark.parametrize("dangling", [False, True])
def test_a_key_is_never_written_over(there: str, dangling: bool, tmp_path: Path) -> None:
    if dangling:
        (tmp_path / there).symlink_to("elsewhere")
    else:
        (tmp_path / there).write_text("kept")
    with pytest.raises(DeclarationProblems, match="exists already; expected a new file: a key is never overwritten"):
        write_key_pair(tmp_path / "release.key", SIGNER)
    assert [path.name for path in tmp_path.iterdir()] == [there]


def test_half_a_pair_is_not_left_where_the_other_half_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def fails_the_second_time(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fails_the_second_time)
    with pytest.raises(DeclarationProblems, match=r"release.key.pub:1:1: cannot be written: No space left on device"):
        write_key_pair(tmp_path / "release.key", SIGNER)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_makes_and_reads_the_same_keys(tmp_path: Path) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True)

    openssl("genpkey", "-algorithm", "ed25519", "-out", "theirs.key")
    openssl("pkey", "-in", "theirs.key", "-pubout", "-out", "theirs.pub")
    assert read_signer(tmp_path / "theirs.key").public_key == read_public_key(tmp_path / "theirs.pub")
    public = write_key_pair(tmp_path / "ours.key", SIGNER)
    openssl("pkey", "-in", "ours.key", "-pubout", "-out", "again.pub")
    assert (tmp_path / "again.pub").read_bytes() == public.read_bytes()


def private_pem(key: Any, encryption: Any = None, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    pem: bytes = key.private_bytes(Encoding.PEM, form, encryption or NoEncryption())
    return pem


def public_pem(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


ED25519 = ed25519.Ed25519PrivateKey.generate()
RSA, EC = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
DAMAGED = b"-----BEGIN %b KEY-----\nAAAA\n-----END %b KEY-----\n"


def said_or_content(value: object) -> str:
    """A name of a case that is the same in every process: keys are not."""
    return value if isinstance(value, str) else "content"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no PEM; expected a private key in PEM"),
        (b"ssh-ed25519 AAAA", "is no PEM"),
        (b"x" * 70_000, "is too long for a key"),
        (private_pem(RSA), "holds a key of the kind RSA; expected Ed25519"),
        (private_pem(RSA, form=PrivateFormat.TraditionalOpenSSL), "holds a key of the kind RSA; expected Ed25519"),
        (private_pem(EC), "holds a key of the kind EC; expected Ed25519"),
        (private_pem(EC, form=PrivateFormat.TraditionalOpenSSL), "holds a key of the kind EC; expected Ed25519"),
        (private_pem(ED25519, BestAvailableEncryption(b"secret")), "holds an encrypted key"),
        (
            private_pem(ED25519, form=PrivateFormat.OpenSSH),
            "holds OPENSSH PRIVATE KEY; expected a private key (PKCS #8",
        ),
        (public_pem(ED25519), "holds a public key; expected the private one"),
        (private_pem(ED25519) + public_pem(ED25519), "holds 2 blocks of PEM; expected one"),
        (DAMAGED % (b"PRIVATE", b"PRIVATE"), "cannot be read as a private key"),
    ],
    ids=said_or_content,
)
def test_what_is_no_private_key_says_why(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(DeclarationProblems) as found:
        read_signer(tmp_path / "key")
    assert f"{tmp_path / 'key'}:1:1: {said}" in str(found.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            private_pem(ED25519),
            "holds a private key; expected the public one (hint: phaseledger keygen writes it as key.pub)",
        ),
        (private_pem(ED25519, BestAvailableEncryption(b"secret")), "holds a private key; expected the public one"),
        (public_pem(RSA), "holds a key of the kind RSA; expected Ed25519"),
        (public_pem(EC), "holds a key of the kind EC; expected Ed25519"),
        (DAMAGED % (b"PUBLIC", b"PUBLIC"), "cannot be read as a public key"),
        (b"-----BEGIN CERTIFICATE-----\n", "holds CERTIFICATE; expected a public key (SubjectPublicKeyInfo"),
        (KEY.keyval["public"].encode(), "is no PEM; expected a public key"),
    ],
    ids=said_or_content,
)
def test_what_is_no_public_key_says_why(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(DeclarationProblems) as found:
        read_public_key(tmp_path / "key")
    assert f"{tmp_path / 'key'}:1:1: {said}" in str(found.value)


def test_a_key_that_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place, said in (("nowhere", "No such file"), (".", "it is a directory"), ("pipe", "it is not a regular file")):
        with pytest.raises(DeclarationProblems, match=f"cannot be read: .*{said}"):
            read_public_key(tmp_path / place)
