"""The chain of plans from OLD to NEW, one step on top of the other, and what each step does alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.comparing.mixes import Parts, UnplannableError
from pipelines.comparing.planner import Planned, Planner
from pipelines.comparing.steps import Step

Json = dict[str, Any]
Progress = Callable[[int, int], None]

NOTHING: Parts = frozenset()


@dataclass(frozen=True)
class Link:
    """A step, the plan after it on top of those before it, OLD with it alone, and NEW without it: a plan, or why there is none."""

    step: Step
    after: Planned
    alone: Planned | UnplannableError
    without: Planned | UnplannableError


@dataclass(frozen=True)
class Chain:
    """The plans of both receipts, and the steps between them."""

    old: Planned
    new: Planned
    links: tuple[Link, ...]

    @property
    def same(self) -> bool:
        """Whether both decide the same."""
        return decides_alike(self.old, self.new)

    def sufficient(self, link: Link) -> bool | None:
        """Whether OLD with this step alone decides as NEW does; None where that cannot be planned, or OLD does so already."""
        if self.same or isinstance(link.alone, UnplannableError):
            return None
        return decides_alike(link.alone, self.new)

    def necessary(self, link: Link) -> bool | None:
        """Whether NEW without this step decides otherwise; None where that cannot be planned."""
        if isinstance(link.without, UnplannableError):
            return None
        return not decides_alike(link.without, self.new)

    def decisive(self, link: Link) -> bool:
        """Whether a changed decision is due to this step, alone or not without it."""
        return not self.same and bool(self.sufficient(link) or self.necessary(link))


def decides_alike(one: Planned, other: Planned) -> bool:
    """Whether outcome, scenario and acceptance are the same."""
    return same_decision(one.decided, other.decided)


def same_decision(one: Json, other: Json) -> bool:
    """The same of decisions as a report has them."""
    return all(one[name] == other[name] for name in ("outcome", "scenario", "accepted"))


def all_parts(steps: Sequence[Step]) -> Parts:
    """Everything that differs: with it, a mix is NEW."""
    return frozenset(part for step in steps for part in step.parts)


def chain(planner: Planner, steps: Sequence[Step], progress: Progress) -> Chain:
    """Plan every step of the chain, and each alone; steps that cannot be planned so are joined with the next.

    UnplannableError where one of the receipts cannot be planned.
    """
    every = all_parts(steps)
    old, new = planner.plan(NOTHING), planner.plan(every)
    known, total = 0, 3 * len(steps)
    walked, after = _walk(planner, list(steps), lambda done: progress(done, total))
    known, total = len(walked), 3 * len(walked)
    links = []
    for step, planned in zip(walked, after, strict=True):
        own = frozenset(step.parts)
        links.append(Link(step, planned, _attempt(planner, own), _attempt(planner, every - own)))
        known += 2
        progress(known, total)
    return Chain(old, new, tuple(links))


def _walk(planner: Planner, steps: list[Step], progress: Callable[[int], None]) -> tuple[list[Step], list[Planned]]:
    """The steps as they can be planned one on top of the other, and the plan after each."""
    done, walked, after = NOTHING, [], []
    while steps:
        step = steps.pop(0)
        try:
            after.append(planner.plan(done | frozenset(step.parts)))
        except UnplannableError as error:
            if not steps:
                raise
            steps[0] = step.with_next(steps[0], str(error))
            continue
        done |= frozenset(step.parts)
        walked.append(step)
        progress(len(walked))
    return walked, after


def _attempt(planner: Planner, parts: Parts) -> Planned | UnplannableError:
    try:
        return planner.plan(parts)
    except UnplannableError as error:
        return error
