"""Numbers that divide unevenly, and bounds that are just met."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.declarations.cache import shape_text
from pipelines.declarations.model_configs import read_model_cache
from pipelines.declarations.problems import DeclarationProblems

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
    "vocab_size": 32000,
    "intermediate_size": 14336,
}


def shape(tmp_path: Path, **changes: Any) -> str:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | changes))
    return shape_text(read_model_cache(tmp_path / "config.json").shape)


def test_an_odd_layer_keeps_a_cache_of_its_own(tmp_path: Path) -> None:
    """33 layers in pairs: 16 pairs share a cache each, and the last has one alone."""
    changes = {"model_type": "hunyuan_v1_moe", "use_cla": True, "cla_share_factor": 2}
    assert shape(tmp_path, num_hidden_layers=33, **changes) == "full:17x8x128+128"


@pytest.mark.parametrize(("context", "kind"), [(4095, "full"), (4096, "full"), (4097, "window")])
def test_a_window_is_one_where_a_context_is_longer(context: int, kind: str, tmp_path: Path) -> None:
    found = shape(tmp_path, model_type="mistral", sliding_window=4096, max_position_embeddings=context)
    assert found.startswith(f"{kind}:32x8x128+128")


@pytest.mark.parametrize("context", ["131072", 131072.5, -5, True, [1]])
def test_a_context_that_decides_and_cannot_be_read_is_refused(context: object, tmp_path: Path) -> None:
    with pytest.raises(DeclarationProblems, match=r"max_position_embeddings: .* is not a whole number"):
        shape(tmp_path, model_type="mistral", sliding_window=4096, max_position_embeddings=context)


def test_a_context_that_is_scaled_may_outgrow_the_window(tmp_path: Path) -> None:
    scaled = {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}}
    found = shape(tmp_path, model_type="mistral", sliding_window=4096, max_position_embeddings=4096, **scaled)
    assert found == "window:32x8x128+128@4096"


def test_what_the_file_leaves_to_its_class_is_noted(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({k: v for k, v in LLAMA.items() if k != "head_dim"}))
    assert read_model_cache(tmp_path / "config.json").notes == ()
    text = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 16, "num_key_value_heads": 8}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llava", "text_config": text}))
    (note,) = read_model_cache(tmp_path / "config.json").notes
    assert note == "not in the file, and taken from the class: num_attention_heads 32"


def test_a_section_beside_sizes_of_its_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeclarationProblems, match=r"text_config: .* stands outside of it"):
        shape(tmp_path, text_config={"model_type": "llama"})
