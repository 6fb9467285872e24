"""What cannot be read in one way only is refused before anything is verified."""

from pathlib import Path

import pytest

from pipelines.oracle import Unreadable, verify
from pipelines.oracle.command import UNREADABLE, main

HEAD = b'{"apiVersion":"phaseledger/v1","kind":"TopologyReceipt"'

UNREADABLE_INPUTS = {
    "empty": (b"", "is not JSON"),
    "not JSON": (b"{", "is not JSON"),
    "text after the end": (b"{} {}", "is not JSON"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "is not JSON"),
    "not UTF-8": (b'{"a":"\xff"}', "is not UTF-8"),
    "half a surrogate pair": (b'{"kind":"\\ud800"}', "surrogate"),
    "NaN": (b'{"kind":NaN}', "NaN is not a number"),
    "Infinity": (b'{"kind":-Infinity}', "-Infinity is not a number"),
    "beyond a double": (b'{"kind":1e999}', "beyond the range of a double"),
    "a huge integer": (b'{"kind":' + b"9" * 5000 + b"}", "beyond the range of a double"),
    "a name twice": (b'{"kind":1,"kind":1}', "'kind' appears twice"),
    "nested deeply": (b"[" * 100_000, "nested too deeply"),
    "a list": (b"[]", "is not a receipt"),
    "another kind": (b'{"apiVersion":"phaseledger/v1","kind":"Cohort"}', "is not a receipt"),
    "another version": (b'{"apiVersion":"phaseledger/v2","kind":"TopologyReceipt"}', "phaseledger/v2"),
    "no version": (b'{"kind":"TopologyReceipt"}', "apiVersion is None"),
}


@pytest.mark.parametrize("name", UNREADABLE_INPUTS)
def test_input_that_is_no_receipt_is_unreadable(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, message = UNREADABLE_INPUTS[name]
    path = tmp_path / "receipt.json"
    path.write_bytes(raw)
    assert main([str(path)]) == UNREADABLE
    assert message in capsys.readouterr().err


def test_a_missing_file_is_unreadable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.json"), "--format", "json"]) == UNREADABLE
    assert '"passed": false' in capsys.readouterr().out


def test_a_directory_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="cannot be read"):
        verify(tmp_path)


def test_a_matrix_that_was_named_and_is_missing_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    path.write_bytes(HEAD + b"}")
    with pytest.raises(Unreadable, match=r"other\.csv"):
        verify(path, tmp_path / "other.csv")


def test_a_receipt_without_content_fails_with_every_member_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    path.write_bytes(HEAD + b"}")
    verification = verify(path)
    missing = {item.where for item in verification.disagreements if item.found == "nothing"}
    assert missing == {
        "versions", "truth_boundary", "fingerprint", "cohort", "as_of", "inputs", "workload", "kv", "service", "transfer",
        "topologies", "rules", "scenarios", "decision", "rejected", "search", "changes", "replay", "matrix", "seal",
    }  # fmt: skip
    assert not verification.passed
