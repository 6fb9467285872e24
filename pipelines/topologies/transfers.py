"""The transfers of a path's requests under one bound: the model of one, and its moments over the strata (docs/arithmetic.md, section 3)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.arithmetic.numbers import Floats, Number, column, where
from pipelines.arithmetic.transfer import Affine, Moved, TransferModel
from pipelines.declarations.transfer_table import parse_curve
from pipelines.frames.inputs import Bound, InputTable
from pipelines.topologies.constants import Constants, curve_under
from pipelines.topologies.memory import LAYOUT_INPUT, served_cache
from pipelines.topologies.requests import Computed, PathRequests

LINKS_INPUT = "network.links"
BANDWIDTH_INPUT = "network.effective_bandwidth"
CURVE_INPUT = "network.transfer_curve"
HANDOVER_INPUT = "network.router_handover"
OVERHEAD_INPUTS = ("network.registration", "network.synchronization", "network.receiver_visibility")


@dataclass(frozen=True)
class Transfers:
    """All transfers of a path; ``moved`` has one entry per stratum (after rows, where inputs vary by row).

    ``overlap`` is φ; ``longest`` is the transfer of the longest prompt, in whole blocks. ``tokens`` are E[v] of the strata,
    ``variance`` and ``covariance`` Var(v) and Cov(p, v) in tokens², ``execution_s`` the prefill that a transfer may hide behind.
    """

    model: TransferModel
    requests: PathRequests
    tokens: Floats
    variance: Floats
    covariance: Floats
    execution_s: Floats
    moved: Moved
    longest: Moved
    overlap: Number
    channels: int

    @property
    def mean_s(self) -> Number:
        """T̄ in seconds."""
        return self._mean(self.moved.seconds)

    @property
    def token_seconds(self) -> Number:
        """E[p·T]."""
        return self._mean(self.requests.strata.p * self.moved.seconds + self.moved.slope * self.covariance)

    @property
    def link_s(self) -> Number:
        """T_l: seconds for which a transfer keeps a link busy, on average. The router's hand-over does not."""
        return self._mean(self.moved.busy_s)

    @property
    def link_scv(self) -> Number:
        """c_l², the squared coefficient of variation of that time: exact where T is straight within each stratum."""
        busy = np.asarray(self.link_s)
        second = self._mean(self.moved.busy_s**2 + self.moved.slope**2 * self.variance)
        used = where(busy > 0, busy, 1.0)
        return where(busy > 0, np.maximum(second / used**2 - 1, 0.0), 0.0)

    @property
    def bytes_mean(self) -> Number:
        """Mean bytes of a transfer."""
        return self._mean(self.moved.size_bytes)

    @property
    def leaves_curve(self) -> bool:
        """Whether any transfer is smaller or larger than what was measured."""
        return self.model.leaves_curve(self.moved.size_bytes) or self.model.leaves_curve(self.longest.size_bytes)

    @property
    def movements_s(self) -> Floats:
        """T_s - H_s: KV movement of each stratum in seconds that is not hidden behind its prefill."""
        hidden = np.minimum(column(self.overlap) * self.moved.payload_s, self.execution_s)
        movement: Floats = np.atleast_1d(self.moved.seconds - hidden)
        return movement

    def at_bandwidth(self, bandwidth: float) -> "Transfers":
        """The same with ``bandwidth`` in bytes/s for one transfer (w'); for a model without a curve."""
        assert self.model.affine is not None
        model = replace(self.model, affine=replace(self.model.affine, bandwidth=bandwidth))
        return replace(self, model=model, moved=model.rows().of_mean(self.tokens))

    def _mean(self, values: Any) -> Number:
        mean = self.requests.strata.mean(np.atleast_1d(values))
        return mean if np.ndim(mean) else float(mean)


def transfer_model(inputs: InputTable, bound: Bound) -> TransferModel:
    """The declared transfer under ``bound``."""
    affine = None
    if inputs.has(BANDWIDTH_INPUT):
        affine = Affine(
            overhead_s=sum(inputs.number(path, bound) for path in OVERHEAD_INPUTS),
            seconds_per_descriptor=inputs.number("network.seconds_per_descriptor", bound),
            bandwidth=links_of_transfer(inputs, bound) * inputs.number(BANDWIDTH_INPUT, bound),
        )
    return TransferModel(
        cache=served_cache(inputs),
        affine=affine,
        curve=curve_under(parse_curve(inputs.word(CURVE_INPUT)), bound) if inputs.has(CURVE_INPUT) else None,
        handover_s=inputs.number(HANDOVER_INPUT, bound),
        competing=inputs.number("network.competing_traffic", bound),
        relayout=inputs.number("network.relayout_factor", bound),
        regions=inputs.number("network.regions_per_block", bound) if affine else 0.0,
        layout=inputs.number(LAYOUT_INPUT, bound),
    )


def links_of_transfer(inputs: InputTable, bound: Bound) -> Number:
    """Links that one transfer uses, less the share that other traffic takes: n_s·(1 - χ)."""
    return inputs.number("network.links_per_transfer", bound) * (1 - inputs.number("network.competing_traffic", bound))


def transfers(
    inputs: InputTable, bound: Bound, known: Constants, requests: PathRequests, computed: Computed
) -> Transfers:
    """The transfers of ``requests`` under ``bound``, whose prefill pool and hits are those of ``known`` and ``computed``."""
    model, strata = transfer_model(inputs, bound), requests.strata
    held = column(inputs.number("network.prefix_at_destination", bound))
    spread, shared = strata.pp - strata.p**2, computed.covariance
    tokens = np.atleast_1d((1 - held) * strata.p + held * computed.u)
    own = column(known.alpha) ** 2 * (strata.uu - strata.u**2)
    variance = (1 - held) ** 2 * spread + 2 * held * (1 - held) * shared + held * held * own
    return Transfers(
        model=model,
        requests=requests,
        tokens=tokens,
        variance=np.maximum(variance, 0.0),
        covariance=(1 - held) * spread + held * shared,
        execution_s=np.atleast_1d(known.prefill["prefill"].rows().prompt_s(computed.u, computed.z, computed.uu)),
        moved=model.rows().of_mean(tokens),
        longest=model.of_prompt(int(requests.moments["p_max"])),
        overlap=inputs.number("network.overlap", bound),
        channels=int(inputs.number(LINKS_INPUT, bound) // inputs.number("network.links_per_transfer", bound)),
    )
