"""The KV cache shape of a model from its ``config.json``, where it is one number of bytes per token: plain attention in every layer.

Anything else (a latent, a window, layers of several kinds, a cache that layers share, an encoder) is refused with the key that says so.
Nothing is guessed: a family that is not known to be plain is refused too, and so is a key that is missing where its family has a
default of its own.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pipelines.declarations.model_families import GATED_FAMILIES, MHA_FAMILIES, OWN_HEAD_DIM, PLAIN_FAMILIES
from pipelines.declarations.problems import DeclarationProblems, Problem, Where, show, show_path
from pipelines.declarations.text import read_text

BY_HAND = "declare the shape by hand with --layers, --kv-heads and --head-dim"
"""What to do with a model whose shape cannot be read."""

_EXPECTED = "a model's config.json"
_SECTIONS = ("text_config", "language_config", "llm_config")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
_NESTED_KV_HEADS = ("attn_config", "kv_n_heads")
_HEAD_DIM = ("head_dim", "kv_channels", "attention_head_dim")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "hidden_dim")
_INNER = ("intermediate_size", "ffn_hidden_size", "n_inner", "inner_hidden_size", "ffn_dim")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_EXPERTS_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k")
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")

_Says = Callable[[Any], bool]


def _set(value: Any) -> bool:
    return value not in (None, False, 0, [], {}, "")


def _any_but(plain: set[object]) -> _Says:
    """Whether a list has an entry that does not stand for full attention."""
    return lambda value: (
        isinstance(value, list) and any(isinstance(one, list | dict) or one not in plain for one in value)
    )


_NOT_PLAIN: tuple[tuple[str, _Says, str], ...] = (
    ("is_encoder_decoder", _set, "an encoder beside the decoder"),
    ("encoder_layers", _set, "an encoder beside the decoder"),
    ("num_decoder_layers", _set, "an encoder beside the decoder"),
    ("kv_lora_rank", _set, "one latent per token in place of keys and values (MLA)"),
    ("qk_rope_head_dim", _set, "one latent per token in place of keys and values (MLA)"),
    ("layers_block_type", _set, "layers of several kinds"),
    ("hybrid_override_pattern", _set, "layers of several kinds"),
    ("layer_types", _any_but({"full_attention", "attention"}), "layers that are not all full attention"),
    ("block_types", _any_but({"full_attention", "attention"}), "layers that are not all full attention"),
    ("attn_type_list", _any_but({1}), "layers that are not all full attention"),
    ("attention_types", _set, "layers of several kinds"),
    ("attn_layer_period", _set, "layers of several kinds"),
    ("attn_layer_indices", _set, "layers of several kinds"),
    ("full_attention_interval", _set, "layers that are not all full attention"),
    ("full_attn_idxs", _set, "layers that are not all full attention"),
    ("linear_attn_config", _set, "linear attention"),
    ("linear_num_key_heads", _set, "linear attention"),
    ("mamba_d_state", _set, "state-space layers"),
    ("mamba_num_heads", _set, "state-space layers"),
    ("ssm_state_size", _set, "state-space layers"),
    ("ssm_cfg", _set, "state-space layers"),
    ("lru_width", _set, "recurrent layers"),
    ("attention_chunk_size", _set, "attention within chunks"),
    ("sliding_window", _set, "a sliding window"),
    ("sliding_window_size", _set, "a sliding window"),
    ("sliding_window_pattern", _set, "a sliding window"),
    ("attention_window_size", _set, "a sliding window"),
    ("local_attention", _set, "a sliding window"),
    ("use_sliding_window", _set, "a sliding window"),
    ("compress_ratios", _set, "a compressed cache"),
    ("cross_attention_layers", _set, "layers that attend to an image, not to the text"),
    ("add_cross_attention", _set, "attention to an encoder"),
    ("num_kv_shared_layers", _set, "layers that share one cache"),
    ("use_cla", _set, "layers that share one cache"),
    ("num_global_key_value_heads", _set, "layers with different numbers of KV heads"),
    ("global_head_dim", _set, "layers with different head dimensions"),
    ("v_head_dim", _set, "values of another size than keys"),
    ("block_configs", _set, "layers that differ from each other"),
)
"""Keys that say that the cache is not 2 x layers x KV heads x head dimension per token, when they do, and what they mean."""

_WINDOW = frozenset({"sliding_window", "sliding_window_size"})
_NOTED = (("sparse_attention_config", "an index cache for sparse attention is not counted: engines differ in it"),)


@dataclass(frozen=True)
class ModelShape:
    """What the KV cache of a token is made of, and how the shape was read."""

    layers: int
    kv_heads: int
    head_dim: int
    read_from: tuple[str, ...]
    """Keys and values, as in ``num_hidden_layers 32``."""

    notes: tuple[str, ...] = ()
    attention_heads: int | None = None
    context_tokens: int | None = None
    parameters: int | None = None
    """All weights, where the file allows to count them."""

    active_parameters: int | None = None
    """Those that one token passes through: fewer with experts."""


def read_model_shape(file: Path) -> ModelShape:
    """The shape of the model that ``file`` describes; DeclarationProblems with file, line and column where it cannot be told."""
    return _Config.read(file).shape()


@dataclass(frozen=True)
class _Config:
    """A config.json: its values, where its keys stand, and the section that describes the language model."""

    file: str
    value: Mapping[str, Any]
    places: Mapping[Where, tuple[int, int]]
    section: Where

    @classmethod
    def read(cls, file: Path) -> "_Config":
        text = read_text(file, _EXPECTED)
        if isinstance(text, Problem):
            raise DeclarationProblems([text])
        value = _parsed(str(file), text)
        places = dict(_key_places(text))
        whole = cls(str(file), value, places, ())
        return cls(str(file), value, places, whole.language_section())

    def language_section(self) -> Where:
        """The one nested section with the language model in it; the file itself where there is none."""
        nested = [name for name in _SECTIONS if isinstance(self.value.get(name), dict)]
        if len(nested) > 1:
            self.refuse((nested[1],), f"a second language model beside {nested[0]}; expected one")
        return (nested[0],) if nested else ()

    def shape(self) -> ModelShape:
        self.check_plain()
        self.check_family()
        layers_key, layers = self.one_count(_LAYERS, "the number of layers")
        heads_key, heads = self.one_count(_HEADS, "the number of attention heads")
        kv_heads, kv_from = self.kv_heads(heads_key, heads)
        head_dim, dim_from = self.head_dim(heads_key, heads)
        total, active = _parameters(self.part, self.family, layers, heads, kv_heads, head_dim)
        context = self.optional(_CONTEXT)
        return ModelShape(
            layers=layers,
            kv_heads=kv_heads,
            head_dim=head_dim,
            read_from=(f"{layers_key} {layers}", kv_from, dim_from),
            notes=tuple(note for key, note in _NOTED if _set(self.part.get(key))),
            attention_heads=heads,
            context_tokens=context[1] if context else None,
            parameters=total,
            active_parameters=active,
        )

    @property
    def part(self) -> Mapping[str, Any]:
        """The section of the language model."""
        part = self.value
        for name in self.section:
            part = part[str(name)]
        return part

    @property
    def family(self) -> str | None:
        """The model_type of the language model; that of the file where its section has none."""
        named = self.part.get("model_type") or self.value.get("model_type")
        return named if isinstance(named, str) else None

    def check_plain(self) -> None:
        """Refuse what has another kind of cache, by the first key that says so."""
        for where in dict.fromkeys((self.section, ())):
            part = self.part if where == self.section else self.value
            windows_off = part.get("use_sliding_window") is False
            for key, says, meaning in _NOT_PLAIN:
                if says(part.get(key)) and not (windows_off and key in _WINDOW):
                    found = f"{_shown(part[key])}: {meaning}, so its KV cache is not 2 x layers x KV heads x head dimension per token"
                    self.refuse((*where, key), f"{found}; expected a model with full attention in every layer")

    def check_family(self) -> None:
        """Refuse a family that is not known to have full attention in every layer.

        A file that names no family must leave nothing out, since what is left out has a meaning of the family's own.
        """
        if self.family is None:
            for names in (_LAYERS, _HEADS, _KV_HEADS, _HEAD_DIM):
                if self.optional(names) is None:
                    self.missing(names[0], "it, or the model_type whose default it takes")
        elif self.family not in PLAIN_FAMILIES:
            found = f"{show(self.family)} is not a family that is known to have full attention in every layer"
            where = self.section if "model_type" in self.part else ()
            self.refuse((*where, "model_type"), f"{found}; expected one that is")

    def kv_heads(self, heads_key: str, heads: int) -> tuple[int, str]:
        """KV heads, and where they were read: one where all queries share one, all where the family knows no groups."""
        if self.part.get("multi_query") is True and self.part.get("new_decoder_architecture") is not True:
            return 1, "multi_query true"
        if self.family == "gpt_bigcode" and "multi_query" not in self.part:
            self.missing("multi_query", "whether all heads share one key and value")
        found = self.optional(_KV_HEADS)
        nested = self.part.get(_NESTED_KV_HEADS[0])
        if isinstance(nested, dict) and _NESTED_KV_HEADS[1] in nested:
            kv_heads = self.count((*self.section, *_NESTED_KV_HEADS), nested[_NESTED_KV_HEADS[1]])
            if found and found[1] != kv_heads:
                self.refuse(
                    (*self.section, *_NESTED_KV_HEADS), f"{kv_heads}, and {found[0]} is {found[1]}; expected one"
                )
            found = (".".join(_NESTED_KV_HEADS), kv_heads)
        if found is None:
            said_null = any(key in self.part for key in _KV_HEADS)
            if not said_null and self.family not in MHA_FAMILIES and self.part.get("multi_query") is not False:
                self.missing(_KV_HEADS[0], "the number of KV heads")
            return heads, f"{heads_key} {heads}, each with its own key and value"
        if heads % found[1]:
            self.refuse(
                (*self.section, found[0]), f"{found[1]} KV heads for {heads} attention heads; expected a divisor"
            )
        return found[1], f"{found[0]} {found[1]}"

    def head_dim(self, heads_key: str, heads: int) -> tuple[int, str]:
        """The head dimension, or hidden size over heads where the family has it so."""
        found = self.optional(_HEAD_DIM)
        if found:
            return found[1], f"{found[0]} {found[1]}"
        if self.family in OWN_HEAD_DIM and not any(key in self.part for key in _HEAD_DIM):
            self.missing(_HEAD_DIM[0], f"the head dimension, which {self.family} does not derive from the hidden size")
        hidden_key, hidden = self.one_count(_HIDDEN, "the hidden size")
        if hidden % heads:
            found_text = f"{hidden} is not a multiple of {heads_key} {heads}, and there is no head_dim; expected one"
            self.refuse((*self.section, hidden_key), found_text)
        return hidden // heads, f"{hidden_key} {hidden} over {heads_key} {heads}"

    def one_count(self, names: tuple[str, ...], what: str) -> tuple[str, int]:
        """The value under the one of ``names`` that is there."""
        found = self.optional(names)
        if found is None:
            self.missing(names[0], what)
        return found

    def optional(self, names: tuple[str, ...]) -> tuple[str, int] | None:
        """The value under any of ``names``; refused where two of them differ."""
        found = [
            (name, self.count((*self.section, name), self.part[name]))
            for name in names
            if self.part.get(name) is not None
        ]
        for name, value in found[1:]:
            if value != found[0][1]:
                self.refuse(
                    (*self.section, name), f"{value}, and {found[0][0]} is {found[0][1]}; expected one number for both"
                )
        return found[0] if found else None

    def count(self, where: Where, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
            self.refuse(where, f"{show(value)} is not a whole number above 0; expected one")
        return value

    def missing(self, name: str, what: str) -> NoReturn:
        self.refuse((*self.section, name), f"missing; expected {what}")

    def refuse(self, where: Where, message: str) -> NoReturn:
        """The problem at a key; at the mapping around it where the key is missing."""
        near = where
        while near and near not in self.places:
            near = near[:-1]
        line, column = self.places.get(near, (1, 1))
        raise DeclarationProblems([Problem(self.file, line, column, show_path(where), message, BY_HAND)])


def _shown(value: object) -> str:
    """A value in few words."""
    if isinstance(value, list):
        others = [
            one for one in value if one not in ("full_attention", "attention", 1) and not isinstance(one, list | dict)
        ]
        return f"a list with {show(others[0])}" if others else "a list"
    return show(value)


class _TwiceError(ValueError):
    """A key that is written twice in one object."""


def _parsed(file: str, text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        found = f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}; expected {_EXPECTED}"
        raise DeclarationProblems([Problem(file, error.lineno, error.colno, "", found)]) from None
    except _TwiceError as error:
        key = str(error)
        twice = [place for where, place in _key_places(text) if where[-1] == key]
        line, column = twice[1] if len(twice) > 1 else (1, 1)
        found = "the key is written twice; expected it once"
        raise DeclarationProblems([Problem(file, line, column, show_path((key,)), found)]) from None
    except (RecursionError, ValueError):
        raise DeclarationProblems([Problem(file, 1, 1, "", f"cannot be read as JSON; expected {_EXPECTED}")]) from None
    if not isinstance(value, dict):
        raise DeclarationProblems([Problem(file, 1, 1, "", f"{show(value)}; expected {_EXPECTED}: one object")])
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _TwiceError(next(key for key in keys if keys.count(key) > 1))
    return value


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


def _key_places(text: str) -> Iterator[tuple[Where, tuple[int, int]]]:
    """Line and column, from 1, of every key of a JSON text that is known to be valid."""
    path: list[str | int] = []
    inside: list[str] = []
    line, line_start, seen = 1, 0, 0
    key: str | None = None
    for token in _TOKEN.finditer(text):
        word, start = token.group(), token.start()
        line += text.count("\n", seen, start)
        line_start = text.rfind("\n", 0, start) + 1
        seen = start
        if word in "{[":
            if inside:
                path.append(key if inside[-1] == "{" and key is not None else 0)
            inside.append(word)
            key = None
        elif word in "}]":
            inside.pop()
            key = None
            if inside:
                path.pop()
        elif word == ",":
            key = None
        elif word.startswith('"') and inside and inside[-1] == "{" and key is None:
            key = json.loads(word)
            yield (*path, key), (line, start - line_start + 1)


def _parameters(
    part: Mapping[str, Any], family: str | None, layers: int, heads: int, kv_heads: int, head_dim: int
) -> tuple[int | None, int | None]:
    """Weights of the matrices in all layers and of the embeddings: all of them, and those that one token passes through.

    None where the sizes are not in the file. Norms and biases are left out: less than a thousandth.
    """
    hidden, vocabulary = _first(part, _HIDDEN), _first(part, ("vocab_size",))
    if family is None or hidden is None or vocabulary is None:
        return None, None
    attention = 2 * hidden * head_dim * (heads + kv_heads)
    embeddings = vocabulary * hidden * (1 if part.get("tie_word_embeddings") is True else 2)
    matrices = 3 if family in GATED_FAMILIES else 2
    experts, per_token = _first(part, _EXPERTS), _first(part, _EXPERTS_PER_TOKEN)
    inner = _first(part, _INNER)
    if experts is not None and experts > 1:
        inner = _first(part, ("moe_intermediate_size",)) or inner
        if inner is None or per_token is None:
            return None, None
        shared = (_first(part, ("n_shared_experts",)) or 0) * inner
        one = matrices * hidden
        dense = layers * attention + embeddings
        return dense + layers * one * (experts * inner + shared), dense + layers * one * (per_token * inner + shared)
    if inner is None:
        if matrices == 3:
            return None, None
        inner = 4 * hidden
    total = layers * (attention + matrices * hidden * inner) + embeddings
    return total, total


def _first(part: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The first of ``names`` that is a whole number above 0."""
    values = (part.get(name) for name in names)
    return next(
        (value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0), None
    )
