"""Every input of a cohort, one line each: the order, units, harmful ends and defaults of the inputs table."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from pipelines.declarations.documents import Document
from pipelines.declarations.problems import Problem, Where
from pipelines.declarations.units import Domain, QuantityError, Unit, exact, within

Form = Literal["quantity", "block", "word", "knob", "shape", "curve", "buckets"]
"""A mapping with its own provenance; a value under its block's provenance; a bare word; a knob of ``topologies``; the cache of a
model, by hand or from a file; a table of measurements; objectives of prompt buckets, a row each.
"""


@dataclass(frozen=True)
class Quantity:
    """One input: its unit, how it is written, its allowed values, the end of its range that hurts, its default."""

    path: str
    unit: Unit
    form: Form
    domain: Domain = "positive"
    hurts: Literal["low", "high"] | None = None
    default: float | int | str | None = None
    declared_at: str = ""

    @property
    def place(self) -> str:
        """Where it is written in a cohort: at its path, unless ``declared_at`` says otherwise."""
        return self.declared_at or self.path

    @property
    def block(self) -> str:
        """The mapping around it, which gives the provenance of a ``block`` input."""
        return self.path.rpartition(".")[0]


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("requests.rate", "requests/s", "quantity", "positive", "high", declared_at="requests.arrivals.rate"),
    Quantity(
        "requests.concurrency", "count", "quantity", "positive", "high", declared_at="requests.arrivals.concurrency"
    ),
    Quantity(
        "requests.arrival_scv", "ratio", "quantity", "not_negative", "high", 1.0, declared_at="requests.arrivals.scv"
    ),
    Quantity("model.layers", "count", "block"),
    Quantity("model.kv_heads", "count", "block"),
    Quantity("model.head_dim", "count", "block"),
    Quantity("model.cache", "text", "shape"),
    Quantity("model.kv_dtype", "text", "block"),
    Quantity("model.layout_factor", "ratio", "quantity", "positive", "high", 1.0),
    Quantity("model.tensor_parallel", "count", "block", default=1),
    Quantity("model.block_tokens", "count", "block", default=1),
    Quantity("model.kv_allocation", "text", "block", default="uniform"),
    Quantity("service.dispatch", "text", "word"),
    Quantity("service.when_memory_is_full", "text", "word"),
    Quantity("service.swap_bandwidth", "B/s", "quantity", "positive", "low"),
    Quantity("service.first_token_source", "text", "word", default="decode"),
    Quantity("service.admission", "s", "quantity", "not_negative", "high"),
    Quantity("service.mixed_step_penalty", "ratio", "quantity", "not_negative", "high", 0.0),
    Quantity("service.prefill.discipline", "text", "word"),
    Quantity("service.prefill.tokens_per_second", "tokens/s", "quantity", "positive", "low"),
    Quantity("service.prefill.overhead", "s", "quantity", "not_negative", "high"),
    Quantity("service.prefill.seconds_per_token_squared", "s/token^2", "quantity", "not_negative", "high", 0.0),
    Quantity("service.prefill.prefix_hit_ratio", "ratio", "quantity", "below_one", "low", 0.0),
    Quantity("service.prefill.curve", "text", "curve"),
    Quantity("service.prefill.utilization_ceiling", "ratio", "quantity", "share", "low"),
    Quantity("service.prefill.peak_tokens_per_second", "tokens/s", "quantity"),
    Quantity("service.decode.discipline", "text", "word"),
    Quantity("service.decode.tokens_per_second", "tokens/s", "quantity", "positive", "low"),
    Quantity("service.decode.step_overhead", "s", "quantity", "positive", "high"),
    Quantity("service.decode.seconds_per_context_token", "s/token", "quantity", "not_negative", "high", 0.0),
    Quantity("service.decode.curve", "text", "curve"),
    Quantity("service.decode.max_sequences", "count", "quantity", "positive", "low"),
    Quantity("service.decode.utilization_ceiling", "ratio", "quantity", "share", "low"),
    Quantity("service.decode.peak_tokens_per_second", "tokens/s", "quantity"),
    Quantity("separated.prefill.gpus_per_worker", "count", "quantity"),
    Quantity("separated.prefill.tokens_per_second", "tokens/s", "quantity", "positive", "low"),
    Quantity("separated.prefill.overhead", "s", "quantity", "not_negative", "high"),
    Quantity("separated.prefill.seconds_per_token_squared", "s/token^2", "quantity", "not_negative", "high"),
    Quantity("separated.prefill.curve", "text", "curve"),
    Quantity("separated.prefill.utilization_ceiling", "ratio", "quantity", "share", "low"),
    Quantity("separated.prefill.peak_tokens_per_second", "tokens/s", "quantity"),
    Quantity("separated.prefill.kv_memory_per_worker", "B", "quantity", "positive", "low"),
    Quantity("separated.decode.gpus_per_worker", "count", "quantity"),
    Quantity("separated.decode.tokens_per_second", "tokens/s", "quantity", "positive", "low"),
    Quantity("separated.decode.step_overhead", "s", "quantity", "positive", "high"),
    Quantity("separated.decode.seconds_per_context_token", "s/token", "quantity", "not_negative", "high"),
    Quantity("separated.decode.curve", "text", "curve"),
    Quantity("separated.decode.max_sequences", "count", "quantity", "positive", "low"),
    Quantity("separated.decode.utilization_ceiling", "ratio", "quantity", "share", "low"),
    Quantity("separated.decode.peak_tokens_per_second", "tokens/s", "quantity"),
    Quantity("separated.decode.kv_memory_per_worker", "B", "quantity", "positive", "low"),
    Quantity("inventory.gpus", "count", "block"),
    Quantity("inventory.gpus_per_worker", "count", "block"),
    Quantity("inventory.kv_memory_per_worker", "B", "quantity", "positive", "low"),
    Quantity("inventory.kv_tokens_per_worker", "count", "quantity", "positive", "low"),
    Quantity("inventory.gpu_memory", "B", "quantity", "positive", "low"),
    Quantity("inventory.memory_utilization", "ratio", "quantity", "share", "low"),
    Quantity("inventory.weights_per_worker", "B", "quantity", "not_negative", "high"),
    Quantity("inventory.activations_per_worker", "B", "quantity", "not_negative", "high"),
    Quantity("inventory.gpu_hour_price", "price/h", "quantity"),
    Quantity("network.links", "count", "quantity", "positive", "low"),
    Quantity("network.links_per_transfer", "count", "quantity", "positive", default=1),
    Quantity("network.link_sharing", "text", "word", default="shared"),
    Quantity("network.line_rate", "B/s", "quantity"),
    Quantity("network.effective_bandwidth", "B/s", "quantity", "positive", "low"),
    Quantity("network.peak_bandwidth", "B/s", "quantity"),
    Quantity("network.competing_traffic", "ratio", "quantity", "below_one", "high", 0.0),
    Quantity("network.registration", "s", "quantity", "not_negative", "high"),
    Quantity("network.synchronization", "s", "quantity", "not_negative", "high"),
    Quantity("network.receiver_visibility", "s", "quantity", "not_negative", "high"),
    Quantity("network.router_handover", "s", "quantity", "not_negative", "high", 0.0),
    Quantity("network.seconds_per_descriptor", "s", "quantity", "not_negative", "high", 0.0),
    Quantity("network.regions_per_block", "count", "quantity", "positive", "high", 2),
    Quantity("network.relayout_factor", "ratio", "quantity", "positive", "high", 1.0),
    Quantity("network.prefix_at_destination", "ratio", "quantity", "fraction", "low", 0.0),
    Quantity("network.overlap", "ratio", "quantity", "fraction", "low", 0.0),
    Quantity("network.utilization_ceiling", "ratio", "quantity", "share", "low"),
    Quantity("network.transfer_curve", "text", "curve"),
    Quantity("objectives.ttft", "s", "block"),
    Quantity("objectives.tpot", "s", "block"),
    Quantity("objectives.e2e", "s", "block"),
    Quantity("objectives.stall", "s", "block"),
    Quantity("objectives.ttft_growth", "s", "block"),
    Quantity("objectives.transfer_reserve", "ratio", "block", "share"),
    Quantity("objectives.attainment", "ratio", "block", "share"),
    Quantity("objectives.buckets", "s", "buckets"),
    Quantity("topologies.compared", "text", "knob"),
    Quantity("topologies.chunked.chunk_tokens", "text", "knob"),
    Quantity("topologies.routed.threshold_tokens", "text", "knob"),
    Quantity("topologies.routed.chunk_tokens", "text", "knob"),
)

OBJECTIVE_UNITS: dict[str, Unit] = {
    quantity.path.removeprefix("objectives."): quantity.unit
    for quantity in QUANTITIES
    if quantity.block == "objectives" and quantity.form == "block"
}


@dataclass(frozen=True)
class Reading:
    """A declared number, exactly, in the unit of its quantity; an end that is not declared is None."""

    value: Fraction
    low: Fraction | None = None
    high: Fraction | None = None

    @property
    def highest(self) -> Fraction:
        """The upper end of the range, or the value."""
        return self.value if self.high is None else self.high


Readings = dict[str, Reading]


def read_quantities(document: Document) -> tuple[Readings, list[Problem]]:
    """Every number that is well formed, and the problems of those that are not."""
    readings: Readings = {}
    problems: list[Problem] = []
    for quantity in QUANTITIES:
        if quantity.unit == "text" or quantity.form == "buckets":
            continue
        if quantity.form == "block":
            value = read_number(document, quantity, quantity.place, problems)
            reading = Reading(value) if value is not None else None
        else:
            reading = _range(document, quantity, problems)
        if reading is not None:
            readings[quantity.path] = reading
    return readings, problems


def read_number(document: Document, quantity: Quantity, path: str | Where, problems: list[Problem]) -> Fraction | None:
    """The number at ``path`` in the unit of ``quantity``; None where there is none, or it is not well formed."""
    if not document.has(path) or isinstance(document.get(path), dict | list):
        return None
    written = document.text(path)
    try:
        value = exact(document.get(path), quantity.unit, written)
        within(value, quantity.domain, quantity.unit, written)
    except QuantityError as error:
        problems.append(document.problem(path, error.message, error.hint))
        return None
    return value


def _range(document: Document, quantity: Quantity, problems: list[Problem]) -> Reading | None:
    ends = [read_number(document, quantity, f"{quantity.place}.{end}", problems) for end in ("value", "low", "high")]
    value, low, high = ends
    if value is None:
        return None
    problems += _disorder(document, quantity.place, Reading(value, low, high))
    return Reading(value, low, high)


def _disorder(document: Document, path: str, reading: Reading) -> Iterable[Problem]:
    value = document.text(f"{path}.value")
    if reading.low is not None and reading.low > reading.value:
        low = document.text(f"{path}.low")
        yield document.problem(f"{path}.low", f"low {low} is above the value {value}; expected low ≤ value ≤ high")
    if reading.high is not None and reading.high < reading.value:
        high = document.text(f"{path}.high")
        yield document.problem(f"{path}.high", f"high {high} is below the value {value}; expected low ≤ value ≤ high")
