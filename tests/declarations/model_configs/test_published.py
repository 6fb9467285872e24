"""Published configs: each is read right or refused by name."""

import csv
from pathlib import Path

import pytest

from pipelines.arithmetic.kv import CacheBytes, cache_bytes
from pipelines.declarations.cache import shape_text
from pipelines.declarations.model_configs import BY_HAND, read_model_cache
from pipelines.declarations.model_configs.special import BY_EQUIVALENT
from pipelines.declarations.problems import DeclarationProblems, Problem

REFUSED = {
    "hf/nvidia--DeepSeek-V4-Flash-NVFP4_config.json": "compress_ratios",
    "hf/nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8_hf_quant_config.json": "quantization",
    "hf/nvidia--Qwen3-235B-A22B-NVFP4_hf_quant_config.json": "quantization",
    "hf/rtp-llm__qwen_14b_config.json": "model_type",
    "hf/rtp-llm__qwen_7b_fake_config.json": "model_type",
    "transformers_defaults/glm4_moe.json": "hidden_size",
    "transformers_defaults/granitemoehybrid.json": "layer_types",
}
"""Files whose cache no reader can tell, and the key that says so."""

OTHER_HINTS = {"compress_ratios": BY_EQUIVALENT, "quantization": "give the config.json beside it"}
"""Ways out where a shape by hand is none."""

CROSS = {"t5": 12288, "bart": 49152, "whisper": 6144}
"""Bytes per position of the encoder, as the table of traps has them in words."""

ALLOCATED = {"mlc_preset/mistral_7b.json": 131072}
"""The table has bytes within the window in place of the growth, which is 0."""


def table(shared: Path, name: str) -> list[dict[str, str]]:
    with (shared / "models" / name).open(newline="") as rows:
        return list(csv.DictReader(rows))


def bytes_of(path: Path) -> CacheBytes:
    return cache_bytes(read_model_cache(path).shape, "bf16")


def refusal(path: Path) -> Problem:
    with pytest.raises(DeclarationProblems) as caught:
        read_model_cache(path)
    (problem,) = caught.value.problems
    return problem


def test_every_config_of_the_table_has_its_bytes(shared: Path) -> None:
    for row in table(shared, "KV_EXPECTED.csv"):
        path = shared / "models" / row["file"]
        if row["grow_bytes_per_token_bf16"] == "":
            assert refusal(path).path == REFUSED[row["file"]]
            continue
        found = bytes_of(path)
        if row["cls"] == "chunked-local/NoPE hybrid":  # the table counts all layers, its note those without chunks
            assert (found.allocated, found.attention) == (int(row["grow_bytes_per_token_bf16"]), 49152), row["file"]
            continue
        assert str(found.attention) == row["grow_bytes_per_token_bf16"], row["file"]
        assert str(found.window) == (row["window_bytes_per_token"] or "0"), row["file"]
        assert str(found.state) == (row["state_bytes_per_seq"] or "0"), row["file"]
        assert [str(one.tokens) for one in found.windows] == ([row["window"]] if row["window"] else []), row["file"]


def test_window_layers_are_as_many_as_in_the_table(shared: Path) -> None:
    for row in table(shared, "KV_EXPECTED.csv"):
        if row["window_layers"] and row["grow_bytes_per_token_bf16"]:
            shape = read_model_cache(shared / "models" / row["file"]).shape
            assert sum(part.layers for part in shape if part.kind == "window") == int(row["window_layers"])


def test_no_trap_catches_the_reader(shared: Path) -> None:
    for row in table(shared, "KV_EXPECTED_traps.csv"):
        path, said = shared / "models" / row["file"], row["expected_grow_bytes_per_token_bf16"]
        if said == "REFUSE":
            assert refusal(path).path == REFUSED[row["file"]]
            continue
        found = bytes_of(path)
        if row["file"] in ALLOCATED:
            assert (found.attention, found.allocated) == (0, ALLOCATED[row["file"]])
        else:
            assert found.attention == int(said.split()[0]), row["file"]
        if path.stem in CROSS:
            assert found.cross == CROSS[path.stem], row["file"]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("transformers_defaults/recurrent_gemma.json", "window:8x10x256+256@2048 state:18x10x256+7680"),
        ("transformers_defaults/gemma2.json", "full:13x4x256+256 window:13x4x256+256@4096"),
        ("transformers_defaults/gemma3_text.json", "full:4x4x256+256 window:22x4x256+256@4096"),
        ("transformers_defaults/cohere2.json", "full:10x64x128+128 window:30x64x128+128@4096"),
        ("transformers_defaults/vaultgemma.json", "full:13x4x256+256 window:13x4x256+256@4096"),
        ("transformers_defaults/whisper.json", "full:4x6x64+64 cross:4x6x64+64@1500"),
        ("transformers_defaults/t5gemma.json", "full:13x4x256+256 window:13x4x256+256@4096 cross:26x4x256+256"),
        # images of 4 tiles of (448 / 14)^2 + 1 positions
        ("transformers_defaults/mllama.json", "full:32x8x128+128 cross:8x8x128+128@4100"),
        # 28 layers of 2 x 4096 channels with 16 numbers each, and the last 3 inputs of the channels
        ("transformers_defaults/jamba.json", "full:4x8x128+128 state:28x8192x16+24576"),
        # 36 layers: 32 heads of 128 x 128, 3 columns of 2 x 16 x 128 + 32 x 128 channels
        ("transformers_defaults/qwen3_next.json", "full:12x2x256+256 state:36x32x16384+24576"),
        ("transformers_defaults/minimax.json", "full:16x8x128+128 state:16x32x16384+0"),
        # 35 layers, 15 of them share; of the first 20 every 5th is full
        ("transformers_defaults/gemma3n.json", "full:4x2x256+256 window:16x2x256+256@512"),
        ("transformers_defaults/mistral.json", "window:32x8x128+128@4096"),
        ("transformers_defaults/smollm3.json", "full:36x4x128+128"),
        ("transformers_defaults/gpt_neox.json", "full:44x64x96+96"),
        ("mlc_preset/starcoder2.json", "window:32x4x128+128@4096"),
        ("mlc_preset/gemma2_27b.json", "full:23x16x128+128 window:23x16x128+128@4096"),
        ("mlc_preset/phi-3_5.json", "full:32x32x96+96"),
        ("mlc_preset/qwen2_0_5b.json", "full:24x2x64+64"),
        ("mlc_preset/llava.json", "full:32x32x128+128"),
        # 2,560 channels in heads of 64: 40 states of 64 x 64, and two inputs of 2,560
        ("mlc_preset/rwkv5_3b.json", "state:32x40x4096+5120"),
        ("mlc_preset/minicpm_2b.json", "full:40x36x64+64"),
        # 21 of 78 layers have an indexer of their own, the others use its choice
        ("hf/zai-org--GLM-5.2-FP8_config.json", "latent:78x1x512+64 index:21x1x128+4"),
        ("hf/zai-org--GLM-5_config.json", "latent:78x1x512+64 index:78x1x128+4"),
        ("hf/deepseek-ai--DeepSeek-V3.2_config.json", "latent:61x1x512+64 index:61x1x128+4"),
    ],
)
def test_shapes(name: str, shape: str, shared: Path) -> None:
    assert shape_text(read_model_cache(shared / "models" / name).shape) == shape


