"""The workload of requests, measured from each of them: sums in whole numbers, means as fractions (docs/arithmetic.md, section 1)."""

from __future__ import annotations

import hashlib
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain, compress, islice, repeat
from operator import add, mul, ne, sub

from .requests_file import Columns
from .strata import STRATA_PER_BUCKET, stratum_number
from .windows import LEAST_WINDOWS, LENGTHS_S

PREAMBLE = b"phaseledger requests v2\n"
NS_PER_S = 10**9
LEAST_FOR_SCV = 3
WHOLE = "all"

Exact = Mapping[str, int | Fraction | None]
"""Members of a row of the workload, unrounded."""


def digest_of(columns: Columns) -> str:
    """Return the SHA-256 of the requests, column by column as little-endian integers."""
    digest = hashlib.sha256(PREAMBLE)
    for column in (columns.arrivals, columns.prompts, columns.cached, columns.outputs):
        if sys.byteorder == "big":
            column = array(column.typecode, column)
            column.byteswap()
        digest.update(memoryview(column))
    return digest.hexdigest()


@dataclass(frozen=True)
class Bucket:
    """The requests of one bucket, in order of arrival."""

    arrivals: array[int]
    prompts: array[int]
    uncached: array[int]
    outputs: array[int]

    @cached_property
    def attention(self) -> array[int]:
        """Token pairs that attention covers: z = p² - h² = u·(2p - u)."""
        p, u = self.prompts, self.uncached
        return array("q", map(mul, u, map(sub, map(add, p, p), u)))

    @cached_property
    def sums(self) -> dict[str, int]:
        """Sums over the requests, by the names of their means."""
        p, u, o, z = self.prompts, self.uncached, self.outputs, self.attention
        return {
            "prompt_tokens_mean": sum(p),
            "prompt_tokens_m2": sum(map(mul, p, p)),
            "uncached_tokens_mean": sum(u),
            "uncached_tokens_m2": sum(map(mul, u, u)),
            "attention_mean": sum(z),
            "attention_m2": sum(map(mul, z, z)),
            "uncached_attention_mean": sum(map(mul, u, z)),
            "prompt_uncached_mean": sum(map(mul, p, u)),
            "prompt_attention_mean": sum(map(mul, p, z)),
            "output_tokens_mean": sum(o),
            "output_tokens_m2": sum(map(mul, o, o)),
            "prompt_output_mean": sum(map(mul, p, o)),
            "multi_token_share": len(o) - o.count(1),
        }

    @cached_property
    def largest(self) -> dict[str, int]:
        """The largest of each kind."""
        return {
            "prompt_tokens_max": max(self.prompts),
            "uncached_tokens_max": max(self.uncached),
            "attention_max": max(self.attention),
            "output_tokens_max": max(self.outputs),
        }

    def strata(self) -> Iterator[Exact]:
        """The strata by uncached tokens."""
        ordered = sorted(self.uncached)
        starts = starts_of_strata(ordered)
        firsts = [ordered[start] for start in starts[1:]]
        parts = [(array("i"), array("i")) for _ in starts]
        for place, prompt, uncached in zip(
            map(bisect_right, repeat(firsts), self.uncached), self.prompts, self.uncached, strict=True
        ):
            prompts, of_them = parts[place]
            prompts.append(prompt)
            of_them.append(uncached)
        for start, (p, u) in zip(starts, parts, strict=True):
            pu, uu = sum(map(mul, p, u)), sum(map(mul, u, u))
            sums = {
                "prompt_tokens_mean": sum(p),
                "uncached_tokens_mean": sum(u),
                "attention_mean": 2 * pu - uu,
                "prompt_tokens_m2": sum(map(mul, p, p)),
                "prompt_uncached_mean": pu,
                "uncached_tokens_m2": uu,
            }
            yield {"stratum": stratum_number(start, len(ordered)), **_means(sums, len(p))}

    def output_strata(self) -> Iterator[Exact]:
        """The strata by output tokens."""
        ordered = sorted(self.outputs)
        starts = starts_of_strata(ordered)
        for start, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
            sums = {"output_tokens_mean": sum(islice(ordered, start, end))}
            yield {"stratum": stratum_number(start, len(ordered)), **_means(sums, end - start)}


def _means(sums: Mapping[str, int], requests: int) -> dict[str, int | Fraction | None]:
    return {"requests": requests, **{name: Fraction(total, requests) for name, total in sums.items()}}


