"""Families in which some layers keep a state, some attend, and some do neither."""

from collections.abc import Callable, Mapping

from pipelines.declarations.model_configs.attention import attention_heads, head_dim, heads, kv_heads
from pipelines.declarations.model_configs.config import HEAD_DIM, HIDDEN, Config, Count
from pipelines.declarations.model_configs.kept import Heads, Layers, full, nothing, some, window
from pipelines.declarations.model_configs.latent import heads_that_do_not_count, latent
from pipelines.declarations.model_configs.states import (
    BAMBA,
    LIGHTNING_WIDTH,
    MAMBA2,
    NEMOTRON,
    ZAMBA2,
    State,
    delta_attention,
    gated_delta,
    gated_recurrence,
    lightning,
    mamba1,
    mamba2,
    rwkv4,
    rwkv5,
    rwkv7,
    short_convolution,
)
from pipelines.declarations.problems import show

_STATE_WORDS: Mapping[object, str] = {
    "full_attention": "full",
    "attention": "full",
    "linear_attention": "state",
    "mamba": "state",
    "mamba2": "state",
    "conv": "state",
    "hybrid": "both",
}
_NO_CACHE = "feed-forward only: no attention and no state"


def _mixed(
    config: Config, layers: Count, kinds: list[str], key: str, same: Heads | None, state: State | None
) -> Layers:
    """Layers of the kinds ``full``, ``state``, ``both`` and ``none``; ``same`` and ``state`` may be left out where nothing needs them."""
    attend = some(layers, ["full" if kind in ("full", "both") else kind for kind in kinds], "full", key)
    recur = some(layers, ["state" if kind in ("state", "both") else kind for kind in kinds], "state", key)
    return Layers.of(
        full(config, attend, same) if same is not None else None,
        state.of(config, recur) if state is not None else None,
        nothing(some(layers, kinds, "none", key), _NO_CACHE),
    )


def delta_hybrid(config: Config) -> Layers:
    """Qwen3-Next, Qwen3.5, OLMo-hybrid: ``layer_types``, else of each ``full_attention_interval`` layers the last attends."""
    layers = config.layers()
    if config.has("layer_types"):
        kinds, key = config.per_layer("layer_types", _STATE_WORDS, layers), "layer_types"
    else:
        every = config.get("full_attention_interval", what="which layers attend, or layer_types")
        kinds = ["state" if (layer + 1) % every.value else "full" for layer in range(layers.value)]
        key = every.read_from
    return _mixed(config, layers, kinds, key, heads(config), gated_delta(config) if "state" in kinds else None)


def jamba(config: Config) -> Layers:
    """Layer i attends where i modulo ``attn_layer_period`` is ``attn_layer_offset`` (JambaConfig)."""
    layers = config.layers()
    kinds, key = _periodic(config, layers, "full")
    state = mamba1(config, "mamba_d_state", "mamba_d_conv", "mamba_expand")
    return _mixed(config, layers, kinds, key, heads(config), state)


def _periodic(config: Config, layers: Count, kind: str) -> tuple[list[str], str]:
    """Layers of ``kind`` where the layer modulo ``attn_layer_period`` is ``attn_layer_offset``, and the keys that say so."""
    period = config.get("attn_layer_period", what="how often a layer attends")
    offset = config.part.get("attn_layer_offset")
    if offset is None:
        config.missing("attn_layer_offset", "which layer of a period attends")
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset < period.value:
        config.refuse("attn_layer_offset", f"{show(offset)}; expected 0 to {period.value - 1}: {period.read_from}")
    kinds = [kind if layer % period.value == offset else "state" for layer in range(layers.value)]
    return kinds, f"{period.read_from}, attn_layer_offset {offset}"


def bamba(config: Config) -> Layers:
    """The layers of ``attn_layer_indices`` attend (BambaConfig)."""
    layers = config.layers()
    key = "attn_layer_indices"
    attend = config.positions(key, layers) if config.part.get(key) is not None else None
    if attend is None:
        config.missing(key, "the layers that attend")
    kinds = ["full" if layer in attend else "state" for layer in range(layers.value)]
    return _mixed(config, layers, kinds, key, heads(config), mamba2(config, BAMBA))


