"""KV heads and their dimensions where layers attend with keys and values: MHA, MQA and GQA."""

from pipelines.declarations.model_configs.config import HEAD_DIM, HEADS, HIDDEN, KV_HEADS, Config, Count
from pipelines.declarations.model_configs.kept import Heads, Layers, full
from pipelines.declarations.problems import show

_NESTED = ("attn_config", "kv_n_heads")


def plain(config: Config) -> Layers:
    """Full attention in every layer."""
    layers = config.layers()
    return Layers.of(full(config, layers, heads(config)))


def attention_heads(config: Config) -> Count:
    """Query heads of a layer."""
    return config.get(*HEADS, what="the number of attention heads")


def heads(config: Config, dims: tuple[str, ...] = HEAD_DIM) -> Heads:
    """KV heads, and the elements of a key, as many as of a value."""
    queries = attention_heads(config)
    size = head_dim(config, queries, dims)
    return Heads(kv_heads(config, queries), size, size)


def kv_heads(config: Config, queries: Count) -> Count:
    """KV heads: as many as query heads where the file says null, or where the class knows no groups."""
    found = config.find(*KV_HEADS) or config.default(KV_HEADS)
    if found is None:
        said_null = any(name in config.part for name in KV_HEADS)
        if not said_null and not any(name in config.defaults for name in KV_HEADS):
            config.missing(KV_HEADS[0], "the number of KV heads")
        return Count(queries.value, f"{queries.read_from}, each with its own key and value")
    return divided(config, queries, found, KV_HEADS)


def divided(config: Config, queries: Count, found: Count, names: tuple[str, ...]) -> Count:
    """``found`` KV heads; refused where they do not divide the query heads."""
    if queries.value % found.value:
        key = next((name for name in names if config.part.get(name) is not None), names[0])
        config.refuse(
            key, f"{found.value} KV heads for {queries.value} attention heads; expected a divisor of that number"
        )
    return found


def head_dim(config: Config, queries: Count, names: tuple[str, ...] = HEAD_DIM) -> Count:
    """Elements of a key: the key of that name, the default of the class, or hidden size over query heads."""
    found = config.find(*names) or config.default(names)
    if found is not None:
        return found
    own = next((name for name in names if config.defaults.get(name) is not None), None)
    if own:
        config.missing(own, f"a number: {config.family} does not derive it from the hidden size")
    hidden = config.get(*HIDDEN, what="the hidden size")
    return over(config, hidden, queries, HIDDEN)


def over(config: Config, size: Count, queries: Count, names: tuple[str, ...]) -> Count:
    """``size`` over ``queries``; refused where that is not a whole number."""
    if size.value % queries.value:
        key = next((name for name in names if config.part.get(name) is not None), names[0])
        config.refuse(
            key, f"{size.value} is not a multiple of {queries.read_from}, and there is no head_dim; expected one"
        )
    return Count(size.value // queries.value, f"{size.read_from} over {queries.read_from}")


def falcon(config: Config) -> Layers:
    """One KV head with ``multi_query``, unless the new decoder architecture counts them (FalconAttention in transformers)."""
    layers, queries = config.layers(), attention_heads(config)
    size = head_dim(config, queries)
    if config.flag("multi_query", default=True) and not config.flag("new_decoder_architecture"):
        count = Count(1, _multi_query(config))
    else:
        count = kv_heads(config, queries)
    return Layers.of(full(config, layers, Heads(count, size, size)))


def gpt_bigcode(config: Config) -> Layers:
    """One KV head with ``multi_query``, as many as query heads without (GPTBigCodeAttention in transformers)."""
    layers, queries = config.layers(), attention_heads(config)
    size = head_dim(config, queries)
    count = Count(queries.value, f"multi_query false, {queries.read_from}")
    if config.flag("multi_query", default=True):
        count = Count(1, _multi_query(config))
    return Layers.of(full(config, layers, Heads(count, size, size)))


def _multi_query(config: Config) -> str:
    return "multi_query true" + ("" if config.has("multi_query") else f", default of model_type {config.family}")


def chatglm(config: Config) -> Layers:
    """``multi_query_group_num`` counts only with ``multi_query_attention`` (SelfAttention of the ChatGLM2 to GLM-4 repositories)."""
    layers, queries = config.layers(), attention_heads(config)
    size = head_dim(config, queries)
    count = Count(queries.value, f"{queries.read_from}, each with its own key and value")
    if config.flag("multi_query_attention"):
        found = config.get("multi_query_group_num", what="the number of KV heads")
        count = divided(config, queries, found, ("multi_query_group_num",))
    return Layers.of(full(config, layers, Heads(count, size, size)))


def dbrx(config: Config) -> Layers:
    """KV heads in ``attn_config`` (DbrxAttentionConfig in transformers)."""
    layers, queries = config.layers(), attention_heads(config)
    found = config.section(_NESTED[0]).get(_NESTED[1], what="the number of KV heads")
    same = config.find(*KV_HEADS)
    if same is not None and same.value != found.value:
        key = next(name for name in KV_HEADS if config.has(name))
        config.refuse(key, f"{same.value}, and {found.read_from}; expected one number for both")
    size = head_dim(config, queries)
    count = divided(config.section(_NESTED[0]), queries, found, (_NESTED[1],))
    return Layers.of(full(config, layers, Heads(count, size, size)))


def mpt(config: Config) -> Layers:
    """Multi-head attention; another kind in ``attn_config`` is not read (MptAttentionConfig in transformers)."""
    layers, queries = config.layers(), attention_heads(config)
    inner = config.section(_NESTED[0]) if config.has(_NESTED[0]) else config
    kind = inner.part.get("attn_type", "multihead_attention")
    if kind != "multihead_attention":
        inner.refuse("attn_type", f"{show(kind)}; expected multihead_attention")
    size = over(config, config.get(*HIDDEN, what="the hidden size"), queries, HIDDEN)
    return Layers.of(full(config, layers, Heads(queries, size, size)))
