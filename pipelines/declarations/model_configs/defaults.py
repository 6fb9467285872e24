"""What the class of a family takes for a key that the file leaves out: the defaults of its configuration class in transformers.

They are those of ``configuration_*.py`` in transformers 4.57 and 5.23, and equal in both where both have the family. None says that
the class derives the number: KV heads are then as many as attention heads, a head is hidden size over heads, and there is no window.
"""

from collections.abc import Mapping

Defaults = Mapping[str, int | None]


def _row(
    layers: int | None, heads: int, kv_heads: int | None, head_dim: int | None, hidden: int, **others: int | None
) -> Defaults:
    return {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "hidden_size": hidden,
        **others,
    }


_NO_GROUPS: Defaults = {"num_key_value_heads": None}
"""The class knows no KV heads: each head has its own key and value. Other numbers must be in the file."""

DEFAULTS: dict[str, Defaults] = {
    "llama": _row(32, 32, None, None, 4096),
    "mistral": _row(32, 32, 8, None, 4096, sliding_window=4096),
    "mixtral": _row(32, 32, 8, None, 4096, sliding_window=None),
    "qwen2": _row(32, 32, 32, None, 4096, sliding_window=4096, max_window_layers=28),
    "qwen2_moe": _row(24, 16, 16, None, 2048, sliding_window=4096, max_window_layers=28),
    "qwen2_vl_text": _row(80, 64, 8, None, 8192, sliding_window=4096, max_window_layers=80),
    "qwen2_5_vl_text": _row(80, 64, 8, None, 8192, sliding_window=4096, max_window_layers=80),
    "qwen2_5_omni_text": _row(28, 28, 4, None, 3584, sliding_window=32768, max_window_layers=28),
    "qwen3": _row(32, 32, 32, 128, 4096, sliding_window=4096, max_window_layers=28),
    "qwen3_moe": _row(24, 32, 4, None, 2048, sliding_window=4096),
    "qwen3_vl_text": _row(32, 32, 32, 128, 4096),
    "qwen3_vl_moe_text": _row(24, 16, 16, None, 2048),
    "qwen3_omni_moe_text": _row(28, 28, 4, None, 2048, sliding_window=None),
    "minimax_m2": _row(62, 48, 8, 128, 3072),
    "minimax_m3_vl_text": _row(60, 64, 4, 128, 6144, index_head_dim=128),
    "minimax": _row(32, 32, 8, None, 4096, sliding_window=None),
    "gemma": _row(28, 16, 16, 256, 3072),
    "gemma2": _row(26, 8, 4, 256, 2304, sliding_window=4096),
    "gemma3_text": _row(26, 8, 4, 256, 2304, sliding_window=4096),
    "gemma3n_text": _row(35, 8, 2, 256, 2048, sliding_window=512),
    "gemma4_text": _row(30, 8, 4, 256, 2304, sliding_window=512),
    "phi": _row(24, 32, None, None, 2048),
    "phi3": _row(32, 32, None, None, 3072, sliding_window=None),
    "phimoe": _row(32, 32, 8, None, 4096, sliding_window=None),
    "phi4_multimodal": _row(32, 32, 8, None, 3072, sliding_window=None),
    "starcoder2": _row(30, 24, 2, None, 3072, sliding_window=None),
    "stablelm": _row(32, 32, 32, None, 2560),
    "internlm3": _row(48, 32, 2, 128, 4096),
    "cohere": _row(40, 64, None, None, 8192),
    "cohere2": _row(40, 64, None, None, 8192, sliding_window=4096),
    "olmo": _row(32, 32, None, None, 4096),
    "olmo2": _row(32, 32, None, None, 4096),
    "olmo3": _row(32, 32, None, None, 4096, sliding_window=4096),
    "olmoe": _row(16, 16, None, None, 2048),
    "flex_olmo": _row(32, 32, None, None, 4096),
    "nemotron": _row(32, 48, None, None, 6144),
    "granite": _row(32, 32, None, None, 4096),
    "granitemoe": _row(32, 32, None, None, 4096),
    "granitemoeshared": _row(32, 32, None, None, 4096),
    "glm": _row(40, 32, 2, 128, 4096),
    "glm4": _row(40, 32, 2, 128, 4096),
    "glm4_moe": _row(46, 96, 8, None, 4096),
    "glm4v_text": _row(40, 32, 2, None, 4096),
    "glm4v_moe_text": _row(46, 96, 8, None, 4096),
    "exaone4": _row(32, 32, 32, None, 4096, sliding_window=4096),
    "smollm3": _row(36, 16, 4, None, 2048, sliding_window=None),
    "apertus": _row(32, 32, None, None, 4096),
    "hunyuan_v1_moe": _row(32, 32, None, None, 4096),
    "hunyuan_v1_dense": _row(32, 32, None, None, 4096),
    "ernie4_5": _row(18, 16, 2, 128, 1024),
    "ernie4_5_moe": _row(28, 20, 4, None, 2560),
    "ernie4_5_vl_moe_text": _row(28, 20, 4, None, 2560),
    "seed_oss": _row(64, 80, 8, 128, 4096),
    "dots1": _row(62, 32, 32, None, 4608, sliding_window=4096, max_window_layers=62),
    "arcee": _row(32, 32, None, None, 2560),
    "helium": _row(24, 20, 20, 128, 2560),
    "bitnet": _row(30, 20, 5, None, 2560),
    "aria_text": _row(32, 32, None, None, 4096),
    "gpt_oss": _row(36, 64, 8, 64, 2880, sliding_window=128),
    "step3p5": _row(45, 64, 8, 128, 4096, sliding_window=None),
    "ministral": _row(32, 32, 8, None, 4096, sliding_window=4096),
    "ministral3": _row(34, 32, 8, 128, 4096, sliding_window=None),
    "vaultgemma": _row(26, 8, 4, 256, 2304, sliding_window=4096),
    "t5_gemma_module": _row(26, 8, 4, 256, 2304, sliding_window=4096),
    "llama4_text": _row(48, 40, 8, 128, 5120),
    "mllama_text_model": _row(40, 32, 8, None, 4096),
    "deepseek_v2": _row(32, 32, None, None, 4096, kv_lora_rank=512, qk_rope_head_dim=64),
    "deepseek_v3": _row(61, 128, 128, None, 7168, kv_lora_rank=512, qk_rope_head_dim=64),
    "deepseek_v32": _row(61, 128, 128, None, 7168, kv_lora_rank=512, qk_rope_head_dim=64, index_head_dim=128),
    "glm_moe_dsa": _row(78, 64, 64, None, 6144, kv_lora_rank=512, qk_rope_head_dim=64, index_head_dim=128),
    "glm4_moe_lite": _row(47, 20, 20, None, 2048, kv_lora_rank=512, qk_rope_head_dim=64),
    "youtu": _row(32, 16, 16, None, 2048, kv_lora_rank=512, qk_rope_head_dim=64),
    "mistral4": _row(36, 32, 32, None, 4096, kv_lora_rank=256, qk_rope_head_dim=64),
    "minicpm3": _row(62, 40, 40, None, 2560, kv_lora_rank=256, qk_rope_head_dim=32),
    "axk1": _row(61, 64, 64, None, 7168, kv_lora_rank=512, qk_rope_head_dim=64),
    "jamba": _row(32, 32, 8, None, 4096, sliding_window=None),
    "bamba": _row(32, 32, 8, None, 4096),
    "falcon_h1": _row(32, 32, 8, None, 4096),
    "nemotron_h": _row(None, 32, 8, 128, 4096, sliding_window=None),
    "granitemoehybrid": _row(32, 32, None, None, 4096),
    "qwen3_next": _row(48, 16, 2, 256, 2048),
    "qwen3_5_text": _row(32, 16, 4, 256, 4096),
    "qwen3_5_moe_text": _row(40, 16, 2, 256, 2048),
    "lfm2": _row(32, 32, 8, None, 2560),
    "lfm2_moe": _row(32, 32, 8, None, 2048),
    "zamba": _row(76, 16, 16, None, 3712),
    "zamba2": _row(54, 32, None, None, 2560),
    "recurrent_gemma": _row(26, 10, None, None, 2560),
    "kimi_linear": _row(27, 32, 32, None, 2304, kv_lora_rank=512, qk_rope_head_dim=64),
    "afmoe": _row(32, 16, None, 128, 2048, sliding_window=1024),
    "cwm": _row(64, 48, 8, 128, 6144, sliding_window=8192),
    "falcon": {"num_key_value_heads": None},
    "xglm": _NO_GROUPS,
    **dict.fromkeys(
        ("gpt2", "gptj", "gpt_neo", "gpt_neox", "gpt_neox_japanese", "codegen", "opt", "bloom"), _NO_GROUPS
    ),
    **dict.fromkeys(("baichuan", "qwen", "internlm", "persimmon", "biogpt", "stablelm_epoch"), _NO_GROUPS),
    "mamba": {"state_size": 16, "conv_kernel": 4, "expand": 2},
    "falcon_mamba": {"state_size": 16, "conv_kernel": 4, "expand": 2},
}

DEFAULTS["qwen2_vl"] = DEFAULTS["qwen2_vl_text"]
DEFAULTS["qwen2_5_vl"] = DEFAULTS["qwen2_5_vl_text"]
DEFAULTS["minimax_m3"] = DEFAULTS["minimax_m3_vl_text"]
