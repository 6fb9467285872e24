"""The cache of a cohort's model: as three counts, by hand as kinds of layers, or from its ``config.json``."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pipelines.declarations.cache import CacheLayers, CacheShape, plain_shape
from pipelines.declarations.documents import Document, whole
from pipelines.declarations.kv_dtypes import NAMES, PACKED_LATENT, kv_dtype
from pipelines.declarations.model_configs import read_model_cache
from pipelines.declarations.problems import DeclarationProblems, Problem, did_you_mean, show
from pipelines.declarations.units import QuantityError

PLAIN = ("layers", "kv_heads", "head_dim")

_KEYS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "full": (("kv_heads", "head_dim"), ("value_dim",)),
    "window": (("kv_heads", "head_dim", "window_tokens"), ("value_dim",)),
    "latent": (("latent_dim", "rope_dim"), ()),
    "index": (("index_dim", "scale_bytes"), ()),
    "state": (("heads", "elements_per_head"), ("convolution_elements",)),
}
"""By kind of layers: the keys that it needs beside ``layers``, and those that it may have."""

_LARGEST = {"layers": 999_999, "kv_heads": 999_999, "heads": 999_999, "window_tokens": 9_999_999_999}
_LARGEST_ELEMENTS = 999_999_999
"""What the text of a shape has room for: more is no model."""


def model_problems(document: Document, directory: Path, *, readable: bool) -> Iterator[Problem]:
    """What is wrong with the shape and the KV dtype, as far as they are written; a config.json is read where it is ``readable``."""
    if not isinstance(document.get("model"), dict):
        return
    yield from _one_way(document)
    yield from _dtype(document)
    yield from _kinds(document)
    if not readable:
        return
    shape: CacheShape | None = None
    try:
        shape = model_shape(document, directory)
    except DeclarationProblems as refused:
        yield from refused.problems
    if shape is not None:
        yield from _unplanned(document, shape)


def model_shape(document: Document, directory: Path) -> CacheShape | None:
    """The declared shape; None where it is not well formed. DeclarationProblems where a config.json cannot be read as one."""
    config, kinds = document.get("model.config"), document.get("model.cache")
    if isinstance(config, str) and config.strip():
        read: CacheShape = read_model_cache(directory / config).shape
        return read
    if isinstance(kinds, list):
        parts = [_layers(item) for item in kinds]
        return tuple(part for part in parts if part is not None) if parts and None not in parts else None
    counts = [whole(document.get(f"model.{name}")) for name in PLAIN]
    return plain_shape(*(count for count in counts if count)) if all(counts) else None


def _one_way(document: Document) -> Iterator[Problem]:
    """The three ways exclude each other."""
    plain = [name for name in PLAIN if document.has(f"model.{name}")]
    ways = [name for name in ("config", "cache") if document.has(f"model.{name}")]
    expected = "expected layers, kv_heads and head_dim, or config, or cache: one of the three"
    if not plain and not ways:
        yield document.problem("model", f"no shape of the KV cache; {expected}", on="key")
    for way in ways[1:] if not plain else ways:
        beside = ", ".join(plain) or ways[0]
        yield document.problem(f"model.{way}", f"declared beside {beside}; {expected}", on="key")
    if plain and not ways:
        for name in PLAIN:
            if name not in plain:
                yield document.problem(f"model.{name}", "missing; this key is required")


def _dtype(document: Document) -> Iterator[Problem]:
    raw = document.get("model.kv_dtype")
    if raw is None or raw in NAMES:
        return
    try:
        name = kv_dtype(raw)
    except QuantityError as error:
        yield document.problem("model.kv_dtype", error.message, error.hint)
    else:
        message = f"{show(raw)} is another name; expected one of {', '.join(NAMES)}"
        yield document.problem("model.kv_dtype", message, f"write {name}")


def _kinds(document: Document) -> Iterator[Problem]:
    """Each kind of layers has its own keys."""
    kinds = document.get("model.cache")
    for place, item in enumerate(kinds if isinstance(kinds, list) else []):
        if isinstance(item, dict) and item.get("kind") in _KEYS:
            yield from _keys_of_kind(document, ("model", "cache", place), item)


def _keys_of_kind(document: Document, where: tuple[str | int, ...], item: Mapping[str, object]) -> Iterator[Problem]:
    kind = str(item["kind"])
    needed, allowed = _KEYS[kind]
    for key in needed:
        if key not in item:
            yield document.problem((*where, key), f"missing; layers of the kind {kind} need it")
    for key in item:
        if key in ("kind", "layers", *needed, *allowed) or not any(key in (*a, *b) for a, b in _KEYS.values()):
            continue
        own = [name for name in (*needed, *allowed) if name not in item]
        message = f"is not of layers of the kind {kind}; expected {', '.join(('layers', *needed, *allowed))}"
        yield document.problem((*where, key), message, did_you_mean(key, own), on="key")
    if kind == "state" and item.get("elements_per_head") == 0 and not item.get("convolution_elements"):
        yield document.problem(where, "a state of no elements; expected a recurrent or a convolution state, or both")
    for key, value in item.items():
        largest, count = _LARGEST.get(key, _LARGEST_ELEMENTS), whole(value)
        if count is not None and count > largest:
            yield document.problem((*where, key), f"{count} is more than any model has; expected at most {largest}")


def _layers(item: object) -> CacheLayers | None:
    """One kind of layers; None where it is not well formed."""
    if not isinstance(item, dict) or item.get("kind") not in _KEYS:
        return None
    kind = item["kind"]
    needed, allowed = _KEYS[kind]
    counts = {key: whole(item.get(key)) for key in ("layers", *needed)}
    least = dict.fromkeys(("elements_per_head", "rope_dim", "scale_bytes"), 0)
    if any(count is None or count < least.get(key, 1) for key, count in counts.items()):
        return None
    if set(item) - {"kind", *counts, *allowed}:
        return None
    read = {key: count for key, count in counts.items() if count is not None}
    if kind in ("full", "window"):
        value_dim = whole(item.get("value_dim", read["head_dim"]))
        if value_dim is None or value_dim < 0:
            return None
        return CacheLayers(
            kind, read["layers"], read["kv_heads"], read["head_dim"], value_dim, read.get("window_tokens")
        )
    if kind == "state":
        convolution = whole(item.get("convolution_elements", 0))
        if convolution is None or convolution < 0 or not convolution + read["elements_per_head"]:
            return None
        return CacheLayers(kind, read["layers"], read["heads"], read["elements_per_head"], convolution)
    first, second = needed
    return CacheLayers(kind, read["layers"], 1, read[first], read[second])


def _unplanned(document: Document, shape: CacheShape) -> Iterator[Problem]:
    """Shapes that can be counted but not planned with."""
    way = next((f"model.{name}" for name in ("config", "cache") if document.has(f"model.{name}")), "model")
    if any(part.kind == "cross" for part in shape):
        message = (
            "a model whose layers attend to an encoder or an image, which is not planned; expected a decoder of text"
        )
        yield document.problem(way, message, "phaseledger kv shows what it keeps")
    if document.get("model.kv_dtype") == PACKED_LATENT and not any(part.kind == "latent" for part in shape):
        message = f"{PACKED_LATENT} is a layout of a latent, which this model does not have"
        yield document.problem("model.kv_dtype", f"{message}; expected one of {', '.join(NAMES[:-1])}")
    without_tokens = all(part.kind == "state" for part in shape)
    if document.has("inventory.kv_tokens_per_worker") and without_tokens:
        message = "tokens of a model that keeps no tokens; expected kv_memory_per_worker"
        yield document.problem("inventory.kv_tokens_per_worker", message, on="key")
