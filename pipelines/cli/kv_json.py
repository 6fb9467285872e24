"""What ``phaseledger kv`` found as one JSON object; docs/kv.md documents every key."""

from typing import Any

from pipelines.arithmetic.kv import head_bytes
from pipelines.arithmetic.kv_report import Figures
from pipelines.cli.kv_formula import Formula
from pipelines.cli.kv_found import Found
from pipelines.cli.kv_numbers import number


def as_json(found: Found) -> dict[str, Any]:
    """Flat: figures of one copy at the top, those of a rank and of all ranks below."""
    asked, formulas = found.asked, found.formulas
    windows = found.report.copy.cache.windows
    return {
        "file": found.file,
        "family": found.model.family,
        "shape": found.shape,
        "kv_dtype": found.kv_dtype,
        "tensor_parallel": found.tensor_parallel,
        "tokens": asked.tokens,
        "encoder_tokens": found.encoder_tokens,
        "block_tokens": asked.block_tokens if found.in_blocks else None,
        "memory_bytes": asked.memory,
        "context_tokens": found.model.context_tokens,
        **_figures(found, found.report.copy),
        "window_tokens": windows[0].tokens if len(windows) == 1 else None,
        "cross_tokens": found.report.copy.cache.cross_tokens,
        "tokens_that_fit": found.report.tokens_that_fit,
        "sequences_that_fit": found.report.sequences_that_fit,
        "per_rank": _figures(found, found.report.rank),
        "all_ranks": _figures(found, found.report.ranks),
        "layers": [_layers(one) for one in formulas],
        "layers_without": [vars(one) for one in found.model.without],
        "formula": [_formula(one) for one in formulas],
        "notes": found.notes,
    }


def _figures(found: Found, figures: Figures) -> dict[str, Any]:
    shown: dict[str, Any] = {name: number(value) for name, value in found.values(figures).items()}
    windows = figures.cache.windows
    shown["windows"] = [{"tokens": one.tokens, "bytes_per_token": number(one.bytes_per_token)} for one in windows]
    return shown


def _layers(one: Formula) -> dict[str, Any]:
    layers = one.part.layers
    return {
        "kind": layers.kind,
        "meaning": one.part.meaning,
        "layers": layers.layers,
        "heads": layers.heads,
        "first": layers.first,
        "second": layers.second,
        "tokens": layers.tokens,
        "per": one.per,
        "bytes_per_head": number(head_bytes(layers, one.kv_dtype)),
        "bytes_per_layer": number(one.layer_bytes),
        "bytes": number(one.bytes),
    }


def _formula(one: Formula) -> dict[str, Any]:
    return {
        "kind": one.part.layers.kind,
        "meaning": one.part.meaning,
        "text": one.text,
        "factors": [{"name": name, "value": number(value), "read_from": source} for name, value, source in one.factors],
        "bytes": number(one.bytes),
        "per": one.per,
    }
