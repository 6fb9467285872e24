"""The longest gap between two tokens of one request: what is exceeded about once in N requests (docs/arithmetic.md, section 5)."""

import numpy as np

from pipelines.arithmetic.batches import bennett_excess
from pipelines.arithmetic.numbers import Floats, Number
from pipelines.arithmetic.steps import DecodeSteps

TILTS = 2.0 ** (np.arange(-40, 25) / 4)
"""Values of s·S_max that the bound on a run of prompts is looked at; each gives a bound, the smallest is the best."""


def run_of_prompts_s(
    mean: Number, second: Number, longest: Number, rate: Number, servers: Number, step_s: Number, log_n: Number
) -> Floats:
    """Whole prompts that run one after the other ahead of a decode step of ``step_s``, in seconds; ``rate`` comes to ``servers``.

    Bennett's bound on the work that arrives: the smallest (ln N + ln M + Λ·τ·(M - 1))/(n·s - Λ·(M - 1)) over s.

    >>> float(run_of_prompts_s(0.1, 0.01, 0.1, 0.0, 1.0, 0.02, np.log(2.0))) < 0.122  # one prompt, and hardly more
    True
    """
    shape = np.broadcast_shapes(*(np.shape(one) for one in (mean, second, longest, rate, servers, step_s)))
    tilts = TILTS.reshape((-1,) + (1,) * len(shape))
    s = tilts / longest
    moment = s * mean + second / (longest * longest) * (np.expm1(tilts) - tilts)
    room = servers * s - rate * moment
    bounds = (log_n + np.log1p(moment) + rate * step_s * moment) / np.where(room > 0, room, 1.0)
    least: Floats = np.min(np.where(room > 0, bounds, np.inf), axis=0)
    return least + step_s


def long_step_s(steps: DecodeSteps, batch: Number, most: Number, longest_context_s: Number, log_n: Number) -> Floats:
    """θ_N: a decode step of ``most`` sequences, or of longer ones than the mean. ``longest_context_s`` is c_max, seconds of the longest.

    >>> steps = DecodeSteps(0.01, 0.001)
    >>> round(float(long_step_s(steps, 0.0, 4.0, 0.001, np.log(100.0))), 9)
    0.014
    """
    work = np.asarray(batch * steps.c)
    excess = bennett_excess(work / longest_context_s, log_n)
    usual = steps.seconds(batch)
    more: Floats = usual + np.maximum(steps.seconds(most) - usual, work * excess)
    return more
