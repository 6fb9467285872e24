"""Logs that are damaged in any way are read or refused with a reason, and every row of them is accounted for.

PHASELEDGER_FUZZ_CASES sets how many cases each reader gets (100,000 take up to half an hour a reader); benchmarks/fuzz_readers.py runs
the same claims without shrinking, several times as fast.
"""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_readers import (
    MOVES,
    PAYLOADS,
    READERS,
    Move,
    log_of,
    mutated,
    options_of,
    read,
    samples_of,
)
from benchmarks.log_samples import LENGTHS, SAMPLES

CASES = int(os.environ.get("PHASELEDGER_FUZZ_CASES", "150"))

_share = st.floats(0, 1, exclude_max=True)
_moves = st.lists(
    st.builds(Move, st.sampled_from(MOVES), _share, _share, st.sampled_from(PAYLOADS) | st.binary(max_size=6)),
    max_size=6,
)


@pytest.fixture(scope="module")
def lengths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lengths") / "dataset.json"
    path.write_bytes(LENGTHS)
    return path


@pytest.mark.parametrize("name", READERS)
def test_a_sample_is_read_and_recognised_by_its_reader_alone(name: str, lengths: Path) -> None:
    for sample in SAMPLES.get(name, ()):
        log = read(READERS[name], sample, options_of(name, lengths))
        assert log is not None
        assert log.rows.height >= 2
        if name != "generic":
            head = log_of(sample).head
            assert [one.name for one in READERS.values() if one.detect(head)] == [name]


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_log_is_read_or_refused(name: str, lengths: Path) -> None:
    @settings(max_examples=CASES)
    @given(sample=st.sampled_from(samples_of(name)), moves=_moves)
    def holds(sample: bytes, moves: list[Move]) -> None:
        for move in moves:
            sample = mutated(sample, move)
        read(READERS[name], sample, options_of(name, lengths))

    holds()


@pytest.mark.parametrize("name", READERS)
def test_any_bytes_are_read_or_refused(name: str, lengths: Path) -> None:
    @settings(max_examples=max(20, CASES // 4))
    @given(data=st.binary(max_size=400) | st.text(max_size=200).map(lambda text: text.encode(errors="surrogatepass")))
    def holds(data: bytes) -> None:
        read(READERS[name], data, options_of(name, lengths))

    holds()


@pytest.mark.parametrize("name", READERS)
def test_logs_of_other_formats_are_read_or_refused(name: str, lengths: Path) -> None:
    for samples in SAMPLES.values():
        for sample in samples:
            read(READERS[name], sample, options_of(name, lengths))


def test_a_damaged_data_set_of_lengths_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "dataset.json"

    @settings(max_examples=CASES)
    @given(moves=_moves)
    def holds(moves: list[Move]) -> None:
        data = LENGTHS
        for move in moves:
            data = mutated(data, move)
        path.write_bytes(data)
        read(READERS["servegen"], SAMPLES["servegen"][0], options_of("servegen", path))

    holds()
