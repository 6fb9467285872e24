"""Regimes in which the closed forms are known to be off; a row carries the names of those it is in (section 7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .objectives import Objectives

REGIMES = ("arrivals", "runs", "lane", "long_prompts", "slots", "tpot", "curve")
_BURSTY, _REGULAR = 2.0, 0.5
_WAITING, _WAITING_IN_TURN = 1 / 4, 1 / 10
_FULL_LANE, _VARIED, _FULL_SLOTS, _NEAR_PACE = 0.6, 2.0, 0.7, 1.5


@dataclass(frozen=True)
class Regime:
    """What one path's regimes are told by; on a separated path, neither runs nor a lane, nor a pace beside prefill."""

    arrival_scv: float
    sharing: int
    prefill_scv: float
    slots: float
    """`σ`."""
    leaves_curve: bool
    waiting: float | None = None
    """Share of `decode_wait` in all that comes after the first token, by the path's means."""
    in_turn: bool = False
    """Whether prompts go to several workers in turn."""
    lane: float | None = None
    pace_s: float | None = None
    buckets: tuple[str, ...] = field(default=(), compare=False)

    def names(self, objectives: Objectives) -> set[str]:
        """Return the regimes that the path is in."""
        waiting = _WAITING_IN_TURN if self.in_turn else _WAITING
        found = {
            "arrivals": self.arrival_scv > _BURSTY or self.arrival_scv < _REGULAR,
            "runs": self.waiting is not None and self.waiting > waiting,
            "lane": self.lane is not None and self.lane > _FULL_LANE,
            "long_prompts": self.sharing > 1 and self.prefill_scv > _VARIED,
            "slots": self.slots > _FULL_SLOTS,
            "tpot": self.pace_s is not None and self._near(objectives, self.pace_s),
            "curve": self.leaves_curve,
        }
        return {name for name, there in found.items() if there}

    def _near(self, objectives: Objectives, pace_s: float) -> bool:
        limits = [objectives.of("tpot", bucket) for bucket in self.buckets]
        return any(limit is not None and limit < _NEAR_PACE * pace_s for limit in limits)


def screening(regimes: Iterable[Regime], objectives: Objectives) -> list[str]:
    """Return the regimes that any of the paths is in, in order."""
    found = {name for regime in regimes for name in regime.names(objectives)}
    return [name for name in REGIMES if name in found]


def waiting_share(wait_s: float, generation_s: float) -> float:
    """Share of a wait in itself and what follows; 0 where there is neither.

    >>> waiting_share(1.0, 3.0), waiting_share(0.0, 0.0)
    (0.25, 0.0)
    """
    return wait_s / (wait_s + generation_s) if wait_s else 0.0
