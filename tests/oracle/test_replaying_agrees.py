"""The verifier's replay is that of the token-by-token reference of tests/replay, to the last tick, whatever the case.

A case gives what each transfer takes as data, the verifier computes it: so a network is drawn for every case, and its transfers
are worked out here from docs/arithmetic.md, section 3, and docs/replay.md, The clock. Nothing else of a case is changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import ceil, floor
from typing import Any

import pytest

from pipelines.oracle import replaying, replaying_scenarios
from pipelines.oracle.cache import Cache, Window
from pipelines.oracle.curves import Curve
from pipelines.oracle.objectives import Objectives
from pipelines.oracle.parameters import Parameters
from pipelines.oracle.replayed_members import worst_minute_of
from pipelines.oracle.replaying_scenarios import Outcome, Service, replay
from pipelines.oracle.scenario import Knobs
from pipelines.oracle.ticking import LAST_TICK
from tests.oracle.example import parameters
from tests.replay import by_step
from tests.replay.by_step_outcome import Outcome as Expected
from tests.replay.by_step_times import on_curve
from tests.replay.cases import SCHEDULERS, Case, Worker, random_cases
from tests.replay.outlasting import SHARES, outlasting_cases

CASES = 60
SEED = 20261130
NS_PER_S = 10**9
NO_LIMIT_S = 1e12
"""An objective that every request meets, for a bucket without one where another has one."""
TOPOLOGY = {"prefill_first": "aggregated", "chunked": "chunked", "separated": "disaggregated", "routed": "routed"}
POOLS = {"mixed": "mixed", "prefill": "prefill", "decode": "decode", "links": "link"}
"""Names of the verifier, and those of the reference."""

STAMPS = ("number", "arrival", "first_token", "last_token", "stall", "preemptions")
STAMPS += ("met_ttft", "met_tpot", "met_e2e", "met_stall")
"""What is compared of a request."""


@dataclass(frozen=True)
class Network:
    """What the transfers of a case are computed from, by the names of the verifier's parameters."""

    bandwidth_bytes_per_s: float
    transfer_overhead_s: float
    handover_s: float
    relayout_factor: float
    descriptor_s: float
    overlap: float
    competing_traffic: float
    prefix_at_destination: float
    links: float
    links_per_transfer: float
    link_sharing: str


def network_of(case: Case, draw: random.Random) -> Network:
    """A network with the lines and channels of a case; in half of the cases transfers end at whole milliseconds."""
    even, together = draw.random() < 0.5, draw.choice((1, 1, 2))
    speed = draw.choice((500.0, 1000.0)) if even else draw.uniform(300.0, 20_000.0)
    return Network(
        bandwidth_bytes_per_s=case.cache.growth * speed,
        transfer_overhead_s=0.005 if even else draw.uniform(0.0, 0.01),
        handover_s=draw.choice((0.0, 0.005 if even else draw.uniform(0.0, 0.01))),
        relayout_factor=1.0 if even else draw.choice((1.0, 1.3)),
        descriptor_s=0.0 if even else draw.choice((0.0, 1e-6)),
        overlap=draw.choice((0.0, 1.0) if even else (0.0, draw.random())),
        competing_traffic=0.0 if even else draw.choice((0.0, 0.2)),
        prefix_at_destination=draw.choice((0.0, 1.0) if even else (0.0, draw.random())),
        links=float(case.channels * together + draw.choice((0, together - 1))),
        links_per_transfer=float(together),
        link_sharing=case.link_sharing,
    )


def kinds_of(case: Case, draw: random.Random) -> tuple[Cache, bool]:
    """The cache of a case as layers of some kinds, and whether windows are allocated as such: else all get the full length."""
    of = case.cache
    if of.windows:
        windows = tuple(
            sorted((Window(tokens, float(omega), 3) for omega, tokens in of.windows), key=lambda w: w.tokens)
        )
        return Cache(float(of.growth), windows, float(of.state), 7, 1), True
    if draw.random() < 0.5:
        return Cache(float(of.growth), (), float(of.state), 7, 1), draw.random() < 0.5
    omega = of.growth // 3
    return Cache(float(of.growth - omega), (Window(2 * of.block, float(omega), 3),), float(of.state), 7, 1), False


def transfer_s(case: Case, network: Network, kinds: Cache, p: int, h: int) -> tuple[float, float]:
    """Seconds until the cache of a prompt arrives, and seconds that its transfer keeps a channel."""
    block = case.cache.block
    held = ceil((p - network.prefix_at_destination * h) / block) * block
    bounded = [(window, min(held, window.tokens)) for window in kinds.windows]
    size = network.relayout_factor * (
        kinds.growth_bytes * held + sum(w.bytes_per_token * tokens for w, tokens in bounded) + kinds.state_bytes
    )
    layers = kinds.growing_layers * held + sum(w.layers * tokens for w, tokens in bounded)
    descriptors = 2.0 * layers / block + kinds.state_layers
    payload = size / (network.links_per_transfer * network.bandwidth_bytes_per_s * (1 - network.competing_traffic))
    fixed = network.handover_s + network.transfer_overhead_s + network.descriptor_s * descriptors
    hidden = min(network.overlap * payload, prompt_s(case.prefill, h, p - h))
    return fixed + payload - hidden, fixed + payload - network.handover_s


