"""The text of a first cohort: what the log and the model say, and an assumption, marked as one, for everything else."""

import json
from dataclasses import dataclass
from typing import Any

from pipelines.arithmetic.kv import rank_cache_bytes
from pipelines.declarations.cache import CacheLayers, CacheShape

NS_PER_S = 10**9

GPU_MEMORY_BYTES = 80 * 10**9
USABLE_SHARE = 0.9
LEAST_KV_SHARE = 0.3
"""Of a worker's usable memory, what is left for the KV cache when GPUs per worker are chosen."""

WEIGHT_BYTES = 2
EFFECTIVE_FLOPS = 150e12
"""Operations per second that one GPU is assumed to sustain in prefill."""

EFFECTIVE_BYTES_PER_S = 1.5e12
"""Bytes per second that one GPU is assumed to read from its memory in a decode step."""

ASSUMED_PARAMETERS = 8 * 10**9
ASSUMED_RATE = "1/s"


@dataclass(frozen=True)
class Shape:
    """A model as the cohort declares it; parameters and attention heads None where nobody said."""

    name: str
    cache: CacheShape
    kv_dtype: str
    note: str
    attention_heads: int | None = None
    parameters: int | None = None
    active_parameters: int | None = None
    parameters_from: str = ""
    context_tokens: int | None = None

    def growth_bytes_of_rank(self, ranks: int) -> float:
        """What one more token of context adds to the cache of one of ``ranks``, and a decode step to what that reads."""
        return float(rank_cache_bytes(self.cache, self.kv_dtype, ranks).growth)


def plain_counts(cache: CacheShape) -> tuple[int, int, int] | None:
    """Layers, KV heads and head dimension of a model with full attention in every layer; None for any other."""
    if len(cache) != 1 or cache[0].kind != "full" or cache[0].first != cache[0].second:
        return None
    return cache[0].layers, cache[0].heads, cache[0].first


@dataclass(frozen=True)
class LogFacts:
    """What a log says that its cohort repeats."""

    file: str
    format: str
    note: str
    comments: tuple[str, ...]
    edges: tuple[int, ...]
    columns: dict[str, str] | None = None
    lengths: str | None = None
    context_tokens: int | None = None
    turn_time_ns: int | None = None
    turn_time_per_output_token_ns: int | None = None
    invalid: str | None = None
    tick_ns: int | None = None
    without_rate: str | None = None
    hit_ratio: float | None = None


@dataclass(frozen=True)
class Inventory:
    """GPUs, GPUs of one worker, and what its memory has left for the KV cache."""

    gpus: int
    gpus_per_worker: int
    kv_bytes: float

    @property
    def workers(self) -> int:
        """Whole workers."""
        return self.gpus // self.gpus_per_worker


def weight_bytes(shape: Shape) -> int:
    """Bytes of all weights, at the assumed size of one."""
    return WEIGHT_BYTES * (shape.parameters or ASSUMED_PARAMETERS)


def inventory(shape: Shape, gpus: int) -> Inventory | None:
    """Workers of as few GPUs as hold the weights and a fair KV cache: a power of two, or all; None where all do not hold the weights."""
    sizes = [1 << power for power in range(gpus.bit_length()) if 1 << power <= gpus]
    sizes += [] if sizes[-1] == gpus else [gpus]
    usable = {size: USABLE_SHARE * GPU_MEMORY_BYTES * size for size in sizes}
    left = {size: usable[size] - weight_bytes(shape) for size in sizes}
    fitting = [size for size in sizes if left[size] >= LEAST_KV_SHARE * usable[size]] or [
        size for size in sizes[-1:] if left[size] > 0
    ]
    return Inventory(gpus, fitting[0], left[fitting[0]]) if fitting else None


def cohort_yaml(name: str, title: str, log: LogFacts, shape: Shape, stock: Inventory) -> str:
    """The whole file."""
    return (
        "\n".join([*_head(name, title), *_requests(log), *_model(shape, stock), *_service(shape, stock), *_rest(stock)])
        + "\n"
    )


