"""The data sets of token counts that belong to ServeGen's logs of rates: distributions of lengths by window of six hours or so.

A JSON object by start of window (s); each value an object of fields whose values are texts of Python dicts, from a value to its
probability. Language and reasoning models: ``input_tokens``, ``output_tokens`` (those of the reasoning included, of which
``reason_ratio`` gives the share). Multimodal models: ``text_tokens``, ``output_tokens``, and of images, audio and video how many there
are in a request (``image_count``) and how many tokens each one takes (``image_tokens``).
"""

import bisect
import re
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import orjson

from pipelines.declarations.problems import DeclarationProblems, Problem
from pipelines.traces.log_file import LogFile, record_of
from pipelines.traces.quantiles import Floats, Ints, radical_inverse

PROMPT, TEXT, OUTPUT = "input_tokens", "text_tokens", "output_tokens"
_MEDIA = ("image", "audio", "video")
MOST_ITEMS = 10_000_000
"""Images and the like in all requests of one window."""

# Base 2 is that of the gaps between arrivals: a length of the same base would follow the gap before it.
_BASES = {PROMPT: 3, TEXT: 3, OUTPUT: 5} | {
    f"{media}_{what}": base
    for (media, what), base in zip(
        ((media, what) for media in _MEDIA for what in ("count", "tokens")), (7, 11, 13, 17, 19, 23), strict=True
    )
}

_PDF_CHARACTERS = re.compile(r"[\s{}0-9eE+.:,-]*")
_KEY = re.compile(r"([0-9.eE+-]+)\s*:")
_WHOLE = re.compile(r"[0-9]{1,9}")
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Spread:
    """A discrete distribution: values in ascending order, and the probability of each one or less."""

    values: Ints
    up_to: Floats

    def at(self, p: Floats) -> Ints:
        """The quantiles at ``p`` (0 <= p < 1).

        >>> Spread(np.array([10, 20]), np.array([0.25, 1.0])).at(np.array([0.0, 0.25, 0.9])).tolist()
        [10, 20, 20]
        """
        places = np.searchsorted(self.up_to, p, side="right")
        return np.asarray(self.values[np.minimum(places, self.values.size - 1)])


@dataclass(frozen=True)
class WindowLengths:
    """The distributions of one window, by field."""

    start_s: int
    fields: dict[str, Spread]


@dataclass
class Lengths:
    """The windows of a data set that have distributions, in order; deals out token counts without random numbers."""

    file: LogFile
    windows: list[WindowLengths]
    _dealt: dict[str, int] = field(default_factory=dict)

    @property
    def with_reasoning(self) -> bool:
        """Whether output tokens are those of a reasoning model."""
        return any("reason_ratio" in window.fields for window in self.windows)

    def at(self, start_s: int) -> WindowLengths | None:
        """The distributions that hold for the window that begins at ``start_s``: its own, or those of the nearest earlier window."""
        place = bisect.bisect_right(self._starts, start_s)
        return self.windows[place - 1] if place else None

    def deal(self, window: WindowLengths, index: Ints) -> tuple[Ints, Ints]:
        """Prompt and output tokens of the requests ``index`` (numbers of the whole log)."""
        text = PROMPT if PROMPT in window.fields else TEXT
        prompt, output = (window.fields[name].at(radical_inverse(index, _BASES[name])) for name in (text, OUTPUT))
        for media in _MEDIA:
            if f"{media}_tokens" in window.fields:
                prompt = prompt + self._media_tokens(window, media, index)
        return prompt, output

    @cached_property
    def _starts(self) -> list[int]:
        return [window.start_s for window in self.windows]

    def _media_tokens(self, window: WindowLengths, media: str, index: Ints) -> Ints:
        """Tokens of all images (audios, videos) of each request."""
        counted, each = window.fields.get(f"{media}_count"), window.fields[f"{media}_tokens"]
        counts = counted.at(radical_inverse(index, _BASES[f"{media}_count"])) if counted else np.ones_like(index)
        items = int(counts.sum())
        if items > MOST_ITEMS:
            message = f"{media}_count stands for more than {MOST_ITEMS:,} in one window; expected fewer"
            raise self.file.refused(message, column=str(window.start_s))
        first = self._dealt.get(media, 0)
        self._dealt[media] = first + items
        tokens = each.at(radical_inverse(np.arange(first, first + items), _BASES[f"{media}_tokens"]))
        ends = np.concatenate([[0], np.cumsum(tokens)])
        upto = np.cumsum(counts)
        return np.asarray(ends[upto] - ends[upto - counts])


