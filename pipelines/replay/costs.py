"""What a cohort declares, as the kernels read it: service times, memory, transfers and objectives in ticks (docs/replay.md, The clock)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from pipelines.arithmetic.curves import Curve
from pipelines.arithmetic.numbers import Floats
from pipelines.arithmetic.prefill import PrefillTimes
from pipelines.frames.inputs import Bound, InputTable
from pipelines.frames.replays import DECODE, MIXED, PREFILL
from pipelines.replay import records as r
from pipelines.replay.clock import COARSEST, WINDOW_S, on_curve, step_ticks, ticks_of, ticks_per_second, whole
from pipelines.replay.policy import POLICIES, SWAP_INPUT, memory_policy
from pipelines.replay.run import LINK, MixedPath, Path, SeparatedPath, Setting
from pipelines.replay.separated import Stages
from pipelines.topologies.constants import HIT_RATIO_INPUT, Constants, constants, objectives
from pipelines.topologies.question import Workload
from pipelines.topologies.requests import Bucket
from pipelines.topologies.transfers import transfer_model

STALL_INPUT = "objectives.stall"
HELD_INPUT = "network.prefix_at_destination"
OVERLAP_INPUT = "network.overlap"
_DISPATCH = {"least_loaded": r.ONE_LINE, "round_robin": r.ROUND_ROBIN, "shortest_queue": r.SHORTEST_QUEUE}
_SHARING = {"shared": r.SHARED, "per_prefill_worker": r.PER_PREFILL_WORKER, "per_decode_worker": r.PER_DECODE_WORKER}


@dataclass(frozen=True)
class Knobs:
    """The sizes of one scenario; None what its topology does not have."""

    topology: str
    threshold_tokens: int | None
    workers_mixed: int | None
    workers_prefill: int | None
    workers_decode: int | None
    chunk_tokens: int | None


@dataclass(frozen=True)
class Costs:
    """One cohort and its log under one bound, with T of ``ticks_per_s``."""

    inputs: InputTable
    bound: Bound
    buckets: Sequence[Bucket]
    log: r.Log
    ticks_per_s: int

    @classmethod
    def of(
        cls,
        inputs: InputTable,
        bound: Bound,
        workload: Workload,
        requests: pl.DataFrame,
        ticks_per_s: int | None = None,
    ) -> "Costs":
        """Of a requests frame whose first request arrives at 0; T of that frame unless given."""
        every = workload.of("all", None)
        assert every is not None
        span = float(requests["arrival_ns"][-1]) / r.NANOSECONDS
        log = log_of(requests, inputs.number(HIT_RATIO_INPUT, bound) if inputs.has(HIT_RATIO_INPUT) else 0.0)
        return cls(inputs, bound, every.buckets, log, ticks_per_s or ticks_per_second(span))

    @property
    def tpn(self) -> int:
        """Ticks per nanosecond."""
        return self.ticks_per_s // COARSEST

    @cached_property
    def known(self) -> Constants:
        """Everything declared of service and pools."""
        return constants(self.inputs, self.bound)

    @cached_property
    def setting(self) -> Setting:
        """What all paths share."""
        return Setting(
            dispatch=_DISPATCH[self.known.dispatch],
            ordered=self.known.discipline == "shortest_first",
            admission_ticks=ticks_of(float(self.known.a), self.ticks_per_s, r.LAST_TICK + 1),
            limits=self._limits(),
            window_ticks=WINDOW_S * self.ticks_per_s,
            windows=int(self.log.arrival_ns[-1]) // (WINDOW_S * COARSEST) + 1,
        )

    @cached_property
    def ceilings(self) -> dict[str, float]:
        """The utilization at which a pool, or the links, is above its ceiling."""
        prefill, decode = self.known.prefill_ceiling, self.known.decode
        return {
            MIXED: min(float(prefill[MIXED]), float(decode[MIXED].ceiling)),
            PREFILL: float(prefill[PREFILL]),
            DECODE: float(decode[DECODE].ceiling),
            LINK: float(self.known.link_ceiling),
        }

    @cached_property
    def requests_by_window(self) -> r.Int64s:
        """How many requests arrive in each window."""
        windows = self.log.arrival_ns // (WINDOW_S * COARSEST)
        return np.bincount(windows, minlength=self.setting.windows).astype(np.int64)

    def capacity(self, pool: str) -> int:
        """M of a worker of ``pool`` in whole bytes."""
        return whole(float(self.known.kv_memory[pool]))

    @cached_property
    def pools(self) -> dict[str, r.Pool]:
        """The workers of each pool. Those of the decode pool prefill with the times of the prefill pool, where they have to."""
        return {pool: self._pool(pool) for pool in (MIXED, PREFILL, DECODE)}

    def paths(self, knobs: Knobs) -> tuple[Path, ...]:
        """The paths of a scenario, each with the requests that it serves."""
        if knobs.topology in ("aggregated", "chunked"):
            return (self._mixed(self.log, knobs),)
        if knobs.topology == "disaggregated":
            return (self._separated(np.ones(len(self.log.prompt), dtype=bool), knobs),)
        assert knobs.threshold_tokens is not None
        long = self.log.prompt >= knobs.threshold_tokens
        return self._mixed(_part(self.log, ~long), knobs), self._separated(long, knobs)

    def fits(self, knobs: Knobs) -> bool:
        """Whether every request fits into an empty worker of every pool that holds it."""
        return all(self._largest(path, pool) <= self.capacity(pool) for path, pool in self._holding(knobs))

    def _holding(self, knobs: Knobs) -> list[tuple[r.Log, str]]:
        held = []
        for path in self.paths(knobs):
            pools = (MIXED,) if isinstance(path, MixedPath) else (PREFILL, DECODE)
            held += [(path.log, pool) for pool in pools]
        return held

    def _largest(self, log: r.Log, pool: str) -> int:
        """The most bytes that one request of ``log`` ever holds on a worker of ``pool``."""
        memory = self.pools[pool].memory
        prompt, output = log.prompt.astype(np.int64), log.output.astype(np.int64)
        tokens = prompt + memory.block - 1 + (0 if pool == PREFILL else output)
        held = memory.state + memory.growth * tokens
        longest = prompt + output + memory.block - 1
        for size, length in zip(memory.window_bytes, memory.window_tokens, strict=True):
            held += size * np.minimum(longest, length)
        return int(held.max(initial=0))

    def _mixed(self, log: r.Log, knobs: Knobs) -> MixedPath:
        assert knobs.workers_mixed is not None
        return MixedPath(log, self.pools[MIXED], knobs.workers_mixed, knobs.chunk_tokens or 0)

    def _separated(self, serves: np.ndarray, knobs: Knobs) -> SeparatedPath:
        assert knobs.workers_prefill is not None
        assert knobs.workers_decode is not None
        log = self.log if serves.all() else _part(self.log, serves)
        move, keep, sharing, channels = self.transfers
        transfers = r.Transfers(move[serves], keep[serves], sharing, channels)
        stages = Stages(self.pools[PREFILL], self.pools[DECODE], transfers, self.known.first_token == PREFILL)
        lines = {r.SHARED: 1, r.PER_PREFILL_WORKER: knobs.workers_prefill, r.PER_DECODE_WORKER: knobs.workers_decode}
        return SeparatedPath(log, stages, knobs.workers_prefill, knobs.workers_decode, lines[sharing] * channels)

    @cached_property
    def transfers(self) -> r.Transfers:
        """The transfer of every request, its prompt in whole blocks."""
        inputs, bound, log = self.inputs, self.bound, self.log
        model = transfer_model(inputs, bound)
        block = model.cache.block_tokens
        tokens = log.prompt - inputs.number(HELD_INPUT, bound) * log.cached
        size = np.ceil(tokens / block) * block
        seconds, payload = model.of_bytes(model.size_bytes(size), model.descriptors(size))
        hidden = np.minimum(inputs.number(OVERLAP_INPUT, bound) * payload, self._prefill_s())
        channels = int(inputs.number("network.links") // inputs.number("network.links_per_transfer"))
        kept = seconds - model.handover_s
        return r.Transfers(
            _ns(np.asarray(seconds - hidden)), _ns(np.asarray(kept)), _SHARING[self.known.link_sharing], channels
        )

    def _prefill_s(self) -> Floats:
        """Seconds of every prompt's prefill on a worker of the prefill pool."""
        times, log = self.known.prefill[PREFILL], self.log
        before, tokens = log.cached.astype(np.float64), (log.prompt - log.cached).astype(np.float64)
        q = float(times.q)
        if times.curve is not None:
            found: Floats = on_curve(times.curve.points, tokens) + q * (2 * before * tokens)
            return found
        return float(times.d) + tokens / float(times.r_p) + q * (tokens * tokens + 2 * before * tokens)

    def _pool(self, pool: str) -> r.Pool:
        decode = self.known.decode[DECODE if pool == PREFILL else pool]
        prompts = self.known.prefill[MIXED if pool == MIXED else PREFILL]
        most = max(1, min(int(decode.slots), len(self.log.prompt)))
        base = step_ticks(most, float(decode.t0), float(decode.r_d), _points(decode.curve), self.ticks_per_s)
        gamma = whole(min(float(decode.gamma) * self.ticks_per_s, float(r.LAST_TICK)))
        return r.Pool(self._times(base, gamma, prompts), self._memory(pool), most)

    def _times(self, base: r.Int64s, gamma: int, prompts: PrefillTimes) -> r.Times:
        curve = np.array(_points(prompts.curve) or [], dtype=np.float64).reshape(-1, 2)
        return r.Times(
            base=base,
            gamma=gamma,
            tpn=self.tpn,
            d=float(prompts.d),
            rate=float(prompts.r_p),
            q=float(prompts.q),
            tokens=np.ascontiguousarray(curve[:, 0]),
            seconds=np.ascontiguousarray(curve[:, 1]),
            penalty=float(self.known.penalty),
        )

    def _memory(self, pool: str) -> r.Memory:
        held = self.known.memory
        inputs = self.inputs
        return r.Memory(
            capacity=min(self.capacity(pool), r.LAST_TICK),
            growth=whole(float(held.growth)),
            state=whole(float(held.state)),
            window_bytes=np.array([whole(float(size)) for _, size in held.windows], dtype=np.int64),
            window_tokens=np.array([length for length, _ in held.windows], dtype=np.int64),
            block=int(inputs.number("model.block_tokens")),
            policy=POLICIES[memory_policy(inputs)],
            swap=inputs.number(SWAP_INPUT, self.bound) if inputs.has(SWAP_INPUT) else 1.0,
        )

    def _limits(self) -> r.Limits:
        own = objectives(self.inputs, self.bound, [bucket.upper for bucket in self.buckets])
        stall = self.inputs.number(STALL_INPUT, self.bound) if self.inputs.has(STALL_INPUT) else np.inf

        def ticks(seconds: float) -> int:
            return ticks_of(seconds, self.ticks_per_s) if np.isfinite(seconds) else r.UNSET

        def column(values: np.ndarray) -> r.Int64s:
            return np.array([ticks(float(one)) for one in values[0]], dtype=np.int64)

        edges = np.array([bucket.lower for bucket in self.buckets[1:]], dtype=np.int64)
        return r.Limits(edges, column(own.ttft), column(own.tpot), column(own.e2e), ticks(float(stall)))


def log_of(requests: pl.DataFrame, hit_ratio: float = 0.0) -> r.Log:
    """A requests frame as the kernels read it; of a declared ``hit_ratio``, what of each prompt hits."""
    prompt = requests["prompt_tokens"].cast(pl.Int32).to_numpy()
    cached = requests["cached_prompt_tokens"].cast(pl.Int32).to_numpy()
    if hit_ratio > 0:
        cached = np.minimum(np.floor(hit_ratio * prompt), prompt - 1).astype(np.int32)
    output = requests["output_tokens"].cast(pl.Int32).to_numpy()
    columns = (requests["arrival_ns"].to_numpy(), prompt, cached, output)
    return r.Log(*(np.ascontiguousarray(column) for column in columns))


def _part(log: r.Log, serves: np.ndarray) -> r.Log:
    return r.Log(*(column[serves] for column in log))


def _points(curve: Curve | None) -> tuple[tuple[float, float], ...] | None:
    return None if curve is None else curve.points


def _ns(seconds: Floats) -> r.Int64s:
    found: r.Int64s = np.clip(np.floor(seconds * r.NANOSECONDS + 0.5), 1, r.BEYOND).astype(np.int64)
    return found
