"""The data type of a KV cache as people write it. What is no data type of a cache is named as the mistake that it probably is."""

import re
from collections.abc import Mapping

from pipelines.declarations.problems import did_you_mean, show
from pipelines.declarations.units import QuantityError

PACKED_LATENT = "fp8_ds_mla"
"""The layout of vLLM and SGLang for a latent in fp8: scales beside it, the part with the position in 16 bits (656 bytes for 512 + 64)."""

NAMES = ("fp32", "bf16", "fp16", "fp8", "int8", "fp4", PACKED_LATENT)
"""The last is a layout of a latent, not of keys and values: docs/kv.md."""

SYNONYMS: Mapping[str, str] = {
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}
"""Other names of exactly the same width."""

_BITS: Mapping[str, str] = {"32": "fp32", "16": "bf16 or fp16", "8": "fp8 or int8", "4": "fp4"}
_BYTES: Mapping[str, str] = {"4": "fp32", "2": "bf16 or fp16", "1": "fp8 or int8", "0.5": "fp4"}
_BARE: Mapping[str, tuple[str, str]] = {
    "32": ("is bits, not bytes", "did you mean fp32 (4 bytes)?"),
    "16": ("is bits, not bytes", "did you mean bf16 (2 bytes)?"),
    "8": ("is bits, not bytes", "did you mean fp8 (1 byte)? int8 is 1 byte too"),
    "4": ("is bits or bytes", "4 bits is fp4, 4 bytes is fp32"),
    "2": ("is no data type", "2 bytes is bf16 or fp16"),
    "1": ("is no data type", "1 byte is fp8 or int8"),
    "0.5": ("is no data type", "half a byte is fp4"),
}
_NUMBER = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4})?")
_WIDTH = re.compile(rf"({_NUMBER.pattern})[ _-]?(bits?|b|bytes?|B)")
_OF_WEIGHTS = re.compile(r"w[0-9]{1,2}a[0-9]{1,2}.*|awq.*|gptq.*|gguf|q[0-9]_.*", re.IGNORECASE)
_LIKELY: Mapping[str, str] = {
    "nvfp4": "did you mean fp4? nvfp4 keeps 1 byte of scale per 16 elements beside it, an eighth more",
    "mxfp4": "did you mean fp4? mxfp4 keeps 1 byte of scale per 32 elements beside it, a sixteenth more",
    "int4": "fp4 is as wide: half a byte an element",
    "uint4": "fp4 is as wide: half a byte an element",
    "uint8": "int8 is as wide: 1 byte an element",
    "float": "did you mean fp32 (float32)? most caches are bf16 or fp16",
    "float4": "did you mean fp4?",
    **dict.fromkeys(("float8", "e4m3", "e5m2", "fp8_e4m3fn", "fp8_inc", "float8_e4m3fn", "float8_e5m2"), "did you mean fp8?"),
}  # fmt: skip


def kv_dtype(raw: object) -> str:
    """The one of NAMES that ``raw`` stands for; QuantityError where it is none.

    >>> kv_dtype("bf16"), kv_dtype("bfloat16")
    ('bf16', 'bf16')
    """
    if isinstance(raw, str):
        name = SYNONYMS.get(raw, raw)
        if name in NAMES:
            return name
    found, hint = _mistake(raw)
    raise QuantityError(f"{found}; expected one of {', '.join(NAMES)}", hint)


def _mistake(raw: object) -> tuple[str, str | None]:
    """What was found, and what was probably meant."""
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        return f"{show(raw)} is no data type", None
    text = str(raw).strip()
    if _NUMBER.fullmatch(text):
        found, hint = _BARE.get(text.removesuffix(".0"), ("is no data type", None))
        return f"{text} {found}", hint
    width = _WIDTH.fullmatch(text)
    if width:
        known = _BITS if width.group(2) in ("bit", "bits", "b") else _BYTES
        meant = known.get(width.group(1))
        return f"{show(text)} is a width, not a data type", f"did you mean {meant}?" if meant else None
    if text.lower() == "auto":
        return '"auto" is the data type of the weights, which is not read here', "bf16 for most models; name it"
    if _OF_WEIGHTS.fullmatch(text):
        return (
            f"{show(text)} is of the weights, not of the KV cache",
            "the cache of such a model is mostly bf16 or fp16",
        )
    return f"{show(raw)} is no data type of a KV cache", _hint(text)


def _hint(text: str) -> str | None:
    name = text.lower().removeprefix("torch.")
    exact = SYNONYMS.get(name, name)
    if exact in NAMES:
        return f"did you mean {exact}?"
    return _LIKELY.get(name) or did_you_mean(name, NAMES)
