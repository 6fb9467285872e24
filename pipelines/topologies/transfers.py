"""The transfers of a cohort under one bound: the model of one, and its moments over the strata (docs/arithmetic.md, section 3)."""

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from pipelines.arithmetic import service
from pipelines.arithmetic.transfer import Affine, Curve, Moved, TransferModel
from pipelines.declarations.transfer_table import parse_curve
from pipelines.frames.inputs import Bound, InputTable
from pipelines.frames.workload import ALL
from pipelines.topologies.constants import miss_factors
from pipelines.topologies.memory import served_cache

LINKS_INPUT = "network.links"
BANDWIDTH_INPUT = "network.effective_bandwidth"
CURVE_INPUT = "network.transfer_curve"
HANDOVER_INPUT = "network.router_handover"
OVERHEAD_INPUTS = ("network.registration", "network.synchronization", "network.receiver_visibility")


@dataclass(frozen=True)
class StratumTransfer:
    """The transfers of one stratum: its bucket and requests, E[p] and E[v] in tokens, Var(v) and Cov(p, v) in tokens²."""

    bucket: str
    requests: int
    prompt_tokens: float
    tokens: float
    variance: float
    covariance: float
    moved: Moved
    execution_s: float
    hidden_s: float

    @property
    def movement_s(self) -> float:
        """Seconds that are not hidden behind prefill."""
        return self.moved.seconds - self.hidden_s

    def moved_by(self, model: TransferModel, overlap: float) -> "StratumTransfer":
        """The same prompts, moved by another ``model``."""
        moved = model.of_mean(self.tokens)
        return replace(self, moved=moved, hidden_s=min(overlap * moved.payload_s, self.execution_s))


@dataclass(frozen=True)
class Transfers:
    """All transfers under one bound. ``overlap`` is φ; ``longest`` is the transfer of the longest prompt, in whole blocks."""

    model: TransferModel
    strata: tuple[StratumTransfer, ...]
    longest: Moved
    overlap: float
    channels: int

    @property
    def mean_s(self) -> float:
        """T̄ in seconds."""
        return self._mean(lambda stratum: stratum.moved.seconds)

    @property
    def token_seconds(self) -> float:
        """E[p·T]."""
        return self._mean(lambda one: one.prompt_tokens * one.moved.seconds + one.moved.slope * one.covariance)

    @property
    def link_s(self) -> float:
        """T_l: seconds for which a transfer keeps a link busy, on average. The router's hand-over does not."""
        return self._mean(lambda stratum: stratum.moved.busy_s)

    @property
    def link_scv(self) -> float:
        """c_l², the squared coefficient of variation of that time: exact where T is straight within each stratum."""
        if self.link_s <= 0:
            return 0.0
        second = self._mean(lambda one: one.moved.busy_s**2 + one.moved.slope**2 * one.variance)
        return max(0.0, second / self.link_s**2 - 1)

    @property
    def bytes_mean(self) -> float:
        """Mean bytes of a transfer."""
        return self._mean(lambda stratum: stratum.moved.size_bytes)

    @property
    def leaves_curve(self) -> bool:
        """Whether any transfer is smaller or larger than what was measured."""
        sizes = (*(stratum.moved.size_bytes for stratum in self.strata), self.longest.size_bytes)
        return any(self.model.leaves_curve(size) for size in sizes)

    def at_bandwidth(self, bandwidth: float) -> "Transfers":
        """The same with ``bandwidth`` in bytes/s for one transfer (w'); for a model without a curve."""
        assert self.model.affine is not None
        model = replace(self.model, affine=replace(self.model.affine, bandwidth=bandwidth))
        strata = tuple(one.moved_by(model, self.overlap) for one in self.strata)
        return replace(self, model=model, strata=strata)

    def of_bucket(self, bucket: str) -> "Transfers":
        """Those of one bucket."""
        return replace(self, strata=tuple(one for one in self.strata if one.bucket == bucket))

    @property
    def movement_s(self) -> float:
        """Mean KV movement in seconds that is not hidden behind prefill."""
        return self._mean(lambda stratum: stratum.movement_s)

    @property
    def descriptors(self) -> float:
        """Mean descriptors of a transfer."""
        return self._mean(lambda stratum: stratum.moved.descriptors)

    @property
    def execution_s(self) -> float:
        """Mean prefill execution in seconds."""
        return self._mean(lambda stratum: stratum.execution_s)

    def _mean(self, of: Any) -> float:
        total = sum(stratum.requests for stratum in self.strata)
        return float(sum(stratum.requests / total * of(stratum) for stratum in self.strata))


