"""What must hold between the inputs of a receipt, beyond the range of each."""

from __future__ import annotations

from .cache import LATENT_DTYPE
from .curves import parse_curve, uppers_in_all_or_none
from .findings import Ledger
from .names import BOUNDS, NOT_DECLARED
from .objectives import LATENCIES, objectives_of
from .parameters import BANDWIDTH, CURVE, GPU_MEMORY, KV_TOKENS, POOLS, Inputs

CHECK = "inputs"
FORMAT = "docs/formats.md, {}"
_NOT_ABOVE = (
    (BANDWIDTH, "network.line_rate"),
    (BANDWIDTH, "network.peak_bandwidth"),
    ("service.prefill.tokens_per_second", "service.prefill.peak_tokens_per_second"),
    ("service.decode.tokens_per_second", "service.decode.peak_tokens_per_second"),
    ("separated.prefill.tokens_per_second", "separated.prefill.peak_tokens_per_second"),
    ("separated.decode.tokens_per_second", "separated.decode.peak_tokens_per_second"),
)
_LINES = {"prefill": ("tokens_per_second", "overhead"), "decode": ("tokens_per_second", "step_overhead")}
_ROUNDING = 1e-9
"""Of times that are written in decimals."""


def check_relations(ledger: Ledger, inputs: Inputs) -> bool:
    """Check what holds between inputs; say whether everything can be computed from them."""
    for path, bound in _NOT_ABOVE:
        _check_not_above(ledger, inputs, path, bound)
    _check_dtype(ledger, inputs)
    _check_ranks(ledger, inputs)
    _check_curve(ledger, inputs)
    _check_service_curves(ledger, inputs)
    _check_allocation(ledger, inputs)
    _check_descriptors(ledger, inputs)
    _check_objectives(ledger, inputs)
    pools = [_check_pool(ledger, inputs, phase) for phase in _LINES]
    return _check_memory(ledger, inputs) and _check_links(ledger, inputs) and all(pools)


def _check_not_above(ledger: Ledger, inputs: Inputs, path: str, bound: str) -> None:
    """Neither the value nor its high end is above the value of another input."""
    limit = inputs.nominal(bound)
    for member in ("value", "high") if path in inputs.rows and limit is not None else ():
        found = inputs.rows[path][member]
        fits = found is None or found <= limit
        ledger.holds(CHECK, f"inputs[{path}].{member}", fits, found, f"at most {bound}: {limit}")


def _check_ranks(ledger: Ledger, inputs: Inputs) -> None:
    """Every pool's worker has the GPUs that attention is split over."""
    path = "model.tensor_parallel"
    ranks, smallest = inputs.nominal(path), min(inputs.gpus_per_worker(pool) for pool in POOLS)
    why = "the smallest gpus_per_worker"
    ledger.holds(CHECK, f"inputs[{path}].value", ranks <= smallest, ranks, f"at most {smallest}", why)


def _check_pool(ledger: Ledger, inputs: Inputs, phase: str) -> bool:
    """A pool has a curve, or rate and overhead, of its own or inherited; workers of other GPUs inherit neither."""
    own, home = f"separated.{phase}.", f"service.{phase}."
    declared = [path for path in inputs.rows if path.startswith(own)]
    if not declared:
        return True
    line, why = [f"{own}{name}" for name in _LINES[phase]], FORMAT.format("Measured service and pools of their own")
    measured, lines = f"{own}curve" in inputs.rows, [path for path in line if path in inputs.rows]
    fits = ledger.holds(CHECK, f"inputs[{own}curve]", not (measured and lines), lines, "a curve, or these", why)
    if lines and len(lines) < len(line) and f"{home}curve" in inputs.rows:
        fits = ledger.listed(CHECK, f"inputs[{own}*]", lines, line, f"in place of a curve: {why}") and fits
    if inputs.gpus_per_worker(phase) != inputs.gpus_per_worker("mixed"):
        known = (measured or lines == line) and f"{own}kv_memory_per_worker" in inputs.rows
        expected = "rate and overhead (or curve) and memory of a worker of other GPUs"
        fits = ledger.holds(CHECK, f"inputs[{own}gpus_per_worker]", known, declared, expected, why) and fits
    return fits


