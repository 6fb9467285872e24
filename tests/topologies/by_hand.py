"""Sections 3 to 7 of docs/arithmetic.md for a handful of requests, in plain numbers: sums over single requests, one worker size at a time.

Moments are means over the requests, whose strata hold one length each; nothing is read from the code under test. Cases that are worked
out digit by digit stand beside the tests; this serves those that vary one thing of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace


@dataclass(frozen=True)
class One:
    """A request: prompt and output tokens, and how many of the prompt's are cached."""

    p: int
    o: int
    h: int = 0

    @property
    def u(self) -> float:
        return self.p - self.h

    @property
    def z(self) -> float:
        return self.p**2 - self.h**2


def pairs(*lengths: tuple[int, int], cached: dict[int, int] | None = None) -> list[One]:
    """The requests of ``in_pairs``."""
    return [One(p, o, (cached or {}).get(p, 0)) for p, o in lengths]


@dataclass(frozen=True)
class Line:
    """A measured curve."""

    points: tuple[tuple[float, float], ...]

    def __call__(self, at: float) -> float:
        if at <= self.points[0][0]:
            return self.points[0][1]
        begin, end = self._piece(at)
        return begin[1] + (at - begin[0]) * (end[1] - begin[1]) / (end[0] - begin[0])

    def slope(self, at: float) -> float:
        if at < self.points[0][0]:
            return 0.0
        begin, end = self._piece(at)
        return (end[1] - begin[1]) / (end[0] - begin[0])

    def _piece(self, at: float) -> tuple[tuple[float, float], tuple[float, float]]:
        pieces = list(zip(self.points, self.points[1:], strict=False))
        return next((piece for piece in pieces if piece[0][0] <= at < piece[1][0]), pieces[-1])


@dataclass(frozen=True)
class Costs:
    """What a worker takes, by symbol; a curve stands for d and r_p, or for t0 and r_d. The defaults are those of tests/plans.py."""

    a: float = 0.002
    d: float = 0.01
    r_p: float = 10_000.0
    q: float = 0.0
    prefill: Line | None = None
    psi: float = 0.0
    t0: float = 0.01
    r_d: float = 2000.0
    gamma: float = 0.0
    decode: Line | None = None
    slots: float = 7.0

    def piece(self, y: float) -> float:
        """f(y)."""
        if self.prefill is not None:
            return self.prefill(y)
        return self.d + y / self.r_p + self.q * y * y

    def prompt(self, one: One, pieces: float = 1.0) -> float:
        """K·f(u/K) + q·(z - u²/K)."""
        return pieces * self.piece(one.u / pieces) + self.q * (one.z - one.u**2 / pieces)


