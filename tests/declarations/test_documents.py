"""YAML is read as YAML 1.2 core, with the place of each key and value."""

from pathlib import Path

import pytest

from pipelines.declarations.documents import Document, read_documents
from pipelines.declarations.problems import Problem


def read(tmp_path: Path, text: str) -> tuple[list[Document], list[Problem]]:
    file = tmp_path / "file.yaml"
    file.write_text(text, encoding="utf-8")
    return read_documents(file, "something")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("1e3", 1000.0),
        ("017", 17),
        ("0o17", 15),
        ("0x1F", 31),
        ("12:30:45", "12:30:45"),
        ("2026-11-30", "2026-11-30"),
        ("1_000", "1_000"),
        ("~", None),
        ("", None),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("-.5", -0.5),
        ("+12", 12),
        ("=", "="),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("0b1", "0b1"),
    ],
)
def test_scalars_follow_the_core_schema(tmp_path: Path, written: str, value: object) -> None:
    documents, problems = read(tmp_path, f"key: {written}\n")
    assert not problems
    assert documents[0].value == {"key": value}
    assert type(documents[0].get("key")) is type(value)


def test_places_are_those_of_the_key_and_of_the_value(tmp_path: Path) -> None:
    (document,), _ = read(tmp_path, "a:\n  b: [1, two]\n")
    assert (document.mark("a.b", "key").line, document.mark("a.b", "key").column) == (2, 3)
    assert (document.mark(("a", "b", 1)).line, document.mark(("a", "b", 1)).column) == (2, 10)
    assert document.problem("a.missing", "m").column == 1, "a missing key is shown at its parent's key"


def test_an_alias_has_a_place_of_its_own(tmp_path: Path) -> None:
    (document,), problems = read(tmp_path, "a: &x 5\nb: *x\n")
    assert not problems
    assert document.value == {"a": 5, "b": 5}
    assert document.mark("b").line == 2


def test_documents_before_a_syntax_error_are_still_read(tmp_path: Path) -> None:
    documents, problems = read(tmp_path, "a: 1\n---\nb: [\n")
    assert [document.value for document in documents] == [{"a": 1}]
    assert len(problems) == 1


def test_a_file_that_is_not_there_or_not_a_file(tmp_path: Path) -> None:
    for path, said in (
        (tmp_path / "none.yaml", "does not exist"),
        (tmp_path, "is a directory"),
        (Path("/dev/null"), "regular"),
    ):
        documents, problems = read_documents(path, "something")
        assert not documents
        assert said in problems[0].message


def test_a_trace_in_place_of_a_declaration_is_not_parsed(tmp_path: Path) -> None:
    documents, problems = read(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n" * 40_000)
    assert not documents
    assert "expected something of at most" in problems[0].message