def test_every_config_is_read_or_refused_with_a_key_and_a_way_out(shared: Path) -> None:
    found = sorted((shared / "models").glob("*/*.json"))
    assert len(found) > 100
    for path in found:
        name = f"{path.parent.name}/{path.name}"
        try:
            cache = read_model_cache(path)
        except DeclarationProblems as refused:
            (problem,) = refused.problems
            assert (problem.path, problem.hint) == (REFUSED[name], OTHER_HINTS.get(problem.path, BY_HAND))
        else:
            assert name not in REFUSED
            for part in cache.parts:
                values = {factor.name: factor.value for factor in part.factors}
                kept = part.layers
                assert (values["layers"], values["heads"], values["first"], values["second"]) == (
                    kept.layers,
                    kept.heads,
                    kept.first,
                    kept.second,
                )
                assert all(factor.read_from for factor in part.factors)


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("hf/meta-llama--Meta-Llama-3.1-405B_config.json", 405e9, 405e9),
        ("hf/Qwen--Qwen3-235B-A22B_config.json", 235e9, 22e9),
        ("hf/inference-sim__mixtral-8x7b-v0.1_config.json", 46.7e9, 12.9e9),
        ("hf/Qwen--Qwen3-0.6B_config.json", 0.6e9, 0.6e9),
        ("hf/openai--gpt-oss-120b_config.json", 116.8e9, 5.7e9),
        ("hf/openai--gpt-oss-20b_config.json", 20.9e9, 4.2e9),
    ],
)
def test_weights_are_counted_within_a_few_per_cent(name: str, total: float, active: float, shared: Path) -> None:
    cache = read_model_cache(shared / "models" / name)
    assert cache.parameters == pytest.approx(total, rel=0.03)
    assert cache.active_parameters == pytest.approx(active, rel=0.03)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hf/deepseek-ai--DeepSeek-V3_config.json", "draft further tokens are not counted: num_nextn_predict_layers 1"),
        (
            "hf/MiniMaxAI--MiniMax-M3_config.json",
            "an index cache for sparse attention (sparse_attention_config) is not counted: engines differ in it; to count it, "
            "declare the shape by hand (--shape, or model.cache in a cohort) with an index beside it, "
            "as in 'full:60x4x128+128 index:57x128+4' (sparse_attention_freq: 57 of 60 layers, sparse_index_dim 128) "
            "for one vector per token in fp8 with its scale, or index:57x256+0 for one in 16 bits",
        ),
        (
            "hf/nvidia--GLM-5.2-NVFP4_config.json",
            'the file states a quantized KV cache (quantization_config.kv_cache_scheme "float" of 8 bits): '
            "--kv-dtype (model.kv_dtype in a cohort) says what is served",
        ),
        (
            "hf/deepseek-ai--DeepSeek-V3_config.json",
            "num_key_value_heads 128 does not count: all heads share one latent (MLA)",
        ),
        (
            "hf/zai-org--GLM-5_config.json",
            "num_key_value_heads 64 and head_dim 64 do not count: all heads share one latent (MLA)",
        ),
        ("hf/Qwen--Qwen3-32B-FP8-Static-PerTensor_config.json", 'kv_cache_scheme "FP8"'),
        ("hf/google--gemma-4-26B-A4B_config.json", "attention_k_eq_v"),
        ("hf/meta-llama--Llama-4-Scout-17B-16E-Instruct_config.json", "attention is within chunks"),
        ("transformers_defaults/minimax.json", "half of an fp32 state"),
        ("mlc_preset/phi-3_5.json", "no shorter than the context (max_position_embeddings 131072): as full attention"),
    ],
)
def test_what_the_file_says_beside_the_shape_is_a_note(name: str, said: str, shared: Path) -> None:
    assert said in " ".join(read_model_cache(shared / "models" / name).notes)
