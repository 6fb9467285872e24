"""Token counts as logs write them."""

import re

import polars as pl

from pipelines.frames.requests import MAX_TOKENS
from pipelines.traces import faults
from pipelines.traces.faults import Kind

_WHOLE = re.compile(r"(?P<sign>[+-]?)(?P<digits>[0-9]+)(\.0*)?")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST_COUNT = len(str(MAX_TOKENS))
_WHOLE_FLOAT = rf"^([0-9]{{1,{_LONGEST_COUNT}}})\.0*$"


def count_of_text(text: str, *, least: int = 1) -> int | Kind:
    """A token count written as text, or what is wrong with it.

    >>> count_of_text("0128"), count_of_text("12.0"), count_of_text("12.5").code, count_of_text("-3").code
    (128, 12, 'not_whole', 'negative')
    """
    found = _WHOLE.fullmatch(text)
    if found is None:
        if not text:
            return faults.EMPTY_TOKENS
        return faults.NOT_WHOLE if _DECIMAL.fullmatch(text) else faults.NOT_A_NUMBER
    is_negative, digits = found["sign"] == "-", found["digits"].lstrip("0") or "0"
    if len(digits) > _LONGEST_COUNT:
        return faults.NEGATIVE_TOKENS if is_negative else faults.TOO_MANY_TOKENS
    return _within(-int(digits) if is_negative else int(digits), least)


def token_count(value: object, *, least: int = 1) -> int | Kind:
    """A token count of a JSON value, or what is wrong with it; a number written as text, as some exporters do, is one.

    >>> token_count(12), token_count(12.0), token_count("7"), token_count(1.5).code, token_count(None).code
    (12, 12, 7, 'not_whole', 'empty')
    """
    if isinstance(value, str):
        return count_of_text(value.strip(), least=least)
    if value is None:
        return faults.MISSING_TOKENS
    if isinstance(value, bool) or not isinstance(value, int | float):
        return faults.NOT_A_NUMBER
    if isinstance(value, float) and not value.is_integer():
        return faults.NEGATIVE_TOKENS if value < 0 else faults.NOT_WHOLE
    return _within(int(value), least)


def quick_counts(text: pl.Expr) -> pl.Expr:
    """Token counts written as plain whole numbers, or by whoever had them as floats: 12.0; null where :func:`count_of_text` has to look."""
    whole, of_float = text.cast(pl.Int64, strict=False), text.str.extract(_WHOLE_FLOAT).cast(pl.Int64, strict=False)
    return pl.coalesce(whole, of_float)


def _within(count: int, least: int) -> int | Kind:
    if count < 0:
        return faults.NEGATIVE_TOKENS
    if count < least:
        return faults.ZERO_TOKENS
    return count if count <= MAX_TOKENS else faults.TOO_MANY_TOKENS