def _head(name: str, title: str) -> list[str]:
    return [
        "# A first cohort, written by phaseledger init. It plans as it stands, but most of its figures are assumptions:",
        "# every note that begins with ASSUMED says how to measure the figure. Replace them; a decision is worth what they are worth.",
        "# docs/formats.md describes every key.",
        "apiVersion: phaseledger/v1",
        "kind: Cohort",
        "metadata:",
        f"  name: {name}",
        f"  title: {_text(title)}",
    ]


def _requests(log: LogFacts) -> list[str]:
    lines = ["requests:"]
    lines += [f"  # {comment}" for comment in log.comments]
    lines += ["  trace:", f"    file: {_text(log.file)}", f"    format: {log.format}"]
    if log.columns:
        lines.append(
            f"    columns: {{{', '.join(f'{role}: {_text(column)}' for role, column in log.columns.items())}}}"
        )
    if log.lengths:
        lines.append(f"    lengths: {_text(log.lengths)}")
    if log.invalid:
        lines.append(f"    on_invalid: drop            # {log.invalid}; reject would refuse the log")
    if log.context_tokens:
        lines.append(f"    context_tokens: {log.context_tokens}")
    for key in ("turn_time", "turn_time_per_output_token"):
        value = getattr(log, f"{key}_ns")
        if value is not None:
            lines.append(f"    {key}: {duration(value)}")
    if log.tick_ns is not None and log.without_rate is None:
        lines.append("    # Many requests share their timestamps. If they came one after the other, not at once:")
        lines.append(f"    # spread_ties: {duration(log.tick_ns)}")
    lines += [
        "    provenance: supplied          # observed, with a source, if it was recorded in front of the stack that will serve",
        f"    note: {_text(log.note)}",
        f"  bucket_edges_tokens: [{', '.join(map(str, log.edges))}]"
        + ("   # quarters of the requests by prompt length" if log.edges else "   # one prompt length, one bucket"),
    ]
    if log.hit_ratio is not None:
        lines += [
            f"  # The log has block hashes: an unlimited cache would hold {100 * log.hit_ratio:.4g} % of all prompt tokens. To count hits:",
            "  # prefix_cache: {capacity: unlimited, scope: shared}",
        ]
    if log.without_rate is not None:
        note = "ASSUMED; measure: requests per second at the gateway in a busy hour"
        lines += [
            f"  arrivals:                       # {log.without_rate}",
            f"    rate: {{value: {ASSUMED_RATE}, provenance: supplied, note: {_text(note)}}}",
        ]
    return lines


def _model(shape: Shape, stock: Inventory) -> list[str]:
    plain = plain_counts(shape.cache)
    if plain:
        kept = [f"  {name}: {count}" for name, count in zip(("layers", "kv_heads", "head_dim"), plain, strict=True)]
    else:
        kept = ["  cache:                          # what each kind of layers keeps: docs/kv.md"]
        kept += [f"    - {{{_kind(layers)}}}" for layers in shape.cache]
    ranks = f"  tensor_parallel: {stock.gpus_per_worker}              # ASSUMED: all GPUs of a worker"
    return [
        "model:",
        f"  name: {_text(shape.name)}",
        *kept,
        f"  kv_dtype: {shape.kv_dtype}                # of the KV cache, not of the weights",
        *([ranks] if stock.gpus_per_worker > 1 else []),
        "  provenance: supplied",
        f"  note: {_text(shape.note)}",
    ]


def _kind(layers: CacheLayers) -> str:
    """One kind of layers as an entry of ``model.cache``."""
    names = {
        "full": ("head_dim", "value_dim"),
        "window": ("head_dim", "value_dim"),
        "latent": ("latent_dim", "rope_dim"),
        "index": ("index_dim", "scale_bytes"),
        "state": ("elements_per_head", "convolution_elements"),
    }
    first, second = names[layers.kind]
    keys = {"kind": layers.kind, "layers": layers.layers}
    if layers.kind in ("full", "window"):
        keys["kv_heads"] = layers.heads
    elif layers.kind == "state":
        keys["heads"] = layers.heads
    keys[first] = layers.first
    if not (second == "value_dim" and layers.first == layers.second):
        keys[second] = layers.second
    if layers.tokens is not None:
        keys["window_tokens"] = layers.tokens
    return ", ".join(f"{key}: {value}" for key, value in keys.items())


