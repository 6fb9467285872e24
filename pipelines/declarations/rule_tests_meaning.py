"""What must hold for each test of a gate: in itself, and with the gate that it tests."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from itertools import pairwise

from pipelines.declarations.problems import Problem, Where, did_you_mean, plain, show, show_path
from pipelines.declarations.quantities import QUANTITIES
from pipelines.declarations.rule_tests_placed import BOUNDS, OBJECTIVES, PlacedTest, bucket_ends
from pipelines.declarations.typed import TOPOLOGIES, Gate
from pipelines.declarations.units import QuantityError
from pipelines.frames.metrics import BY_BUCKET, METRICS

TRACE = "requests.trace"
_NOUNS = {"s": "a time", "ratio": "a ratio", "count": "a count"}
_INPUTS = (*(quantity.path for quantity in QUANTITIES if quantity.path != "objectives.buckets"), TRACE)
_OF_BUCKETS = re.compile(r"objectives\.buckets\.[0-9]+\.(ttft|tpot|e2e)")
_LABEL = re.compile(r"\[[1-9][0-9]*,([1-9][0-9]*|inf)\)")
_BUCKET_WORDS = ("shortest", "longest")
_AGE = "evidence_age"
_NOWHERE = "not_applicable"

Gates = Mapping[str, Gate]


def meaning_problems(test: PlacedTest, gates: Gates | None) -> Iterator[Problem]:
    """What is wrong with the meaning of ``test``, and with it as a test of one of ``gates``, where these could be read."""
    yield from _figures(test)
    yield from _objectives(test)
    yield from _buckets(test)
    yield from _date(test)
    yield from _inputs(test)
    yield from _expectation(test)
    name = test.get("gate")
    if gates is None or not isinstance(name, str):
        return
    gate = gates.get(name)
    if gate is None:
        message = f"no gate is called {plain(name)}; expected {', '.join(gates)}"
        yield test.problem("gate", message, did_you_mean(name, list(gates)))
        return
    if not gate.alone:
        message = (
            f"{gate.id} is judged on other scenarios of a plan too, which a test does not have; expected another gate"
        )
        yield test.problem("gate", message)
        return
    yield from _expectation_of(test, gate)
    if gate.scope == "decision":
        yield from _on_decision(test, gate)
    else:
        yield from _on_scenario(test, gate)


def _figures(test: PlacedTest) -> Iterator[Problem]:
    """Figures that are not of their unit, or that no scenario has."""
    for bound, name in test.written:
        at: Where = ("scenario", bound, name)
        labels = test.mapping(at) if name in BY_BUCKET else {}
        for place in [(*at, label) for label in labels] or [at]:
            try:
                test.figure(place, METRICS[name])
            except QuantityError as error:
                yield test.problem(place, error.message, error.hint or f"{name} is {_NOUNS[METRICS[name].unit]}")


def _objectives(test: PlacedTest) -> Iterator[Problem]:
    for name in test.mapping("objectives"):
        key = f"objectives.{name}"
        if name in OBJECTIVES and not isinstance(test.get(key), dict | list | None):
            try:
                test.objective(name)
            except QuantityError as error:
                yield test.problem(key, error.message, error.hint)


def _buckets(test: PlacedTest) -> Iterator[Problem]:
    """Buckets that overlap, and lists of buckets that are not the same."""
    places: list[Where] = [("scenario", "requests")]
    places += [("scenario", bound, name) for bound, name in test.written if name in BY_BUCKET]
    known = [(at, labels) for at in places if (labels := test.mapping(at)) and all(map(_LABEL.fullmatch, labels))]
    if not known:
        return
    first, labels = known[0]
    ordered = sorted(labels, key=bucket_ends)
    for label in ordered:
        if bucket_ends(label)[0] >= bucket_ends(label)[1]:
            yield test.problem((*first, label), "holds no prompt; expected [FROM,TO) with FROM below TO", on_key=True)
    for one, other in pairwise(ordered):
        if bucket_ends(other)[0] < bucket_ends(one)[1]:
            yield test.problem((*first, other), f"overlaps {one}; expected buckets that do not", on_key=True)
    for at, others in known[1:]:
        if set(others) != set(labels):
            has, named = ", ".join(sorted(others, key=bucket_ends)), show_path(first)
            message = f"has {has}; expected the buckets of {named}: {', '.join(ordered)}"
            yield test.problem(at, message, "null for a bucket without a figure" if at != first else None)


def _date(test: PlacedTest) -> Iterator[Problem]:
    written = test.get("as_of")
    if isinstance(written, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", written):
        try:
            date.fromisoformat(written)
        except ValueError:
            message = f"{show(written)} is not a day of the calendar; expected a date such as 2026-12-31"
            yield test.problem("as_of", message)


def _inputs(test: PlacedTest) -> Iterator[Problem]:
    """Paths of no input, and one path twice."""
    listed, seen = test.get("inputs"), set()
    for place, row in enumerate(listed if isinstance(listed, list) else []):
        path, at = row.get("path") if isinstance(row, dict) else None, ("inputs", place, "path")
        if not isinstance(path, str):
            continue
        if path not in _INPUTS and not _OF_BUCKETS.fullmatch(path):
            message = f"no input is called {show(path)}; expected a path of the inputs table, or {TRACE}"
            yield test.problem(at, message, did_you_mean(path, _INPUTS))
        elif path in seen:
            yield test.problem(at, f"{path} is listed twice; expected each input once")
        seen.add(path)


def _expectation(test: PlacedTest) -> Iterator[Problem]:
    """What cannot be expected of any gate."""
    verdict = test.get("expect.verdict")
    if verdict == _NOWHERE:
        for key in ("margin", "message"):
            if test.has(f"expect.{key}"):
                yield test.problem(
                    f"expect.{key}", "where the gate does not apply there is none; expected nothing here"
                )
        return
    try:
        margin = test.margin()
    except QuantityError as error:
        yield test.problem("expect.margin", error.message, error.hint)
        margin = None
    if margin is not None and verdict == "refused":
        yield test.problem("expect.margin", "a refused gate has no margin; expected null, or nothing here")
    elif margin is not None and ((verdict == "pass" and margin < 0) or (verdict == "fail" and margin > 0)):
        sides = {"pass": "0 or more", "fail": "0 or less"}
        text = test.document.text(test.at("expect.margin"))
        yield test.problem("expect.margin", f"{text} cannot be the margin of a {verdict}; expected {sides[verdict]}")
    if verdict == "waived" and not test.has("as_of"):
        yield test.problem("as_of", "missing; an exception holds until a day, expected the one to judge at")


def _expectation_of(test: PlacedTest, gate: Gate) -> Iterator[Problem]:
    """What cannot be expected of this gate."""
    verdict = test.get("expect.verdict")
    if verdict == "waived" and not gate.blocking:
        message = f"{gate.id} does not block, so nothing waives it; expected pass, fail or refused"
        yield test.problem("expect.verdict", message)
    every = gate.scope == "decision" or gate.topologies == TOPOLOGIES
    if verdict == _NOWHERE and gate.cohorts is None and every and not gate.needs():
        yield test.problem("expect.verdict", f"{gate.id} applies everywhere; expected another verdict")
    if verdict == "refused" and gate.scope == "decision" and gate.metric != _AGE:
        yield test.problem("expect.verdict", f"there is always a figure of {gate.metric}; expected another verdict")
    if gate.cohorts is not None and verdict != _NOWHERE and not test.has("cohort"):
        yield test.problem("cohort", f"missing; {gate.id} is a gate of some cohorts, expected {_one_of(gate.cohorts)}")


def _on_decision(test: PlacedTest, gate: Gate) -> Iterator[Problem]:
    for key in ("scenario", "objectives"):
        if test.has(key):
            message = f"{gate.id} is a gate on the decision; expected inputs instead"
            yield test.problem(key, message, on_key=True)
    if not test.has("inputs"):
        yield test.problem("inputs", f"missing; {gate.id} is a gate on the decision, expected what that rests on")
    if gate.metric == _AGE and not test.has("as_of"):
        yield test.problem("as_of", f"missing; {gate.id} judges an age, expected the day to reckon it at")


def _on_scenario(test: PlacedTest, gate: Gate) -> Iterator[Problem]:
    if test.has("inputs"):
        message = f"{gate.id} is a gate over figures of scenarios; expected scenario instead"
        yield test.problem("inputs", message, on_key=True)
    if not test.has("scenario"):
        yield test.problem("scenario", f"missing; {gate.id} is a gate over figures of scenarios, expected one")
    if not isinstance(test.get("scenario"), dict):
        return
    yield from _unread(test, gate)
    if test.get("expect.verdict") == _NOWHERE:
        return
    for name in gate.needs():
        if not test.has(f"objectives.{name}"):
            message = f"missing; {gate.id} needs it, expected it or verdict: {_NOWHERE}"
            yield test.problem(f"objectives.{name}", message)
    yield from _missing(test, gate)


def _read(gate: Gate) -> tuple[str, ...]:
    """The metrics that ``gate`` reads."""
    return (gate.metric,) if gate.limit_metric is None else (gate.metric, gate.limit_metric)


def _unread(test: PlacedTest, gate: Gate) -> Iterator[Problem]:
    """Figures that the gate does not read, or that a refused scenario does not have."""
    read = _read(gate)
    for bound, name in test.written:
        key = f"scenario.{bound}.{name}"
        if name not in read:
            yield test.problem(key, f"{gate.id} does not read {name}; expected {' and '.join(read)}", on_key=True)
        elif METRICS[name].needs_latency and test.has(f"scenario.{bound}.refused"):
            yield test.problem(key, f"a refused scenario has no {name}; expected nothing here", on_key=True)
    if gate.metric not in BY_BUCKET and test.has("scenario.requests"):
        message = f"{gate.id} reads no figure by bucket; expected nothing here"
        yield test.problem("scenario.requests", message, on_key=True)


def _missing(test: PlacedTest, gate: Gate) -> Iterator[Problem]:
    """Figures that the gate reads and the test does not have."""
    path = f"scenario.{gate.bound}"
    if not test.has(path):
        other = next((bound for bound in BOUNDS if test.has(f"scenario.{bound}")), None)
        beside = f", not the {other} one alone" if other else ""
        yield test.problem(
            path, f"missing; {gate.id} judges figures under the {gate.bound} bound, expected them{beside}"
        )
        return
    for name in _read(gate):
        if not test.has(f"{path}.{name}") and not (METRICS[name].needs_latency and test.has(f"{path}.refused")):
            refused = ", or refused: KIND in its place" if METRICS[name].needs_latency else ""
            hint = f"null where the scenario has none{refused}"
            yield test.problem(f"{path}.{name}", f"missing; {gate.id} reads it, expected a figure", hint)
    if gate.metric in BY_BUCKET and test.has(f"{path}.{gate.metric}"):
        yield from _missing_buckets(test, gate)


def _missing_buckets(test: PlacedTest, gate: Gate) -> Iterator[Problem]:
    at: Where = ("scenario", str(gate.bound), gate.metric)
    labels = test.mapping(at)
    for label in gate.buckets or ():
        if labels and label not in (*labels, *_BUCKET_WORDS):
            yield test.problem(at, f"{gate.id} judges the bucket {label}; expected it among {', '.join(labels)}")
    if gate.aggregate in ("request_weighted", "share") and not test.has("scenario.requests"):
        message = f"missing; aggregate: {gate.aggregate} counts them, expected those of each bucket"
        yield test.problem("scenario.requests", message)


def _one_of(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
