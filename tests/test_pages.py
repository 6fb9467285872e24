"""Every command that a page shows is one that there is, with options that it has."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pipelines.cli import command

PAGES = ("README.md", "docs/explain.md", "docs/gates.md", "docs/kv.md", "docs/receipts.md", "docs/replay.md", "docs/traces.md",
         "docs/verification.md")  # fmt: skip


def shown(text: str) -> Iterator[list[str]]:
    """The words of every line in a block that calls the command, up to what the shell does with its output."""
    for block in re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            found = re.match(r"(?:run: )?(?:\.venv/bin/)?phaseledger (?P<rest>[^#|>]*)", line.strip())
            if found:
                yield shlex.split(found["rest"].split(" (")[0])


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_calls_is_there(page: str, project: Path) -> None:
    calls = list(shown((project / page).read_text(encoding="utf-8")))
    assert calls
    for words in calls:
        here: click.Command = command
        rest = list(words)
        while rest and isinstance(here, click.Group):
            inner = here.get_command(click.Context(here), rest[0])
            if inner is None:
                break
            here, rest = inner, rest[1:]
        assert here is not command or words[0].startswith("-"), f"{page}: there is no {words[0]}"
        known = {option for one in here.params for option in one.opts} | {"--help"}
        unknown = [word for word in rest if word.startswith("--") and word.split("=")[0] not in known]
        assert unknown == [], f"{page}: phaseledger {' '.join(words)}"
