"""What must hold between rates, curves and workers of the mixed pool and of separate ones, on whatever is well formed."""

from collections.abc import Iterator

from pipelines.declarations.compared import separated
from pipelines.declarations.documents import Document
from pipelines.declarations.problems import Problem
from pipelines.declarations.quantities import Reading, Readings

_AFFINE = {"prefill": ("tokens_per_second", "overhead"), "decode": ("tokens_per_second", "step_overhead")}
"""By phase: what a curve stands in place of."""


def service_problems(document: Document, readings: Readings) -> Iterator[Problem]:
    """Problems that only two or more values together show."""
    for phase in _AFFINE:
        for block in ("service", "separated"):
            yield from _curve_alone(document, f"{block}.{phase}", phase)
        yield from _pool(document, readings, phase)
        yield from _pool_peak(document, readings, phase)
    if document.has("separated") and document.has("topologies") and separated(document) is None:
        message = "workers of separate pools, and none are compared; expected it beside disaggregated or routed only"
        yield document.problem("separated", message, on="key")
    yield from _swap(document)
    yield from _ranges(document)


def _swap(document: Document) -> Iterator[Problem]:
    """A bandwidth to the host belongs to an engine that swaps, and to no other."""
    bandwidth, swaps = "service.swap_bandwidth", document.get("service.when_memory_is_full") == "swap"
    if swaps and not document.has(bandwidth):
        message = "missing; required because service.when_memory_is_full is swap"
        yield document.problem(bandwidth, message, "how fast does a cache move between GPU and host?")
    elif document.has(bandwidth) and not swaps:
        message = "declared where no cache is swapped; expected it beside when_memory_is_full: swap only"
        yield document.problem(bandwidth, message, on="key")


def _ranges(document: Document) -> Iterator[Problem]:
    """What has no range: neither a price nor the size of a worker is uncertain."""
    for path, what in (
        ("inventory.gpu_hour_price", "a price"),
        *((f"separated.{phase}.gpus_per_worker", "how a pool is set up") for phase in _AFFINE),
    ):
        for end in ("low", "high"):
            if document.has(f"{path}.{end}"):
                yield document.problem(f"{path}.{end}", f"a range of {what}; expected a value alone", on="key")


def _curve_alone(document: Document, block: str, phase: str) -> Iterator[Problem]:
    if not document.has(f"{block}.curve"):
        return
    for name in _AFFINE[phase]:
        if document.has(f"{block}.{name}"):
            message = f"declared beside curve, which measures it; expected {' and '.join(_AFFINE[phase])}, or curve"
            yield document.problem(f"{block}.{name}", message, on="key")


def _pool(document: Document, readings: Readings, phase: str) -> Iterator[Problem]:
    """What a separate pool cannot take over from the mixed one."""
    block, names = f"separated.{phase}", _AFFINE[phase]
    if not document.mapping(block):
        return
    declared = [name for name in names if document.has(f"{block}.{name}")]
    missing = [name for name in names if name not in declared]
    if _other_worker(readings, phase):
        each = document.text(f"{block}.gpus_per_worker.value")
        because = f"required because a worker of {each} is not one of the mixed pool"
        if not document.has(f"{block}.curve"):
            for name in missing:
                yield document.problem(f"{block}.{name}", f"missing; {because}", "or curve in place of both")
        if not document.has(f"{block}.kv_memory_per_worker"):
            yield document.problem(f"{block}.kv_memory_per_worker", f"missing; {because}")
    elif declared and document.has(f"service.{phase}.curve"):
        for name in missing:
            because = f"required beside {declared[0]}: service.{phase}.curve has none to take over"
            yield document.problem(f"{block}.{name}", f"missing; {because}")


def _other_worker(readings: Readings, phase: str) -> bool:
    own, mixed = readings.get(f"separated.{phase}.gpus_per_worker"), readings.get("inventory.gpus_per_worker")
    return own is not None and mixed is not None and own.value != mixed.value


def pool_peak(readings: Readings, block: str) -> str:
    """Path of the peak that holds for the rates of ``block``: its own, or that of the mixed pool where the workers are alike."""
    path, phase = f"{block}.peak_tokens_per_second", block.rpartition(".")[2]
    if path in readings or block.startswith("service.") or _other_worker(readings, phase):
        return path
    return f"service.{phase}.peak_tokens_per_second"


def _pool_peak(document: Document, readings: Readings, phase: str) -> Iterator[Problem]:
    """A rate of the pool above the peak of the mixed one, or a rate taken over from there above the peak of the pool."""
    own, mixed = f"separated.{phase}", f"service.{phase}"
    rate, peak = (readings.get(f"{own}.{name}") for name in ("tokens_per_second", "peak_tokens_per_second"))
    curve = document.has(f"{own}.curve")
    if rate and not peak:
        yield from _above(document, f"{own}.tokens_per_second", rate, pool_peak(readings, own), readings)
    inherited = readings.get(f"{mixed}.tokens_per_second")
    if peak and inherited and not rate and not curve and inherited.value > peak.value:
        written = document.text(f"{mixed}.tokens_per_second.value")
        message = (
            f"{document.text(f'{own}.peak_tokens_per_second.value')} is below the rate that the pool takes over, {written} of "
            f"{mixed}.tokens_per_second; expected an effective rate up to the peak"
        )
        yield document.problem(f"{own}.peak_tokens_per_second.value", message)


def _above(document: Document, path: str, rate: Reading, peak_path: str, readings: Readings) -> Iterator[Problem]:
    peak = readings.get(peak_path)
    if peak is None:
        return
    for end, figure, limit in (("value", rate.value, peak.value), ("high", rate.high, peak.highest)):
        if figure is not None and figure > limit:
            written = document.text(f"{path}.{end}")
            message = f"{written} is above {document.text(f'{peak_path}.value')}, the peak of {peak_path}"
            yield document.problem(f"{path}.{end}", f"{message}; expected an effective rate up to it")
