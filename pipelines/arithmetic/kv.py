"""KV cache bytes (docs/arithmetic.md, section 2)."""

KEYS_AND_VALUES = 2
"""Each token leaves one key and one value vector per layer and KV head."""

ELEMENT_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
"""Bytes of one element by ``model.kv_dtype``: the width that the name states."""

FORMULA = "bytes_per_token = 2 x layers x kv_heads x head_dim x element_bytes x layout_factor"


def bytes_per_token(layers: int, kv_heads: int, head_dim: int, kv_dtype: str, layout_factor: float) -> float:
    """Bytes of KV cache that one token occupies over all layers (κ), for MHA, GQA and MQA.

    Source: one key and one value of ``head_dim`` elements per KV head and layer.

    >>> bytes_per_token(layers=32, kv_heads=8, head_dim=128, kv_dtype="bf16", layout_factor=1.0)
    131072.0
    """
    return KEYS_AND_VALUES * layers * kv_heads * head_dim * ELEMENT_BYTES[kv_dtype] * float(layout_factor)
