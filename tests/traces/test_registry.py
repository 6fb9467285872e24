"""Every format is known wherever formats are listed, and says what a reader needs to know of it."""

import json
from pathlib import Path

from pipelines.declarations.known_formats import TRACE_FORMATS
from pipelines.traces import FORMATS


def test_declarations_the_schema_and_the_page_know_the_same_formats(project: Path) -> None:
    schema = json.loads((project / "schemas" / "cohort.v1.schema.json").read_text())
    allowed = schema["properties"]["requests"]["properties"]["trace"]["properties"]["format"]["enum"]
    assert tuple(FORMATS) == TRACE_FORMATS == tuple(allowed)
    page = (project / "docs" / "traces.md").read_text()
    for name in FORMATS:
        assert f"| `{name}` |" in page
        assert f"- **{name}**:" in page


def test_every_format_says_how_a_file_of_it_begins() -> None:
    assert all(one.expects and len(one.expects) > 20 for one in FORMATS.values())
    assert {name: one.block_tokens for name, one in FORMATS.items() if one.block_tokens} == {
        "mooncake": 512,
        "qwen-bailian": 16,
    }
