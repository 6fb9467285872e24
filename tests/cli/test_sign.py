"""`phaseledger keygen`, `sign` and `verify --key`: who stands for a receipt."""

import base64
import hashlib
import json
import shutil
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from securesystemslib.signer import CryptoSigner

from pipelines.frames.canonical import canonical_bytes
from pipelines.receipts.attestation import with_signature
from pipelines.receipts.keys import read_signer
from tests.cli.small_receipt import Json, Small, call, small


@pytest.fixture
def made(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    """A receipt, and two pairs of keys in the current directory."""
    made = small(project, tmp_path / "project")
    monkeypatch.chdir(made.project)
    for name in ("release.key", "second.key"):
        assert call("keygen", name).exit_code == 0
    return made


def signed(made: Small) -> Small:
    run = call("sign", "out", "--key", "release.key")
    assert run.exit_code == 0, run.output
    return made


def signer(name: str = "release.key") -> CryptoSigner:
    return read_signer(Path(name))


def test_keygen_says_what_it_wrote_and_never_writes_over_it(made: Small) -> None:
    assert call("keygen", "third.key").stdout == (
        f"private key: third.key\npublic key:  third.key.pub\nkey id:      {signer('third.key').public_key.keyid}\n"
    )
    assert stat.S_IMODE(Path("third.key").stat().st_mode) == 0o600
    before = Path("third.key").read_bytes()
    run = call("keygen", "third.key")
    assert run.exit_code == 2
    assert run.stderr == (
        "third.key:1:1: exists already; expected a new file: a key is never overwritten\n"
        "third.key.pub:1:1: exists already; expected a new file: a key is never overwritten\n"
        "2 problems; nothing was run or written\n"
    )
    assert Path("third.key").read_bytes() == before
    assert "nowhere/a.key:1:1: cannot be written: No such file" in call("keygen", "nowhere/a.key").stderr


def test_what_is_signed_is_verified_by_the_key_and_by_no_other(made: Small) -> None:
    run = call("sign", "out", "--key", "release.key")
    keyid = signer().public_key.keyid
    assert run.stdout == f"out/receipt.intoto.jsonl: signed by the key {keyid}\n"
    envelope = json.loads(made.envelope.read_bytes())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    digest = hashlib.sha256(made.receipt.read_bytes()).hexdigest()
    assert statement["subject"] == [{"name": "receipt.json", "digest": {"sha256": digest}}]
    assert made.envelope.read_bytes() == canonical_bytes(envelope) + b"\n"

    good = call("verify", "out", "--key", "release.key.pub")
    assert good.exit_code == 0, good.output
    assert good.stdout.startswith("out/receipt.json: verified (")
    assert good.stdout.endswith(f"\nsignature of release.key.pub ({keyid}): valid\n")
    bad = call("verify", "out", "--key", "second.key.pub")
    assert bad.exit_code == 3
    assert bad.stdout.endswith("no signature is of this key; there is 1 of other keys\n")


def test_signing_again_changes_nothing_and_another_key_adds_to_it(made: Small) -> None:
    signed(made)
    first, at = made.envelope.read_bytes(), made.envelope.stat().st_mtime_ns
    again = call("sign", "out", "--key", "release.key")
    assert (again.exit_code, made.envelope.read_bytes()) == (0, first)
    assert made.envelope.stat().st_mtime_ns == at
    assert "was signed already, nothing changed" in again.stdout
    made.envelope.unlink()
    assert signed(made).envelope.read_bytes() == first

    both = json.loads(call("sign", "out", "--key", "second.key", "--format", "json").stdout)
    assert both == {
        "receipt": "out/receipt.json",
        "sha256": hashlib.sha256(made.receipt.read_bytes()).hexdigest(),
        "signature": "out/receipt.intoto.jsonl",
        "keyid": signer("second.key").public_key.keyid,
        "signatures": 2,
        "changed": True,
    }
    assert json.loads(made.envelope.read_bytes())["signatures"][0] == json.loads(first)["signatures"][0]
    run = call("verify", "out", "--key", "release.key.pub", "--key", "second.key.pub", "--format", "json")
    assert run.exit_code == 0
    said = json.loads(run.stdout)
    assert said["passed"] is True
    assert said["declarations"] is None
    assert said["signatures"] == [
        {"key": f"{name}.pub", "keyid": signer(name).public_key.keyid, "valid": True, "reason": None}
        for name in ("release.key", "second.key")
    ]


def test_each_of_several_keys_has_to_have_signed(made: Small) -> None:
    signed(made)
    run = call("verify", "out", "--key", "release.key.pub", "--key", "second.key.pub", "--format", "json")
    assert run.exit_code == 3
    said = json.loads(run.stdout)
    assert said["passed"] is False
    assert said["disagreements"] == []
    assert [row["valid"] for row in said["signatures"]] == [True, False]
    shutil.copyfile("release.key.pub", "copy.pub")
    twice = call("verify", "out", "--key", "release.key.pub", "--key", "copy.pub")
    assert twice.exit_code == 2
    assert "copy.pub:1:1: holds the same key as release.key.pub" in twice.stderr


def test_a_receipt_that_is_not_signed(made: Small) -> None:
    run = call("verify", "out", "--key", "release.key.pub")
    assert run.exit_code == 3
    assert "the receipt is not signed: there is no receipt.intoto.jsonl beside it" in run.stdout
    named = call("verify", "out", "--key", "release.key.pub", "--signature", "nowhere.jsonl")
    assert named.exit_code == 2
    assert "nowhere.jsonl:1:1: cannot be read: No such file" in named.stderr


def test_an_envelope_elsewhere(made: Small) -> None:
    assert call("sign", "out", "--key", "release.key", "--signature", "build/signature.jsonl").exit_code == 0
    assert not made.envelope.exists()
    assert call("verify", "out", "--key", "release.key.pub").exit_code == 3
    run = call("verify", "out", "--key", "release.key.pub", "--signature", "build/signature.jsonl")
    assert run.exit_code == 0, run.output


def test_the_signature_is_of_the_bytes_and_not_of_what_they_mean(made: Small) -> None:
    signed(made)
    made.receipt.write_bytes(made.receipt.read_bytes() + b"\n")
    run = call("verify", "out", "--key", "release.key.pub")
    assert run.exit_code == 3
    assert "the subject is another receipt, of the digest" in run.stdout


def test_an_honest_receipt_of_another_question_is_not_what_was_signed(made: Small) -> None:
    signed(made)
    made.edit(made.cohort / "cohort.yaml", "ttft: 800 ms", "ttft: 900 ms")
    made.planned()
    assert call("verify", "out").exit_code == 0
    run = call("verify", "out", "--key", "release.key.pub")
    assert run.exit_code == 3
    assert "the subject is another receipt" in run.stdout
    again = call("sign", "out", "--key", "release.key")
    assert again.exit_code == 2
    assert "out/receipt.intoto.jsonl:1:1: signs something else: the subject is another receipt" in again.stderr
    assert "hint: remove it, or write another file with --signature" in again.stderr


@pytest.mark.parametrize(
    ("member", "value"), [("accepted", None), ("scenario", "routed/n1"), ("latency_label", "measured"), ("p99", 1)]
)
def test_a_signed_predicate_that_says_something_else_than_the_receipt(member: str, value: object, made: Small) -> None:
    statement = json.loads(base64.b64decode(json.loads(signed(made).envelope.read_bytes())["payload"]))
    statement["predicate"][member] = value
    made.envelope.write_bytes(with_signature(canonical_bytes(statement), signer(), None))
    run = call("verify", "out", "--key", "release.key.pub")
    assert run.exit_code == 3
    assert f"as {member}; the receipt has " in run.stdout.replace('"', "")
    assert call("sign", "out", "--key", "second.key").exit_code == 2


def test_a_changed_receipt_is_not_signed(made: Small) -> None:
    def better(receipt: Json) -> None:
        receipt["scenarios"][0]["bounds"]["nominal"]["stall_s"] = 0.001

    made.forge(better)
    run = call("sign", "out", "--key", "release.key")
    assert run.exit_code == 3
    assert run.stderr.startswith("out/receipt.json: verification failed, nothing was signed: ")
    assert not made.envelope.exists()


def test_a_signature_does_not_make_up_for_a_changed_value(made: Small) -> None:
    signed(made)
    made.forge(lambda receipt: receipt["cohort"].update(title=1))
    run = call("verify", "out", "--key", "release.key.pub")
    assert run.exit_code == 3
    assert "not checked: this does not have the structure of a receipt" in run.stdout


def test_what_changes_while_it_is_verified_is_not_signed(made: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    import pipelines.oracle

    verify = pipelines.oracle.verify

    def slow(file: Path, *arguments: object) -> object:
        found = verify(file, *arguments)  # type: ignore[arg-type]
        file.write_bytes(file.read_bytes() + b"\n")
        return found

    monkeypatch.setattr(pipelines.oracle, "verify", slow)
    run = call("sign", "out", "--key", "release.key")
    assert run.exit_code == 3
    assert "found other bytes, expected the bytes that were there at first" in run.stderr
    assert not made.envelope.exists()


@pytest.mark.parametrize("content", [b"", b"{}\n", b"{}{}\n", b"\xff\n"])
def test_a_broken_envelope_is_bad_input_and_stays(content: bytes, made: Small) -> None:
    made.envelope.write_bytes(content)
    for arguments in (("verify", "out", "--key", "release.key.pub"), ("sign", "out", "--key", "release.key")):
        run = call(*arguments)
        assert run.exit_code == 2, run.output
        assert run.stderr.startswith("out/receipt.intoto.jsonl:1:1: ")
        assert "Traceback" not in run.output
    assert made.envelope.read_bytes() == content


def test_a_directory_in_the_place_of_the_envelope(made: Small) -> None:
    made.envelope.mkdir()
    assert (
        "out/receipt.intoto.jsonl:1:1: cannot be read: Is a dir" in call("sign", "out", "--key", "release.key").stderr
    )


def test_keys_that_are_none_or_of_the_other_half(made: Small) -> None:
    signed(made)
    key = rsa.generate_private_key(65537, 2048)
    Path("rsa.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    for name, said in (
        ("release.key.pub", "holds a public key; expected the private one"),
        ("rsa.key", "holds a key of the kind RSA; expected Ed25519"),
        ("nowhere.key", "cannot be read: No such file"),
        ("out", "cannot be read: it is a directory"),
    ):
        run = call("sign", "out", "--key", name)
        assert run.exit_code == 2
        assert f"{name}:1:1: {said}" in run.stderr
    run = call("verify", "out", "--key", "release.key", "--key", "nowhere.pub", "--format", "json")
    assert run.exit_code == 2
    assert [problem["file"] for problem in json.loads(run.stdout)["problems"]] == ["nowhere.pub", "release.key"]


def test_an_option_without_what_it_is_for_is_not_passed_over(made: Small) -> None:
    assert "--signature is read beside --key alone" in call("verify", "out", "--signature", "x").stderr
    assert call("verify", "out", "--signature", "x").exit_code == 2


def test_a_receipt_that_is_not_there_is_not_signed(made: Small) -> None:
    run = call("sign", "nowhere", "--key", "release.key")
    assert run.exit_code == 2
    assert run.stderr.startswith("nowhere:1:1: no such receipt")
    Path("empty").mkdir()
    assert call("sign", "empty", "--key", "release.key").exit_code == 2


def test_a_receipt_of_the_store_is_signed_beside_it_by_any_of_its_names(made: Small) -> None:
    digest = hashlib.sha256(made.receipt.read_bytes()).hexdigest()
    kept = made.project / "receipts" / "_store" / digest
    shutil.copytree(made.directory, kept)
    (made.project / "receipts" / "moderate-chat").symlink_to(f"_store/{digest}")
    for name in ("moderate-chat", digest[:6], "receipts/moderate-chat", f"receipts/_store/{digest}/receipt.json"):
        run = call("sign", name, "--key", "release.key")
        assert run.exit_code == 0, run.output
        assert run.stdout.startswith(f"receipts/_store/{digest}/receipt.intoto.jsonl: ")
        assert call("verify", name, "--key", "release.key.pub").exit_code == 0
    assert [path.name for path in sorted(kept.iterdir())] == ["matrix.csv", "receipt.intoto.jsonl", "receipt.json"]


@pytest.mark.parametrize("verb", ["keygen", "sign"])
def test_every_verb_shows_examples(verb: str) -> None:
    run = call(verb, "--help")
    assert run.exit_code == 0
    assert f"phaseledger {verb} " in run.stdout.split("Examples:")[1]
