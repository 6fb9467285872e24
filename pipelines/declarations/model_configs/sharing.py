"""Layers that use another layer's keys and values, and layers that each have their own number of KV heads."""

from collections.abc import Iterable
from typing import Any

from pipelines.declarations.model_cache import LayersWithout, ReadLayers
from pipelines.declarations.model_configs.attention import attention_heads, head_dim, heads
from pipelines.declarations.model_configs.config import KV_HEADS, Config, Count, counted
from pipelines.declarations.model_configs.kept import Heads, Layers, full, nothing, some
from pipelines.declarations.model_configs.windows import Pattern, Rule, every, pattern, split, window_of
from pipelines.declarations.problems import show

K_EQ_V = "attention_k_eq_v: keys and values of full layers are equal before norm and rotation; both are counted"


def gemma3n(config: Config) -> Layers:
    """The last ``num_kv_shared_layers`` layers use the caches of earlier ones (Gemma3nTextConfig, Gemma3nTextAttention)."""
    same = heads(config)
    return _shared(config, every(5), same, same, default=15)


def gemma4(config: Config) -> Layers:
    """Full layers have their own head dimension, and with ``attention_k_eq_v`` their own KV heads (Gemma4TextConfig)."""
    of_window = heads(config)
    size = config.find("global_head_dim") or Count(512, "global_head_dim 512, default of model_type gemma4_text")
    count, notes = of_window.count, []
    if config.flag("attention_k_eq_v"):
        count = config.find("num_global_key_value_heads") or count
        notes.append(K_EQ_V)
    return _shared(config, every(6), Heads(count, size, size), of_window, default=0, last_is_full=True).with_notes(
        notes
    )


def _shared(
    config: Config, rule: Rule, of_full: Heads, of_window: Heads, *, default: int, last_is_full: bool = False
) -> Layers:
    layers = config.layers()
    found = pattern(config, layers, rule)
    if last_is_full:
        found = Pattern([*found.kinds[:-1], "full"], found.key)
    tokens = window_of(config)
    if tokens is None:
        config.missing("sliding_window", "the length of the window")
    key = "num_kv_shared_layers"
    value = config.part.get(key, default)
    if value == 0 and not isinstance(value, bool):
        return split(config, layers, found, of_full, of_window, tokens)
    shared = config.whole(key, value)
    own = layers.value - shared
    if own < 1 or not set(found.kinds[own:]) <= set(found.kinds[:own]):
        config.refuse(key, f"{shared} of {layers.value} layers; expected fewer: layers of each kind to share with")
    said = f"{config.shown(key)} {shared}" if key in config.part else f"{key} {shared}, default of {config.family}"
    rest = split(
        config,
        Count(own, f"{layers.read_from} less {said}"),
        Pattern(found.kinds[:own], found.key),
        of_full,
        of_window,
        tokens,
    )
    without = LayersWithout(shared, "use the keys and values of an earlier layer", said)
    return Layers(rest.parts, (without,), rest.notes)


def hunyuan(config: Config) -> Layers:
    """With ``use_cla`` only each ``cla_share_factor``-th layer has keys and values of its own (HunYuanAttention in vLLM)."""
    layers, same = config.layers(), heads(config)
    if not config.flag("use_cla"):
        return Layers.of(full(config, layers, same))
    factor = config.get("cla_share_factor", what="how many layers share a cache")
    own = -(-layers.value // factor.value)
    said = f"{layers.read_from} over {factor.read_from}"
    rest = Count(layers.value - own, said) if layers.value > own else None
    return Layers.of(
        full(config, Count(own, said), same),
        nothing(rest, "use the keys and values of an earlier layer"),
    )


def block_configs(config: Config) -> Layers:
    """A grouping of heads for each layer, or no attention at all (DeciLMForCausalLM, model_type nemotron-nas)."""
    layers, queries = config.layers(), attention_heads(config)
    blocks = config.entries("block_configs")
    if len(blocks) != layers.value:
        config.refuse("block_configs", f"{counted(blocks)}, and {layers.read_from}; expected one for each layer")
    counts = [_block_heads(config, queries, layer, block) for layer, block in enumerate(blocks)]
    size = head_dim(config, queries)
    return _by_heads(config, layers, counts, size, "block_configs")


def _block_heads(config: Config, queries: Count, layer: int, block: Any) -> int | None:
    """KV heads of one layer; None where it does not attend."""
    attention = block.get("attention") if isinstance(block, dict) else None
    if not isinstance(attention, dict):
        config.refuse("block_configs", f"no attention at layer {layer}; expected a mapping in each entry")
    if attention.get("no_op") is True or attention.get("replace_with_linear") is True:
        return None
    odd = next((key for key in ("window_length", "sparsify", "num_sink_tokens") if attention.get(key)), None)
    if odd:
        config.refuse(
            "block_configs", f"{odd} {show(attention[odd])} at layer {layer} cannot be counted; expected null"
        )
    group = config.whole("block_configs", attention.get("n_heads_in_group"))
    if queries.value % group:
        config.refuse(
            "block_configs", f"groups of {group} at layer {layer}, and {queries.read_from}; expected a divisor"
        )
    return queries.value // group


def deci(config: Config) -> Layers:
    """``num_key_value_heads_per_layer`` (DeciLM-7B)."""
    layers, queries = config.layers(), attention_heads(config)
    key = "num_key_value_heads_per_layer"
    counts = _heads_list(config, key, layers)
    wrong = next((count for count in counts if queries.value % count), None)
    if wrong:
        config.refuse(key, f"{wrong} KV heads for {queries.value} attention heads; expected a divisor of that number")
    return _by_heads(config, layers, counts, head_dim(config, queries), key)


def openelm(config: Config) -> Layers:
    """``num_kv_heads`` and ``num_query_heads`` are lists with an entry for each layer (OpenELMConfig)."""
    layers = config.layers("num_transformer_layers")
    counts = _heads_list(config, KV_HEADS[1], layers)
    for queries, count in zip(_heads_list(config, "num_query_heads", layers), counts, strict=True):
        if queries % count:
            config.refuse(KV_HEADS[1], f"{count} KV heads for {queries} query heads; expected a divisor of that number")
    size = config.get("head_dim", what="the head dimension")
    return _by_heads(config, layers, counts, size, KV_HEADS[1])


def _heads_list(config: Config, key: str, layers: Count) -> list[int]:
    counts = [config.whole(key, count) for count in config.entries(key)]
    if len(counts) != layers.value:
        config.refuse(key, f"{counted(counts)}, and {layers.read_from}; expected one for each layer")
    return counts


def _by_heads(config: Config, layers: Count, counts: Iterable[int | None], size: Count, key: str) -> Layers:
    """Full layers grouped by their number of KV heads, most heads first."""
    kinds = ["none" if count is None else str(count) for count in counts]
    numbers = sorted({int(kind) for kind in kinds if kind != "none"}, reverse=True)
    parts: list[ReadLayers | LayersWithout | None] = [
        full(config, some(layers, kinds, str(count), key), Heads(Count(count, f"{key} {count}"), size, size))
        for count in numbers
    ]
    return Layers.of(*parts, nothing(some(layers, kinds, "none", key), "do not attend"))