@dataclass(frozen=True)
class Decode:
    """D1, D2, E[p·D] with ``g``, R, the step t(b) and its slopes."""

    requests: Sequence[One]
    costs: Costs
    g: int

    @property
    def d1(self) -> float:
        return mean([one.o - self.g for one in self.requests])

    @property
    def d2(self) -> float:
        return mean([(one.o - self.g) ** 2 for one in self.requests])

    @property
    def work(self) -> float:
        """PD + D2/2."""
        return mean([one.p * (one.o - self.g) for one in self.requests]) + self.d2 / 2

    @property
    def held(self) -> float:
        """R."""
        return self.work / self.d1 if self.d1 else 0.0

    def step(self, b: float) -> float:
        context = self.costs.gamma * self.held * b
        if self.costs.decode is not None:
            return self.costs.decode(b) + context
        return self.costs.t0 + b / self.costs.r_d + context

    @property
    def c(self) -> float:
        last = 1 / self.costs.r_d if self.costs.decode is None else self.costs.decode.slope(math.inf)
        return last + self.costs.gamma * self.held

    def pace(self, rho: float, x: float, phi: float = 1.0, f: float = 0.0) -> float:
        """The smallest t of (1 - φ·ρ)·t = t(1 + f + φ·x·t), reached from below."""
        t, before = 0.0, -1.0
        while t - before > 1e-16 * t:
            t, before = self.step(1 + f + phi * x * t) / (1 - phi * rho), t
        return t

    def chord(self, rho: float, x: float) -> float:
        """c'."""
        y = 1 + x * self.pace(rho, x)
        if self.costs.decode is None:
            return self.c
        if y == 1:
            return self.costs.decode.slope(1.0) + self.costs.gamma * self.held
        return (self.step(y) - self.step(1)) / (y - 1)

    def some(self, rho: float, x: float) -> float:
        """A."""
        slope, alone = self.chord(rho, x), self.step(1)
        if slope <= 1e-9 * alone:
            return 1 - math.exp(-x * alone / (1 - rho))
        return 1 - (1 - x * slope / (1 - rho)) ** (alone / slope)

    def most(self, rho: float, x: float, cap: float) -> float:
        """k_N."""
        if not self.d1:
            return 1.0
        slope, alone = self.chord(rho, x), self.step(1)
        if slope <= 1e-9 * alone:
            k = beyond(x * alone / (1 - rho), rarely(self.requests))
        else:
            kappa, r = x * slope / (1 - rho), alone / slope
            b = r * kappa / (1 - kappa)
            k = crossing(
                lambda k: k * math.log(k / (kappa * (k + r))) + r * math.log(r / ((1 - kappa) * (k + r))),
                b,
                math.log(rarely(self.requests)),
            )
        return min(max(k, 1.0), max(1.0, cap))

    def longest(self, b: float, k: float) -> float:
        """θ_N."""
        most = max(one.p for one in self.requests) + max(one.o for one in self.requests)
        c_max = self.c + self.costs.gamma * (most - self.held)
        size = b * self.c / c_max
        v = 0.0
        if size > 0:
            target = math.log(rarely(self.requests))
            w = crossing(lambda y: size * (y * math.log(y) - (y - 1)), 1.0, target) - 1
            v = b * self.c * w
        return self.step(b) + max(self.step(k) - self.step(b), v)


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def rarely(requests: Sequence[One]) -> int:
    """N: what is exceeded once in so many."""
    return max(2, len(requests))


def scv(values: Sequence[float]) -> float:
    first = mean(values)
    return max(0.0, mean([one * one for one in values]) / first**2 - 1) if first else 0.0


def crossing(rate: Callable[[float], float], start: float, target: float) -> float:
    """Where a rate that grows from 0 at ``start`` is ``target``."""
    low, high = start, 2 * start + 1
    while rate(high) < target:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if rate(middle) < target else (low, middle)
    return high


def beyond(mu: float, count: int) -> float:
    """P_N(μ)."""
    return crossing(lambda k: k * math.log(k / mu) - k + mu, mu, math.log(count)) if mu > 0 else 0.0


def loss(k: int, a: float) -> float:
    """B(k, a)."""
    found = 1.0
    for j in range(1, k + 1):
        found = a * found / (j + a * found)
    return found


def waiting(n: int, rho: float) -> float:
    """C(n, n·ρ)."""
    lost = loss(n, n * rho)
    return lost / (1 - rho * (1 - lost))


def queue(ca2: float, cs2: float, rho: float, n: int, s: float, round_robin: bool = False) -> tuple[float, float]:
    """Pw and W."""
    if n > 1 and not round_robin:
        found = waiting(n, rho)
        return found, (ca2 + cs2) / 2 * found / (n * (1 - rho)) * s
    ca2 = ca2 / n if round_robin else ca2
    found, smooth = rho, 1.0
    if ca2 < 1:
        found += (ca2 - 1) * rho * (1 - rho) * (1 + ca2 + rho * cs2) / (1 + rho * (cs2 - 1) + rho**2 * (4 * ca2 + cs2))
        used = rho * (ca2 + cs2)
        smooth = math.exp(-2 * (1 - rho) * (1 - ca2) ** 2 / (3 * used)) if used else 0.0
    return found, (ca2 + cs2) / 2 * rho / (1 - rho) * s * smooth


def run_length(n: int, rho: float) -> float:
    """H."""
    alpha = beta = 0.0
    for number in range(1, n + 1):
        k = n * rho + number - (number - 1) * beta
        alpha, beta = (1 + (number - 1) * alpha) / k, n * rho / k
    return (alpha + beta / (n * (1 - rho))) / (1 - beta)


def slot_wait(b: float, cap: float, of: Decode, t: float, shared: int = 1) -> float:
    """W_slot."""
    if not of.d1:
        return 0.0
    ch2, sigma, m = max(0.0, of.d2 / of.d1**2 - 1), b / cap, shared * cap
    return (1 + ch2) / 2 * sigma ** (math.sqrt(2 * (m + 1)) - 1) / (m * (1 - sigma)) * of.d1 * t


