"""Multi-head latent attention (MLA): one latent and one rotated part of a key for all heads, and the index of sparse attention."""

from pipelines.declarations.model_cache import ReadLayers
from pipelines.declarations.model_configs.attention import plain
from pipelines.declarations.model_configs.config import HEAD_DIM, KV_HEADS, LAYERS, Config, Count
from pipelines.declarations.model_configs.kept import ONE_INDEX, ONE_LATENT, Layers, keeping, one, some

INDEX_SCALE_ELEMENTS, INDEX_SCALE_BYTES = 128, 4
"""One fp32 scale for 128 fp8 elements of an index (DeepseekV32IndexerCache in vLLM)."""


def latent(config: Config, layers: Count | None) -> ReadLayers | None:
    """``kv_lora_rank`` + ``qk_rope_head_dim`` elements per token and layer (DeepseekV2MLAAttention in vLLM): 576 of DeepSeek-V3."""
    return keeping(
        config,
        "latent",
        layers,
        one("one latent for all heads"),
        config.get("kv_lora_rank", what="the size of the latent"),
        config.get("qk_rope_head_dim", what="the part of a key that carries the position"),
        ONE_LATENT,
    )


def mla(config: Config) -> Layers:
    """Every layer keeps a latent, and beside it an index where the model has an indexer."""
    layers = config.layers()
    indexed = _indexed(config, layers)
    index = None
    if config.has("index_head_dim") or config.defaults.get("index_head_dim"):
        size = config.get("index_head_dim", what="the size of an index vector")
        scales = -(-size.value // INDEX_SCALE_ELEMENTS)
        scale = Count(INDEX_SCALE_BYTES * scales, f"an fp32 scale per {INDEX_SCALE_ELEMENTS} elements")
        index = keeping(config, "index", indexed, one("one index for all heads"), size, scale, ONE_INDEX)
    return Layers.of(latent(config, layers), index, _kept_otherwise(config), heads_that_do_not_count(config))


def heads_that_do_not_count(config: Config) -> str | None:
    """A note on keys that say how much other models keep, and say nothing of a latent; None where there are none."""
    found = [count.read_from for names in (KV_HEADS, HEAD_DIM) if (count := config.first(*names))]
    if not found:
        return None
    verb = "do" if len(found) > 1 else "does"
    return f"{' and '.join(found)} {verb} not count: all heads share one latent (MLA)"


def deepseek_v2(config: Config) -> Layers:
    """MLA, unless the file turns it off with no part of a key for it: then plain attention (DeepseekV2DecoderLayer in vLLM)."""
    dims = (config.part.get("qk_nope_head_dim"), config.part.get("qk_rope_head_dim"))
    if config.part.get("use_mla") is False and not config.has("kv_lora_rank") and all(dim in (None, 0) for dim in dims):
        return plain(config)
    return mla(config)


def _kept_otherwise(config: Config) -> str | None:
    if config.family != "minicpm3":
        return None
    return "an engine without MLA for this family keeps whole keys and values of every head instead of the latent"


def _indexed(config: Config, layers: Count) -> Count | None:
    """Layers with an indexer of their own: the others reuse the choice of an earlier one (GlmMoeDsaConfig in transformers)."""
    if config.part.get("layer_types") is not None:
        words = dict.fromkeys(("deepseek_sparse_attention", "indexed_attention", "full_attention", "attention"), "mla")
        config.per_layer("layer_types", words, layers)
    if config.has("indexer_types"):
        kinds = config.per_layer("indexer_types", {"full": "full", "shared": "shared"}, layers)
        return some(layers, kinds, "full", "indexer_types")
    pattern = config.part.get("index_topk_pattern")
    if pattern is not None:
        config.refuse("index_topk_pattern", "a pattern of indexers; expected indexer_types, which lists them")
    every = config.find("index_topk_freq")
    if every is None or every.value == 1:
        return layers
    offset = config.part.get("index_skip_topk_offset", 2)
    if isinstance(offset, bool) or not isinstance(offset, int):
        config.refuse("index_skip_topk_offset", "not a whole number; expected one")
    kinds = ["full" if max(layer - offset + 1, 0) % every.value == 0 else "shared" for layer in range(layers.value)]
    return some(layers, kinds, "full", every.read_from)


def longcat(config: Config) -> Layers:
    """Each of ``num_layers`` layers attends twice (LongcatFlashConfig: its num_hidden_layers is twice num_layers)."""
    layers = config.layers(LAYERS[-1])
    hidden = config.find(LAYERS[0])
    if hidden is not None and hidden.value not in (layers.value, 2 * layers.value):
        config.refuse(LAYERS[0], f"{hidden.value}, and {layers.read_from}; expected as many, or twice as many")
    twice = Count(2 * layers.value, f"two attentions in each of {layers.read_from}")
    return Layers.of(latent(config, twice), heads_that_do_not_count(config))
