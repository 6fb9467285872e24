from collections.abc import Callable
from pathlib import Path

import pytest

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"


@pytest.fixture
def log_file(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """Writes a request log and returns where it is."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "requests.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def log_of(log_file: Callable[[str | bytes], Path]) -> Callable[..., Path]:
    """Writes a request log of the given rows below the header of the Azure traces."""
    return lambda *rows: log_file("\n".join([HEADER, *rows]) + "\n")