def prompt_s(worker: Worker, x: int, y: int) -> float:
    """Seconds of a prompt of which the cache has x tokens and y are computed."""
    if worker.prefill_curve:
        return on_curve(worker.prefill_curve, y) + worker.q * (2.0 * x * y)
    return worker.d + y / worker.r_p + worker.q * (y * y + 2.0 * x * y)


def objectives_of(case: Case) -> Objectives:
    """The last bucket has the objectives of all, every other one its own."""
    limits = case.objectives

    def of(place: int) -> dict[str, float]:
        e2e = limits.e2e[place]
        return {"ttft": limits.ttft[place], "tpot": limits.tpot[place], "e2e": NO_LIMIT_S if e2e is None else e2e}

    return Objectives(of(-1), tuple((edge, of(place)) for place, edge in enumerate(limits.edges[:-1])))


def workers_of(case: Case, *, separated: bool, **more: Any) -> Parameters:
    """The workers of one path: of a separated one prefill and decode come from pools of their own."""
    prefill, decode = (case.prefill, case.decode) if separated else (case.mixed, case.mixed)
    ceilings = case.ceilings
    return parameters(
        admission_s=case.admission,
        prefill_overhead_s=prefill.d,
        prefill_tokens_per_s=prefill.r_p,
        prefill_s_per_token2=prefill.q,
        prefill_curve=prefill.prefill_curve and Curve(prefill.prefill_curve),
        prefill_ceiling=ceilings.prefill if separated else ceilings.mixed,
        step_overhead_s=decode.t0,
        decode_tokens_per_s=decode.r_d,
        decode_s_per_context_token=decode.gamma,
        decode_curve=decode.decode_curve and Curve(decode.decode_curve),
        decode_ceiling=ceilings.decode if separated else ceilings.mixed,
        link_ceiling=ceilings.link,
        max_sequences=float(decode.slots),
        kv_memory_bytes=float(decode.memory),
        kv_memory_prefill_bytes=float(prefill.memory),
        block_tokens=case.cache.block,
        mixed_step_penalty=case.penalty,
        round_robin=case.dispatch == "round_robin",
        shortest_queue=case.dispatch == "shortest_queue",
        shortest_first=case.discipline == "shortest_first",
        decode_emits_first_token=case.first_token_source == "decode",
        when_memory_is_full=case.policy,
        swap_bandwidth_bytes_per_s=case.swap_bandwidth,
        **more,
    )


def knobs_of(case: Case) -> Knobs:
    """The scenario of a case."""
    has_mixed, has_links = case.scheduler != "separated", case.scheduler in ("separated", "routed")
    return Knobs(
        TOPOLOGY[case.scheduler],
        case.workers_mixed if has_mixed else None,
        workers_prefill=case.workers_prefill if has_links else None,
        workers_decode=case.workers_decode if has_links else None,
        chunk_tokens=case.budget or None,
        threshold_tokens=case.threshold if case.scheduler == "routed" else None,
    )


def with_hits(case: Case, ratio: float) -> Case:
    """The case with the hits of a declared ratio, if it is one; else with its own."""
    if ratio == 0:
        return case
    return replace(case, requests=tuple((at, p, min(p - 1, floor(ratio * p)), o) for at, p, _, o in case.requests))


def both(drawn: Case, draw: random.Random, slower: float = 1.0) -> tuple[Outcome, Expected]:
    """What comes out of the verifier's replay of a case, and what out of the reference's; with a network so many times slower."""
    network, (kinds, by_kind) = network_of(drawn, draw), kinds_of(drawn, draw)
    network = replace(network, bandwidth_bytes_per_s=network.bandwidth_bytes_per_s / slower)
    ratio = draw.choice((0.0, 0.0, 0.0, 0.3, 1.0, draw.random()))
    case = with_hits(drawn, ratio)
    each = [transfer_s(case, network, kinds, p, h) for _, p, h, _ in case.requests]
    case = replace(case, move_s=tuple(move for move, _ in each), keep_s=tuple(keep for _, keep in each))
    mixed, separated = (
        workers_of(case, separated=apart, cache=kinds, by_kind=by_kind, **vars(network)) for apart in (False, True)
    )
    limits = case.objectives
    service = Service(mixed, separated, objectives_of(case), limits.edges[:-1], limits.stall, ratio)
    rows = [(at - drawn.requests[0][0], p, h, o) for at, p, h, o in drawn.requests]
    return (
        replay(rows, service, knobs_of(case), case.ticks_per_second),
        by_step.replay(case, replaying.WINDOW_S * NS_PER_S),
    )


