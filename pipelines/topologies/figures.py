"""The figures of evaluated rows: loads and refusals, latencies of every bucket, goodput (docs/arithmetic.md, sections 5 to 7)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipelines.arithmetic.numbers import Bools, Floats, Number, column
from pipelines.arithmetic.shares import within
from pipelines.frames.evaluation import LANES
from pipelines.topologies.constants import Objectives
from pipelines.topologies.paths.path import Load, PathResult

TO_FIRST_TOKEN = {"prefill": LANES[:3], "decode": LANES[:7]}
"""The lanes up to the first token, by the phase that emits it."""

FLOORS = ("ttft_floor", "tpot_floor")
QUEUES = ("prefill", "transfer", "decode")
NONE = -1

REGIMES = ("arrivals", "runs", "lane", "long_prompts", "slots", "tpot", "curve")
"""Regimes in which the closed forms are known to be off, in the order in which a row names them."""
TPOT_NEAR = 1.5


@dataclass(frozen=True)
class Judged:
    """Loads of each row in order, and the first that refuses it.

    ``refusing`` is the place of that load, then of the floors, or :data:`NONE`; ``figure`` and ``limit`` are its. ``utilization`` is
    rows x loads, absent (NaN) after the refusing one. ``tightest`` is the place of the load with the largest share of its ceiling.
    """

    loads: tuple[Load, ...]
    utilization: Floats
    refusing: NDArray[np.int64]
    figure: Floats
    limit: Floats
    floor_bucket: NDArray[np.int64]
    pressure: Floats
    tightest: NDArray[np.int64]

    @property
    def refused(self) -> Bools:
        """Whether a row has no latency."""
        refused: Bools = self.refusing != NONE
        return refused

    def kind(self, place: int) -> str:
        """The refusal kind of a place in the order of loads, then floors."""
        return self.loads[place].kind if place < len(self.loads) else FLOORS[place - len(self.loads)]


class Latencies:
    """What the requests of one path meet: seconds per row and bucket, or row and stratum."""

    def __init__(self, path: PathResult, objectives: Objectives) -> None:
        """``objectives`` are those of the path's buckets."""
        self.path = path
        self.objectives = objectives
        outputs = path.requests.of_buckets("o1")
        multi = path.requests.of_buckets("m")
        by_prefill = path.first_token == "prefill"
        self._first_step = multi if by_prefill else np.ones_like(outputs)
        self._waiting = np.ones_like(outputs) if _moves(path) else multi
        # answers of one and two tokens leave nothing; the difference of two rounded moments may fall just below
        self._remaining = np.maximum(0.0, outputs - 1 - multi) if by_prefill else outputs - 1
        self._later = outputs - 1

    @cached_property
    def lanes(self) -> dict[str, Floats]:
        """Seconds of each lane, rows x buckets or what broadcasts to it."""
        path = self.path
        return {
            "admission_s": np.atleast_2d(column(np.asarray(path.admission) + np.zeros(1))),
            "prefill_wait_s": path.prefill_wait.of_buckets(path.requests),
            "prefill_execution_s": np.atleast_2d(path.execution_buckets),
            "transfer_wait_s": path.transfer_wait[:, None],
            "kv_movement_s": np.atleast_2d(path.movement_buckets),
            "decode_wait_s": path.after_wait[:, None] * self._waiting,
            "first_decode_step_s": path.first_step[:, None] * self._first_step,
            "remaining_generation_s": path.t[:, None] * self._remaining,
        }

    @cached_property
    def ttft(self) -> Floats:
        """TTFT of every bucket."""
        return self._sum(TO_FIRST_TOKEN[self.path.first_token])

    @cached_property
    def after_first(self) -> Floats:
        """Time from the first token to the last. Not E2E - TTFT, which loses digits where waits are long."""
        return self._sum([lane for lane in LANES if lane not in TO_FIRST_TOKEN[self.path.first_token]])

    @cached_property
    def e2e(self) -> Floats:
        """End-to-end latency of every bucket."""
        return self._sum(LANES)

    @cached_property
    def tpot(self) -> Floats:
        """TPOT of every bucket; NaN where no request has two tokens."""
        later = np.where(self._later > 0, self._later, np.nan)
        tpot: Floats = self.after_first / later
        return tpot

    def _sum(self, lanes: tuple[str, ...] | list[str]) -> Floats:
        rows = len(self.path.t)
        total = np.zeros((rows, len(self.path.requests.buckets)))
        for lane in lanes:
            total = total + self.lanes[lane]
        return total

    @cached_property
    def transfer(self) -> Floats:
        """transfer_wait + kv_movement of every bucket."""
        return self.lanes["transfer_wait_s"] + self.lanes["kv_movement_s"]

    def met(self) -> Floats:
        """met_k: the share of the cohort that lies in each bucket and meets all its objectives."""
        in_time = self.path.requests.strata.sums(self._first_token_in_time() * self.path.requests.strata.cohort_share)
        return in_time * self._generated_in_time()

    def _first_token_in_time(self) -> Floats:
        """Share of each stratum whose first token is in time, rows x strata: half of it a deviation longer, half one shorter."""
        path, place = self.path, self.path.requests.strata.bucket
        lanes = self.lanes | {
            "prefill_wait_s": path.prefill_wait.of_strata(),
            "prefill_execution_s": np.atleast_2d(path.execution_strata),
            "kv_movement_s": np.atleast_2d(path.movement_strata),
        }
        if path.first_token == "decode":
            lanes["decode_wait_s"] = path.after_wait[:, None]
            lanes["first_decode_step_s"] = path.first_step[:, None]
        wait, probability = (_across(one) for one in (path.kept.mean_s, path.kept.probability))
        fixed = sum((lanes[lane] for lane in TO_FIRST_TOKEN[path.first_token]), np.zeros(1)) - wait
        limit = self.objectives.ttft[:, place]
        if np.isfinite(self.objectives.e2e).any():
            limit = np.minimum(limit, self.objectives.e2e[:, place] - self.after_first[:, place])
        waits = np.where(wait > 0, wait, 1.0)
        halves = []
        for slack in (limit - fixed - path.spread, limit - fixed + path.spread):
            in_time = np.where(wait > 0, 1 - probability * np.exp(-probability * slack / waits), 1.0)
            halves.append(np.where(slack < 0, 0.0, in_time))
        met: Floats = (halves[0] + halves[1]) / 2
        return met

    def _generated_in_time(self) -> Floats:
        """Share of each bucket's requests whose TPOT is within its objective, rows x buckets."""
        outputs, own = self.path.requests.outputs, self.path.generation
        steps = np.maximum(outputs.tokens - 1, 0.0)
        objective = self.objectives.tpot[:, outputs.bucket]
        alone, t = _across(own.alone), _across(own.t)
        allowed = steps * (objective - alone)
        wait = own.wait[:, outputs.bucket] if own.wait.ndim == 2 and own.wait.shape[1] > 1 else _across(own.wait)
        mean = wait + steps * (t - alone)
        turned = np.where(steps > 0, _across(own.turnover) * steps, 1.0)
        others = _across(own.others) * steps**2 * 2 * (turned + np.expm1(-turned)) / turned**2
        variance = _across(own.wait_scv) * wait**2 + steps * _across(own.per_step) + others
        met = within(allowed, mean, variance)
        met = np.where(objective >= _across(own.surely_s), 1.0, met)
        shares = outputs.shares(np.where(steps > 0, met, 1.0))
        return shares if own.places is None else shares[own.places]

    def floors(self) -> tuple[Floats, Floats]:
        """How far the floors of TTFT and TPOT are from their objectives, as ratios, rows (or one) x buckets."""
        ttft = np.atleast_2d(self.path.floor_ttft) / self.objectives.ttft
        alone = np.atleast_2d(column(np.asarray(self.path.floor_tpot) + np.zeros(1)))
        tpot = np.where(self._later > 0, alone / self.objectives.tpot, 0.0)
        return ttft, tpot


