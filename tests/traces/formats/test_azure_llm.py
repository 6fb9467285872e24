"""The Azure header of 2025 is still that format."""

from collections.abc import Callable
from pathlib import Path

from pipelines.traces.formats.azure_llm import AZURE_LLM
from pipelines.traces.log import LogOptions, _read
from pipelines.traces.log_file import LogFile


def test_a_count_of_images_beside_the_tokens_is_not_read(log_file: Callable[[str], Path]) -> None:
    header = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens"
    path = log_file(f"{header}\n2025-01-01 00:00:00.5+00:00,,4808,10\n2025-01-01 00:00:01+00:00,2,3180,8\n")
    file = LogFile(path, "x")
    assert AZURE_LLM.detect(file.head)
    assert _read(file, AZURE_LLM, LogOptions()).rows.rows() == [(0, 4808, 10), (500_000_000, 3180, 8)]
