"""The part of a config.json that describes the language model: its numbers, each with the key behind it, and refusals with a place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn

from pipelines.declarations.problems import DeclarationProblems, Problem, Where, plain, show, show_path

BY_HAND = "declare the shape by hand: phaseledger kv --shape, or model.cache in a cohort (docs/kv.md)"
"""What to do with a model whose shape cannot be read."""

MAX_COUNT = 2**31 - 1
MAX_LAYERS = 100_000

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups")
HEAD_DIM = ("head_dim", "kv_channels", "attention_head_dim")
HIDDEN = ("hidden_size", "n_embd", "d_model", "hidden_dim", "n_embed")
CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "context_length",
    "model_max_length",
    "max_target_positions",
)
PREDICTED = ("num_nextn_predict_layers",)
"""Layers that draft further tokens stand beside the model: their cache is not counted."""

_EXTENDING = ("yarn", "linear", "dynamic")
"""Scalings of positions that go beyond the context which the file states; others state the scaled one."""

_IN_EVERY_FILE = frozenset({*LAYERS, *HEADS, *HIDDEN})
"""Keys that transformers writes in every file: only inside another model's section does it leave those out that equal the default."""


class Count(NamedTuple):
    """A number and the key, or the keys, that it was read from."""

    value: int
    read_from: str


def counted(entries: Sequence[Any]) -> str:
    """``1 entry`` or ``2 entries``."""
    return f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"


