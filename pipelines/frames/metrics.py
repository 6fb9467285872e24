"""The figures that a gate may judge.

One entry per metric. To add one of a scenario, add its column to :class:`pipelines.frames.matrix.ScenarioMatrix`, a line to
``pipelines.planning.margins.metric_figure`` and an entry here; one by bucket, its list to the same model and an entry here.
"""

from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "ratio", "count", "days"]
Scope = Literal["scenario", "bucket", "decision"]


@dataclass(frozen=True)
class Metric:
    """A judged figure in ``unit``: of a scenario, of each of its prompt buckets, or of the decision.

    ``column`` of the scenario matrix holds it; modeled if it ``needs_latency``; of separated paths alone if it ``moves``.
    """

    name: str
    unit: Unit
    column: str
    needs_latency: bool
    meaning: str
    scope: Scope = "scenario"
    moves: bool = False


_ALL = (
    Metric("ttft_worst", "s", "ttft_worst_s", True, "largest modeled mean TTFT of any prompt bucket"),
    Metric("tpot_worst", "s", "tpot_worst_s", True, "largest modeled mean TPOT of any prompt bucket"),
    Metric("e2e_worst", "s", "e2e_worst_s", True, "largest modeled mean end-to-end latency of any prompt bucket"),
    Metric("stall", "s", "stall_s", True, "longest modeled gap between two tokens of one request"),
    Metric(
        "goodput", "ratio", "goodput", True, "modeled share of requests that meet both the TTFT and the TPOT objective"
    ),
    Metric(
        "transfer_worst",
        "s",
        "transfer_worst_s",
        True,
        "largest modeled transfer wait plus KV movement of any bucket",
        moves=True,
    ),
    Metric(
        "transfer_envelope_share",
        "ratio",
        "transfer_envelope_share",
        True,
        "transfer_worst as a share of the declared TTFT growth (objectives.ttft_growth)",
        moves=True,
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
    Metric("ttft", "s", "ttft_by_bucket", True, "modeled mean TTFT", "bucket"),
    Metric("tpot", "s", "tpot_by_bucket", True, "modeled mean TPOT", "bucket"),
    Metric("e2e", "s", "e2e_by_bucket", True, "modeled mean end-to-end latency", "bucket"),
    Metric("prefill_wait", "s", "prefill_wait_by_bucket", True, "modeled mean wait for a prefill worker", "bucket"),
    Metric(
        "transfer", "s", "transfer_by_bucket", True, "modeled mean transfer wait plus KV movement", "bucket", moves=True
    ),
    Metric("decode_wait", "s", "decode_wait_by_bucket", True, "modeled mean wait for a decode worker", "bucket"),
    Metric(
        "unobserved_share", "ratio", "", False, "share of what the decision rests on that is not observed", "decision"
    ),
    Metric(
        "unobserved_inputs", "count", "", False, "inputs that the decision rests on and nobody observed", "decision"
    ),
    Metric(
        "evidence_age", "days", "", False, "age of the oldest observed input that the decision rests on", "decision"
    ),
    Metric(
        "critical_pools",
        "count",
        "",
        False,
        "pools of the chosen scenario that it does not pass without one worker of",
        "decision",
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
OF_SCENARIOS = tuple(name for name, metric in METRICS.items() if metric.scope == "scenario")
BY_BUCKET = tuple(name for name, metric in METRICS.items() if metric.scope == "bucket")
CRITICAL_POOLS = "critical_pools"
OF_DECISIONS = tuple(name for name, metric in METRICS.items() if metric.scope == "decision")
