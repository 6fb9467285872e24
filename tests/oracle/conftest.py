import copy
from pathlib import Path

import pytest

from tests.oracle import forging as forge
from tests.oracle.forging import Receipt


@pytest.fixture(scope="session")
def original(receipt_directory: Path) -> Receipt:
    return forge.load(receipt_directory)


@pytest.fixture
def receipt(original: Receipt) -> Receipt:
    return copy.deepcopy(original)
