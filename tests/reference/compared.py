"""The planner's figures of every case beside what the simulation showed: how far they are apart, and which cases miss."""

from dataclasses import dataclass
from functools import cache

from tests.reference.cases import Case
from tests.reference.lists import LISTS
from tests.reference.planned import Planned, planned, planned_twice
from tests.reference.record import OBJECTIVES, Figures

TTFT_WORST, TPOT_WORST, TPOT_WORST_SCREENED = 0.20, 0.08, 0.10
"""How far a mean may be off (share of what was seen): a case beyond it misses. The last within screening regimes."""
TTFT_MEDIAN, TPOT_MEDIAN, MET_MEDIAN = 0.06, 0.03, 0.04
"""How far half of the cases may be off; the last in shares of all requests."""
MET_WORST = 0.10
"""How far the share that meets both objectives may be off before the case is listed."""


@dataclass(frozen=True)
class Compared:
    """One case. Errors are shares of what was seen; of goodput, shares of all requests. None where the planner refuses."""

    case: Case
    ttft: float | None
    tpot: float | None
    stall: float | None
    """The planner's bound over the longest gap seen."""
    tight: float | None
    """Goodput less that seen, with objectives of 1.2 times the means seen."""
    loose: float | None
    """The same with objectives of 2 times the means."""
    screening: tuple[str, ...]
    """Regimes but for `tpot`, which follows from the objective."""
    tpot_near: bool
    """Whether the tight objective puts it into the regime `tpot`."""

    @property
    def missed(self) -> tuple[str, ...]:
        """The means that are off by more than the target, and the bound if a longer gap was seen."""
        misses = {
            "refused": self.ttft is None or self.tpot is None or self.stall is None,
            "TTFT": self.ttft is not None and abs(self.ttft) > TTFT_WORST,
            "TPOT": self.tpot is not None and abs(self.tpot) > TPOT_WORST,
            "stall": self.stall is not None and self.stall < 1,
        }
        return tuple(name for name, missed in misses.items() if missed)

    @property
    def goodput_missed(self) -> tuple[str, ...]:
        """The pairs of objectives whose goodput is off by more than :data:`MET_WORST`."""
        pairs = {"tight": self.tight, "loose": self.loose}
        return tuple(name for name, off in pairs.items() if off is not None and abs(off) > MET_WORST)


def compare(case: Case, seen: Figures) -> Compared:
    """One case beside what was seen of it.

    Objectives do not change means: they are taken where the loose objectives are not refused, else without any.
    """
    rate = seen["rate_rps"]
    tight, loose = planned_twice(
        case, rate, *((times * seen["ttft_s"], times * seen["tpot_s"]) for times in OBJECTIVES)
    )
    means = loose or planned(case, rate)
    return Compared(
        case,
        ttft=None if means is None else means.ttft_s / seen["ttft_s"] - 1,
        tpot=None if means is None else means.tpot_s / seen["tpot_s"] - 1,
        stall=None if means is None else means.stall_s / seen["stall_s"],
        tight=_off(tight, seen["met_tight"]),
        loose=_off(loose, seen["met_loose"]),
        screening=() if means is None else tuple(name for name in means.screening if name != "tpot"),
        tpot_near=tight is not None and "tpot" in tight.screening,
    )


def _off(plan: Planned | None, met: float) -> float | None:
    return None if plan is None else plan.met - met


@cache
def compared(name: str) -> tuple[Compared, ...]:
    """All cases of a list."""
    seen = LISTS[name].seen()
    return tuple(compare(case, seen[case.name]) for case in LISTS[name].cases)