def granite_hybrid(config: Config) -> Layers:
    """``layer_types`` of ``mamba`` and ``attention`` (GraniteMoeHybridConfig)."""
    layers = config.layers()
    if config.part.get("layer_types") is None:
        config.missing("layer_types", "the kind of each layer")
    kinds = config.per_layer("layer_types", _STATE_WORDS, layers)
    state = mamba2(config, BAMBA) if "state" in kinds else None
    return _mixed(config, layers, kinds, "layer_types", heads(config), state)


def falcon_h1(config: Config) -> Layers:
    """Every layer attends and keeps a state (FalconH1DecoderLayer)."""
    layers = config.layers()
    return Layers.of(full(config, layers, heads(config)), mamba2(config, BAMBA).of(config, layers))


def nemotron_h(config: Config) -> Layers:
    """A letter or a word for each layer: Mamba-2, attention, or feed-forward, which keeps nothing (NemotronHConfig)."""
    key, words = "layers_block_type", {**_STATE_WORDS, "moe": "none", "mlp": "none"}
    part = dict(config.part)
    if part.get(key) is None and part.get("hybrid_override_pattern") is not None:
        key, words = "hybrid_override_pattern", {"M": "state", "*": "full", "-": "none", "E": "none"}
        if not isinstance(part[key], str):
            config.refuse(key, f"{show(part[key])}; expected a letter for each layer")
        part[key] = list(part[key])
    elif part.get(key) is None and part.get("layer_types") is not None:
        key = "layer_types"
    spelled = Config(config.file, config.places, config.where, part, config.family, config.defaults)
    entries = spelled.entries(key)
    if not entries:
        config.refuse(key, "no layers; expected some")
    layers = config.layers("num_hidden_layers") if config.has("num_hidden_layers") else None
    layers = layers or Count(config.whole(key, len(entries)), f"{key}: {len(entries)}")
    kinds = spelled.per_layer(key, words, layers)
    same = heads(config) if "full" in kinds else None
    return _mixed(config, layers, kinds, key, same, mamba2(config, NEMOTRON) if "state" in kinds else None)


def zamba2(config: Config) -> Layers:
    """A shared block attends before each ``hybrid`` layer and keeps a cache for each of its calls (Zamba2HybridLayer)."""
    layers = config.layers()
    if config.part.get("layers_block_type") is None:
        config.missing("layers_block_type", "the kind of each layer")
    kinds = config.per_layer("layers_block_type", _STATE_WORDS, layers)
    return _mixed(config, layers, kinds, "layers_block_type", _wide_heads(config), mamba2(config, ZAMBA2))


def zamba(config: Config) -> Layers:
    """As Zamba2, with Mamba-1 layers (ZambaConfig).

    Without ``layers_block_type`` the third layer is hybrid, and one of each period of the layers after it.
    """
    layers, key = config.layers(), "layers_block_type"
    if config.part.get(key) is not None:
        kinds = config.per_layer(key, _STATE_WORDS, layers)
    else:
        periodic, key = _periodic(config, layers, "both")
        kinds = ["state", "state", "both", *periodic][: layers.value]
    state = mamba1(config, "mamba_d_state", "mamba_d_conv", "mamba_expand")
    return _mixed(config, layers, kinds, key, _wide_heads(config), state)


