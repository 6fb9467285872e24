"""The state of one recurrent layer: elements per head, and of the layer's convolution, as vLLM keeps them (MambaStateShapeCalculator).

A convolution of width k keeps the last k - 1 columns of its channels.
"""

from dataclasses import dataclass

from pipelines.declarations.model_cache import ReadLayers
from pipelines.declarations.model_configs.config import HEADS, HIDDEN, Config, Count
from pipelines.declarations.model_configs.kept import keeping
from pipelines.declarations.problems import show


@dataclass(frozen=True)
class State:
    """``first`` elements for each of ``heads`` heads, and ``second`` of the whole layer's convolution."""

    heads: Count
    first: Count
    second: Count
    meaning: str

    def of(self, config: Config, layers: Count | None) -> ReadLayers | None:
        """``layers`` with this state; None where there are none."""
        return keeping(config, "state", layers, self.heads, self.first, self.second, self.meaning)


@dataclass(frozen=True)
class Mamba2Keys:
    """Under which names a family has the numbers of a Mamba-2 layer."""

    heads: str
    head_dim: str
    state: str
    groups: str
    kernel: str
    expand: str


BAMBA = Mamba2Keys("mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv", "mamba_expand")
NEMOTRON = Mamba2Keys("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel", "expand")
ZAMBA2 = Mamba2Keys("n_mamba_heads", "mamba_headdim", "mamba_d_state", "mamba_ngroups", "mamba_d_conv", "mamba_expand")
MAMBA2 = Mamba2Keys("num_heads", "head_dim", "state_size", "n_groups", "conv_kernel", "expand")


def _columns(kernel: Count, channels: int, said: str) -> Count:
    return Count((kernel.value - 1) * channels, f"{said}, {kernel.read_from} less 1 columns")


def mamba2(config: Config, keys: Mamba2Keys) -> State:
    """Heads of head dim x state size; the convolution runs over all heads and two vectors of state size per group (MambaMixer2).

    Nemotron-3-Super: 128 heads of 64 x 128, and 3 x (128 x 64 + 2 x 8 x 128) = 30,720.
    """
    heads = config.get(keys.heads, what="the number of Mamba heads")
    size = _mamba2_head_dim(config, keys, heads)
    state = config.get(keys.state, what="the size of the state")
    groups = config.get(keys.groups, what="the number of groups of the state's inputs")
    kernel = config.get(keys.kernel, what="the width of the convolution")
    channels = heads.value * size.value + 2 * groups.value * state.value
    said = f"{heads.read_from} x {size.read_from} + 2 x {groups.read_from} x {state.read_from} channels"
    first = Count(size.value * state.value, f"{size.read_from} x {state.read_from}")
    return State(heads, first, _columns(kernel, channels, said), "a Mamba-2 state")


