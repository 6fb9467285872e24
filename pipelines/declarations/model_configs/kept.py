"""Layers that keep the same, built from the numbers of a config.json."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pipelines.declarations.cache import CacheKind, CacheLayers, cache_shape
from pipelines.declarations.model_cache import Factor, LayersWithout, ReadLayers
from pipelines.declarations.model_configs.config import Config, Count

ORDER: tuple[CacheKind, ...] = ("full", "latent", "index", "window", "state", "cross")

KEYS_AND_VALUES = "keys and values of every token"
ONE_LATENT = "one latent of keys and values per token (MLA)"
OF_ENCODER = "keys and values of every position of the encoder"
ONE_INDEX = "an index vector per token for sparse attention"


def of_last(tokens: int) -> str:
    """What layers with a window keep."""
    return f"keys and values of the last {tokens:,} {'token' if tokens == 1 else 'tokens'}"


@dataclass(frozen=True)
class Heads:
    """What one layer keeps of a token: ``count`` KV heads of ``key`` and ``value`` elements."""

    count: Count
    key: Count
    value: Count


@dataclass(frozen=True)
class Layers:
    """All layers of a model: those that keep something, those that do not, and what else a reader should know."""

    parts: tuple[ReadLayers, ...]
    without: tuple[LayersWithout, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, *found: "ReadLayers | LayersWithout | str | None") -> "Layers":
        """Parts, layers without and notes, in any order; what is None is left out."""
        parts = [part for part in found if isinstance(part, ReadLayers)]
        parts.sort(key=lambda part: ORDER.index(part.layers.kind))
        return cls(
            tuple(parts),
            tuple(part for part in found if isinstance(part, LayersWithout)),
            tuple(part for part in found if isinstance(part, str)),
        )

    def with_notes(self, notes: Iterable[str]) -> "Layers":
        """The same, with ``notes`` after its own."""
        return replace(self, notes=(*self.notes, *notes))


def some(layers: Count, kinds: list[str], kind: str, key: str) -> Count | None:
    """How many of the layers are of one kind, as ``key`` has it; None where none is."""
    number = kinds.count(kind)
    if not number:
        return None
    if number == layers.value:
        return layers
    return Count(number, f"{key}: {number} of {layers.value}")


def one(why: str) -> Count:
    """A single head."""
    return Count(1, why)


def keeping(
    config: Config,
    kind: CacheKind,
    layers: Count | None,
    heads: Count,
    first: Count,
    second: Count,
    meaning: str,
    tokens: Count | None = None,
) -> ReadLayers | None:
    """``layers`` that keep the same; None where there are none."""
    if layers is None:
        return None
    kept = CacheLayers(
        kind, layers.value, heads.value, first.value, second.value, tokens.value if tokens is not None else None
    )
    try:
        cache_shape(str(kept))
    except ValueError:
        config.refuse(None, f"{kept} is larger than any model; expected fewer heads, or fewer elements")
    factors = [("layers", layers), ("heads", heads), ("first", first), ("second", second)]
    if tokens is not None:
        factors.append(("tokens", tokens))
    return ReadLayers(kept, meaning, tuple(Factor(name, count.value, count.read_from) for name, count in factors))


def full(config: Config, layers: Count | None, heads: Heads) -> ReadLayers | None:
    """Layers that keep a key and a value for every token and KV head."""
    return keeping(config, "full", layers, heads.count, heads.key, heads.value, KEYS_AND_VALUES)


def window(config: Config, layers: Count | None, heads: Heads, tokens: Count) -> ReadLayers | None:
    """Layers that keep the keys and values of the last ``tokens`` tokens: of every token, where no context is longer."""
    context = config.longest_context()
    if context and tokens.value >= context.value:
        meaning = f"{KEYS_AND_VALUES}: the window of {tokens.value:,} is no shorter than the context"
        return keeping(config, "full", layers, heads.count, heads.key, heads.value, meaning)
    return keeping(config, "window", layers, heads.count, heads.key, heads.value, of_last(tokens.value), tokens)


def nothing(layers: Count | None, meaning: str) -> LayersWithout | None:
    """``layers`` that keep nothing of their own; None where there are none."""
    return None if layers is None else LayersWithout(layers.value, meaning, layers.read_from)
