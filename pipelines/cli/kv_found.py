"""What ``phaseledger kv`` found: the model, what was asked, the figures by name, and what is to be known beside them."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from pipelines.arithmetic.kv_report import Asked, Figures, Report, once_bytes
from pipelines.cli.kv_formula import Formula
from pipelines.declarations.cache import CacheKind, CacheShape, shape_text
from pipelines.declarations.kv_dtypes import PACKED_LATENT
from pipelines.declarations.model_cache import Factor, ModelCache, ReadLayers
from pipelines.declarations.model_configs.kept import KEYS_AND_VALUES, OF_ENCODER, ONE_INDEX, ONE_LATENT, of_last

MEANINGS: dict[CacheKind, str] = {
    "full": KEYS_AND_VALUES,
    "latent": ONE_LATENT,
    "index": ONE_INDEX,
    "state": "a recurrent state",
    "cross": OF_ENCODER,
}
"""The words that a file of such layers is read with; those of a window depend on its length."""
BY_HAND = "--shape"


@dataclass(frozen=True)
class Found:
    """All that is printed, whatever the format."""

    file: str | None
    """None where the shape was written by hand."""

    model: ModelCache
    kv_dtype: str
    tensor_parallel: int
    asked: Asked
    encoder_tokens: int | None
    """Positions of an encoder; None where the model has none, or where nobody said how many."""

    in_blocks: bool
    report: Report

    @property
    def shape(self) -> str:
        """The shape of the cache in one line."""
        return shape_text(self.model.shape)

    @property
    def formulas(self) -> list[Formula]:
        """One per kind of layers, of one copy."""
        return [Formula(part, self.kv_dtype) for part in self.model.parts]

    def values(self, figures: Figures) -> dict[str, Fraction | None]:
        """Figures by the name that they have in JSON; None where they were not asked for."""
        cache = figures.cache
        return {
            "kv_bytes_per_token": cache.attention,
            "index_bytes_per_token": cache.index,
            "window_bytes_per_token": cache.window,
            "state_bytes_per_sequence": cache.state,
            "cross_bytes_per_encoder_token": cache.cross,
            "allocated_bytes_per_token": cache.allocated,
            "kv_bytes": figures.kv_bytes,
            "kv_bytes_in_blocks": figures.kv_bytes_in_blocks if self.in_blocks else None,
            "allocated_bytes": figures.allocated_bytes,
            "allocated_bytes_in_blocks": figures.allocated_bytes_in_blocks if self.in_blocks else None,
        }

    @property
    def once_bytes(self) -> Fraction:
        """Bytes that all ranks keep of a sequence however many tokens it has."""
        return once_bytes(self.report.ranks.cache, self.asked)

    @property
    def notes(self) -> list[str]:
        """Notes of the file, then those that the figures need."""
        return [*self.model.notes, *_dtype_notes(self), *_rank_notes(self), *_length_notes(self)]


def model_by_hand(shape: CacheShape) -> ModelCache:
    """A cache that no file describes: every number of it stands in --shape."""
    parts = []
    for layers in shape:
        numbers = {"layers": layers.layers, "heads": layers.heads, "first": layers.first, "second": layers.second}
        if layers.tokens is not None:
            numbers["tokens"] = layers.tokens
        factors = tuple(Factor(name, value, BY_HAND) for name, value in numbers.items())
        meaning = of_last(layers.tokens or 0) if layers.kind == "window" else MEANINGS[layers.kind]
        parts.append(ReadLayers(layers, meaning, factors))
    return ModelCache(None, tuple(parts))


def _dtype_notes(found: Found) -> Iterator[str]:
    kinds = {layers.kind for layers in found.model.shape}
    if found.kv_dtype == "fp4":
        yield "scales of fp4 blocks are not counted; nvfp4 keeps 1 byte per 16 elements, an eighth more"
    if found.kv_dtype == PACKED_LATENT and kinds & {"full", "window", "cross"}:
        yield f"{PACKED_LATENT} packs a latent; keys and values of other layers are counted as fp8"
    if "state" in kinds:
        yield "a recurrent state is counted in fp32 and a convolution state in 16 bits, whatever the data type of the cache"


def _rank_notes(found: Found) -> Iterator[str]:
    """What ranks hold more than once, and where they do not hold alike."""
    ranks = found.tensor_parallel
    if ranks == 1:
        return
    by_heads: dict[int, list[str]] = {}
    for kind, heads in dict.fromkeys((layers.kind, layers.heads) for layers in found.model.shape):
        if kind in ("latent", "index"):
            name = "a latent" if kind == "latent" else "an index"
            yield f"{name} is shared by all heads: each of the {ranks:,} ranks keeps all of it"
        else:
            by_heads.setdefault(heads, []).append(kind)
    for heads, kinds in by_heads.items():
        named = (
            f"{heads:,} {'head' if kinds == ['state'] else 'KV head'}{'' if heads == 1 else 's'} ({', '.join(kinds)})"
        )
        if heads < ranks:
            each = f"{ranks // heads:,}" if ranks % heads == 0 else f"{ranks // heads:,} or {ranks // heads + 1:,}"
            yield f"{named} on {ranks:,} ranks: each is kept {each} times"
        elif heads % ranks:
            most = f"the rank with the most ({-(-heads // ranks):,}) is shown, and all ranks are counted like it"
            yield f"{named} do not divide by {ranks:,} ranks: {most}"


def _length_notes(found: Found) -> Iterator[str]:
    asked, cache = found.asked, found.report.copy.cache
    context = found.model.context_tokens
    if asked.tokens is not None and context is not None and asked.tokens > context:
        yield f"{asked.tokens:,} {'token is' if asked.tokens == 1 else 'tokens are'} more than the model's context of {context:,}"
    if cache.cross and found.encoder_tokens is None:
        yield "tokens of the prompt are positions of the encoder, which are not counted without --encoder-tokens"
    if asked.memory is None:
        return
    if not cache.allocated:
        yield "no layer keeps anything per token: sequences fit, whatever their length"
    elif found.once_bytes:
        kept = " and ".join(
            ["state"] * bool(cache.state) + ["encoder positions"] * bool(cache.cross and asked.encoder_tokens)
        )
        yield f"tokens that fit are those of a single sequence, beside its {kept}: each further sequence keeps its own"
