"""Layers that keep the last tokens only, and which of the layers do: sliding windows, chunks, alternating layers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipelines.declarations.model_configs.attention import attention_heads, divided, heads
from pipelines.declarations.model_configs.config import LAYERS, Config, Count
from pipelines.declarations.model_configs.kept import Heads, Layers, full, some, window
from pipelines.declarations.model_configs.special import NO_WINDOW
from pipelines.declarations.problems import show

WINDOW = ("sliding_window", "sliding_window_size")
TYPES = "layer_types"
WORDS: Mapping[object, str] = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "sliding_attention": "window",
    "local": "window",
    "chunked_attention": "window",
}

CHUNKS = "attention is within chunks: a chunk bounds a layer as a window of its length does"


@dataclass(frozen=True)
class Pattern:
    """For each layer ``full`` or ``window``, and the key that says so."""

    kinds: list[str]
    key: str


Rule = Callable[[Config, Count], Pattern]
"""How a class tells its layers apart where the file has no ``layer_types``."""


def everywhere(_: Config, layers: Count) -> Pattern:
    """The window, where there is one, is that of all layers (MistralModel, Phi3Model, Starcoder2Model in transformers)."""
    return Pattern(["window"] * layers.value, "sliding_window")


def after_some(config: Config, layers: Count) -> Pattern:
    """Layers from ``max_window_layers`` on have the window (Qwen2Config in transformers)."""
    first = config.part.get("max_window_layers")
    if first is None:
        first = config.get("max_window_layers", what="the number of layers without a window").value
    if isinstance(first, bool) or not isinstance(first, int) or first < 0:
        config.refuse("max_window_layers", f"{show(first)} is not a whole number; expected one")
    kinds = ["full" if layer < first else "window" for layer in range(layers.value)]
    return Pattern(kinds, f"max_window_layers {first}")


def every(period: int, *keys: str) -> Rule:
    """Of each ``period`` layers the last is full: Gemma, Cohere2, OLMo 3, EXAONE 4, gpt-oss. ``keys`` name another period."""

    def rule(config: Config, layers: Count) -> Pattern:
        found = config.find(*keys)
        length = found.value if found else period
        said = found.read_from if found else f"one full layer in {period}, rule of model_type {config.family}"
        kinds = ["window" if (layer + 1) % length else "full" for layer in range(layers.value)]
        return Pattern(kinds, said)

    return rule


def listed(config: Config, _: Count) -> Pattern:
    """The file must tell the layers apart."""
    config.missing(TYPES, "the kind of attention of each layer")


def without_rope(config: Config, layers: Count) -> Pattern:
    """Layers without rotary positions have the window (SmolLM3Config in transformers)."""
    flags, key = rope_flags(config, layers)
    return Pattern(["full" if has_rope else "window" for has_rope in flags], key)


def rope_flags(config: Config, layers: Count) -> tuple[list[bool], str]:
    """Whether each layer has rotary positions: ``no_rope_layers`` is 1 where it has; of each four layers the last has none."""
    if config.part.get("no_rope_layers"):
        flags = config.per_layer("no_rope_layers", {0: "no", 1: "yes"}, layers)
        return [flag == "yes" for flag in flags], "no_rope_layers"
    found = config.find("no_rope_layer_interval")
    interval = found.value if found else 4
    said = found.read_from if found else f"every 4th layer, rule of model_type {config.family}"
    return [(layer + 1) % interval != 0 for layer in range(layers.value)], said


def pattern(config: Config, layers: Count, rule: Rule) -> Pattern:
    """The layers as ``layer_types`` lists them; else as ``rule`` of the class has it."""
    if config.part.get(TYPES) is not None:
        return Pattern(config.per_layer(TYPES, WORDS, layers), TYPES)
    return rule(config, layers)


def window_of(config: Config, *, is_on: bool = True) -> Count | None:
    """Tokens of the window; None where the file says null or switches it off."""
    if not config.flag("use_sliding_window", default=is_on):
        return None
    said_null = any(name in config.part for name in WINDOW)
    names = WINDOW[:1] if config.part.get(WINDOW[1]) == NO_WINDOW else WINDOW
    found = config.find(*names) or config.default(WINDOW)
    if found is None and not said_null and not any(name in config.defaults for name in WINDOW):
        config.missing(WINDOW[0], "the length of the window, or null")
    return found


def windowed(rule: Rule, *, is_on: bool = True) -> Callable[[Config], Layers]:
    """A reader of a family whose layers have a window as ``rule`` tells. ``is_on``: whether there is one unless the file denies it."""

    def read(config: Config) -> Layers:
        layers, same = config.layers(), heads(config)
        tokens = window_of(config, is_on=is_on)
        if tokens is None:
            return Layers.of(full(config, layers, same))
        return split(config, layers, pattern(config, layers, rule), same, same, tokens)

    return read


def split(config: Config, layers: Count, found: Pattern, of_full: Heads, of_window: Heads, tokens: Count) -> Layers:
    """Full layers and layers with a window, each with their own heads."""
    windows = some(layers, found.kinds, "window", found.key)
    return Layers.of(
        full(config, some(layers, found.kinds, "full", found.key), of_full),
        window(config, windows, of_window, tokens),
        beyond_context(config, tokens) if windows else None,
    )


def beyond_context(config: Config, tokens: Count) -> str | None:
    """The note on a window that no sequence outgrows."""
    context = config.longest_context()
    if context is None or tokens.value < context.value:
        return None
    return (
        f"the window of {tokens.value:,} tokens is no shorter than the context ({context.read_from}): as full attention"
    )


def unlike_engines(config: Config) -> Layers:
    """A window that vLLM and transformers place in different layers (Qwen2-MoE, Qwen3-MoE): read without, refused with it."""
    if config.flag("use_sliding_window") and not config.has(TYPES):
        config.refuse(
            "use_sliding_window", "true, and the classes differ in which layers have it; expected layer_types"
        )
    return windowed(listed, is_on=False)(config)


def llama4(config: Config) -> Layers:
    """Attention within chunks in layers with rotary positions: a chunk bounds them as a window does (Llama4TextConfig)."""
    layers, same = config.layers(), heads(config)
    if "attention_chunk_size" in config.part and config.part["attention_chunk_size"] is None:
        return Layers.of(full(config, layers, same))
    tokens = config.get("attention_chunk_size", what="the length of a chunk")

    def chunked(config: Config, layers: Count) -> Pattern:
        flags, key = rope_flags(config, layers)
        return Pattern(["window" if has_rope else "full" for has_rope in flags], key)

    return split(config, layers, pattern(config, layers, chunked), same, same, tokens).with_notes([CHUNKS])


def gpt_neo(config: Config) -> Layers:
    """``attention_types`` as in ``[[["global", "local"], 12]]``, with ``window_size`` for local ones (GPTNeoConfig)."""
    layers, same = config.layers(*LAYERS[-1:], LAYERS[0]), heads(config)
    kinds: list[object] = []
    for entry in config.entries("attention_types"):
        is_pair = isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], list)
        if not is_pair or len(entry[0]) * config.whole("attention_types", entry[1]) > layers.value - len(kinds):
            config.refuse(
                "attention_types", f"not kinds of {layers.read_from} layers; expected one kind for each layer"
            )
        kinds += entry[0] * entry[1]
    expanded = Config(
        config.file, config.places, config.where, {**config.part, "attention_types": kinds}, config.family
    )
    found = Pattern(
        expanded.per_layer("attention_types", {"global": "full", "local": "window"}, layers), "attention_types"
    )
    tokens = config.get("window_size", what="the length of the window")
    return split(config, layers, found, same, same, tokens)


def step(config: Config) -> Layers:
    """Sliding layers may have their own heads in ``attention_other_setting`` (Step3p5 of the Step-3.5 repository)."""
    layers, same = config.layers(), heads(config)
    tokens = window_of(config)
    if tokens is None:
        return Layers.of(full(config, layers, same))
    other = same
    if config.has("attention_other_setting"):
        part = config.section("attention_other_setting")
        size = part.find("head_dim") or same.key
        names = ("num_attention_groups", "num_key_value_heads")
        queries = part.find("num_attention_heads") or attention_heads(config)
        other = Heads(divided(part, queries, part.find(*names) or same.count, names), size, size)
    return split(config, layers, pattern(config, layers, listed), same, other, tokens)


def mimo_v2(config: Config) -> Layers:
    """Values smaller than keys, and other heads in sliding layers (MiMoV2FlashConfig; ``hybrid_layer_pattern``: 1 is sliding)."""
    layers = config.layers()
    keys = heads(config)
    count = config.get("swa_num_key_value_heads", what="the KV heads of sliding layers")
    queries = config.find("swa_num_attention_heads") or attention_heads(config)
    of_full = Heads(keys.count, keys.key, config.get("v_head_dim", what="the elements of a value"))
    of_window = Heads(
        divided(config, queries, count, ("swa_num_key_value_heads",)),
        config.get("swa_head_dim", what="the elements of a key in sliding layers"),
        config.get("swa_v_head_dim", what="the elements of a value in sliding layers"),
    )
    tokens = config.get(*WINDOW, what="the length of the window")
    if config.has(TYPES) or not config.has("hybrid_layer_pattern"):
        found = pattern(config, layers, listed)
    else:
        words = {0: "full", 1: "window"}
        found = Pattern(config.per_layer("hybrid_layer_pattern", words, layers), "hybrid_layer_pattern")
    return split(config, layers, found, of_full, of_window, tokens)
