"""Families of models (`model_type`) whose configurations are known, by what their classes take where the file says nothing."""

MHA_FAMILIES = frozenset(
    [
        "gpt2",
        "gptj",
        "gpt_neox",
        "codegen",
        "opt",
        "bloom",
        "llama",
        "baichuan",
        "phi",
        "qwen",
        "internlm",
        "persimmon",
        "xglm",
        "biogpt",
        "stablelm_epoch",
    ]
)
"""Families whose class takes as many KV heads as attention heads where the file names none."""

OWN_HEAD_DIM = frozenset(
    {
        "gemma",
        "qwen3",
        "qwen3_vl_text",
        "qwen3_vl_moe_text",
        "glm",
        "glm4",
        "helium",
        "seed_oss",
        "ernie4_5",
        "ernie4_5_moe",
    }
    | {"minimax_m2", "minimax_m3"}
)
"""Families whose class has a ``head_dim`` of its own, or may have: not hidden size over heads where the file names none."""

PLAIN_FAMILIES = MHA_FAMILIES | frozenset(
    [
        "mistral",
        "mixtral",
        "qwen2",
        "qwen2_moe",
        "qwen2_vl",
        "qwen2_vl_text",
        "qwen2_5_vl",
        "qwen2_5_vl_text",
        "qwen3",
        "qwen3_moe",
        "qwen3_vl_text",
        "qwen3_vl_moe_text",
        "mimo",
        "minimax_m2",
        "minimax_m3",
        "gemma",
        "phi3",
        "phi3_v",
        "phimoe",
        "phi4mm",
        "phi4_multimodal",
        "starcoder2",
        "gpt_bigcode",
        "falcon",
        "dbrx",
        "stablelm",
        "internlm2",
        "internlm3",
        "cohere",
        "olmo",
        "olmo2",
        "olmoe",
        "nemotron",
        "minicpm",
        "granite",
        "granitemoe",
        "glm",
        "glm4",
        "glm4_moe",
        "chatglm",
        "exaone",
        "smollm3",
        "apertus",
        "hunyuan_v1_moe",
        "hunyuan_v1_dense",
        "ernie4_5",
        "ernie4_5_moe",
        "arctic",
        "aquila",
        "xverse",
        "Yi",
        "yi",
        "seed_oss",
        "dots1",
        "arcee",
        "deepseek",
        "solar",
    ]
)
"""Families with full attention in every layer, as long as no key says otherwise."""

GATED_FAMILIES = PLAIN_FAMILIES - frozenset(
    [
        "gpt2",
        "gptj",
        "gpt_neox",
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
    ]
)
"""Families whose feed-forward has three matrices (gate, up, down), not two."""
