"""What reading a model's ``config.json`` yields: the shape of its KV cache, with the key that each factor came from."""

from dataclasses import dataclass

from pipelines.declarations.cache import CacheLayers, CacheShape


@dataclass(frozen=True)
class Factor:
    """One number of the shape and where it stands in the file.

    ``read_from`` is as in ``text_config.num_key_value_heads 8`` or ``hidden_size 4096 over num_attention_heads 32``.
    """

    name: str
    value: int
    read_from: str


@dataclass(frozen=True)
class ReadLayers:
    """Layers that keep the same, in words, and the factors of what they keep."""

    layers: CacheLayers
    meaning: str
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class LayersWithout:
    """``layers`` that keep nothing of their own, and why: they use another layer's cache, or do not attend."""

    layers: int
    meaning: str
    read_from: str


@dataclass(frozen=True)
class ModelCache:
    """The KV cache of the model that a file describes, and what else the file says about the model."""

    family: str | None
    parts: tuple[ReadLayers, ...]
    without: tuple[LayersWithout, ...] = ()
    notes: tuple[str, ...] = ()
    attention_heads: int | None = None
    context_tokens: int | None = None
    parameters: int | None = None
    """All weights, where the file allows to count them."""

    active_parameters: int | None = None
    """Those that one token passes through: fewer with experts."""

    has_experts: bool = False
    """Whether a token passes through some of the weights only."""

    @property
    def shape(self) -> CacheShape:
        """The shape alone."""
        return tuple(part.layers for part in self.parts)