def read_lengths(file: LogFile) -> Lengths:
    """The data set of lengths in ``file``; DeclarationProblems for all that is wrong with it."""
    document = record_of(file.read_all())
    if document is None or not document or not all(_WHOLE.fullmatch(key) for key in document):
        hint = "ServeGen calls it chunk-N-dataset.json, beside the log chunk-N-trace.csv"
        raise file.refused("not a data set of lengths; expected a JSON object by start of window in seconds", hint)
    problems: list[Problem] = []
    windows = [_window(file, int(start), fields, problems) for start, fields in document.items()]
    if problems:
        raise DeclarationProblems(problems)
    found = sorted((window for window in windows if window is not None), key=lambda window: window.start_s)
    if not found:
        raise file.refused("no window of the data set has lengths; expected input_tokens and output_tokens")
    return Lengths(file, found)


def _window(file: LogFile, start_s: int, fields: object, problems: list[Problem]) -> WindowLengths | None:
    """One window; None if it is empty. As ServeGen does, a window of which one field is empty is."""
    if not isinstance(fields, dict) or OUTPUT not in fields or not (PROMPT in fields or TEXT in fields):
        message = f"no such distributions; expected {PROMPT} (or {TEXT}) and {OUTPUT}"
        problems.append(Problem(file.shown_as, 1, 1, str(start_s), message))
        return None
    wanted = [name for name in fields if name in _BASES]
    spreads = {}
    for name in wanted:
        spread = _spread(fields[name])
        if isinstance(spread, str):
            problems.append(Problem(file.shown_as, 1, 1, f"{start_s}.{name}", spread))
        else:
            spreads[name] = spread
    if len(spreads) < len(wanted) or any(spread.values.size == 0 for spread in spreads.values()):
        return None
    if "reason_ratio" in fields:
        spreads["reason_ratio"] = Spread(np.zeros(1, np.int64), np.ones(1))
    return WindowLengths(start_s, spreads)


def _spread(text: object) -> Spread | str:
    """The distribution that a text of a Python dict holds, or what is wrong with it. The text is never evaluated."""
    pairs = _pairs(text)
    if pairs is None:
        return "not a distribution; expected a text such as {62: 0.25, 66: 0.75}"
    if not pairs:
        return Spread(np.empty(0, np.int64), np.empty(0))
    total = sum(pairs.values())
    if abs(total - 1) > _SUM_TOLERANCE:
        return "probabilities that do not add up to 1; expected those of all values"
    ordered = sorted((int(key), probability) for key, probability in pairs.items() if probability > 0)
    values, chances = np.array([value for value, _ in ordered]), np.array([probability for _, probability in ordered])
    return Spread(values, np.cumsum(chances) / chances.sum())


def _pairs(text: object) -> dict[str, float] | None:
    if not isinstance(text, str) or not _PDF_CHARACTERS.fullmatch(text):
        return None
    try:
        pairs = orjson.loads(_KEY.sub(r'"\1":', text))
    except orjson.JSONDecodeError:
        return None
    is_right = isinstance(pairs, dict) and all(
        _WHOLE.fullmatch(key) and type(chance) in (int, float) and 0 <= chance <= 1 for key, chance in pairs.items()
    )
    return pairs if is_right else None