def counts_of(outcome: Outcome) -> dict[str, int]:
    """Counts, sums and largest figures under the names of the reference; 0 where a scenario has no such pool."""
    sums = {name if name == "swapped_bytes" else f"{name}_ticks": value for name, value in outcome.sums().items()}
    found, pools, moving = outcome.counts() | sums, outcome.pools(), outcome.moving
    for name in ("mixed", "prefill", "decode"):
        for what in ("prefill", "decode", "swap"):
            found[f"{name}_{what}_ticks"] = getattr(pools[name], what) if name in pools else 0
        found[f"{name}_peak_kv_bytes"] = pools[name].peak if name in pools else 0
    found["link_ticks"] = moving.links.prefill if moving and moving.links else 0
    found["peak_transfer_queue"] = moving.peak_transfers if moving else 0
    found["peak_decode_queue"] = moving.peak_arrived if moving else 0
    return found


def windows_of(outcome: Outcome, count: int) -> list[dict[str, int]]:
    """Requests, those that meet everything, and the work of each pool, in each of so many windows."""
    pools, met = outcome.pools(), outcome.windows()
    if outcome.moving and outcome.moving.links:
        pools["links"] = outcome.moving.links
    return [
        {"requests": met.get(at, (0, 0))[0], "met": met.get(at, (0, 0))[1]}
        | {own: pools[name].work.get(at, 0) if name in pools else 0 for name, own in POOLS.items()}
        for at in range(count)
    ]


def requests_of(outcome: Outcome) -> list[tuple[Any, ...]]:
    """Of each request that is complete what is seen from outside: its stamps, stall, preemptions, objectives."""
    return [
        (one.place, one.arrival, one.first, one.last, one.stall, one.preempted, *outcome.met_by(one))
        for one in outcome.requests
        if one.complete
    ]


def differences(outcome: Outcome, expected: Expected) -> Iterator[str]:
    """Everything in which the two differ."""
    counts = counts_of(outcome)
    for name, value in expected.counts.items():
        if counts[name] != value:
            yield f"{name}: {counts[name]}, not {value}"
    seen = [tuple(getattr(one, name) for name in STAMPS) for one in expected.requests]
    yield from (f"{own}, not {one}" for own, one in zip_longest(requests_of(outcome), seen) if own != one)
    windows = windows_of(outcome, len(expected.windows))
    yield from (f"{own}, not {one}" for own, one in zip(windows, expected.windows, strict=True) if own != one)
    worst = worst_minute_of(outcome)
    if (worst and worst["minute"]) != expected.worst_minute:
        yield f"worst window: {worst}, not {expected.worst_minute}"
    if outcome.windows_above() != expected.windows_above:
        yield f"windows above: {outcome.windows_above()}, not {expected.windows_above}"


def disagreeing(cases: list[Case], seed: int, slower: Callable[[Case], float] = lambda _: 1.0) -> dict[int, list[str]]:
    """The cases that the two replay differently, by number."""
    found: dict[int, list[str]] = {}
    for number, case in enumerate(cases):
        differing = list(differences(*both(case, random.Random(f"network {seed} {number}"), slower(case))))
        if differing:
            found[number] = differing
    return found


def at_the_end_of_time(case: Case) -> Case:
    """The case with its requests, but for the first, so late that the replay stops before all of them are complete."""
    (first, *_), *others = case.requests
    span = others[-1][0] - first
    last = LAST_TICK // 10**5
    late = [(at + last - span - span // 4, *rest) for at, *rest in others]
    return replace(case, ticks_per_second=10**14, requests=(case.requests[0], *late))


@pytest.fixture(autouse=True)
def _windows_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases last some seconds, and are to have several windows."""
    monkeypatch.setattr(replaying, "WINDOW_S", 1)
    monkeypatch.setattr(replaying_scenarios, "WINDOW_S", 1)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_count_and_tick_is_that_of_the_reference(scheduler: str) -> None:
    assert disagreeing(random_cases(scheduler, CASES, SEED), SEED) == {}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_replay_stops_at_the_same_tick(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (replaying, replaying_scenarios):
        monkeypatch.setattr(module, "WINDOW_S", 60)
    cases = [at_the_end_of_time(case) for case in random_cases(scheduler, 15, SEED)]
    assert disagreeing(cases, SEED) == {}
    unfinished = [both(case, random.Random(0))[0].counts()["unfinished"] for case in cases]
    assert sum(number > 0 for number in unfinished) >= 3


def a_slow_network(case: Case) -> float:
    """By how much a network is slower whose transfers take about as long as the clock lasts, in half of the cases."""
    draw = random.Random(repr(case))
    return draw.choice((1.0, draw.choice(SHARES) * 20 * LAST_TICK / case.ticks_per_second))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_what_outlasts_the_clock_counts_as_in_the_reference(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (replaying, replaying_scenarios):
        monkeypatch.setattr(module, "WINDOW_S", 60)
    assert disagreeing(outlasting_cases(scheduler, CASES, SEED), SEED, a_slow_network) == {}


def test_the_cases_have_preemptions_swaps_and_queues_before_links() -> None:
    seen = [
        counts_of(both(case, random.Random(number))[0])
        for scheduler in ("chunked", "separated")
        for number, case in enumerate(random_cases(scheduler, CASES // 2, SEED))
    ]
    for name in ("preemptions", "recomputed_tokens", "swapped_bytes", "peak_transfer_queue", "peak_decode_queue"):
        assert sum(counts[name] > 0 for counts in seen) >= 3, name
