"""The figures of a scenario that a gate may judge.

One entry per metric; to add one, add its column to :class:`pipelines.frames.matrix.ScenarioMatrix` and a line here.
"""

from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "ratio", "count"]


@dataclass(frozen=True)
class Metric:
    """A judged figure: ``column`` of the scenario matrix, in ``unit``; modeled if it ``needs_latency``."""

    name: str
    unit: Unit
    column: str
    needs_latency: bool
    meaning: str


_ALL = (
    Metric("ttft_worst", "s", "ttft_worst_s", True, "largest modeled mean TTFT of any prompt bucket"),
    Metric("tpot_worst", "s", "tpot_worst_s", True, "largest modeled mean TPOT of any prompt bucket"),
    Metric("e2e_worst", "s", "e2e_worst_s", True, "largest modeled mean end-to-end latency of any prompt bucket"),
    Metric("stall", "s", "stall_s", True, "longest modeled gap between two tokens of one request"),
    Metric(
        "goodput", "ratio", "goodput", True, "modeled share of requests that meet both the TTFT and the TPOT objective"
    ),
    Metric(
        "transfer_worst", "s", "transfer_worst_s", True, "largest modeled transfer wait plus KV movement of any bucket"
    ),
    Metric(
        "transfer_envelope_share",
        "ratio",
        "transfer_envelope_share",
        True,
        "transfer_worst as a share of the declared TTFT growth (objectives.ttft_growth)",
    ),
    Metric(
        "pressure", "ratio", "pressure", False, "largest load of the scenario as a share of its ceiling; refused at 1"
    ),
    Metric("headroom", "ratio", "headroom", False, "share of the tightest ceiling that is left (1 - pressure)"),
    Metric("gpus", "count", "gpus", False, "GPUs that the scenario occupies"),
    Metric(
        "operating_parts",
        "count",
        "operating_parts",
        False,
        "weighted pools, queues, state transfers and failure edges",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
