"""Which reader reads which family (``model_type``). A family that is not here is refused."""

from collections.abc import Callable
from dataclasses import dataclass

from pipelines.declarations.model_configs import attention, encoders, hybrids, latent, sharing, windows
from pipelines.declarations.model_configs.config import Config
from pipelines.declarations.model_configs.kept import Layers


@dataclass(frozen=True)
class Family:
    """How a family is read, and the keys among those of ``special.py`` that its reader takes into account."""

    read: Callable[[Config], Layers]
    keys: frozenset[str] = frozenset()


def _family(read: Callable[[Config], Layers], *keys: str) -> Family:
    return Family(read, frozenset(keys))


_WINDOW = ("sliding_window", "sliding_window_size", "use_sliding_window", "layer_types")
_PATTERN = (*_WINDOW, "sliding_window_pattern", "_sliding_window_pattern")
_MLA = ("kv_lora_rank", "qk_rope_head_dim", "v_head_dim", "index_head_dim", "layer_types")
_MAMBA = (
    "mamba_d_state",
    "mamba_num_heads",
    "ssm_state_size",
    "layer_types",
    "layers_block_type",
    "hybrid_override_pattern",
)
_DELTA = ("linear_num_key_heads", "full_attention_interval", "layer_types")
_ENCODER = ("is_encoder_decoder", "encoder_layers", "num_decoder_layers")
_MIMO = ("attention_chunk_size", "hybrid_layer_pattern", "swa_num_key_value_heads", "swa_head_dim", "v_head_dim")
_PERIODS = ("sliding_window_pattern", "_sliding_window_pattern")

_PLAIN = _family(attention.plain)
_UNIFORM = _family(windows.windowed(windows.everywhere), *_WINDOW)
_AFTER_SOME = _family(windows.windowed(windows.after_some, is_on=False), *_WINDOW)
_LISTED = _family(windows.windowed(windows.listed), *_PATTERN)
_HALF = _family(windows.windowed(windows.every(2)), *_PATTERN)
_FOURTH = _family(windows.windowed(windows.every(4, *_PERIODS)), *_PATTERN)
_UNLIKE = _family(windows.unlike_engines, *_WINDOW)
_LATENT = _family(latent.mla, *_MLA)
_BART = _family(encoders.bart, *_ENCODER)
_T5 = _family(encoders.t5, *_ENCODER)
_DELTA_HYBRID = _family(hybrids.delta_hybrid, *_DELTA)

_PLAIN_TYPES = [
    "chameleon",
    "emu3_text_model",
    "orion",
    "phi-msft",
    "llama",
    "baichuan",
    "qwen",
    "internlm",
    "internlm2",
    "internlm3",
    "gpt2",
    "gptj",
    "gpt_neox",
    "gpt_neox_japanese",
    "codegen",
    "opt",
    "bloom",
    "persimmon",
    "xglm",
    "biogpt",
    "phi",
    "stablelm",
    "stablelm_epoch",
    "cohere",
    "olmo",
    "olmo2",
    "olmoe",
    "flex_olmo",
    "nemotron",
    "minicpm",
    "granite",
    "granitemoe",
    "granitemoeshared",
    "gemma",
    "glm",
    "glm4",
    "glm4_moe",
    "glm4v_text",
    "glm4v_moe_text",
    "exaone",
    "apertus",
    "ernie4_5",
    "ernie4_5_moe",
    "ernie4_5_vl_moe_text",
    "seed_oss",
    "arctic",
    "aquila",
    "xverse",
    "Yi",
    "yi",
    "arcee",
    "deepseek",
    "helium",
    "bitnet",
    "aria_text",
    "mimo",
    "minimax_m2",
    "minimax_m3",
    "minimax_m3_vl_text",
    "qwen3_vl_text",
    "qwen3_vl_moe_text",
    "qwen3_omni_moe_text",
    "bailing_moe",
    "solar",
]

_UNIFORM_TYPES = [
    "mistral",
    "mixtral",
    "phi3",
    "phi3_v",
    "phi4mm",
    "phi4_multimodal",
    "phimoe",
    "starcoder2",
    "ministral",
    "ministral3",
]
_AFTER_SOME_TYPES = [
    "qwen2",
    "qwen2_vl",
    "qwen2_vl_text",
    "qwen2_5_vl",
    "qwen2_5_vl_text",
    "qwen2_5_omni_text",
    "qwen3",
]
_LISTED_TYPES = ["cwm", "laguna", "mellum", "exaone_moe", "granite_swa", "granitemoe_swa", "cohere2_moe"]
_LATENT_TYPES = [
    "deepseek_v3",
    "deepseek_v32",
    "kimi_k2",
    "glm_moe_dsa",
    "glm4_moe_lite",
    "minicpm3",
    "youtu",
    "mistral4",
    "axk1",
]
_BART_TYPES = [
    "mvp",
    "pegasus_x",
    "nllb-moe",
    "bigbird_pegasus",
    "bart",
    "mbart",
    "pegasus",
    "marian",
    "m2m_100",
    "blenderbot",
    "blenderbot-small",
    "plbart",
]