def _mamba2_head_dim(config: Config, keys: Mamba2Keys, heads: Count) -> Count:
    """The key; where the file says ``auto`` or nothing, inner size over heads, the inner size being that of BambaConfig."""
    value = config.part.get(keys.head_dim)
    if value is not None and value != "auto":
        return Count(config.whole(keys.head_dim, value), f"{config.shown(keys.head_dim)} {value}")
    inner = config.find("mamba_d_ssm") or _inner(config, keys.expand)
    if inner.value % heads.value:
        config.refuse(keys.heads, f"{heads.value} heads do not divide {inner.read_from}; expected a divisor")
    return Count(inner.value // heads.value, f"{inner.read_from} over {heads.read_from}")


def _inner(config: Config, expand: str) -> Count:
    factor = config.get(expand, what="by how much a layer is wider than the model")
    hidden = config.get(*HIDDEN, what="the hidden size")
    return Count(factor.value * hidden.value, f"{factor.read_from} x {hidden.read_from}")


def mamba1(config: Config, state: str, kernel: str, expand: str) -> State:
    """Each channel is a head with a state of its own, and is in the convolution (MambaMixer)."""
    inner = _inner(config, expand)
    size = config.get(state, what="the size of the state")
    width = config.get(kernel, what="the width of the convolution")
    return State(inner, size, _columns(width, inner.value, f"{inner.read_from} channels"), "a Mamba state")


def gated_delta(config: Config) -> State:
    """Key dim x value dim per value head; the convolution runs over queries, keys and values (Qwen3NextGatedDeltaNet).

    Qwen3.5-27B: 48 heads of 128 x 128, and 3 x (2 x 16 x 128 + 48 x 128) = 30,720.
    """
    keys = config.get("linear_num_key_heads", what="the number of key heads")
    values = config.get("linear_num_value_heads", what="the number of value heads")
    key = config.get("linear_key_head_dim", what="the elements of a key")
    value = config.get("linear_value_head_dim", what="the elements of a value")
    kernel = config.get("linear_conv_kernel_dim", what="the width of the convolution")
    channels = 2 * keys.value * key.value + values.value * value.value
    said = f"2 x {keys.read_from} x {key.read_from} + {values.read_from} x {value.read_from} channels"
    first = Count(key.value * value.value, f"{key.read_from} x {value.read_from}")
    return State(values, first, _columns(kernel, channels, said), "a gated delta rule's state")


def delta_attention(config: Config) -> State:
    """Kimi delta attention: head dim squared per head, and a convolution each for queries, keys and values (KDA in vLLM)."""
    part = config.section("linear_attn_config")
    heads = part.get("num_heads", what="the number of heads")
    size = part.get("head_dim", what="the head dimension")
    kernel = part.get("short_conv_kernel_size", what="the width of the convolutions")
    channels = 3 * heads.value * size.value
    first = Count(size.value**2, f"{size.read_from} squared")
    said = f"3 x {heads.read_from} x {size.read_from} channels"
    return State(heads, first, _columns(kernel, channels, said), "a delta rule's state")


def lightning(heads: Count, size: Count) -> State:
    """Head dim squared per head (MiniMaxLightningAttention in transformers, MiniMaxText01LinearAttention in vLLM)."""
    none = Count(0, "no convolution")
    return State(heads, Count(size.value**2, f"{size.read_from} squared"), none, "a linear attention's state")


LIGHTNING_WIDTH = (
    "vLLM and transformers keep the state of lightning attention in the model's 16 bits, half of an fp32 state"
)


def gated_recurrence(config: Config) -> State:
    """One element per channel, the channels in as many blocks as heads (RecurrentGemmaRglru, RecurrentGemmaRecurrentBlock)."""
    heads = config.get(*HEADS, what="the number of attention heads")
    width = config.find("lru_width") or config.get(*HIDDEN, what="the hidden size")
    kernel = config.find("conv1d_width") or Count(4, f"conv1d_width 4, default of model_type {config.family}")
    if width.value % heads.value:
        config.refuse("lru_width", f"{width.value} is not a multiple of {heads.read_from}; expected one")
    first = Count(width.value // heads.value, f"{width.read_from} over {heads.read_from}")
    return State(
        heads, first, _columns(kernel, width.value, f"{width.read_from} channels"), "a gated recurrence's state"
    )


def short_convolution(config: Config) -> State:
    """A convolution over the hidden size, and no recurrent state (ShortConv in vLLM, Lfm2ShortConv in transformers)."""
    kernel = config.get("conv_L_cache", what="the width of the convolution")
    width = config.get(*HIDDEN, what="the hidden size")
    other = config.find("conv_dim")
    if other is not None and other.value != width.value:
        config.refuse("conv_dim", f"{other.value}, and {width.read_from}; expected as many")
    none = Count(0, "no recurrent state")
    second = _columns(kernel, width.value, f"{width.read_from} channels")
    return State(Count(width.value, f"channels: {width.read_from}"), none, second, "the end of a convolution's input")


def rwkv4(config: Config) -> State:
    """Three numbers per channel, and the last input of both halves of a layer (RwkvModel in transformers)."""
    hidden = config.get(*HIDDEN, what="the hidden size")
    width = config.find("attention_hidden_size") or hidden
    shift = Count(2 * hidden.value, f"2 x {hidden.read_from}")
    return State(width, Count(3, "numerator, denominator and maximum"), shift, "a state, and the last token's inputs")


def rwkv5(config: Config) -> State:
    """Head size squared per head, and the last input of both halves of a layer (Rwkv5Model, Rwkv6Model of the RWKV repositories)."""
    hidden = config.get(*HIDDEN, what="the hidden size")
    width = config.find("attention_hidden_size") or hidden
    size = config.get("head_size", what="the elements of a head")
    return _rwkv(config, hidden, width, size)


def rwkv7(config: Config) -> State:
    """As RWKV-6; the names are those of RWKV7Config of flash-linear-attention, whose layers may also attend: refused."""
    if config.part.get("attn") is not None:
        config.refuse("attn", f"{show(config.part['attn'])}: layers that attend; expected null")
    hidden = config.get(*HIDDEN, what="the hidden size")
    values = config.part.get("value_dim")
    wide = values if isinstance(values, list) else [values]
    if any(value is not None and value != hidden.value for value in wide):
        config.refuse("value_dim", f"{show(values)}, and {hidden.read_from}; expected as many")
    return _rwkv(config, hidden, hidden, config.get("head_dim", "head_size", what="the elements of a head"))


def _rwkv(config: Config, hidden: Count, width: Count, size: Count) -> State:
    if width.value % size.value:
        config.refuse(HIDDEN[0], f"{width.value} is not a multiple of {size.read_from}; expected one")
    heads = Count(width.value // size.value, f"{width.read_from} over {size.read_from}")
    shift = Count(2 * hidden.value, f"2 x {hidden.read_from}")
    first = Count(size.value**2, f"{size.read_from} squared")
    return State(heads, first, shift, "a state, and the last token's inputs")
