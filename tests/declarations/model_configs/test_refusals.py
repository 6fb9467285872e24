"""What cannot be told is refused by the key that stands in the way, with its place, and nothing is guessed."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.declarations.model_configs import BY_HAND, read_model_cache
from pipelines.declarations.model_configs.special import BY_EQUIVALENT
from pipelines.declarations.problems import DeclarationProblems
from tests.declarations.model_configs.conftest import PLAIN, Read, Refused

SLIDING = ["sliding_attention", "full_attention"] * 16


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        (
            {"model_type": "brand_new"},
            "model_type",
            '"brand_new" is not a family whose cache is known; the file lacks head_dim; expected one that is',
        ),
        (
            {"model_type": "brand_new", "head_dim": 128},
            "model_type",
            '"brand_new" is not a family whose cache is known; keys of its own may change the cache; expected one that is',
        ),
        (
            {"model_type": ..., "num_key_value_heads": ...},
            "model_type",
            "missing; the file lacks num_key_value_heads, head_dim; expected the family of the model",
        ),
        ({"model_type": ..., "head_dim": 128}, "model_type", "missing; expected the family of the model"),
        ({"model_type": 7}, "model_type", "7; expected text"),
        ({"num_hidden_layers": ...}, "num_hidden_layers", "missing; expected the number of layers"),
        ({"num_hidden_layers": None}, "num_hidden_layers", "null; expected the number of layers"),
        (
            {"num_hidden_layers": "32"},
            "num_hidden_layers",
            '"32" is not a whole number from 1 to 2147483647; expected one',
        ),
        (
            {"num_hidden_layers": True},
            "num_hidden_layers",
            "true is not a whole number from 1 to 2147483647; expected one",
        ),
        (
            {"num_hidden_layers": float("nan")},
            "num_hidden_layers",
            "NaN is not a whole number from 1 to 2147483647; expected one",
        ),
        (
            {"num_key_value_heads": -8},
            "num_key_value_heads",
            "-8 is not a whole number from 1 to 2147483647; expected one",
        ),
        (
            {"num_hidden_layers": 10**12},
            "num_hidden_layers",
            "1000000000000 is not a whole number from 1 to 2147483647; expected one",
        ),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers", "1000000 layers; expected at most 100,000"),
        ({"n_layer": 31}, "n_layer", "31, and num_hidden_layers is 32; expected one number for both"),
        (
            {"num_key_value_heads": 5},
            "num_key_value_heads",
            "5 KV heads for 32 attention heads; expected a divisor of that number",
        ),
        (
            {"hidden_size": 4097},
            "hidden_size",
            "4097 is not a multiple of num_attention_heads 32, and there is no head_dim; expected one",
        ),
        (
            {"model_type": "qwen3", "head_dim": None},
            "head_dim",
            "null; expected a number: qwen3 does not derive it from the hidden size",
        ),
        (
            {"model_type": "internlm2", "num_key_value_heads": ...},
            "num_key_value_heads",
            "missing; expected the number of KV heads",
        ),
        (
            {"model_type": "gemma2", "layer_types": SLIDING[:30]},
            "layer_types",
            "30 entries, and num_hidden_layers 32; expected one for each layer",
        ),
        (
            {"model_type": "gpt_oss", "layer_types": ["brand_new", *SLIDING[1:]]},
            "layer_types",
            '"brand_new" at layer 0 cannot be counted; '
            "expected full_attention, attention, global, sliding_attention, local, chunked_attention",
        ),
        (
            {"model_type": "qwen3_moe", "use_sliding_window": True},
            "use_sliding_window",
            "true, and the classes differ in which layers have it; expected layer_types",
        ),
        (
            {"model_type": "granitemoehybrid", "layer_types": None},
            "layer_types",
            "null; expected the kind of each layer",
        ),
        (
            {"model_type": "gemma3n_text", "num_kv_shared_layers": 32},
            "num_kv_shared_layers",
            "32 of 32 layers; expected fewer: layers of each kind to share with",
        ),
        (
            {"model_type": "jamba", "attn_layer_period": 8, "attn_layer_offset": 8},
            "attn_layer_offset",
            "8; expected 0 to 7: attn_layer_period 8",
        ),
        (
            {"model_type": "kimi_linear", "linear_attn_config": {"full_attn_layers": [1], "kda_layers": [2]}},
            "linear_attn_config.kda_layers",
            "1 layer beside 1 full_attn_layers, and num_hidden_layers 32; expected each layer in one of them",
        ),
        ({"num_key_value_heads": [8] * 32}, "num_key_value_heads", "a list with 8: layers with different KV heads; "
         "expected a model without it, or a model_type that is known to have it"),
        ({"model_type": "dbrx", "attn_config": {"kv_n_heads": 4}}, "num_key_value_heads",
         "8, and attn_config.kv_n_heads 4; expected one number for both"),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": None}, "qk_rope_head_dim",
         "null; expected the part of a key that carries the position"),
        ({"text_config": {}, "llm_config": {}}, "llm_config", "a second language model beside text_config; expected one"),
        ({"model_type": "mamba2", "num_heads": 8, "head_dim": 2**30, "state_size": 2**30, "n_groups": 1, "conv_kernel": 4},
         "", "state:32x8x1152921504606846976+32212254720 is larger than any model; expected fewer heads, or fewer elements"),
    ],
)  # fmt: skip
def test_messages(change: dict[str, Any], path: str, message: str, refused: Refused) -> None:
    problem = refused(PLAIN | change)
    assert (problem.path, problem.message, problem.hint) == (path, message, BY_HAND)


@pytest.mark.parametrize(
    ("change", "path", "message", "hint"),
    [
        (
            {"model_type": "deepseek_v4", "compress_ratios": [0, 4, 128, 4]},
            "compress_ratios",
            "bytes per token depend on the engine: layers keep several tokens as one by ratios of 0, 4, 128; "
            "expected a model without such layers",
            "where the engine documents bytes per token, declare a shape that has as many: "
            "phaseledger kv --shape, or model.cache in a cohort (docs/kv.md)",
        ),
        (
            {"compress_ratios": "4:1"},
            "compress_ratios",
            "bytes per token depend on the engine: layers keep several tokens as one; expected a model without such layers",
            BY_EQUIVALENT,
        ),
        (
            {"model_type": ..., "quantization": {"quant_algo": "FP8"}},
            "quantization",
            "describes a quantization, not a model; expected a model's config.json",
            "give the config.json beside it",
        ),
    ],
)
def test_what_no_shape_by_hand_describes_has_a_way_of_its_own(
    change: dict[str, Any], path: str, message: str, hint: str, refused: Refused
) -> None:
    problem = refused(PLAIN | change)
    assert (problem.path, problem.message, problem.hint) == (path, message, hint)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"kv_lora_rank": 512}, "kv_lora_rank"),
        ({"sliding_window": 4096}, "sliding_window"),
        ({"layer_types": SLIDING}, "layer_types"),
        ({"attention_chunk_size": 8192}, "attention_chunk_size"),
        ({"mamba_d_state": 16}, "mamba_d_state"),
        ({"num_kv_shared_layers": 15}, "num_kv_shared_layers"),
        ({"use_cla": True}, "use_cla"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"cross_attention_layers": [3]}, "cross_attention_layers"),
        ({"v_head_dim": 64}, "v_head_dim"),
        ({"index_head_dim": 128}, "index_head_dim"),
        ({"model_type": "gemma3_text", "use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ({"model_type": "qwen2", "kv_lora_rank": 512}, "kv_lora_rank"),
        ({"model_type": "brand_new", "kv_lora_rank": 512, "qk_rope_head_dim": 64}, "kv_lora_rank"),
    ],
)
def test_a_key_that_the_family_does_not_read_is_refused(change: dict[str, Any], key: str, refused: Refused) -> None:
    problem = refused(PLAIN | change)
    assert (problem.path, problem.hint) == (key, BY_HAND)
    assert problem.message.endswith("expected a model without it, or a model_type that is known to have it")


def test_a_file_leaves_out_a_default_but_not_the_size_of_the_model(read: Read, refused: Refused) -> None:
    assert read(PLAIN | {"model_type": "mixtral", "num_key_value_heads": ...}).shape[0].heads == 8
    assert refused(PLAIN | {"model_type": "mixtral", "num_attention_heads": ...}).path == "num_attention_heads"


def test_a_refusal_names_the_line_of_the_key(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        '{\n "vision_config": {"kv_lora_rank": 3},\n "text_config": {\n  "a": [{"b": 1}, "c"],\n  "kv_lora_rank": 512}}'
    )
    with pytest.raises(
        DeclarationProblems, match=r"config\.json:5:3: text_config\.kv_lora_rank: 512: one latent per token"
    ):
        read_model_cache(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  "a": 1,\n  "b" 2\n}', r":3:7: not valid JSON: expecting ':' delimiter"),
        ('{\n  "n_layer": 1,\n  "n_layer": 2}', r":3:3: n_layer: the key is written twice"),
        ('{"a": [{"b": 1}, {"b": 2},\n {"b": 1, "b": 2}], "b": 3}', r":2:11: a\[2\]\.b: the key is written twice"),
        ("[1]", r":1:1: a list; expected a model's config\.json: one object"),
        ("{}", r":1:1: model_type: missing; the file lacks num_hidden_layers, num_attention_heads"),
        ("", r":1:1: (is empty|not valid JSON)"),
        ("[" * 100_000, r":1:1: cannot be read as JSON"),
        ('{"n_layer": ' + "9" * 5000 + "}", r":1:1: cannot be read as JSON"),
        (
            '{"quantization": {"quant_algo": "FP8"}}',
            r":1:2: quantization: describes a quantization, not a model.*\(hint: give the config\.json beside it\)",
        ),
    ],
)
def test_a_file_that_is_no_config_is_told_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(DeclarationProblems, match=said):
        read_model_cache(path)


def test_a_long_file_on_one_line_is_read_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "brand_new", "a": [' + ",".join(['{"b": 1}'] * 100_000) + "]}")
    with pytest.raises(DeclarationProblems, match="is not a family whose cache is known"):
        read_model_cache(path)