def first_free(shared: int, a: float, p0: float, rho: float) -> tuple[float, float, float]:
    """β, φ, and W_res for a step of one second."""
    if a == 0:
        return 0.0, 1.0, 0.0
    lost = loss(shared - 1, a)
    none = lost * (1 - p0) / (p0 + lost * (1 - p0))
    busy = (a * (1 - lost) * p0 + shared * lost * (1 - p0)) / (shared * (p0 + lost * (1 - p0)))
    gamma = min(rho / busy, 1.0)
    earliest = (sum(gamma**i for i in range(shared + 1)) / (shared + 1) - gamma**shared) / (1 - rho**shared)
    return none, none / busy, none * earliest


def run_of(times: Sequence[float], longest: float, rate: float, servers: int, step: float, count: int) -> float:
    """Work that runs ahead: the smallest of Bennett's bounds."""
    s1, s2 = mean(times), mean([one * one for one in times])
    found = math.inf
    for i in range(-40, 25):
        tilt = 2 ** (i / 4)
        s = tilt / longest
        more = s * s1 + s2 / longest**2 * (math.exp(tilt) - 1 - tilt)
        room = servers * s - rate * more
        if room > 0:
            found = min(found, (math.log(count) + math.log1p(more) + rate * step * more) / room)
    return found + step


def meets(probability: float, wait: float, slack: float) -> float:
    """Share that waits no longer than ``slack``: nobody waits with 1 - Pw, the others exponentially with mean W/Pw."""
    if slack < 0:
        return 0.0
    return 1 - probability * math.exp(-probability * slack / wait) if wait else 1.0


def within(allowed: float, mu: float, variance: float) -> float:
    """Share of generations whose excess is within what is allowed."""
    if mu * variance == 0:
        return 1.0 if allowed >= mu and allowed >= 0 else 0.0
    chi = math.sqrt(variance) / mu
    if chi <= 1:
        spare = allowed - mu * (1 - chi)
        return 1 - math.exp(-spare / (mu * chi)) if spare >= 0 else 0.0
    some = 2 / (1 + chi**2)
    return 1 - some * math.exp(-some * allowed / mu) if allowed >= 0 else 0.0


@dataclass(frozen=True)
class Generation:
    """How generation varies, by its parts."""

    t: float
    alone: float
    w: float
    wait_scv: float
    per_step: float
    chord: float
    rho: float
    kappa: float
    b: float
    shared: int
    d1: float

    def meets(self, output: int, tpot: float) -> float:
        d = output - 1
        if d <= 0:
            return 1.0
        x = d / self.d1 * (1 - self.kappa)
        v = (d * self.chord / (1 - self.rho)) ** 2 * self.b / ((1 - self.kappa) * self.shared)
        v *= 2 * (x - 1 + math.exp(-x)) / x**2
        variance = self.w**2 * self.wait_scv + d * self.per_step + v
        return within(d * (tpot - self.alone), self.w + d * (self.t - self.alone), variance)


