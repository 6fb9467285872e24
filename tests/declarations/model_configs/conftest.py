"""What the tests of the reader share: configs as small dictionaries, read from a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.declarations.model_cache import ModelCache
from pipelines.declarations.model_configs import read_model_cache
from pipelines.declarations.problems import DeclarationProblems, Problem

Read = Callable[..., ModelCache]
Refused = Callable[..., Problem]

PLAIN: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
"""The attention of Llama-3.1-8B."""


def without_omitted(config: dict[str, Any]) -> dict[str, Any]:
    """``config`` less the keys whose value is ``...``."""
    return {key: value for key, value in config.items() if value is not ...}


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """What is read of a config."""

    def call(config: dict[str, Any]) -> ModelCache:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(without_omitted(config), indent=1))
        return read_model_cache(path)

    return call


@pytest.fixture
def refused(read: Read) -> Refused:
    """The one problem of a config."""

    def call(config: dict[str, Any]) -> Problem:
        with pytest.raises(DeclarationProblems) as caught:
            read(config)
        (problem,) = caught.value.problems
        return problem

    return call