@dataclass(frozen=True)
class Figures:
    """All rows of one layout under one bound: the latencies of each path, and the loads of all of them."""

    paths: tuple[Latencies, ...]
    rows: int

    def beside(self, of: str) -> Floats:
        """The buckets of all paths beside each other, rows x buckets: ``ttft``, ``tpot``, ``e2e`` or ``after_first``."""
        return np.concatenate([np.broadcast_to(getattr(one, of), self._shape(one)) for one in self.paths], axis=1)

    def lane(self, name: str) -> Floats:
        """One lane, rows x buckets of all paths."""
        return np.concatenate([np.broadcast_to(one.lanes[name], self._shape(one)) for one in self.paths], axis=1)

    def objective(self, name: str) -> Floats:
        """The objectives of all buckets in seconds, rows (or one) x buckets."""
        of_paths = [getattr(one.objectives, name) for one in self.paths]
        rows = max(len(seconds) for seconds in of_paths)
        return np.concatenate([np.broadcast_to(one, (rows, one.shape[1])) for one in of_paths], axis=1)

    def _shape(self, one: Latencies) -> tuple[int, int]:
        return self.rows, len(one.path.requests.buckets)

    @property
    def batch(self) -> Floats:
        """b, the larger of two paths."""
        larger: Floats = np.max([one.path.batch for one in self.paths], axis=0)
        return larger

    @property
    def stall(self) -> Floats:
        """The longest gap between tokens, of the path that has it longer; NaN where there is none."""
        stalls = np.array([one.path.stall for one in self.paths])
        absent = np.isnan(stalls).all(axis=0)
        return np.where(absent, np.nan, np.max(np.nan_to_num(stalls, nan=-np.inf), axis=0))

    @cached_property
    def met(self) -> tuple[Floats, ...]:
        """met_k of each path."""
        with np.errstate(all="ignore"):
            return tuple(one.met() for one in self.paths)

    @property
    def goodput(self) -> Floats:
        """Share of the cohort that meets its objectives: of each path, added."""
        parts = [np.broadcast_to(met.sum(axis=1), (self.rows,)) for met in self.met]
        total: Floats = sum(parts[1:], parts[0])
        return np.clip(total, 0.0, 1.0)

    @property
    def tokens_met(self) -> Floats:
        """Output tokens per request of the cohort that lie in requests which met their objectives: Σ met_k·o1_k."""
        parts = [
            (met * one.path.requests.of_buckets("o1")).sum(axis=1)
            for met, one in zip(self.met, self.paths, strict=True)
        ]
        total: Floats = sum(parts[1:], parts[0])
        return total

    @property
    def transfer(self) -> Floats:
        """Largest transfer wait plus KV movement of any bucket; NaN where nothing moves."""
        moving = [one for one in self.paths if _moves(one.path)]
        if not moving:
            return np.full(self.rows, np.nan)
        of_paths = [np.broadcast_to(one.transfer, self._shape(one)).max(axis=1) for one in moving]
        largest: Floats = np.max(of_paths, axis=0)
        return largest

    @property
    def dominant_queue(self) -> NDArray[np.int64]:
        """Place in :data:`QUEUES` of the longest wait, of two paths the larger of each."""
        of_paths = [
            (one.path.prefill_wait.mean(one.path.requests), one.path.transfer_wait, one.path.after_wait)
            for one in self.paths
        ]
        waits = [np.max([waits[place] for waits in of_paths], axis=0) for place in range(len(QUEUES))]
        longest: NDArray[np.int64] = np.argmax(np.nan_to_num(np.array(waits)), axis=0)
        return longest

    def screening(self) -> list[str]:
        """Per row the names of the regimes that any of its paths is in, space-separated."""
        known: dict[str, Bools] = {}
        for one in self.paths:
            for name, rows in (one.path.screening | self._near_tpot(one)).items():
                known[name] = known.get(name, np.zeros(self.rows, dtype=bool)) | rows
        codes = np.zeros(self.rows, dtype=np.int64)
        for bit, name in enumerate(REGIMES):
            codes += known.get(name, np.zeros(self.rows, dtype=bool)).astype(np.int64) << bit
        codes[self.judged.refused] = 0
        each, places = np.unique(codes, return_inverse=True)
        said = [" ".join(name for bit, name in enumerate(REGIMES) if code >> bit & 1) for code in each.tolist()]
        return [said[place] for place in places.tolist()]

    def _near_tpot(self, one: Latencies) -> dict[str, Bools]:
        """Where a TPOT objective is so near to the mean that goodput depends on how TPOT varies, which is hard to say beside prefill."""
        if _moves(one.path):
            return {}
        near = one.objectives.tpot < TPOT_NEAR * one.path.t[:, None]
        return {"tpot": np.broadcast_to(near.any(axis=1), (self.rows,))}

    @cached_property
    def judged(self) -> Judged:
        """Loads and refusals."""
        with np.errstate(all="ignore"):
            return self._judge()

    def _judge(self) -> Judged:
        loads = tuple(load for one in self.paths for load in one.path.loads)
        values, full, figures, limits = [], [], [], []
        ceilings = []
        for load in loads:
            value = np.broadcast_to(np.asarray(load.utilization), (self.rows,))
            ceiling = np.broadcast_to(np.asarray(load.ceiling, dtype=np.float64), (self.rows,))
            no_room = load.room < 1 if load.room is not None else np.zeros(self.rows, dtype=bool)
            room = load.room if load.room is not None else value
            values.append(np.where(no_room, np.nan, value))
            full.append(no_room | (value >= ceiling))
            figures.append(np.where(no_room, room, value))
            limits.append(np.where(no_room, 1.0, ceiling))
            ceilings.append(ceiling)
        worst = []
        for floors, floor in zip(self._floors(), ("floor_ttft", "floor_tpot"), strict=True):
            place = floors.argmax(axis=1)
            worst.append(place)
            figure, limit = self._floor_of(floor, place)
            full.append(floors.max(axis=1) > 1)
            figures.append(figure)
            limits.append(limit)
        stacked = np.array(full)
        refusing = np.where(stacked.any(axis=0), stacked.argmax(axis=0), NONE)
        rows = np.arange(self.rows)
        chosen = np.maximum(refusing, 0)
        after = np.arange(len(loads))[None, :] > np.where(refusing == NONE, len(full), refusing)[:, None]
        utilization = np.where(after, np.nan, np.array(values).T)
        shares = utilization / np.array(ceilings).T
        pressure = np.nanmax(shares, axis=1) if len(loads) else np.full(self.rows, np.nan)
        floor_place = np.clip(chosen - len(loads), 0, 1)
        return Judged(
            loads=loads,
            utilization=utilization,
            refusing=refusing,
            figure=np.where(refusing == NONE, np.nan, np.array(figures)[chosen, rows]),
            limit=np.where(refusing == NONE, np.nan, np.array(limits)[chosen, rows]),
            floor_bucket=np.array(worst)[floor_place, rows],
            pressure=pressure,
            tightest=np.nanargmax(shares, axis=1),
        )

    def _floors(self) -> tuple[Floats, Floats]:
        each = [one.floors() for one in self.paths]
        return tuple(  # type: ignore[return-value]
            np.concatenate(
                [np.broadcast_to(floors[kind], self._shape(one)) for floors, one in zip(each, self.paths, strict=True)],
                axis=1,
            )
            for kind in (0, 1)
        )

    def _floor_of(self, floor: str, place: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Seconds of a floor in the bucket at ``place``, and its objective."""
        rows = np.arange(self.rows)
        seconds = np.concatenate(
            [np.broadcast_to(_seconds(one.path, floor), self._shape(one)) for one in self.paths], axis=1
        )
        limits = np.broadcast_to(self.objective("ttft" if floor == "floor_ttft" else "tpot"), seconds.shape)
        return seconds[rows, place], limits[rows, place]


def _seconds(path: PathResult, floor: str) -> Floats:
    if floor == "floor_ttft":
        return np.atleast_2d(path.floor_ttft)
    return np.atleast_2d(column(np.asarray(path.floor_tpot) + np.zeros(1)))


def _moves(path: PathResult) -> bool:
    return any(load.resource == "link" for load in path.loads)


def _across(values: Number) -> Floats:
    """One value per row beside columns: what is two-dimensional already stays."""
    known = np.asarray(values, dtype=np.float64)
    return known[:, None] if known.ndim == 1 else known