@dataclass(frozen=True)
class Config:
    """A section of a config.json. ``where`` leads to it, ``part`` is what is in it, ``defaults`` are its class's."""

    file: str
    places: Mapping[Where, tuple[int, int]]
    where: Where
    part: Mapping[str, Any]
    family: str | None = None
    defaults: Mapping[str, int | None] = field(default_factory=dict)
    whole_file: Mapping[str, Any] = field(default_factory=dict)

    def beside(self, name: str) -> "Config | None":
        """The mapping under ``name`` at the top of the file; None where there is none."""
        part = self.whole_file.get(name)
        return replace(self, where=(name,), part=part, defaults={}) if isinstance(part, dict) else None

    def section(self, name: str) -> "Config":
        """The mapping under ``name``, with the same family and defaults."""
        part = self.part.get(name)
        if not isinstance(part, dict):
            if name not in self.part:
                self.missing(name, "a mapping")
            self.refuse(name, f"{show(part)} is not a mapping; expected one")
        return replace(self, where=(*self.where, name), part=part)

    def has(self, *names: str) -> bool:
        """Whether any of ``names`` says something."""
        return any(self.part.get(name) is not None for name in names)

    def find(self, *names: str) -> Count | None:
        """The whole number under any of ``names``; None where all are missing or null; refused where two of them differ."""
        found = [(name, self.whole(name, self.part[name])) for name in names if self.part.get(name) is not None]
        for name, value in found[1:]:
            if value != found[0][1]:
                self.refuse(name, f"{value}, and {found[0][0]} is {found[0][1]}; expected one number for both")
        return Count(found[0][1], f"{self.shown(found[0][0])} {found[0][1]}") if found else None

    def first(self, *names: str) -> Count | None:
        """The first whole number above 0 under ``names``, where nothing depends on it: what is odd is passed over."""
        for name in names:
            value = self.part.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT:
                return Count(value, f"{self.shown(name)} {value}")
        return None

    def longest_context(self) -> Count | None:
        """Tokens that no sequence of the model exceeds; None where the file states none, or scales it by an amount of its own."""
        scaling = self.part.get("rope_scaling")
        if isinstance(scaling, dict) and (scaling.get("rope_type") or scaling.get("type")) in _EXTENDING:
            return None
        for name in CONTEXT:
            if self.part.get(name) is not None:
                value = self.whole(name, self.part[name])
                return Count(value, f"{self.shown(name)} {value}")
        return None

    def get(self, *names: str, what: str) -> Count:
        """As :meth:`find`; else the default of the class; else a refusal that names the first of ``names``."""
        found = self.find(*names)
        if found is None:
            found = self.default(names)
        if found is None:
            self.missing(names[0], what)
        return found

    def default(self, names: Sequence[str]) -> Count | None:
        """What the class takes where the file leaves all of ``names`` out."""
        if any(name in self.part for name in names):
            return None
        nested = bool(self.where) and self.where[-1] != "model_config"
        for name in names:
            value = self.defaults.get(name)
            if value is not None and (nested or name not in _IN_EVERY_FILE):
                return Count(value, f"{name} {value}, default of model_type {self.family}")
        return None

    def layers(self, *names: str) -> Count:
        """The number of layers."""
        names = names or LAYERS
        found = self.get(*names, what="the number of layers")
        if found.value > MAX_LAYERS:
            key = next((name for name in names if self.part.get(name) is not None), names[0])
            self.refuse(key, f"{found.value} layers; expected at most {MAX_LAYERS:,}")
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value; ``default`` where the file leaves it out or says null."""
        value = self.part.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(name, f"{show(value)}; expected true or false")
        return value

    def entries(self, name: str) -> list[Any]:
        """The list under ``name``."""
        value = self.part.get(name)
        if not isinstance(value, list):
            if name not in self.part:
                self.missing(name, "a list with an entry for each layer")
            self.refuse(name, f"{show(value)} is not a list; expected one")
        return value

    def positions(self, name: str, layers: Count, first: int = 0) -> set[int]:
        """Layers by their numbers, counted from ``first`` in the file and from 0 in the answer."""
        found: set[int] = set()
        for entry in self.entries(name):
            if isinstance(entry, bool) or not isinstance(entry, int) or not first <= entry < layers.value + first:
                self.refuse(name, f"{show(entry)} is not a layer; expected {first} to {layers.value - 1 + first}")
            if entry - first in found:
                self.refuse(name, f"layer {entry} is listed twice; expected it once")
            found.add(entry - first)
        return found

    def per_layer(self, name: str, words: Mapping[Any, str], layers: Count) -> list[str]:
        """What each layer is, in our words; entries beyond the model's layers are those of its draft layers."""
        entries = self.entries(name)
        drafts = self.part.get(PREDICTED[0])
        if isinstance(drafts, int) and not isinstance(drafts, bool) and len(entries) == layers.value + drafts:
            entries = entries[: layers.value]
        if len(entries) != layers.value:
            found = f"{counted(entries)}, and {layers.read_from}; expected one for each layer"
            self.refuse(name, found)
        for position, entry in enumerate(entries):
            if isinstance(entry, bool) or not isinstance(entry, str | int) or entry not in words:
                known = ", ".join(plain(word) for word in words)
                self.refuse(name, f"{show(entry)} at layer {position} cannot be counted; expected {known}")
        return [words[entry] for entry in entries]

    def whole(self, name: str, value: object) -> int:
        """``value`` as a whole number from 1 to 2**31 - 1; a refusal at ``name`` otherwise."""
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
            self.refuse(name, f"{show(value)} is not a whole number from 1 to {MAX_COUNT}; expected one")
        return value

    def shown(self, name: str) -> str:
        """The path of a key, as people say it."""
        return show_path((*self.where, name))

    def missing(self, name: str, what: str) -> NoReturn:
        """Refuse for a key that is not there, or says null."""
        found = "null" if name in self.part else "missing"
        self.refuse(name, f"{found}; expected {what}")

    def refuse(self, name: str | None, message: str, hint: str = BY_HAND) -> NoReturn:
        """The problem at a key of this section; at the mapping around it where the key is missing."""
        where = self.where if name is None else (*self.where, name)
        near = where
        while near and near not in self.places:
            near = near[:-1]
        line, column = self.places.get(near, (1, 1))
        raise DeclarationProblems([Problem(self.file, line, column, show_path(where), message, hint)])