def starts_of_strata(ordered: Sequence[int]) -> list[int]:
    """Return where each stratum that is not empty begins among ordered tokens.

    >>> starts_of_strata([5, 5, 5, 7]), len(starts_of_strata(range(100)))
    ([0, 3], 16)
    """
    count, starts = len(ordered), [0]
    for number in range(1, STRATA_PER_BUCKET):
        least = -(-number * count // STRATA_PER_BUCKET)  # the fewest requests before this stratum
        if least >= count:
            break
        first = bisect_left(ordered, ordered[least])
        start = least if first == least else bisect_right(ordered, ordered[least])
        if starts[-1] < start < count:
            starts.append(start)
    return starts


@dataclass(frozen=True)
class Measured:
    """What requests give: their buckets by label, whether their arrivals count, and when the first and last arrive."""

    buckets: Mapping[str, Bucket]
    is_open: bool
    columns: Columns

    @property
    def duration_ns(self) -> int:
        """From the first arrival to the last."""
        return self.columns.arrivals[-1] - self.columns.arrivals[0]

    @property
    def hit_ratio(self) -> Fraction:
        """The share of prompt tokens that the cache holds."""
        return Fraction(sum(self.columns.cached), sum(self.columns.prompts))

    def rows(self) -> Iterator[tuple[str, Exact]]:
        """All requests, then each bucket: label, means, largest, rate and variation of gaps."""
        every, total = list(self.buckets.values()), len(self.columns)
        names = every[0].sums
        sums = {name: sum(bucket.sums[name] for bucket in every) for name in names}
        largest = {name: max(bucket.largest[name] for bucket in every) for name in every[0].largest}
        yield WHOLE, {**_means(sums, total), **largest, **self._arrivals(self.columns.arrivals)}
        for label, bucket in self.buckets.items():
            of_bucket = _means(bucket.sums, len(bucket.prompts))
            yield label, {**of_bucket, **bucket.largest, **self._arrivals(bucket.arrivals)}

    def _arrivals(self, arrivals: array[int]) -> Exact:
        """Rate and variation; nothing of arrivals that do not count."""
        if not self.is_open:
            return {}
        total, duration = len(self.columns), self.duration_ns
        rate = Fraction((total - 1) * NS_PER_S * len(arrivals), duration * total) if duration else None
        return {"rate_rps": rate, "arrival_scv": scv_of(arrivals)}

    def windows(self) -> Iterator[tuple[str, int, Exact]]:
        """Label, length in seconds, and what the windows hold: of all requests, then of each bucket."""
        first, duration = self.columns.arrivals[0], self.duration_ns
        lengths = [s for s in LENGTHS_S if duration // (s * NS_PER_S) >= LEAST_WINDOWS] if self.is_open else []
        if not lengths:
            return
        everything = {WHOLE: self.columns.arrivals, **{label: one.arrivals for label, one in self.buckets.items()}}
        for label, arrivals in everything.items():
            runs = Runs.of_seconds(arrivals, first)
            for length in lengths:
                runs = runs.coarser(length)
                yield label, length, runs.window(duration // (length * NS_PER_S))


def scv_of(arrivals: Sequence[int]) -> Fraction | None:
    """Return the squared coefficient of variation of the gaps; None of fewer than two, or where all arrive at once."""
    gaps, total = len(arrivals) - 1, arrivals[-1] - arrivals[0]
    if len(arrivals) < LEAST_FOR_SCV or total == 0:
        return None
    between = array("q", map(sub, islice(arrivals, 1, None), arrivals))
    return Fraction(sum(map(mul, between, between)) * gaps, total**2) - 1


@dataclass(frozen=True)
class Runs:
    """Requests in order of arrival that share a window of some length: number of the window, and place of the first of them."""

    length_s: int
    numbers: array[int]
    places: array[int]
    requests: int

    @staticmethod
    def of_seconds(arrivals: Sequence[int], first: int) -> Runs:
        """Cut arrivals into seconds since the first of all."""
        numbers = array("q", [(arrival - first) // NS_PER_S for arrival in arrivals])
        return Runs._joined(1, numbers, range(len(numbers)), len(numbers))

    @staticmethod
    def _joined(length_s: int, numbers: array[int], places: Sequence[int], requests: int) -> Runs:
        """Join runs of one number."""
        begins = [True, *map(ne, numbers, islice(numbers, 1, None))]
        return Runs(length_s, array("q", compress(numbers, begins)), array("q", compress(places, begins)), requests)

    def coarser(self, length_s: int) -> Runs:
        """Cut into longer windows, each of which is made of whole ones of these."""
        times = length_s // self.length_s
        if times == 1:
            return self
        numbers = array("q", [number // times for number in self.numbers])
        return Runs._joined(length_s, numbers, self.places, self.requests)

    def window(self, windows: int) -> Exact:
        """Dispersion and peak of so many windows; what comes after them is left out."""
        kept = bisect_left(self.numbers, windows)
        total = self.places[kept] if kept < len(self.places) else self.requests
        counts = array("q", map(sub, chain(islice(self.places, 1, kept), [total]), self.places)) if kept else array("q")
        squares = sum(map(mul, counts, counts))
        dispersion = Fraction(squares, total) - Fraction(total, windows) if total else None
        peak = Fraction(max(counts, default=0), self.length_s)
        return {"windows": windows, "dispersion": dispersion, "peak_rps": peak}


def measure(columns: Columns, edges: Sequence[int], *, is_open: bool) -> Measured:
    """Put each request into its bucket of prompt tokens."""
    parts: dict[int, Bucket] = {}
    places = map(bisect_right, repeat(edges), columns.prompts)
    for place, arrival, prompt, cached, output in zip(
        places, columns.arrivals, columns.prompts, columns.cached, columns.outputs, strict=True
    ):
        bucket = parts.get(place)
        if bucket is None:
            bucket = parts[place] = Bucket(array("q"), array("i"), array("i"), array("i"))
        bucket.arrivals.append(arrival)
        bucket.prompts.append(prompt)
        bucket.uncached.append(prompt - cached)
        bucket.outputs.append(output)
    ends = [1, *edges, "inf"]
    return Measured({f"[{ends[k]},{ends[k + 1]})": parts[k] for k in sorted(parts)}, is_open, columns)