def _wide_heads(config: Config) -> Heads:
    """Attention runs over the layer's input beside the model's: twice the hidden size over heads."""
    queries = attention_heads(config)
    size = config.find("attention_head_dim")
    if size is None:
        hidden = config.get(*HIDDEN, what="the hidden size")
        if 2 * hidden.value % queries.value:
            config.refuse(HIDDEN[0], f"twice {hidden.value} is not a multiple of {queries.read_from}; expected one")
        size = Count(2 * hidden.value // queries.value, f"2 x {hidden.read_from} over {queries.read_from}")
    return Heads(kv_heads(config, queries), size, size)


def lfm2(config: Config) -> Layers:
    """``layer_types`` of ``conv`` and ``full_attention``, or the layers of ``full_attn_idxs`` attend (Lfm2Config)."""
    layers = config.layers()
    if config.has("layer_types"):
        kinds, key = config.per_layer("layer_types", _STATE_WORDS, layers), "layer_types"
    elif config.has("full_attn_idxs"):
        attend, key = config.positions("full_attn_idxs", layers), "full_attn_idxs"
        kinds = ["full" if layer in attend else "state" for layer in range(layers.value)]
    else:
        config.missing("layer_types", "the kind of each layer")
    state = short_convolution(config) if "state" in kinds else None
    return _mixed(config, layers, kinds, key, heads(config), state)


def minimax(config: Config) -> Layers:
    """Lightning attention where ``attn_type_list`` is 0, or ``layer_types`` is linear (MiniMaxConfig in transformers)."""
    layers, queries = config.layers(), attention_heads(config)
    if config.has("layer_types"):
        kinds, key = config.per_layer("layer_types", _STATE_WORDS, layers), "layer_types"
    elif config.has("attn_type_list"):
        kinds, key = config.per_layer("attn_type_list", {0: "state", 1: "full"}, layers), "attn_type_list"
    else:
        config.missing("layer_types", "the kind of each layer, or attn_type_list")
    same = heads(config)
    state = lightning(queries, head_dim(config, queries, HEAD_DIM[:1]))
    read = _mixed(config, layers, kinds, key, same, state)
    return read.with_notes([LIGHTNING_WIDTH] if "state" in kinds else [])


def kimi_linear(config: Config) -> Layers:
    """Latent attention in ``full_attn_layers``, delta attention in ``kda_layers``, both counted from 1 (KimiLinearConfig)."""
    layers = config.layers()
    part = config.section("linear_attn_config")
    attend = part.positions("full_attn_layers", layers, first=1)
    recur = part.positions("kda_layers", layers, first=1)
    if attend & recur or len(attend | recur) != layers.value:
        found = f"{len(recur)} {'layer' if len(recur) == 1 else 'layers'} beside {len(attend)} full_attn_layers, and {layers.read_from}"
        part.refuse("kda_layers", f"{found}; expected each layer in one of them")
    kinds = ["full" if layer in attend else "state" for layer in range(layers.value)]
    return Layers.of(
        latent(config, some(layers, kinds, "full", "full_attn_layers")),
        delta_attention(config).of(config, some(layers, kinds, "state", "kda_layers")) if recur else None,
        heads_that_do_not_count(config) if attend else None,
    )


def recurrent_gemma(config: Config) -> Layers:
    """``block_types`` are repeated until there is one for each layer; attention is within a window (RecurrentGemmaConfig)."""
    layers = config.layers()
    blocks = config.entries("block_types")
    if not blocks:
        config.refuse("block_types", "no kinds of layers; expected some")
    words = {"recurrent": "state", "attention": "window"}
    cycle = config.per_layer("block_types", words, Count(len(blocks), f"block_types: {len(blocks)}"))
    kinds = [cycle[layer % len(cycle)] for layer in range(layers.value)]
    tokens = config.get("attention_window_size", what="the length of the window")
    return Layers.of(
        window(config, some(layers, kinds, "window", "block_types"), heads(config), tokens),
        gated_recurrence(config).of(config, some(layers, kinds, "state", "block_types")),
    )


def only_states(state: Callable[[Config], State]) -> Callable[[Config], Layers]:
    """A reader of a family without attention."""

    def read(config: Config) -> Layers:
        layers = config.layers()
        return Layers.of(state(config).of(config, layers))

    return read


def _mamba1(config: Config) -> State:
    inner = config.find("intermediate_size")
    state = mamba1(config, "state_size", "conv_kernel", "expand")
    if inner is not None and inner.value != state.heads.value:
        config.refuse("intermediate_size", f"{inner.value}, and {state.heads.read_from}; expected as many")
    return state


def _mamba2(config: Config) -> State:
    return mamba2(config, MAMBA2)


MAMBA_ONLY = only_states(_mamba1)
MAMBA2_ONLY = only_states(_mamba2)
RWKV4 = only_states(rwkv4)
RWKV5 = only_states(rwkv5)
RWKV7 = only_states(rwkv7)