def _check_service_curves(ledger: Ledger, inputs: Inputs) -> None:
    """More tokens or sequences take no less time; upper times are there in all points or in none."""
    for path, row in inputs.rows.items():
        both = parse_curve(row["value"]) if path.endswith(".curve") else None
        if both is None:
            continue
        where, why = f"inputs[{path}].value", FORMAT.format("Measured service and pools of their own")
        rises = not any(curve.falls for curve in both)
        ledger.holds(CHECK, where, rises, row["value"], "times that do not fall with the size", why)
        peak = inputs.nominal(path.replace(".curve", ".peak_tokens_per_second"))
        slow = peak is None or both[0].fastest_bytes_per_s <= peak * (1 + _ROUNDING)
        ledger.holds(CHECK, where, slow, row["value"], f"points of at most {peak} tokens/s", why)
        alike = uppers_in_all_or_none(row["value"])
        ledger.holds(CHECK, where, alike, row["value"], "upper times in all points or in none", why)


def _check_objectives(ledger: Ledger, inputs: Inputs) -> None:
    """No answer is to be complete before its first token, or before one token's time; nor in any bucket."""
    objectives = objectives_of(inputs.rows)
    for edge in (*(edge for edge, _ in objectives.of_edges), "inf"):
        ttft, tpot, e2e = (objectives.of(name, f"[1,{edge})") for name in LATENCIES)
        largest = max(value for value in (ttft, tpot) if value is not None)
        fits, where = e2e is None or e2e >= largest, f"inputs[objectives.e2e below {edge}]"
        ledger.holds(CHECK, where, fits, e2e, f"at least {largest}", "docs/formats.md: ttft and tpot")


def _check_dtype(ledger: Ledger, inputs: Inputs) -> None:
    dtype, where = inputs.nominal("model.kv_dtype"), "inputs[model.kv_dtype].value"
    if dtype == LATENT_DTYPE:
        latent = any(layers.kind == "latent" for layers in inputs.shape)
        ledger.holds(CHECK, where, latent, dtype, "another type: the model has no latent", FORMAT.format("The model"))


def _check_allocation(ledger: Ledger, inputs: Inputs) -> None:
    """The tokens that an engine logs are those of a cache that gives all layers the full length."""
    if KV_TOKENS in inputs.rows:
        allocation, why = inputs.nominal("model.kv_allocation"), FORMAT.format("KV memory")
        ledger.same(CHECK, "inputs[model.kv_allocation].value", allocation, "uniform", f"{KV_TOKENS}: {why}")


def _check_descriptors(ledger: Ledger, inputs: Inputs) -> None:
    """Descriptors are those of blocks, whose size is then declared."""
    path, seconds = "model.block_tokens", inputs.at("network.seconds_per_descriptor", "conservative")
    if seconds:
        why = f"network.seconds_per_descriptor: {FORMAT.format('The network')}"
        note = inputs.rows[path]["note"]
        ledger.holds(CHECK, f"inputs[{path}].note", note != NOT_DECLARED, note, "a declared size of blocks", why)


def _check_memory(ledger: Ledger, inputs: Inputs) -> bool:
    """Something is left for the cache; and tokens of a model without any are no memory."""
    path = next((path for path in (KV_TOKENS, GPU_MEMORY[0]) if path in inputs.rows), None)
    if path is None:
        return True
    left = [inputs.kv_memory_bytes(bound) for bound in BOUNDS]
    why = FORMAT.format("KV memory")
    return ledger.holds(CHECK, f"inputs[{path}].value", min(left) > 0, min(left), "more than 0 bytes left", why)


def _check_links(ledger: Ledger, inputs: Inputs) -> bool:
    """A transfer finds the links that it uses at once, in both bounds."""
    path, fits = "network.links", True
    for bound in BOUNDS if path in inputs.rows else ():
        links, used = inputs.at(path, bound), inputs.at("network.links_per_transfer", bound)
        member = "value" if bound == "nominal" else "conservative"
        why = "network.links_per_transfer"
        fits = ledger.holds(CHECK, f"inputs[{path}].{member}", links >= used, links, f"at least {used}", why) and fits
    return fits


def _check_curve(ledger: Ledger, inputs: Inputs) -> None:
    """Larger transfers take no less time, and none was faster than the lines that it uses."""
    both = parse_curve(inputs.nominal(CURVE)) if CURVE in inputs.rows else None
    if both is None:
        return
    where, text, why = f"inputs[{CURVE}].value", inputs.nominal(CURVE), FORMAT.format("The network")
    for curve in both:
        ledger.holds(CHECK, where, not curve.falls, text, "times that do not fall with the size", why)
    line_rate = inputs.nominal("network.line_rate")
    if line_rate is not None:
        lines = inputs.nominal("network.links_per_transfer") * line_rate
        fits = both[0].fastest_bytes_per_s <= lines * (1 + _ROUNDING)
        ledger.holds(CHECK, where, fits, text, f"points of at most {lines} B/s", why)
