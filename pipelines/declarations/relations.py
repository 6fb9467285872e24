"""What must hold between the values of a cohort, checked on whatever parts of it are well formed."""

import itertools
import re
from collections.abc import Iterator
from fractions import Fraction

from pipelines.declarations.compared import separated
from pipelines.declarations.documents import Document, whole
from pipelines.declarations.problems import Problem
from pipelines.declarations.quantities import Readings

MAX_THRESHOLDS = 64


def related_problems(document: Document, readings: Readings) -> Iterator[Problem]:
    """Problems that only two or more values together show."""
    yield from _line_rate(document, readings)
    yield from _peaks(document, readings)
    yield from _objectives(document, readings)
    yield from _reserve(document)
    yield from _separated(document)
    yield from _ascending(document, "requests.bucket_edges_tokens", smallest=2, what="edge")
    yield from _ascending(document, "topologies.chunked.chunk_tokens", smallest=1, what="budget")
    yield from _ascending(document, "topologies.routed.chunk_tokens", smallest=1, what="budget")
    yield from _thresholds(document)


def _line_rate(document: Document, readings: Readings) -> Iterator[Problem]:
    line, effective = readings.get("network.line_rate"), readings.get("network.effective_bandwidth")
    if line is None or effective is None:
        return
    limits = (("value", effective.value, line.value), ("high", effective.high, line.highest))
    for end, bandwidth, limit in limits:
        if bandwidth is None or bandwidth <= limit:
            continue
        written = document.text(f"network.effective_bandwidth.{end}")
        message = (
            f"{written} is above the line rate of {document.text('network.line_rate.value')}: "
            f"{_gigabytes(bandwidth)} against {_gigabytes(limit)}; expected at most the line rate"
        )
        yield document.problem(f"network.effective_bandwidth.{end}", message, _mistaken_unit(written, bandwidth, limit))


def _mistaken_unit(written: str, bandwidth: Fraction, limit: Fraction) -> str | None:
    """The unit that was probably meant: bits for bytes, or decimal for binary prefixes."""
    binary = re.search("([KMGT])iB", written)
    if binary and bandwidth * Fraction(1000, 1024) ** ("KMGT".index(binary.group(1)) + 1) <= limit:
        return f"{binary.group()}/s where {binary.group(1).replace('K', 'k')}B/s was meant?"
    in_bytes = re.search("B(/s|ps)", written)
    return "GB/s where Gbit/s was meant?" if in_bytes and 2 * limit <= bandwidth <= 8 * limit else None


def _gigabytes(bandwidth: Fraction) -> str:
    return f"{float(bandwidth / 10**9):.6g} GB/s"


def _peaks(document: Document, readings: Readings) -> Iterator[Problem]:
    pairs = (
        ("service.prefill.tokens_per_second", "service.prefill.peak_tokens_per_second"),
        ("service.decode.tokens_per_second", "service.decode.peak_tokens_per_second"),
        ("separated.prefill.tokens_per_second", "separated.prefill.peak_tokens_per_second"),
        ("separated.decode.tokens_per_second", "separated.decode.peak_tokens_per_second"),
        ("network.effective_bandwidth", "network.peak_bandwidth"),
    )
    for path, peak_path in pairs:
        rate, peak = readings.get(path), readings.get(peak_path)
        if rate is None or peak is None:
            continue
        for end, figure, limit in (("value", rate.value, peak.value), ("high", rate.high, peak.highest)):
            if figure is not None and figure > limit:
                written, peak_written = document.text(f"{path}.{end}"), document.text(f"{peak_path}.value")
                message = f"{written} is above the declared peak of {peak_written}; expected an effective rate up to it"
                yield document.problem(f"{path}.{end}", message, "swapped with the peak?")


def _objectives(document: Document, readings: Readings) -> Iterator[Problem]:
    ttft, tpot, growth = (readings.get(f"objectives.{name}") for name in ("ttft", "tpot", "ttft_growth"))
    written = document.text("objectives.ttft")
    if ttft and tpot and tpot.value > ttft.value:
        message = f"{document.text('objectives.tpot')} a token is more than ttft, {written}; expected tpot below ttft"
        yield document.problem("objectives.tpot", message, "ttft and tpot swapped?")
    e2e = readings.get("objectives.e2e")
    if ttft and e2e and e2e.value < ttft.value:
        message = (
            f"{document.text('objectives.e2e')} to the last token is less than ttft, {written}; expected e2e above ttft"
        )
        yield document.problem("objectives.e2e", message, "e2e and ttft swapped?")
    if ttft and growth and growth.value > ttft.value:
        message = (
            f"{document.text('objectives.ttft_growth')} is more than ttft, {written}; "
            "expected the part of ttft that the transfer may add"
        )
        yield document.problem("objectives.ttft_growth", message)


def _reserve(document: Document) -> Iterator[Problem]:
    if document.has("objectives.transfer_reserve") and not document.has("objectives.ttft_growth"):
        message = "a share of ttft_growth, which is not declared; expected it beside ttft_growth"
        yield document.problem("objectives.transfer_reserve", message, on="key")


def _separated(document: Document) -> Iterator[Problem]:
    name = separated(document)
    if name is None:
        return
    because = f"required because topologies.{name} is compared"
    if not document.has("network"):
        yield document.problem("network", f"missing; {because}", "declare the links that move the KV cache")
    for path, hint in (
        ("objectives.ttft_growth", "by how much may TTFT grow for the transfer?"),
        ("service.first_token_source", "decode or prefill: which of them emits the first token?"),
    ):
        if not document.has(path) and document.mapping(path.partition(".")[0]):
            yield document.problem(path, f"missing; {because}", hint)


def _thresholds(document: Document) -> Iterator[Problem]:
    path = "topologies.routed.threshold_tokens"
    yield from _ascending(document, path, smallest=2, what="threshold")
    listed = document.get(path)
    if isinstance(listed, list) and len(listed) > MAX_THRESHOLDS:
        yield document.problem(path, f"{len(listed)} thresholds; expected at most {MAX_THRESHOLDS}")


def _ascending(document: Document, path: str, smallest: int, what: str) -> Iterator[Problem]:
    listed = document.get(path)
    if not isinstance(listed, list):
        return
    counts = [(place, count) for place, item in enumerate(listed) if (count := whole(item)) is not None]
    for place, item in counts:
        if item < smallest:
            message = f"{item} is no {what}; expected whole tokens, {smallest} or more"
            yield document.problem((*path.split("."), place), message)
    large = [(place, item) for place, item in counts if item >= smallest]
    for (_, before), (place, item) in itertools.pairwise(large):
        if item == before or item in listed[:place]:
            message = f"{item} is listed twice; expected each {what} once, in ascending order"
            yield document.problem((*path.split("."), place), message)
        elif item < before:
            message = f"{item} comes after {before}; expected ascending order"
            yield document.problem((*path.split("."), place), message)