def whole_prompts(
    requests: Sequence[One], n: int = 1, costs: Costs = Costs(), rate: float = 2.0, ca2: float = 1.0,
    round_robin: bool = False, cap: float | None = None, curve_second: float | None = None,
) -> SimpleNamespace:  # fmt: skip
    """Whole prompts, in the order of the page."""
    own = Decode(requests, costs, g=1)
    times = [costs.prompt(one) for one in requests]
    shared, ca2_q = (1, ca2 / n) if round_robin else (n, ca2)
    s, cs2, lam = mean(times), scv(times), rate / n
    longest = costs.piece(max(one.u for one in requests))
    longest += costs.q * (
        max(one.z for one in requests) - max(one.u for one in requests) ** 2 * (costs.prefill is None)
    )
    rho_p, x = lam * s, lam * own.d1
    a_some = own.some(rho_p, x)
    p0 = (1 - rho_p) * (1 - a_some)
    _, phi, earliest = first_free(shared, rate * shared / n * (s + own.d1 * own.step(1)), p0, rho_p)
    tau = (1 - phi * rho_p) * own.pace(rho_p, x, phi)
    w_res = earliest * tau
    pw, w = queue(ca2, cs2, rho_p, n, s, round_robin)
    if shared == 1:
        dw = max(0.0, lam * (w + w_res + s) + (ca2_q - 1) / 2) * s / (1 - rho_p)
    else:
        runs = run_length(n, rho_p)
        dw = s * pw * (1 + (runs - 1) * (ca2 + cs2) / 2) + (lam * s * w + rate * s * w_res) / (1 - rho_p)
    m = mean([float(one.o >= 2) for one in requests])
    t = own.pace(rho_p, x, phi, m * dw / s)
    b, cap = x * t, costs.slots if cap is None else cap
    slot = slot_wait(b, cap, own, t, shared)
    k = own.most(rho_p, x, cap)
    stall = run_of(times, longest, rate * shared / n, shared, own.step(k), rarely(requests))
    held_s = s + m * dw + t * own.d1
    held = mean([one.p * time for one, time in zip(requests, times, strict=True)])
    held += mean([float(one.p) for one in requests]) * m * dw + t * own.work
    chord = own.chord(rho_p, x)
    p_r = min(1.0, pw + lam * w_res) or 1.0
    first = t * (1 - phi * rho_p)
    second = mean([time * time for time in times])
    gen = Generation(
        t, own.step(1), dw, 2 / p_r - 1, first * lam * phi * second / (1 - phi * rho_p) ** 3,
        chord, rho_p, x * chord / (1 - rho_p), b, shared, own.d1 or 1.0,
    )  # fmt: skip
    return SimpleNamespace(
        times=times, s=s, cs2=cs2, rho_p=rho_p, x=x, rho=rho_p + x * own.c, some=a_some, phi=phi, tau=tau, w_res=w_res,
        pw=pw, w=w, dw=dw, t=t, b=b, slot=slot, first=first, stall=stall + (longest if shared > 1 else 0.0), k=k,
        wait=w + w_res + slot, sigma=b / cap, token_s=held, sequence_s=held_s, generation=gen, own=own, longest=longest,
    )  # fmt: skip


