"""Keys that change what a cache is, for families that do not read them: what such a key means is said, and the file is refused."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from pipelines.declarations.model_configs.config import Config
from pipelines.declarations.problems import show

_Says = Callable[[Any], bool]


def is_set(value: Any) -> bool:
    """Whether a value switches something on."""
    return value not in (None, False, 0, [], {}, "")


def _but(*plain: object) -> _Says:
    """Whether a list has an entry that does not stand for full attention."""
    return lambda value: (
        isinstance(value, list) and any(isinstance(one, list | dict) or one not in plain for one in value)
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


NO_WINDOW = -1
"""What MLC writes as ``sliding_window_size`` of a model without a window."""

_MLA = "one latent per token in place of keys and values (MLA)"
_KINDS = "layers of several kinds"
_WINDOW = "a sliding window"
_STATE = "a state in place of keys and values"
_OTHER_HEADS = "layers with different KV heads"

COMPRESSED = "compress_ratios"
BY_EQUIVALENT = (
    "where the engine documents bytes per token, declare a shape that has as many: phaseledger kv --shape, "
    "or model.cache in a cohort (docs/kv.md)"
)
"""What to do with a cache that has no shape of its own."""

SPECIAL: Mapping[str, tuple[_Says, str]] = {
    COMPRESSED: (is_set, "layers that keep several tokens as one"),
    "is_encoder_decoder": (is_set, "an encoder beside the decoder"),
    "encoder_layers": (is_set, "an encoder beside the decoder"),
    "num_decoder_layers": (is_set, "an encoder beside the decoder"),
    "kv_lora_rank": (is_set, _MLA),
    "qk_rope_head_dim": (is_set, _MLA),
    "index_head_dim": (is_set, "an index of every token for sparse attention"),
    "layers_block_type": (is_set, _KINDS),
    "hybrid_override_pattern": (is_set, _KINDS),
    "hybrid_layer_pattern": (is_set, _KINDS),
    "layer_types": (_but("full_attention", "attention"), "layers that are not all full attention"),
    "block_types": (_but("full_attention", "attention"), "layers that are not all full attention"),
    "attn_type_list": (_but(1), "layers that are not all full attention"),
    "attention_types": (is_set, _KINDS),
    "attn_layer_period": (is_set, _KINDS),
    "attn_layer_indices": (is_set, _KINDS),
    "full_attention_interval": (is_set, "layers that are not all full attention"),
    "full_attn_idxs": (is_set, "layers that are not all full attention"),
    "linear_attn_config": (is_set, _STATE),
    "linear_num_key_heads": (is_set, _STATE),
    "mamba_d_state": (is_set, _STATE),
    "mamba_num_heads": (is_set, _STATE),
    "ssm_state_size": (is_set, _STATE),
    "state_size": (is_set, _STATE),
    "ssm_cfg": (is_set, _STATE),
    "lru_width": (is_set, _STATE),
    "conv_L_cache": (is_set, _STATE),
    "attention_chunk_size": (is_set, "attention within chunks"),
    "sliding_window": (is_set, _WINDOW),
    "sliding_window_size": (lambda value: is_set(value) and value != NO_WINDOW, _WINDOW),
    "sliding_window_pattern": (is_set, _WINDOW),
    "_sliding_window_pattern": (is_set, _WINDOW),
    "attention_window_size": (is_set, _WINDOW),
    "local_attention": (is_set, _WINDOW),
    "use_sliding_window": (is_set, _WINDOW),
    "cross_attention_layers": (is_set, "layers that attend to an image, not to the text"),
    "add_cross_attention": (is_set, "attention to an encoder"),
    "num_kv_shared_layers": (is_set, "layers that share one cache"),
    "use_cla": (is_set, "layers that share one cache"),
    "num_global_key_value_heads": (is_set, _OTHER_HEADS),
    "swa_num_key_value_heads": (is_set, _OTHER_HEADS),
    "global_head_dim": (is_set, "layers with different head dimensions"),
    "swa_head_dim": (is_set, "layers with different head dimensions"),
    "attention_other_setting": (is_set, _OTHER_HEADS),
    "num_key_value_heads_per_layer": (is_set, _OTHER_HEADS),
    "num_key_value_heads": (_is_list, _OTHER_HEADS),
    "num_kv_heads": (_is_list, _OTHER_HEADS),
    "v_head_dim": (is_set, "values of another size than keys"),
    "per_layer_config": (is_set, "layers that differ from each other"),
    "block_configs": (is_set, "layers that differ from each other"),
    "use_bidirectional_attention": (lambda value: value in (True, "all"), "attention in both directions"),
}
"""When a key says something that its family must read, and what it means."""

_SWITCHES: Mapping[str, frozenset[str]] = {
    "use_sliding_window": frozenset({"sliding_window", "sliding_window_size"}),
    "use_mla": frozenset({"kv_lora_rank", "qk_rope_head_dim", "v_head_dim"}),
}
"""Keys that say nothing where another key is false."""


def check_special(config: Config, read: frozenset[str]) -> None:
    """Refuse the first key that changes the cache and is not among those that the family reads."""
    off = {key for switch, keys in _SWITCHES.items() if config.part.get(switch) is False for key in keys}
    for key, (says, meaning) in SPECIAL.items():
        value = config.part.get(key)
        if key in read or not says(value) or key in off:
            continue
        if key == COMPRESSED:
            _refuse_compressed(config, value)
        config.refuse(
            key, f"{_shown(value)}: {meaning}; expected a model without it, or a model_type that is known to have it"
        )


def _refuse_compressed(config: Config, ratios: object) -> NoReturn:
    by = ""
    if isinstance(ratios, list) and all(isinstance(ratio, int) for ratio in ratios):
        by = f" by ratios of {', '.join(map(show, sorted(set(ratios))))}"
    found = f"bytes per token depend on the engine: layers keep several tokens as one{by}"
    config.refuse(COMPRESSED, f"{found}; expected a model without such layers", BY_EQUIVALENT)


def _shown(value: object) -> str:
    """A value in few words."""
    if isinstance(value, list):
        others = [one for one in value if not isinstance(one, list | dict) and one not in ("full_attention", 1)]
        return f"a list with {show(others[0])}" if others else "a list"
    return show(value)