FAMILIES: dict[str, Family] = {
    **dict.fromkeys(_PLAIN_TYPES, _PLAIN),
    **dict.fromkeys(_UNIFORM_TYPES, _UNIFORM),
    **dict.fromkeys(_AFTER_SOME_TYPES, _AFTER_SOME),
    **dict.fromkeys(_LISTED_TYPES, _LISTED),
    **dict.fromkeys(_LATENT_TYPES, _LATENT),
    **dict.fromkeys(_BART_TYPES, _BART),
    **dict.fromkeys(("t5", "mt5", "umt5", "longt5", "switch_transformers"), _T5),
    **dict.fromkeys(("gemma2", "vaultgemma", "gpt_oss"), _HALF),
    **dict.fromkeys(("cohere2", "exaone4", "olmo3"), _FOURTH),
    **dict.fromkeys(("qwen2_moe", "qwen3_moe"), _UNLIKE),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "olmo_hybrid"), _DELTA_HYBRID),
    **dict.fromkeys(("hunyuan", "hunyuan_v1_moe", "hunyuan_v1_dense"), _family(sharing.hunyuan, "use_cla")),
    **dict.fromkeys(("step3p5", "step3p7"), _family(windows.step, *_WINDOW, "attention_other_setting")),
    **dict.fromkeys(("mimo_v2", "mimo_v2_flash"), _family(windows.mimo_v2, *_WINDOW, *_MIMO)),
    **dict.fromkeys(
        ("minimax", "minimax_text_01", "minimax_m1"), _family(hybrids.minimax, "layer_types", "attn_type_list")
    ),
    **dict.fromkeys(("lfm2", "lfm2_moe"), _family(hybrids.lfm2, "layer_types", "full_attn_idxs", "conv_L_cache")),
    **dict.fromkeys(("mamba", "falcon_mamba"), _family(hybrids.MAMBA_ONLY, "state_size")),
    **dict.fromkeys(("rwkv5", "rwkv6"), _family(hybrids.RWKV5)),
    "falcon": _family(attention.falcon),
    "gpt_bigcode": _family(attention.gpt_bigcode),
    "chatglm": _family(attention.chatglm),
    "dbrx": _family(attention.dbrx),
    "mpt": _family(attention.mpt),
    "smollm3": _family(windows.windowed(windows.without_rope, is_on=False), *_WINDOW),
    "dots1": _family(windows.windowed(windows.after_some), *_WINDOW),
    "gemma3_text": _family(windows.windowed(windows.every(6, *_PERIODS)), *_PATTERN),
    "afmoe": _family(windows.windowed(windows.every(4, "global_attn_every_n_layers")), *_PATTERN),
    "gemma3n_text": _family(sharing.gemma3n, *_WINDOW, "num_kv_shared_layers"),
    "gemma4_text": _family(
        sharing.gemma4, *_WINDOW, "num_kv_shared_layers", "num_global_key_value_heads", "global_head_dim"
    ),
    "llama4_text": _family(windows.llama4, "attention_chunk_size", "layer_types"),
    "gpt_neo": _family(windows.gpt_neo, "attention_types"),
    "deepseek_v2": _family(latent.deepseek_v2, *_MLA),
    "longcat_flash": _family(latent.longcat, *_MLA),
    "nemotron-nas": _family(sharing.block_configs, "block_configs"),
    "deci": _family(sharing.deci, "num_key_value_heads_per_layer"),
    "openelm": _family(sharing.openelm, "num_kv_heads"),
    "jamba": _family(hybrids.jamba, "attn_layer_period", *_MAMBA),
    "bamba": _family(hybrids.bamba, "attn_layer_indices", *_MAMBA),
    "granitemoehybrid": _family(hybrids.granite_hybrid, *_MAMBA),
    "falcon_h1": _family(hybrids.falcon_h1, *_MAMBA),
    "nemotron_h": _family(hybrids.nemotron_h, *_MAMBA),
    "zamba": _family(hybrids.zamba, "attn_layer_period", *_MAMBA),
    "zamba2": _family(hybrids.zamba2, *_MAMBA),
    "kimi_linear": _family(hybrids.kimi_linear, "linear_attn_config", *_MLA),
    "recurrent_gemma": _family(hybrids.recurrent_gemma, "block_types", "lru_width", "attention_window_size"),
    "mamba2": _family(hybrids.MAMBA2_ONLY, "state_size"),
    "rwkv": _family(hybrids.RWKV4),
    "rwkv7": _family(hybrids.RWKV7),
    "whisper": _family(encoders.whisper, *_ENCODER),
    "t5gemma": _family(encoders.t5gemma, *_ENCODER),
    "mllama_text_model": _family(encoders.mllama, "cross_attention_layers"),
}

TEXT_OF = {
    "llava": "llama",
    "llava_next": "llama",
    "vipllava": "llama",
    "video_llava": "llama",
    "idefics3": "llama",
    "smolvlm": "llama",
    "mistral3": "mistral",
    "idefics2": "mistral",
    "paligemma": "gemma",
    "llava_onevision": "qwen2",
    "internvl": "qwen2",
    "got_ocr2": "qwen2",
    "aya_vision": "cohere2",
    "mllama": "mllama_text_model",
    "llama4": "llama4_text",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text",
    "kimi_k25": "deepseek_v3",
    "step3p7": "step3p5",
}
"""The family of the section of a larger model that names none (the default of the larger model's class in transformers)."""

UNGATED = frozenset(
    [
        "gpt2",
        "gptj",
        "gpt_neo",
        "gpt_neox",
        "gpt_neox_japanese",
        "codegen",
        "opt",
        "bloom",
        "phi",
        "starcoder2",
        "gpt_bigcode",
        "falcon",
        "nemotron",
        "apertus",
        "xglm",
        "biogpt",
        "persimmon",
        "arcee",
        "mpt",
    ]
)
"""Families whose feed-forward has two matrices, not three (gate, up, down)."""