def chunks(
    requests: Sequence[One], budget: float, n: int = 1, costs: Costs = Costs(), rate: float = 2.0, ca2: float = 1.0,
    round_robin: bool = False, cap: float | None = None,
) -> SimpleNamespace:  # fmt: skip
    """Chunks, in the order of the page: 24 passes, then everything else with their last b."""
    own, more = Decode(requests, costs, g=1), 1 + costs.psi
    shared, ca2_q = (1, ca2 / n) if round_robin else (n, ca2)
    lam = rate / n
    x, d1, m = lam * own.d1, own.d1, mean([float(one.o >= 2) for one in requests])
    cap = costs.slots if cap is None else cap

    def lane(b: float) -> SimpleNamespace:
        theta, room = own.step(b), budget - b
        pieces = [max(1, math.ceil(one.u / room)) for one in requests]
        g = [more * costs.prompt(one, k) for one, k in zip(requests, pieces, strict=True)]
        begun = 0.0 if costs.prefill is not None else more * costs.d
        v = [
            theta * one.u / room + mine + begun * (1 + one.u / room - k)
            for one, mine, k in zip(requests, g, pieces, strict=True)
        ]
        s1, s2, k1, v1 = mean(g), mean([one * one for one in g]), mean(pieces), mean(v)
        rho_pc, rho_lane, cs2 = lam * s1, lam * v1, scv(v)
        pw, w = queue(ca2, cs2, rho_lane, n, v1, round_robin)
        some = own.some(rho_pc, x)
        offered = rate * shared / n * (k1 * theta + s1 + d1 * own.step(1))
        _, _, earliest = first_free(shared, offered, (1 - rho_lane) * (1 - some), rho_lane)
        return SimpleNamespace(
            theta=theta, room=room, pieces=pieces, g=g, v=v, s1=s1, s2=s2, k1=k1, v1=v1, rho_pc=rho_pc, rho=rho_lane,
            cs2=cs2, pw=pw, w=w, some=some, w_res=earliest * theta,
        )  # fmt: skip

    def seen(at: SimpleNamespace) -> tuple[float, float]:
        """e and the next f."""
        if shared == 1:
            behind = max(0.0, lam * (at.w + at.v1) + (ca2_q - 1) / 2) / (1 - at.rho)
            w_t = at.s1 * at.w / at.v1
        else:
            runs = run_length(n, at.rho)
            behind = at.pw * (1 + (runs - 1) * (1 + at.cs2) / 2) + lam * at.w / (1 - at.rho)
            w_t = at.s1 * (at.rho * (1 + at.cs2) / 2 + lam * at.w)
        kappa = (1 - at.rho_pc / at.rho) / (1 - at.rho_pc)
        tau_p = at.theta * at.rho / (at.rho - at.rho_pc)
        many = (behind * (1 - at.rho) * at.s1 - kappa * w_t) / (1 - at.rho_pc)
        one = d1 * (at.pw * tau_p + (1 - at.pw) * at.theta - at.theta / (1 - at.rho_pc))
        e = many * one / (many + one) if many > 0 and one > 0 else 0.0
        return e, m * behind * (1 - at.rho * kappa) * d1 / (d1 + behind * at.v1 / tau_p)

    b = e = f = t = 0.0
    for _ in range(24):
        if budget - b < 1:
            return SimpleNamespace(room=budget - b)
        at = lane(b)
        t = own.pace(at.rho_pc, x, 1.0, f)
        e, f = seen(at)
        b = b / 2 + (x * t + lam * m * e) / 2
    at = lane(b)
    tau = at.theta / (1 - at.rho_pc) + lam * at.s2 / (1 - at.rho_pc**2) / shared
    others = 2 * shared * at.rho_pc * (1 / n if round_robin else 1)
    waits = max(0.0, tau * (at.some + others) / (shared + 1) - at.w - at.w_res) / at.k1
    waits += (1 - 1 / at.k1) * at.pw * more * (costs.piece(at.room) - costs.piece(1)) / 2
    slot = slot_wait(b, cap, own, t, shared)
    execution = [k * at.theta + g for k, g in zip(at.pieces, at.g, strict=True)]
    k = own.most(at.rho_pc, x, cap)
    u_max, p_max = max(one.u for one in requests), max(one.p for one in requests)
    y = min(budget, u_max)
    j = beyond(lam * (own.step(k) + costs.piece(y)), rarely(requests)) + 2
    stall = (min(budget, j) - 1) * costs.piece(1) + costs.piece(min(budget, j * u_max))
    stall += costs.q * ((p_max**2 - (p_max - y) ** 2) - y**2)
    held = mean([one.p * time for one, time in zip(requests, execution, strict=True)])
    held += mean([float(one.p) for one in requests]) * m * e + t * own.work
    chord = own.chord(at.rho_pc, x)
    per_step = t * lam * at.s2 / (1 - at.rho_pc) ** 2
    gen = Generation(
        t, own.step(1), e, 2 / (at.pw or 1.0) - 1, per_step, chord, at.rho_pc, x * chord / (1 - at.rho_pc), b, shared,
        d1 or 1.0,
    )  # fmt: skip
    return SimpleNamespace(
        lane=at, execution=execution, e=e, t=t, b=b, slot=slot, f=waits, x=x, wait=at.w + at.w_res + waits + slot,
        rho=at.rho_pc + x * own.c, sigma=b / cap, stall=own.longest(b, k) + more * stall, token_s=held,
        sequence_s=mean(execution) + m * e + t * d1, generation=gen, surely=at.theta + more * costs.piece(at.room),
        own=own,
    )  # fmt: skip


def decode_pool(
    requests: Sequence[One], n: int = 1, costs: Costs = Costs(), rate: float = 2.0, g: int = 0,
    round_robin: bool = False, cap: float | None = None,
) -> SimpleNamespace:  # fmt: skip
    """The decode side of a separated path."""
    own = Decode(requests, costs, g)
    x, cap = rate * own.d1 / n, costs.slots if cap is None else cap
    t = own.pace(0.0, x)
    b = x * t
    slot = slot_wait(b, cap, own, t, 1 if round_robin else n)
    k = own.most(0.0, x, cap)
    chord = own.chord(0.0, x)
    gen = Generation(t, own.step(1), 0.0, 0.0, 0.0, chord, 0.0, x * chord, b, 1 if round_robin else n, own.d1 or 1.0)
    return SimpleNamespace(
        own=own, x=x, rho=x * own.c, t=t, b=b, slot=slot, some=own.some(0.0, x), wait=own.some(0.0, x) * t / 2 + slot,
        k=k, longest=own.longest(b, k), sigma=b / cap, generation=gen,
    )  # fmt: skip
