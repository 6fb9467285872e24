"""The figures that a gate may judge.

One entry per metric. To add one of a scenario, add its column to :class:`pipelines.frames.matrix.ScenarioMatrix`, a line to
``pipelines.planning.margins.metric_figure`` and an entry here; one by bucket, its list to the same model and an entry here; one of the
replay, its column to :class:`pipelines.frames.replays.Replays` and an entry here.
"""

from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "ratio", "count", "days"]
Scope = Literal["scenario", "bucket", "decision"]


@dataclass(frozen=True)
class Metric:
    """A judged figure in ``unit``: of a scenario, of each of its prompt buckets, or of the decision.

    ``column`` of the scenario matrix holds it, or that of the replays where it is ``replayed``; modeled if it ``needs_latency``;
    of separated paths alone if it ``moves``.
    """

    name: str
    unit: Unit
    column: str
    needs_latency: bool
    meaning: str
    scope: Scope = "scenario"
    moves: bool = False
    replayed: bool = False


def _replayed(name: str, unit: Unit, column: str, meaning: str) -> Metric:
    return Metric(name, unit, column, True, f"{meaning} in the replay of the trace", replayed=True)


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
    _replayed(
        "replayed_goodput",
        "ratio",
        "replayed_goodput",
        "modeled share of requests that meet the TTFT, TPOT, E2E and stall objectives",
    ),
    _replayed(
        "replayed_goodput_tokens",
        "ratio",
        "replayed_goodput_tokens",
        "modeled share of output tokens that belong to requests that meet all objectives",
    ),
    _replayed("replayed_stall", "s", "replayed_stall_s", "longest modeled time between two tokens of any request"),
    _replayed(
        "replayed_time_above_ceiling",
        "s",
        "replayed_time_above_ceiling_s",
        "modeled time, in windows of 60 s, in which a pool or the links are at or above their ceiling",
    ),
    _replayed("replayed_peak_queue", "count", "replayed_peak_queue", "most requests that wait for prefill at once"),
    _replayed("replayed_peak_kv", "ratio", "replayed_peak_kv", "most KV cache on one worker, as a share of its memory"),
    _replayed("replayed_preemptions", "count", "replayed_preemptions", "requests that are preempted for memory"),
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
REPLAYED = tuple(name for name, metric in METRICS.items() if metric.replayed)
"""Of scenarios, and known where the trace was replayed through them."""
BY_CLOSED_FORMS = tuple(name for name in OF_SCENARIOS if name not in REPLAYED)
BY_BUCKET = tuple(name for name, metric in METRICS.items() if metric.scope == "bucket")
CRITICAL_POOLS = "critical_pools"
OF_DECISIONS = tuple(name for name, metric in METRICS.items() if metric.scope == "decision")