def _service(shape: Shape, stock: Inventory) -> list[str]:
    each = stock.gpus_per_worker
    total = shape.parameters or ASSUMED_PARAMETERS
    active = shape.active_parameters or total
    flops, reading = each * EFFECTIVE_FLOPS, each * EFFECTIVE_BYTES_PER_S
    prefill, step = flops / (2 * active), WEIGHT_BYTES * total / reading
    of_rank = shape.growth_bytes_of_rank(each)
    per_token = of_rank / EFFECTIVE_BYTES_PER_S
    size = f"{active / 1e9:.3g}e9 parameters per token ({shape.parameters_from})"
    prefill_note = (
        f"ASSUMED: effective operations/s over 2 x parameters: {each} GPU x {EFFECTIVE_FLOPS / 1e12:g}e12/s over 2 x {size}; measure: "
        "prompt tokens per second of one worker that only prefills"
    )
    decode_note = (
        "ASSUMED: half of the prefill rate; measure: output tokens per second of one worker at its largest batch"
    )
    step_note = (
        f"ASSUMED: weights over effective memory bandwidth: {WEIGHT_BYTES} B x {total / 1e9:.3g}e9 over {each} GPU x "
        f"{EFFECTIVE_BYTES_PER_S / 1e12:g} TB/s; measure: time per output token with a single request"
    )
    context_note = (
        f"ASSUMED: KV bytes of a token on one GPU over its memory bandwidth: {of_rank:g} B over {EFFECTIVE_BYTES_PER_S / 1e12:g} TB/s; "
        "measure: growth of the step with the context"
    )
    ceiling = "ASSUMED: the load above which waits are not trusted"
    return [
        "service:                          # of one worker",
        "  dispatch: least_loaded          # or round_robin, shortest_queue",
        "  # when_memory_is_full: recompute # or swap (with swap_bandwidth), wait: what the replay does (docs/replay.md)",
        "  first_token_source: decode      # or prefill: which pool emits the first token when they are separated",
        f"  admission: {_quantity('2 ms', high='5 ms', note='ASSUMED; measure: time in gateway and tokenizer')}",
        "  prefill:",
        "    discipline: fifo",
        f"    tokens_per_second: {_quantity(_rounded(prefill), low=_rounded(0.7 * prefill), note=prefill_note)}",
        f"    overhead: {_quantity('10 ms', high='20 ms', note='ASSUMED; measure: prefill time of a one-token prompt')}",
        _attention(shape, flops),
        f"    utilization_ceiling: {_quantity('0.8', note=ceiling)}",
        "  decode:",
        "    discipline: fifo",
        f"    tokens_per_second: {_quantity(_rounded(prefill / 2), low=_rounded(0.35 * prefill), note=decode_note)}",
        f"    step_overhead: {_quantity(f'{_rounded(1e3 * step)} ms', high=f'{_rounded(1.3e3 * step)} ms', note=step_note)}",
        f"    seconds_per_context_token: {_quantity(_rounded(per_token), high=_rounded(1.5 * per_token), note=context_note)}",
        f"    max_sequences: {_quantity('256', note='ASSUMED; read: the limit of sequences in the engine configuration')}",
        f"    utilization_ceiling: {_quantity('0.85', note=ceiling)}",
        *_memory(total, stock),
    ]


def _attention(shape: Shape, flops: float) -> str:
    """The cost of attention over a prompt, on a worker of ``flops`` effective operations/s; a hint where the model does not say enough."""
    attending = sum(layers.layers * layers.first for layers in shape.cache if layers.kind == "full")
    if shape.attention_heads is None or not attending:
        return "    # seconds_per_token_squared, the cost of attention, is not assumed: measure: fit to prefill times of long prompts"
    squared = 2 * attending * shape.attention_heads / flops
    note = (
        "ASSUMED: 2 x layers that attend to everything x attention heads x head_dim over the same operations/s; "
        "measure: fit to prefill times of long prompts"
    )
    return f"    seconds_per_token_squared: {_quantity(_rounded(squared), high=_rounded(1.5 * squared), note=note)}"


