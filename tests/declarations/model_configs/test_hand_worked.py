"""Shapes worked out by hand, each with its arithmetic, and what is said of them."""

from typing import Any

import pytest

from pipelines.arithmetic.kv import cache_bytes
from pipelines.declarations.cache import shape_text
from pipelines.declarations.problems import DeclarationProblems
from tests.declarations.model_configs.conftest import PLAIN, Read

MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64}
MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 32, "mamba_n_groups": 2, "mamba_d_conv": 4}
SMALL = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
"""Two KV heads of 64 / 4 = 16 elements."""

DELTA = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
}
KIMI = {"num_heads": 4, "head_dim": 8, "short_conv_kernel_size": 4, "full_attn_layers": [4], "kda_layers": [1, 2, 3]}


def group(heads: int) -> dict[str, Any]:
    return {"attention": {"n_heads_in_group": heads, "no_op": False, "replace_with_linear": False}}


NOTHING = {"attention": {"n_heads_in_group": None, "no_op": True, "replace_with_linear": False}}

CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("GQA: 8 heads of 4096 / 32", {}, "full:32x8x128+128", "2 x 32 x 8 x 128 x 2 = 131072"),
    ("own head dimension", {"head_dim": 64}, "full:32x8x64+64", "2 x 32 x 8 x 64 x 2 = 65536"),
    ("MHA: null", {"num_key_value_heads": None}, "full:32x32x128+128", "2 x 32 x 32 x 128 x 2 = 524288"),
    (
        "MQA of StarCoder",
        {"model_type": "gpt_bigcode", "num_key_value_heads": ..., "multi_query": True},
        "full:32x1x128+128",
        "2 x 32 x 128 x 2 = 16384",
    ),
    (
        "Falcon's new decoder",
        {"model_type": "falcon", "multi_query": True, "new_decoder_architecture": True},
        "full:32x8x128+128",
        "2 x 32 x 8 x 128 x 2 = 131072",
    ),
    (
        "ChatGLM's groups",
        {"model_type": "chatglm", "num_key_value_heads": ..., "multi_query_attention": True, "multi_query_group_num": 2},
        "full:32x2x128+128",
        "2 x 32 x 2 x 128 x 2 = 32768",
    ),
    ("MLA", {"model_type": "kimi_k2"} | MLA, "latent:32x1x512+64", "32 x 576 x 2 = 36864"),
    (
        "an index of 256 bytes needs two scales",
        {"model_type": "deepseek_v32", "index_head_dim": 256, "index_n_heads": 64} | MLA,
        "latent:32x1x512+64 index:32x1x256+8",
        "32 x 576 x 2 + 32 x 264 = 45312",
    ),
    (
        "every 4th layer has an indexer: 0, 1 and 5, 9 of 12",
        {"model_type": "glm_moe_dsa", "num_hidden_layers": 12, "index_topk_freq": 4, "index_head_dim": 128} | MLA,
        "latent:12x1x512+64 index:4x1x128+4",
        "12 x 576 x 2 + 4 x 132 = 14352",
    ),
    ("LongCat attends twice in a layer", {"model_type": "longcat_flash", "num_hidden_layers": ..., "num_layers": 28} | MLA,
     "latent:56x1x512+64", "56 x 576 x 2 = 64512"),
    ("Mistral: a window in all layers", {"model_type": "mistral", "sliding_window": 4096}, "window:32x8x128+128@4096", "0"),
    ("null is no window", {"model_type": "mistral", "sliding_window": None}, "full:32x8x128+128", "2 x 32 x 8 x 128 x 2 = 131072"),
    (
        "Qwen2: from layer 28 on",
        {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 28},
        "full:28x8x128+128 window:4x8x128+128@4096",
        "2 x 28 x 8 x 128 x 2 = 114688",
    ),
    (
        "a window that is switched off",
        {"model_type": "qwen2", "use_sliding_window": False, "sliding_window": 4096},
        "full:32x8x128+128",
        "131072",
    ),
    (
        "Gemma 3: layers 6, 12, 18, 24, 30 of 32 are full",
        {"model_type": "gemma3_text", "head_dim": 128, "sliding_window": 1024},
        "full:5x8x128+128 window:27x8x128+128@1024",
        "2 x 5 x 8 x 128 x 2 = 20480",
    ),
    (
        "Llama 4: every 4th layer has no chunks",
        {"model_type": "llama4_text", "head_dim": 128, "attention_chunk_size": 8192},
        "full:8x8x128+128 window:24x8x128+128@8192",
        "2 x 8 x 8 x 128 x 2 = 32768",
    ),
    (
        "GPT-Neo: global and local in turn",
        {"model_type": "gpt_neo", "num_key_value_heads": ..., "num_hidden_layers": ..., "num_layers": 4, "window_size": 256,
         "attention_types": [[["global", "local"], 2]]},
        "full:2x32x128+128 window:2x32x128+128@256",
        "2 x 2 x 32 x 128 x 2 = 32768",
    ),
    (
        "MiMo-V2: keys of 192, values of 128, twice the heads in sliding layers",
        {"model_type": "mimo_v2_flash", "num_hidden_layers": 4, "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128,
         "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128, "sliding_window": 128,
         "hybrid_layer_pattern": [0, 1, 1, 1]},
        "full:1x4x192+128 window:3x8x192+128@128",
        "4 x 320 x 2 = 2560",
    ),
    (
        "Step 3.5: sliding layers with their own heads; three entries beyond the layers are draft layers",
        {"model_type": "step3p5", "num_hidden_layers": 4, "head_dim": 128, "sliding_window": 512, "num_nextn_predict_layers": 3,
         "attention_other_setting": {"num_attention_groups": 4, "head_dim": 64},
         "layer_types": ["full_attention", *["sliding_attention"] * 6]},
        "full:1x8x128+128 window:3x4x64+64@512",
        "2 x 8 x 128 x 2 = 4096",
    ),
    (
        "Gemma 3n: the last 2 of 10 layers share; of the first 8 the 5th is full",
        {"model_type": "gemma3n_text", "num_hidden_layers": 10, "head_dim": 256, "sliding_window": 512, "num_kv_shared_layers": 2},
        "full:1x8x256+256 window:7x8x256+256@512",
        "2 x 8 x 256 x 2 = 8192",
    ),
    (
        "Gemma 4: full layers have 2 heads of 512",
        {"model_type": "gemma4_text", "num_hidden_layers": 6, "head_dim": 256, "global_head_dim": 512, "attention_k_eq_v": True,
         "num_global_key_value_heads": 2, "sliding_window": 1024},
        "full:1x2x512+512 window:5x8x256+256@1024",
        "2 x 2 x 512 x 2 = 4096",
    ),
    (
        "Hunyuan: 32 layers in pairs",
        {"model_type": "hunyuan_v1_moe", "use_cla": True, "cla_share_factor": 2},
        "full:16x8x128+128",
        "2 x 16 x 8 x 128 x 2 = 65536",
    ),
    (
        "per-layer blocks: groups of 8 and 16 of 32 heads, and a layer without attention",
        {"model_type": "nemotron-nas", "num_hidden_layers": 4, "num_key_value_heads": None,
         "block_configs": [group(8), group(16), NOTHING, group(8)]},
        "full:2x4x128+128 full:1x2x128+128",
        "2 x (2 x 4 + 2) x 128 x 2 = 5120",
    ),
    (
        "OpenELM: heads grow with depth",
        {"model_type": "openelm", "num_hidden_layers": ..., "num_attention_heads": ..., "num_key_value_heads": ...,
         "num_transformer_layers": 3, "num_query_heads": [12, 12, 16], "num_kv_heads": [3, 3, 4], "head_dim": 64},
        "full:1x4x64+64 full:2x3x64+64",
        "2 x (4 + 2 x 3) x 64 x 2 = 2560",
    ),
    (
        "Bamba: 8 heads of 16 x 32; 3 columns of 8 x 16 + 2 x 2 x 32 = 256 channels",
        {"model_type": "bamba", "num_hidden_layers": 4, "attn_layer_indices": [3]} | SMALL | MAMBA2,
        "full:1x2x16+16 state:3x8x512+768",
        "2 x 2 x 16 x 2 = 128",
    ),
    (
        "Bamba without a head dimension: 2 x 64 / 8 = 16",
        {"model_type": "bamba", "num_hidden_layers": 4, "attn_layer_indices": [3]}
        | SMALL
        | MAMBA2
        | {"mamba_d_head": "auto", "mamba_expand": 2},
        "full:1x2x16+16 state:3x8x512+768",
        "128",
    ),
    (
        "Granite 4",
        {"model_type": "granitemoehybrid", "num_hidden_layers": 3, "layer_types": ["mamba", "attention", "mamba"]} | SMALL | MAMBA2,
        "full:1x2x16+16 state:2x8x512+768",
        "128",
    ),
    ("Falcon-H1: both in every layer", {"model_type": "falcon_h1", "num_hidden_layers": 4} | SMALL | MAMBA2,
     "full:4x2x16+16 state:4x8x512+768", "4 x 128 = 512"),
    (
        "Nemotron-H: two Mamba layers, one that attends, three of feed-forward",
        {"model_type": "nemotron_h", "num_hidden_layers": ..., "hybrid_override_pattern": "M-M*E-", "head_dim": 16,
         "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 32, "n_groups": 2, "conv_kernel": 4} | SMALL,
        "full:1x2x16+16 state:2x8x512+768",
        "128",
    ),
    (
        "gated delta rule: 4 heads of 8 x 16; 3 columns of 2 x 2 x 8 + 4 x 16 = 96 channels",
        {"model_type": "qwen3_next", "num_hidden_layers": 8, "head_dim": 16, "full_attention_interval": 4} | SMALL | DELTA,
        "full:2x2x16+16 state:6x4x128+288",
        "2 x 128 = 256",
    ),
    (
        "Kimi Linear: 4 heads of 8 x 8; 3 columns of 3 x 4 x 8 channels",
        {"model_type": "kimi_linear", "num_hidden_layers": 4, "linear_attn_config": KIMI} | MLA,
        "latent:1x1x512+64 state:3x4x64+288",
        "576 x 2 = 1152",
    ),
    (
        "Zamba2: a shared block over twice the hidden size, 2 x 64 / 4 = 32, called twice",
        {"model_type": "zamba2", "num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
         "n_mamba_heads": 8, "mamba_headdim": 16, "mamba_d_state": 32, "mamba_ngroups": 2, "mamba_d_conv": 4} | SMALL,
        "full:2x2x32+32 state:4x8x512+768",
        "2 x 2 x 2 x 32 x 2 = 512",
    ),
    (
        "Zamba: the third of 7 layers, and of the 4 after it the second; 2 x 64 channels",
        {"model_type": "zamba", "num_hidden_layers": 7, "attn_layer_period": 3, "attn_layer_offset": 1, "mamba_d_state": 16,
         "mamba_d_conv": 4, "mamba_expand": 2} | SMALL,
        "full:2x2x32+32 state:7x128x16+384",
        "2 x 2 x 2 x 32 x 2 = 512",
    ),
    ("MPT", {"model_type": "mpt", "n_layers": 24, "n_heads": 16, "d_model": 2048, "attn_config": {"attn_type": "multihead_attention"},
             "num_hidden_layers": ..., "num_attention_heads": ..., "hidden_size": ..., "num_key_value_heads": ...},
     "full:24x16x128+128", "2 x 24 x 2048 x 2 = 196608"),
    (
        "LFM2: the last 2 inputs of 64 channels",
        {"model_type": "lfm2", "num_hidden_layers": 3, "conv_L_cache": 3, "layer_types": ["conv", "conv", "full_attention"]} | SMALL,
        "full:1x2x16+16 state:2x64x0+128",
        "128",
    ),
    ("MiniMax-Text-01: 4 heads of 16 x 16", {"model_type": "minimax_text_01", "num_hidden_layers": 4,
      "attn_type_list": [0, 0, 0, 1]} | SMALL,
     "full:1x2x16+16 state:3x4x256+0", "128"),
    (
        "Mamba: 2 x 64 channels with 16 numbers, 3 columns of 128",
        {"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16, "expand": 2, "conv_kernel": 4},
        "state:2x128x16+384",
        "0",
    ),
    (
        "Mamba-2",
        {"model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 16, "state_size": 32,
         "n_groups": 2, "conv_kernel": 4, "num_attention_heads": ...},
        "state:2x8x512+768",
        "0",
    ),
    ("RWKV-4: 3 numbers a channel, two last inputs", {"model_type": "rwkv", "hidden_size": 64, "num_hidden_layers": 2},
     "state:2x64x3+128", "0"),
    ("RWKV-7: heads of 16 x 16", {"model_type": "rwkv7", "hidden_size": 64, "num_hidden_layers": 2, "head_dim": 16},
     "state:2x4x256+128", "0"),
    (
        "T5: as many decoder layers as encoder layers, heads of d_kv",
        {"model_type": "t5", "is_encoder_decoder": True, "num_layers": 6, "num_heads": 8, "d_kv": 64, "d_model": 512,
         "num_hidden_layers": ..., "num_attention_heads": ..., "hidden_size": ...},
        "full:6x8x64+64 cross:6x8x64+64",
        "2 x 6 x 8 x 64 x 2 = 12288",
    ),
    (
        "BART: the decoder's layers and heads",
        {"model_type": "bart", "is_encoder_decoder": True, "encoder_layers": 2, "decoder_layers": 12, "d_model": 1024,
         "encoder_attention_heads": 4, "decoder_attention_heads": 16, "hidden_size": ..., "num_attention_heads": ...},
        "full:12x16x64+64 cross:12x16x64+64",
        "2 x 12 x 16 x 64 x 2 = 49152",
    ),
    (
        "DeepSeek-OCR's decoder turns MLA off",
        {"model_type": "deepseek_v2", "use_mla": False, "kv_lora_rank": None, "qk_rope_head_dim": 0, "qk_nope_head_dim": 0,
         "num_key_value_heads": 32},
        "full:32x32x128+128",
        "524288",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("why", "change", "shape", "growth"), CASES, ids=[case[0] for case in CASES])
def test_shapes_by_hand(why: str, change: dict[str, Any], shape: str, growth: str, read: Read) -> None:
    cache = read(PLAIN | change)
    assert shape_text(cache.shape) == shape
    assert cache_bytes(cache.shape, "bf16").growth == int(growth.split("=")[-1])


@pytest.mark.parametrize("section", ["text_config", "language_config", "llm_config", "model_config"])
def test_the_language_model_of_a_larger_one_is_read(section: str, read: Read) -> None:
    other = {"model_type": "clip", "num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 9}
    cache = read({"model_type": "large", "vision_config": other, section: PLAIN})
    assert (cache.family, shape_text(cache.shape)) == ("llama", "full:32x8x128+128")
    assert cache.parts[0].factors[1].read_from == f"{section}.num_key_value_heads 8"


def test_a_model_within_a_model_within_a_model_is_read(read: Read) -> None:
    text = {**PLAIN, "model_type": "qwen2_5_omni_text", "use_sliding_window": False}
    config = {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": text}, "talker_config": PLAIN}
    assert shape_text(read(config).shape) == "full:32x8x128+128"


def test_a_section_that_names_no_family_has_that_of_the_larger_model(read: Read) -> None:
    cache = read({"model_type": "llava", "text_config": {"num_hidden_layers": 40}})
    assert (cache.family, shape_text(cache.shape)) == ("llama", "full:40x32x128+128")
    assert shape_text(read({"model_type": "mistral3", "text_config": {}}).shape) == "window:32x8x128+128@4096"


def test_defaults_of_a_class_are_said_to_be_such(read: Read) -> None:
    config = PLAIN | {"model_type": "gemma2", "num_attention_heads": 16}
    (full, window) = read(config).parts
    factors = {factor.name: factor.read_from for factor in window.factors}
    assert factors["first"] == "head_dim 256, default of model_type gemma2"
    assert factors["tokens"] == "sliding_window 4096, default of model_type gemma2"
    assert factors["layers"] == "one full layer in 2, rule of model_type gemma2: 16 of 32"
    assert full.meaning == "keys and values of every token"


def test_factors_name_the_keys_behind_them(read: Read) -> None:
    (part,) = read(PLAIN).parts
    assert [(factor.name, factor.value, factor.read_from) for factor in part.factors] == [
        ("layers", 32, "num_hidden_layers 32"),
        ("heads", 8, "num_key_value_heads 8"),
        ("first", 128, "hidden_size 4096 over num_attention_heads 32"),
        ("second", 128, "hidden_size 4096 over num_attention_heads 32"),
    ]


@pytest.mark.parametrize(
    ("case", "layers", "meaning"),
    [
        ("Gemma 3n", 2, "use the keys and values of an earlier layer"),
        ("Hunyuan", 16, "use the keys and values of an earlier layer"),
        ("per-layer blocks", 1, "do not attend"),
        ("Nemotron-H", 3, "feed-forward only: no attention and no state"),
    ],
)
def test_layers_that_keep_nothing_are_counted_apart(case: str, layers: int, meaning: str, read: Read) -> None:
    change = next(change for why, change, _, _ in CASES if why.startswith(f"{case}:"))
    (without,) = read(PLAIN | change).without
    assert (without.layers, without.meaning) == (layers, meaning)


def test_a_window_of_minus_one_is_none_as_mlc_writes_it(read: Read) -> None:
    compiled = {"model_type": "mistral", "sliding_window_size": -1, "model_config": PLAIN | {"sliding_window_size": -1}}
    compiled["model_config"].pop("model_type")
    assert shape_text(read(compiled).shape) == "full:32x8x128+128"


def test_sizes_of_a_latent_say_nothing_where_it_is_turned_off(read: Read) -> None:
    off = {"model_type": "hunyuan_v1_moe", "use_mla": False, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert shape_text(read(PLAIN | off).shape) == "full:32x8x128+128"


def test_positions_of_an_image_are_not_guessed(read: Read) -> None:
    text = PLAIN | {"model_type": "mllama_text_model", "cross_attention_layers": [3, 8]}
    vision = {"image_size": 560, "patch_size": 14, "max_num_tiles": 4}
    # 4 tiles of 40 x 40 patches and one more position each: 6,404
    told = read({"model_type": "mllama", "text_config": text, "vision_config": vision})
    assert shape_text(told.shape) == "full:30x8x128+128 cross:2x8x128+128@6404"
    untold = read({"model_type": "mllama", "text_config": text})
    assert shape_text(untold.shape) == "full:30x8x128+128 cross:2x8x128+128"
    assert "cannot be told" in untold.notes[0]


def test_what_else_is_read_of_a_plain_model(read: Read) -> None:
    sizes = {"vocab_size": 128256, "intermediate_size": 14336, "max_position_embeddings": 131072}
    cache = read(PLAIN | sizes)
    # 32 x (2 x 4096 x 128 x 40 + 3 x 4096 x 14336) + 2 x 128256 x 4096
    assert cache.parameters == 32 * (2 * 4096 * 128 * 40 + 3 * 4096 * 14336) + 2 * 128256 * 4096
    assert cache.active_parameters == cache.parameters
    assert (cache.attention_heads, cache.context_tokens) == (32, 131072)
    assert read(PLAIN).parameters is None


@pytest.mark.parametrize(
    "sparse",
    [
        True,
        {},
        {"sparse_attention_freq": [0] * 32, "sparse_index_dim": 128},
        {"sparse_attention_freq": [1], "sparse_index_dim": "8"},
    ],
)
def test_an_index_is_not_offered_where_the_file_does_not_size_it(sparse: object, read: Read) -> None:
    said = "an index cache for sparse attention (sparse_attention_config) is not counted: engines differ in it"
    notes = read(PLAIN | {"model_type": "minimax_m3", "head_dim": 128, "sparse_attention_config": sparse}).notes
    assert notes == ((said,) if sparse else ())


def test_an_index_of_several_scales_is_offered_with_all_of_them(read: Read) -> None:
    sparse = {"sparse_attention_freq": [0, 1] * 16, "sparse_index_dim": 256}
    (note,) = read(PLAIN | {"model_type": "minimax_m3", "head_dim": 128, "sparse_attention_config": sparse}).notes
    assert "as in 'full:32x8x128+128 index:16x256+8' (sparse_attention_freq: 16 of 32 layers" in note


def test_heads_do_not_count_where_a_latent_is_kept(read: Read) -> None:
    said = ("num_key_value_heads 8 does not count: all heads share one latent (MLA)",)
    for family in ("deepseek_v3", "longcat_flash"):
        config = PLAIN | {"model_type": family, "num_layers": 32} | MLA
        assert read(config).notes == said
        assert read(config | {"num_key_value_heads": ...}).notes == ()
    kimi = {"model_type": "kimi_linear", "num_hidden_layers": 4, "linear_attn_config": KIMI}
    assert read(PLAIN | kimi | MLA).notes == said


def test_one_entry_is_no_plural(read: Read) -> None:
    with pytest.raises(
        DeclarationProblems, match="layer_types: 1 entry, and num_hidden_layers 32; expected one for each"
    ):
        read(PLAIN | {"model_type": "gemma2", "layer_types": ["full_attention"]})
