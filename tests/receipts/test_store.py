"""The store of receipts: named by their digest, never changed, found by cohort and by digits, listed in an index."""

import hashlib
import json
from pathlib import Path

import pytest

from pipelines.declarations.problems import DeclarationProblems
from pipelines.frames.canonical import canonical_bytes
from pipelines.receipts import finding
from pipelines.receipts.finding import receipt_file
from pipelines.receipts.store import Pair, indexed, keep, put_beside_others, read_pair, reindexed, shown_digests


@pytest.fixture(scope="module")
def real(receipt_directories: dict[str, Path]) -> dict[str, Pair]:
    return {name: read_pair(receipt_directories[name]) for name in ("bursty-documents", "overloaded")}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty ``receipts/`` that names of receipts are looked for in."""
    place = tmp_path / "receipts"
    monkeypatch.setattr(finding, "receipts_directory", lambda: place)
    monkeypatch.chdir(tmp_path)
    return place


def another(pair: Pair) -> Pair:
    """The receipt with another title, which no figure depends on."""
    receipt = json.loads(pair.receipt)
    receipt["cohort"]["title"] += ", again"
    return Pair(canonical_bytes(receipt), pair.matrix)


def test_a_receipt_is_named_by_the_digest_of_its_bytes(root: Path, real: dict[str, Pair]) -> None:
    pair = real["bursty-documents"]
    place = keep(root, "bursty-documents", pair)
    assert place.name == hashlib.sha256(pair.receipt).hexdigest()
    assert place.parent == root / "_store"
    assert read_pair(place) == read_pair(root / "bursty-documents") == pair
    assert (root / "bursty-documents").resolve() == place.resolve()


def test_the_name_of_a_cohort_moves_on_and_the_store_keeps_both(root: Path, real: dict[str, Pair]) -> None:
    first, second = real["overloaded"], another(real["overloaded"])
    old, new = keep(root, "overloaded", first), keep(root, "overloaded", second)
    assert (read_pair(old), read_pair(new), read_pair(root / "overloaded")) == (first, second, second)
    assert keep(root, "overloaded", first) == old
    assert read_pair(root / "overloaded") == first


def test_the_index_says_what_is_there_and_is_the_same_bytes_when_made_anew(root: Path, real: dict[str, Pair]) -> None:
    for name, pair in real.items():
        keep(root, name, pair)
    keep(root, "overloaded", another(real["overloaded"]))
    written = (root / "index.json").read_bytes()
    rows = json.loads(written)["receipts"]
    assert [(row["cohort"], row["outcome"], row["signed"]) for row in rows] == [
        ("bursty-documents", "topology_chosen", False),
        ("overloaded", "no_topology_qualifies", False),
        ("overloaded", "no_topology_qualifies", False),
    ]
    assert rows[0]["scenario"] == "disaggregated/p2/d1"
    for damage in (None, b"", b"{", b'{"receipts": [{"sha256": "0"}]}'):
        if damage is None:
            (root / "index.json").unlink()
        else:
            (root / "index.json").write_bytes(damage)
        assert reindexed(root).entries == rows
        assert (root / "index.json").read_bytes() == written


def test_the_index_follows_a_directory_that_is_removed_or_signed(root: Path, real: dict[str, Pair]) -> None:
    kept = {name: keep(root, name, pair) for name, pair in real.items()}
    (kept["overloaded"] / "receipt.intoto.jsonl").write_bytes(b"{}")
    for file in kept["bursty-documents"].iterdir():
        file.unlink()
    kept["bursty-documents"].rmdir()
    assert [(row["cohort"], row["signed"]) for row in reindexed(root).entries] == [("overloaded", True)]


def test_a_receipt_that_was_changed_in_the_store_is_none(root: Path, real: dict[str, Pair]) -> None:
    place = keep(root, "overloaded", real["overloaded"])
    (place / "receipt.json").write_bytes(another(real["overloaded"]).receipt)
    found = reindexed(root)
    assert found.entries == []
    assert "was changed after it was written" in found.unreadable[place.name]
    keep(root, "overloaded", real["overloaded"])
    assert read_pair(root / "overloaded") == real["overloaded"]
    assert indexed(root, known={}).unreadable == {}


def test_a_directory_of_the_cohorts_name_from_elsewhere_is_written_into(root: Path, real: dict[str, Pair]) -> None:
    (root / "overloaded").mkdir(parents=True)
    (root / "overloaded" / "notes.txt").write_text("mine")
    keep(root, "overloaded", real["overloaded"])
    assert not (root / "overloaded").is_symlink()
    assert read_pair(root / "overloaded") == real["overloaded"]
    assert (root / "overloaded" / "notes.txt").read_text() == "mine"
    assert shown_digests(root) == {}


def test_a_link_to_what_is_kept_is_not_written_through(root: Path, real: dict[str, Pair]) -> None:
    place = keep(root, "overloaded", real["overloaded"])
    with pytest.raises(FileExistsError, match="leads to a receipt that is kept"):
        put_beside_others(root / "overloaded", another(real["overloaded"]))
    assert read_pair(place) == real["overloaded"]


def test_a_signature_does_not_stay_beside_another_receipt(tmp_path: Path, real: dict[str, Pair]) -> None:
    put_beside_others(tmp_path, real["overloaded"])
    (tmp_path / "receipt.intoto.jsonl").write_bytes(b"{}")
    put_beside_others(tmp_path, real["overloaded"])
    assert (tmp_path / "receipt.intoto.jsonl").exists()
    put_beside_others(tmp_path, another(real["overloaded"]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["matrix.csv", "receipt.json"]


def test_a_receipt_is_found_by_file_directory_cohort_and_digits(root: Path, real: dict[str, Pair]) -> None:
    place = keep(root, "overloaded", real["overloaded"])
    file = (place / "receipt.json").resolve()
    ways = (
        "overloaded",
        place.name[:6],
        place.name,
        "receipts/overloaded",
        "receipts/overloaded/receipt.json",
        str(place),
    )
    assert [receipt_file(way) for way in ways] == [file] * len(ways)


def test_the_directory_of_the_declarations_does_not_stand_in_the_way_of_a_cohorts_name(
    root: Path, real: dict[str, Pair]
) -> None:
    place = keep(root, "overloaded", real["overloaded"])
    (root.parent / "overloaded").mkdir()
    (root.parent / "overloaded" / "cohort.yaml").write_text("kind: Cohort\n")
    assert receipt_file("overloaded") == (place / "receipt.json").resolve()


@pytest.mark.parametrize(
    ("meant", "said"),
    [
        ("", "RECEIPT:1:1: is empty; expected a receipt, its directory, a cohort, or digits of a digest"),
        (
            "overlaoded",
            "overlaoded:1:1: no such receipt; expected a file, its directory, a planned cohort, or digits of a digest",
        ),
        ("000000", "000000:1:1: no receipt in"),
        ("a" * 300, ":1:1: cannot be read: File name too long"),
    ],
)
def test_a_name_that_leads_nowhere_is_bad_input(meant: str, said: str, root: Path, real: dict[str, Pair]) -> None:
    keep(root, "overloaded", real["overloaded"])
    with pytest.raises(DeclarationProblems) as found:
        receipt_file(meant)
    assert said in str(found.value.problems[0])


def test_digits_of_more_than_one_digest_are_bad_input_that_lists_them(root: Path) -> None:
    for last in "ab":
        place = root / "_store" / ("0" * 63 + last)
        place.mkdir(parents=True)
        (place / "receipt.json").write_bytes(b"{}")
    with pytest.raises(DeclarationProblems, match=r"begins the digests of 0{63}a, 0{63}b; expected more digits"):
        receipt_file("000000")