def _memory(total: int, stock: Inventory) -> list[str]:
    each = stock.gpus_per_worker
    note = (
        f"ASSUMED: {each} GPU x {GPU_MEMORY_BYTES / 1e9:g} GB x {USABLE_SHARE:g} less weights of {WEIGHT_BYTES} B x {total / 1e9:.3g}e9; "
        "read: the KV cache size that the engine logs at start"
    )
    size = f"{_rounded(stock.kv_bytes / 1e9)} GB"
    return [
        "inventory:",
        f"  gpus: {stock.gpus}",
        f"  gpus_per_worker: {each}",
        "  provenance: supplied",
        f"  note: {_text('gpus_per_worker ASSUMED: as few as hold the weights and a KV cache beside them')}",
        f"  kv_memory_per_worker: {_quantity(size, low=f'{_rounded(0.9 * stock.kv_bytes / 1e9)} GB', note=note)}",
    ]


def _rest(stock: Inventory) -> list[str]:
    transfer = "ASSUMED; measure: a KV transfer of known size between two workers"
    overhead = _quantity("1 ms", high="2 ms", note="ASSUMED; measure: transfer time of a one-token prompt")
    ceiling = "ASSUMED: the load above which waits are not trusted"
    lines = [
        "network:                          # what would move the KV cache between separate pools",
        f"  links: {_quantity('4', note='ASSUMED; read: network ports that can carry KV at the same time')}",
        f"  line_rate: {_quantity('400 Gbit/s', note='ASSUMED; read: the rate of one port; no equation uses it')}",
        f"  effective_bandwidth: {_quantity('20 GB/s', low='12 GB/s', note=transfer)}",
        f"  registration: {overhead}",
        f"  synchronization: {overhead}",
        f"  receiver_visibility: {overhead}",
        f"  utilization_ceiling: {_quantity('0.7', note=ceiling)}",
        "objectives:",
        "  ttft: 2 s                       # time to the first token, mean of the slowest bucket",
        "  tpot: 50 ms                     # time per output token after it",
        "  stall: 500 ms                   # longest pause in an answer",
        "  ttft_growth: 200 ms             # by how much the first token may come later for moving the KV cache",
        "  transfer_reserve: 0.75          # share of that which moving and queueing may take",
        "  attainment: 0.9                 # share of requests that must meet ttft and tpot",
        "  provenance: supplied",
        f"  note: {_text('ASSUMED: replace by what was promised to users')}",
        "topologies:",
        "  aggregated: {}",
        "  chunked: {chunk_tokens: [512, 1024, 2048]}",
    ]
    if stock.workers >= 2:
        return [*lines, "  disaggregated: {}"]
    return [*lines, "  # disaggregated: {}             # needs two workers or more"]


def _quantity(value: str, *, low: str | None = None, high: str | None = None, note: str) -> str:
    ends = "".join(f", {end}: {figure}" for end, figure in (("low", low), ("high", high)) if figure is not None)
    return f"{{value: {value}{ends}, provenance: supplied, note: {_text(note)}}}"


def _text(text: Any) -> str:
    """Text in the double quotes that JSON and YAML share."""
    return json.dumps(str(text), ensure_ascii=False)


def _rounded(value: float) -> str:
    """Three digits: an assumption has no more.

    >>> _rounded(9375.4), _rounded(10.6667), _rounded(1.747e-09)
    ('9380', '10.7', '1.75e-09')
    """
    short = f"{value:.3g}"
    return f"{float(short):.0f}" if 1000 <= value < 1e15 else short


def duration(ns: int) -> str:
    """A time in the largest unit in which it is whole.

    >>> duration(3 * 10**9), duration(1_500_000), duration(7)
    ('3 s', '1500 us', '7 ns')
    """
    for unit, length in (("s", NS_PER_S), ("ms", 10**6), ("us", 10**3)):
        if ns % length == 0:
            return f"{ns // length} {unit}"
    return f"{ns} ns"