def transfer_model(inputs: InputTable, bound: Bound) -> TransferModel:
    """The declared transfer under ``bound``."""
    competing = inputs.number("network.competing_traffic", bound)
    affine = None
    if inputs.has(BANDWIDTH_INPUT):
        affine = Affine(
            overhead_s=sum(inputs.number(path, bound) for path in OVERHEAD_INPUTS),
            seconds_per_descriptor=inputs.number("network.seconds_per_descriptor", bound),
            bandwidth=links_of_transfer(inputs, bound) * inputs.number(BANDWIDTH_INPUT, bound),
        )
    return TransferModel(
        cache=served_cache(inputs, bound),
        affine=affine,
        curve=_curve(inputs, bound),
        handover_s=inputs.number(HANDOVER_INPUT, bound),
        competing=competing,
        relayout=inputs.number("network.relayout_factor", bound),
        regions=inputs.number("network.regions_per_block", bound) if affine else 0.0,
    )


def links_of_transfer(inputs: InputTable, bound: Bound) -> float:
    """Links that one transfer uses, less the share that other traffic takes: n_s·(1 - χ)."""
    return inputs.number("network.links_per_transfer", bound) * (1 - inputs.number("network.competing_traffic", bound))


def _curve(inputs: InputTable, bound: Bound) -> Curve | None:
    if not inputs.has(CURVE_INPUT):
        return None
    points = parse_curve(inputs.word(CURVE_INPUT))
    upper = bound == "conservative"
    return Curve(tuple((float(b), float(high if upper and high is not None else tau)) for b, tau, high in points))


def transfers(inputs: InputTable, buckets: pl.DataFrame, strata: pl.DataFrame, bound: Bound) -> Transfers:
    """The transfers of all requests under ``bound``."""
    model = transfer_model(inputs, bound)
    alpha, beta = miss_factors(inputs, bound)
    held = inputs.number("network.prefix_at_destination", bound)
    overlap = inputs.number("network.overlap", bound)
    d, r_p, q = prefill_symbols(inputs, bound)
    found = []
    for row in strata.iter_rows(named=True):
        p, u = row["prompt_tokens_mean"], alpha * row["uncached_tokens_mean"]
        pp = row["prompt_tokens_m2"] - p * p
        pu = alpha * (row["prompt_uncached_mean"] - p * row["uncached_tokens_mean"])
        uu = alpha * alpha * (row["uncached_tokens_m2"] - row["uncached_tokens_mean"] ** 2)
        variance = (1 - held) ** 2 * pp + 2 * held * (1 - held) * pu + held * held * uu
        tokens = (1 - held) * p + held * u
        moved = model.of_mean(tokens)
        execution = service.prefill_s(u, beta * row["attention_mean"], d=d, r_p=r_p, q=q)
        assert isinstance(execution, float)
        found.append(
            StratumTransfer(
                bucket=row["bucket"],
                requests=row["requests"],
                prompt_tokens=p,
                tokens=tokens,
                variance=max(0.0, variance),
                covariance=(1 - held) * pp + held * pu,
                moved=moved,
                execution_s=execution,
                hidden_s=min(overlap * moved.payload_s, execution),
            )
        )
    longest = int(buckets.filter(pl.col("bucket") == ALL)["prompt_tokens_max"].item())
    channels = int(inputs.number(LINKS_INPUT, bound) // inputs.number("network.links_per_transfer", bound))
    return Transfers(model, tuple(found), model.of_prompt(longest), overlap, channels)


def prefill_symbols(inputs: InputTable, bound: Bound) -> tuple[float, float, float]:
    """Overhead d (s), rate r_p (tokens/s) and q (s/token²) of prefill."""
    names = ("overhead", "tokens_per_second", "seconds_per_token_squared")
    d, r_p, q = (inputs.number(f"service.prefill.{name}", bound) for name in names)
    return d, r_p, q
