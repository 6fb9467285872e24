"""What must hold between the values of a worker's memory, its ranks and the links, on whatever parts of them are well formed."""

from collections.abc import Iterator
from fractions import Fraction

from pipelines.declarations.documents import Document
from pipelines.declarations.problems import Problem
from pipelines.declarations.quantities import Reading, Readings

_DERIVED = ("gpu_memory", "memory_utilization", "weights_per_worker", "activations_per_worker")
_OVERHEADS = ("registration", "synchronization", "receiver_visibility")
_AFFINE = ("line_rate", "effective_bandwidth", *_OVERHEADS)


def worker_problems(document: Document, readings: Readings) -> Iterator[Problem]:
    """Problems that only two or more values together show."""
    yield from _memory(document)
    yield from _derived_memory(document, readings)
    yield from _ranks(document, readings)
    yield from _transfer_source(document)
    yield from _links(document, readings)


def _memory(document: Document) -> Iterator[Problem]:
    """The memory for the cache is declared in exactly one of three ways."""
    if not isinstance(document.get("inventory"), dict):
        return
    derived = [name for name in _DERIVED if document.has(f"inventory.{name}")]
    ways = [name for name in ("kv_memory_per_worker", "kv_tokens_per_worker") if document.has(f"inventory.{name}")]
    expected = "kv_memory_per_worker, kv_tokens_per_worker, or gpu_memory with what is taken from it"
    if not ways and not derived:
        message = f"missing; expected one of {expected}"
        yield document.problem("inventory.kv_memory_per_worker", message)
    for extra in (*ways[1:], *(derived[:1] if ways else ())):
        message = f"declared beside {ways[0]}; expected one of {expected}"
        yield document.problem(f"inventory.{extra}", message, on="key")
    if derived and not ways:
        for name in _DERIVED:
            if name not in derived:
                yield document.problem(f"inventory.{name}", f"missing; required because {derived[0]} is declared")
    if "kv_tokens_per_worker" in ways and document.get("model.kv_allocation") == "by_kind":
        message = (
            "tokens that an engine logs give every layer the full length; expected kv_allocation: uniform beside them, "
            "or kv_memory_per_worker"
        )
        yield document.problem("inventory.kv_tokens_per_worker", message, on="key")


def _derived_memory(document: Document, readings: Readings) -> Iterator[Problem]:
    """Weights and activations leave something, under both bounds."""
    gpu, used, weights, kept = (readings.get(f"inventory.{name}") for name in _DERIVED)
    gpus = readings.get("inventory.gpus_per_worker")
    if gpu is None or used is None or weights is None or kept is None or gpus is None:
        return
    nominal = gpus.value * gpu.value * used.value - weights.value - kept.value
    worst = gpus.value * _lowest(gpu) * _lowest(used) - weights.highest - kept.highest
    for left, bound in ((nominal, "nominal"), (worst, "conservative")):
        if left <= 0:
            has = gpus.value * gpu.value * used.value
            message = (
                f"{_gigabytes(weights.value)} of weights and {_gigabytes(kept.value)} of activations leave nothing of "
                f"{_gigabytes(has)} for the KV cache under the {bound} bound; expected memory that is left"
            )
            yield document.problem("inventory.weights_per_worker", message, "more gpus_per_worker, or GiB read as GB?")
            return


def _ranks(document: Document, readings: Readings) -> Iterator[Problem]:
    """One tensor parallelism for all pools: each rank has a GPU in the smallest worker."""
    ranks, mixed = readings.get("model.tensor_parallel"), readings.get("inventory.gpus_per_worker")
    if ranks and mixed and ranks.value > mixed.value:
        message = f"{ranks.value} ranks on {mixed.value} GPU{'' if mixed.value == 1 else 's'} per worker; expected at most one a GPU"
        yield document.problem("model.tensor_parallel", message)
        return
    for pool in ("prefill", "decode"):
        own = readings.get(f"separated.{pool}.gpus_per_worker")
        if ranks and own and ranks.value > own.value:
            message = (
                f"{ranks.value} ranks on {own.value} GPU{'' if own.value == 1 else 's'} per {pool} worker; "
                "expected at most one a GPU: tensor_parallel is one for all pools"
            )
            yield document.problem("model.tensor_parallel", message)
            return


def _transfer_source(document: Document) -> Iterator[Problem]:
    """A bandwidth with its overheads, a measured curve, or both."""
    if not isinstance(document.get("network"), dict):
        return
    curve, bandwidth = document.has("network.transfer_curve"), document.has("network.effective_bandwidth")
    if bandwidth or not curve:
        because = "required beside effective_bandwidth" if curve else "this key is required"
        for name in _AFFINE:
            if not document.has(f"network.{name}") and not (curve and name == "line_rate"):
                yield document.problem(f"network.{name}", f"missing; {because}")
    else:
        for name in (*_OVERHEADS, "seconds_per_descriptor", "regions_per_block"):
            if document.has(f"network.{name}"):
                message = "is part of what transfer_curve measures; expected it beside effective_bandwidth only"
                yield document.problem(f"network.{name}", message, on="key")
    if document.has("network.regions_per_block") and not document.has("network.seconds_per_descriptor") and bandwidth:
        message = "regions of a block count where descriptors cost time; expected it beside seconds_per_descriptor only"
        yield document.problem("network.regions_per_block", message, on="key")
    counted = bandwidth and document.has("network.seconds_per_descriptor")
    if counted and not document.has("model.block_tokens"):
        message = (
            "missing; required because network.seconds_per_descriptor is declared: descriptors are counted by block"
        )
        yield document.problem("model.block_tokens", message)


def _links(document: Document, readings: Readings) -> Iterator[Problem]:
    links, each = readings.get("network.links"), readings.get("network.links_per_transfer")
    if links and each and _lowest(links) < each.highest:
        message = f"{each.highest} links for one transfer, of {_lowest(links)} there are; expected at most those"
        yield document.problem("network.links_per_transfer", message)
    for end in ("low", "high"):
        if document.has(f"network.links_per_transfer.{end}"):
            message = "a range of what the engine is set up for; expected a value alone"
            yield document.problem(f"network.links_per_transfer.{end}", message, on="key")
    relayout = readings.get("network.relayout_factor")
    if relayout and _lowest(relayout) < 1:
        end = "value" if relayout.value < 1 else "low"
        message = f"{document.text(f'network.relayout_factor.{end}')} is below 1; expected 1 or more: bytes moved per byte of cache"
        yield document.problem(f"network.relayout_factor.{end}", message)


def _lowest(reading: Reading) -> Fraction:
    return reading.value if reading.low is None else reading.low


def _gigabytes(size: Fraction) -> str:
    return f"{float(size / 10**9):.6g} GB"
