"""The requests frame: what is kept of a request log, whatever its format."""

from typing import Any

import pandera.polars as pa
import polars as pl
from pandera.polars import PolarsData

MAX_TOKENS = 2**31 - 1
"""Largest token count of one request that is read. Products of two counts then fit 64 bits."""

GROUP_FIELDS = ("model", "adapter", "priority")
"""What a log may say of a request beside its arrival and its token counts; a cohort may be cut by these, nothing else is read."""


def _column(title: str, unit: str, meaning: str, **checks: Any) -> Any:
    return pa.Field(title=title, description=meaning, metadata={"unit": unit, "meaning": meaning}, **checks)


class Requests(pa.DataFrameModel):
    """One row per request, in order of arrival; ties in order of prompt, cached, then output tokens."""

    arrival_ns: pl.Int64 = _column("Arrival", "ns", "time since the first arrival of the log", ge=0)
    prompt_tokens: pl.Int32 = _column("Prompt", "tokens", "prompt tokens of the request", ge=1)
    cached_prompt_tokens: pl.Int32 = _column(
        "Cached", "tokens", "prompt tokens that the prefix cache holds, fewer than the prompt has", ge=0
    )
    output_tokens: pl.Int32 = _column("Output", "tokens", "generated tokens of the request", ge=1)

    class Config:
        """No other columns."""

        strict = True

    @pa.check("arrival_ns", error="the first arrival is not at 0")
    def starts_at_zero(cls, data: PolarsData) -> pl.LazyFrame:
        """Arrivals are counted from the first one."""
        return data.lazyframe.select(pl.col(data.key).min() == 0)

    @pa.check("arrival_ns", error="arrivals are not sorted")
    def sorted_by_arrival(cls, data: PolarsData) -> pl.LazyFrame:
        """No request arrives before the one above it."""
        return data.lazyframe.select((pl.col(data.key).diff() >= 0).all())

    @pa.dataframe_check(error="a prompt is cached whole: prefill computes one token at least")
    def cached_below_prompt(cls, data: PolarsData) -> pl.LazyFrame:
        """A token must be computed for the first output token to come from."""
        return data.lazyframe.select((pl.col("cached_prompt_tokens") < pl.col("prompt_tokens")).all())
