import copy
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle import forging as forge
from tests.oracle.forging import Receipt
from tests.oracle.remembering import remembered


@pytest.fixture(scope="session")
def original(receipt_directory: Path) -> Receipt:
    return forge.load(receipt_directory)


@pytest.fixture
def receipt(original: Receipt) -> Receipt:
    return copy.deepcopy(original)


@pytest.fixture(scope="session", autouse=True)
def sparing() -> Iterator[None]:
    """The same inputs and requests are evaluated once in a session."""
    with remembered():
        yield
