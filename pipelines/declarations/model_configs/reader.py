"""A model's config.json as the shape of its KV cache."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from pipelines.declarations.cache import shape_text
from pipelines.declarations.model_cache import ModelCache
from pipelines.declarations.model_configs.config import CONTEXT, HEAD_DIM, HEADS, KV_HEADS, LAYERS, MAX_COUNT, Config
from pipelines.declarations.model_configs.defaults import DEFAULTS
from pipelines.declarations.model_configs.families import FAMILIES, TEXT_OF, UNGATED
from pipelines.declarations.model_configs.json_text import EXPECTED, key_places, parsed
from pipelines.declarations.model_configs.kept import Layers
from pipelines.declarations.model_configs.latent import INDEX_SCALE_BYTES, INDEX_SCALE_ELEMENTS
from pipelines.declarations.model_configs.parameters import has_experts, weights
from pipelines.declarations.model_configs.special import check_special
from pipelines.declarations.problems import DeclarationProblems, Problem, Where, show
from pipelines.declarations.text import read_text

_SECTIONS = ("model_config", "thinker_config", "text_config", "language_config", "llm_config")
_FIELDS = (LAYERS, HEADS, KV_HEADS, HEAD_DIM)
_DRAFTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "num_mtp_layers")
_DEFAULT = re.compile(r"([\w.]+ [\w.]+), default of")
_QUANTIZED = ("kv_cache_scheme", "kv_cache_quant_algo")


def read_model_cache(file: Path) -> ModelCache:
    """The cache of the model that ``file`` describes; DeclarationProblems with file, line and column where it cannot be told.

    Sizes are in elements (docs/kv.md): data types of weights are not read, and one of the cache that the file states is a note.
    """
    text = read_text(file, EXPECTED)
    if isinstance(text, Problem):
        raise DeclarationProblems([text])
    value = parsed(str(file), text)
    whole = Config(str(file), dict(key_places(text)), (), value, whole_file=value)
    config = _language_model(whole)
    family = FAMILIES.get(config.family or "")
    known = family.keys if family else frozenset[str]()
    for part in dict.fromkeys((config.where, ())):
        check_special(config if part else _of_family(whole, config.family, ()), known)
    if family is None:
        _refuse_unknown(config)
    read = family.read(config)
    if not read.parts:
        config.refuse(None, "no layer keeps anything; expected a model with a KV cache or a state")
    return _model_cache(config, read)


def _language_model(whole: Config) -> Config:
    """The innermost section that describes the language model, with its family and the defaults of its class."""
    where: Where = ()
    part: Mapping[str, Any] = whole.part
    named: object = part.get("model_type")
    while nested := [name for name in _SECTIONS if isinstance(part.get(name), dict)]:
        if len(nested) > 1:
            found = f"a second language model beside {nested[0]}; expected one"
            _of_family(whole, None, where).refuse(nested[1], found)
        _check_sizes(whole, where, part, nested[0])
        part, where = part[nested[0]], (*where, nested[0])
        outer = named if isinstance(named, str) else ""
        inner = outer if nested[0] == "model_config" else TEXT_OF.get(outer)
        named = part.get("model_type") or inner
    if named is not None and not isinstance(named, str):
        Config(whole.file, whole.places, where, part).refuse("model_type", f"{show(named)}; expected text")
    defaults = DEFAULTS.get(named or "", {})
    return Config(whole.file, whole.places, where, part, named or None, defaults, whole.part)


def _check_sizes(whole: Config, where: Where, part: Mapping[str, Any], section: str) -> None:
    """Refuse a section of a language model whose sizes stand beside it: one of the two is not what it seems."""
    inside = part[section]
    nested = any(isinstance(inside.get(name), dict) for name in _SECTIONS)
    outside = next((name for name in LAYERS if part.get(name) is not None), None)
    if outside is not None and not nested and all(inside.get(name) is None for name in LAYERS):
        found = f"{outside} {show(part[outside])} stands outside of it; expected the sizes of the language model in one place"
        _of_family(Config(whole.file, whole.places, where, part), None, where).refuse(section, found)


def _of_family(whole: Config, family: str | None, where: Where) -> Config:
    return Config(whole.file, whole.places, where, whole.part, family)


def _refuse_unknown(config: Config) -> NoReturn:
    """Refuse a family whose cache is not known, with what the file lacks of what it would need."""
    lacking = ", ".join(names[0] for names in _FIELDS if not config.has(*names))
    if config.family is None and isinstance(config.part.get("quantization"), dict):
        found = f"describes a quantization, not a model; expected {EXPECTED}"
        config.refuse("quantization", found, "give the config.json beside it")
    says = f"; the file lacks {lacking}" if lacking else "; keys of its own may change the cache"
    if config.family is None:
        config.refuse("model_type", f"missing{says if lacking else ''}; expected the family of the model")
    config.refuse(
        "model_type", f"{show(config.family)} is not a family whose cache is known{says}; expected one that is"
    )


def _model_cache(config: Config, read: Layers) -> ModelCache:
    attends = any(part.layers.kind != "state" for part in read.parts)
    inner = Config(config.file, config.places, config.where, _decoder(config))
    heads = (inner.first("decoder_attention_heads", *HEADS) or config.default(HEADS)) if attends else None
    context = inner.first(*CONTEXT)
    count = heads.value if heads else None
    total, active = weights(config, read, count, is_gated=config.family not in UNGATED)
    return ModelCache(
        family=config.family,
        parts=read.parts,
        without=read.without,
        notes=(*read.notes, *_notes(config, read)),
        attention_heads=count,
        context_tokens=context.value if context else None,
        parameters=total,
        active_parameters=active,
        has_experts=has_experts(config),
    )


def _decoder(config: Config) -> Mapping[str, Any]:
    decoder = config.part.get("decoder")
    return decoder if isinstance(decoder, dict) else config.part


def _notes(config: Config, read: Layers) -> Iterator[str]:
    """What the file says beside the shape, and what it leaves to its class."""
    taken = dict.fromkeys(
        name for part in read.parts for factor in part.factors for name in _DEFAULT.findall(factor.read_from)
    )
    if taken:
        yield f"not in the file, and taken from the class: {', '.join(taken)}"
    drafts = config.first(*_DRAFTS)
    if drafts:
        yield f"layers that draft further tokens are not counted: {drafts.read_from}"
    if config.part.get("sparse_attention_config"):
        differ = "an index cache for sparse attention (sparse_attention_config) is not counted: engines differ in it"
        yield differ + _index_by_hand(config, read)
    for part in dict.fromkeys((config.where, ())):
        outer = config.part if part else config.whole_file
        for name, stated in _quantized_cache(outer.get("quantization_config")):
            served = "--kv-dtype (model.kv_dtype in a cohort) says what is served"
            yield f"the file states a quantized KV cache (quantization_config.{name} {stated}): {served}"


def _index_by_hand(config: Config, read: Layers) -> str:
    """How to count the index that ``sparse_attention_config`` describes; nothing where it does not say how many layers have one."""
    sparse = config.part["sparse_attention_config"]
    if not isinstance(sparse, dict):
        return ""
    layers, size = sparse.get("sparse_attention_freq"), sparse.get("sparse_index_dim")
    if not isinstance(layers, list) or not any(layers) or type(size) is not int or not 1 <= size <= MAX_COUNT:
        return ""
    have = sum(bool(layer) for layer in layers)
    shape = shape_text(tuple(part.layers for part in read.parts))
    scale = INDEX_SCALE_BYTES * -(-size // INDEX_SCALE_ELEMENTS)
    return (
        "; to count it, declare the shape by hand (--shape, or model.cache in a cohort) with an index beside it, "
        f"as in '{shape} index:{have}x{size}+{scale}' "
        f"(sparse_attention_freq: {have:,} of {len(layers):,} layers, sparse_index_dim {size:,}) "
        f"for one vector per token in fp8 with its scale, or index:{have}x{2 * size}+0 for one in 16 bits"
    )


def _quantized_cache(quantization: object) -> Iterator[tuple[str, str]]:
    if not isinstance(quantization, dict):
        return
    for name in _QUANTIZED:
        value = quantization.get(name)
        if isinstance(value, dict):
            yield name, f"{show(value.get('type'))} of {show(value.get('num_bits'))} bits"
        elif value is not None:
            yield name, show(value)
    for name, stated in _quantized_cache(quantization.get("quantization")):
        yield f"quantization.{name}", stated
