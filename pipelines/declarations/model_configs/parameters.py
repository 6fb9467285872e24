"""Weights of a model whose layers all have the same attention, counted from the sizes in its config.json."""

from pipelines.declarations.model_configs.config import HIDDEN, Config
from pipelines.declarations.model_configs.kept import Layers

_INNER = ("intermediate_size", "ffn_hidden_size", "n_inner", "inner_hidden_size", "ffn_dim")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_EXPERTS_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k")
_UNEVEN = ("interleave_moe_layer_step", "intermediate_size_mlp")
"""Experts in some of the layers only, as these say."""

Weights = tuple[int | None, int | None]
"""All of them, and those that one token passes through; None where the file does not tell."""


def weights(config: Config, read: Layers, heads: int | None, *, is_gated: bool) -> Weights:
    """Weights of the matrices in all layers and of the embeddings. Norms and biases are left out: less than a thousandth."""
    shapes = {(part.layers.heads, part.layers.first, part.layers.second) for part in read.parts}
    kinds = {part.layers.kind for part in read.parts}
    hidden, vocabulary = _first(config, *HIDDEN), _first(config, "vocab_size")
    if heads is None or hidden is None or vocabulary is None or read.without or len(shapes) != 1:
        return None, None
    kv_heads, key, value = shapes.pop()
    if not kinds <= {"full", "window"} or key != value:
        return None, None
    layers = sum(part.layers.layers for part in read.parts)
    attention = 2 * hidden * key * (heads + kv_heads)
    embeddings = vocabulary * hidden * (1 if config.part.get("tie_word_embeddings") is True else 2)
    outside = layers * attention + embeddings
    return _with_feed_forward(config, outside, layers, hidden, is_gated=is_gated)


def _with_feed_forward(config: Config, outside: int, layers: int, hidden: int, *, is_gated: bool) -> Weights:
    """``outside`` and the feed-forward of all layers: with experts in all but the first ``first_k_dense_replace``."""
    each = (3 if is_gated else 2) * hidden
    inner, experts = _first(config, *_INNER), _first(config, *_EXPERTS)
    if config.has(*_UNEVEN):
        return None, None
    if experts is None or experts == 1:
        if inner is None and is_gated:
            return None, None
        total = outside + layers * each * (inner or 4 * hidden)
        return total, total
    of_expert, per_token = _first(config, "moe_intermediate_size") or inner, _first(config, *_EXPERTS_PER_TOKEN)
    if of_expert is None or per_token is None:
        return None, None
    dense = min(_first(config, "first_k_dense_replace") or 0, layers)
    outside += dense * each * (_first(config, "dense_intermediate_size") or inner or of_expert)
    shared = (_first(config, "n_shared_experts") or 0) * of_expert
    outside += (layers - dense) * each * shared
    sparse = (layers - dense) * each * of_expert
    return outside + sparse * experts, outside + sparse * per_token


def _first(config: Config, *names: str) -> int | None:
    found = config.first(*names)
    return None if found is None else found.value


def has_experts(config: Config) -> bool:
    """Whether a token passes through some of the experts only."""
    experts = _first(config, *_EXPERTS)
    return experts is not None and experts > 1
