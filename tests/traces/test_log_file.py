"""Files as they lie on disk: compressed, cut off, with marks and line ends of every kind."""

import gzip
import os
from pathlib import Path

import pytest
import zstandard

from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces import log_file
from pipelines.traces.log_file import LogFile

LINES = b"".join(b"line %d\n" % number for number in range(1, 501))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "BLOCK_BYTES", 100)
    monkeypatch.setattr(log_file, "_READ_BYTES", 37)
    monkeypatch.setattr(log_file, "_PACKED_BYTES", 11)


def a_file(tmp_path: Path, data: bytes, name: str = "log") -> LogFile:
    path = tmp_path / name
    path.write_bytes(data)
    return LogFile(path, name)


def refusal(file: LogFile) -> str:
    with pytest.raises(DeclarationProblems) as refused:
        list(file.blocks())
    return str(refused.value)


@pytest.mark.parametrize(
    "packed",
    [
        bytes,
        gzip.compress,
        lambda data: gzip.compress(data[:1000]) + gzip.compress(data[1000:]),
        lambda data: zstandard.ZstdCompressor().compress(data),
        lambda data: (
            zstandard.ZstdCompressor().compress(data[:1000]) + zstandard.ZstdCompressor().compress(data[1000:])
        ),
    ],
    ids=["plain", "gzip", "two gzip members", "zstd", "two zstd frames"],
)
def test_blocks_are_whole_lines_that_add_up_to_the_file(tmp_path: Path, packed: object) -> None:
    blocks = list(a_file(tmp_path, packed(LINES)).blocks())  # type: ignore[operator]
    assert b"".join(block.data for block in blocks) == LINES
    assert all(block.data.endswith(b"\n") for block in blocks)
    assert [block.is_last for block in blocks] == [False] * (len(blocks) - 1) + [True]
    for block in blocks:
        assert block.data.startswith(b"line %d\n" % block.first_row)


def test_the_last_block_may_lack_its_line_end(tmp_path: Path) -> None:
    blocks = list(a_file(tmp_path, LINES.rstrip()).blocks())
    assert blocks[-1].data.endswith(b"line 500")
    assert blocks[-1].is_last


@pytest.mark.parametrize("share", [0.3, 0.9])
@pytest.mark.parametrize("pack", [gzip.compress, lambda data: zstandard.ZstdCompressor().compress(data)])
def test_compressed_data_that_is_cut_off(tmp_path: Path, share: float, pack: object) -> None:
    packed = pack(LINES)  # type: ignore[operator]
    assert refusal(a_file(tmp_path, packed[: int(share * len(packed))])) == (
        "log:1:1: compressed data that is cut off or damaged; expected a whole gzip or zstd file "
        "(hint: was the file copied to its end?)"
    )


def test_compressed_data_that_is_damaged(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(LINES))
    packed[len(packed) // 2] ^= 0xFF
    assert "cut off or damaged" in refusal(a_file(tmp_path, bytes(packed)))


def test_a_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    file = a_file(tmp_path, b"\xef\xbb\xbf" + LINES)
    assert b"".join(block.data for block in file.blocks()) == LINES
    assert file.head.line == "line 1"
    assert file.read_all() == LINES


def test_carriage_returns_alone_end_lines(tmp_path: Path) -> None:
    blocks = list(a_file(tmp_path, LINES.replace(b"\n", b"\r")).blocks())
    assert b"".join(block.data for block in blocks) == LINES
    assert len(blocks) > 10


def test_carriage_returns_before_line_feeds_are_kept(tmp_path: Path) -> None:
    windows = LINES.replace(b"\n", b"\r\n")
    assert b"".join(block.data for block in a_file(tmp_path, windows).blocks()) == windows


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_named(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(DeclarationProblems) as refused:
        _ = a_file(tmp_path, LINES.decode().encode(encoding)).head
    assert str(refused.value) == (
        "log:1:1: not a text file in UTF-8; expected CSV, JSONL or Parquet "
        "(hint: convert the file to UTF-8, for example with iconv -f UTF-16 -t UTF-8)"
    )


@pytest.mark.parametrize("data", [b"", b"\n\n \r\n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(DeclarationProblems) as refused:
        _ = a_file(tmp_path, data).head
    assert str(refused.value) == "log:1:1: the file is empty; expected a request log"


def test_a_line_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "LONGEST_LINE_BYTES", 1 << 20)
    assert refusal(a_file(tmp_path, b"x" * (1 << 21))) == (
        "log:1:1: a line of more than 1 MiB; expected one request a line"
    )


def test_a_pipe_is_refused_since_it_cannot_be_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(LogFile(tmp_path / "pipe", "pipe")) == (
        "pipe:1:1: not a regular file; expected one, since a log is read more than once (hint: save it to a file first)"
    )


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: zstandard.ZstdCompressor().compress(data)])
def test_what_is_compressed_twice_is_named(tmp_path: Path, pack: object) -> None:
    with pytest.raises(DeclarationProblems) as refused:
        _ = a_file(tmp_path, gzip.compress(pack(LINES))).head  # type: ignore[operator]
    assert str(refused.value) == ("log:1:1: compressed twice; expected CSV, JSONL or Parquet, at most compressed once")


def test_a_zstd_file_may_begin_with_a_frame_to_be_skipped_and_have_a_large_window(tmp_path: Path) -> None:
    skipped = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"note"
    parameters = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True)
    packed = skipped + zstandard.ZstdCompressor(compression_params=parameters).compress(LINES)
    assert b"".join(block.data for block in a_file(tmp_path, packed).blocks()) == LINES


def test_blank_lines_before_the_first_are_passed_over_in_linear_time(tmp_path: Path) -> None:
    file = a_file(tmp_path, gzip.compress(b"\xef\xbb\xbf" + b"\n" * 200_000 + LINES))
    assert file.head.line == "line 1"


def test_a_missing_file_says_why(tmp_path: Path) -> None:
    assert refusal(LogFile(tmp_path / "none", "none")) == "none:1:1: cannot be read: no such file or directory"


def test_the_head_tells_json_records_from_documents_and_tables(tmp_path: Path) -> None:
    assert a_file(tmp_path, b'{"a": 1}\n{"a": 2}\n').head.record == {"a": 1}
    assert a_file(tmp_path, b'{\n  "a": 1\n}\n').head.is_document
    assert a_file(tmp_path, b"\n a, b ,c\n1,2,3\n").head.names == ("a", "b", "c")
    assert a_file(tmp_path, b"PAR1....").head.is_parquet
