"""The workload of a cohort: moments of its request log per prompt bucket, and strata within each bucket, by work and by output."""

from typing import Any

import pandera.polars as pa
import polars as pl
from pandera.polars import PolarsData

ALL = "all"
"""Label of the row that covers every request."""


def _column(title: str, unit: str, meaning: str, **checks: Any) -> Any:
    return pa.Field(title=title, description=meaning, metadata={"unit": unit, "meaning": meaning}, **checks)


class Buckets(pa.DataFrameModel):
    """One row per prompt-length bucket that holds a request, ascending, after one row for all of them."""

    bucket: pl.String = _column("Bucket", "tokens", "range of prompt tokens, or all", unique=True)
    requests: pl.Int64 = _column("Requests", "count", "requests in the bucket", ge=1)
    rate_rps: pl.Float64 = _column(
        "Rate",
        "requests/s",
        "the arrival rate times the bucket's share of requests; absent in a closed loop",
        gt=0,
        nullable=True,
    )
    arrival_scv: pl.Float64 = _column(
        "Burstiness",
        "ratio",
        "squared coefficient of variation of the bucket's inter-arrival times; absent below three requests and where arrivals are declared",
        ge=0,
        nullable=True,
    )
    prompt_tokens_mean: pl.Float64 = _column("Mean prompt", "tokens", "E[p]", ge=1)
    prompt_tokens_m2: pl.Float64 = _column("Prompt, 2nd moment", "tokens^2", "E[p^2]", ge=1)
    prompt_tokens_max: pl.Int64 = _column("Longest prompt", "tokens", "largest p", ge=1)
    uncached_tokens_mean: pl.Float64 = _column(
        "Mean uncached", "tokens", "E[u], u the prompt tokens that prefill computes", ge=1
    )
    uncached_tokens_m2: pl.Float64 = _column("Uncached, 2nd moment", "tokens^2", "E[u^2]", ge=1)
    uncached_tokens_max: pl.Int64 = _column("Most uncached", "tokens", "largest u", ge=1)
    attention_mean: pl.Float64 = _column("Mean attention", "tokens^2", "E[z], z = p^2 - (p - u)^2", ge=1)
    attention_m2: pl.Float64 = _column("Attention, 2nd moment", "tokens^4", "E[z^2]", ge=1)
    attention_max: pl.Int64 = _column("Most attention", "tokens^2", "largest z", ge=1)
    uncached_attention_mean: pl.Float64 = _column("Mean uncached x attention", "tokens^3", "E[u*z]", ge=1)
    prompt_uncached_mean: pl.Float64 = _column("Mean prompt x uncached", "tokens^2", "E[p*u]", ge=1)
    prompt_attention_mean: pl.Float64 = _column("Mean prompt x attention", "tokens^3", "E[p*z]", ge=1)
    output_tokens_mean: pl.Float64 = _column("Mean output", "tokens", "E[o]", ge=1)
    output_tokens_m2: pl.Float64 = _column("Output, 2nd moment", "tokens^2", "E[o^2]", ge=1)
    output_tokens_max: pl.Int64 = _column("Longest output", "tokens", "largest o", ge=1)
    prompt_output_mean: pl.Float64 = _column("Mean product", "tokens^2", "E[p*o]", ge=1)
    multi_token_share: pl.Float64 = _column(
        "Multi-token share", "ratio", "share of requests with two output tokens or more", ge=0, le=1
    )

    class Config:
        """No other columns."""

        strict = True

    @pa.check("bucket", error="the first row is not the one for all requests")
    def all_comes_first(cls, data: PolarsData) -> pl.LazyFrame:
        """Consumers read the first row as the whole cohort."""
        return data.lazyframe.select(pl.col(data.key).first() == ALL)


class Strata(pa.DataFrameModel):
    """One row per stratum: at most 16 per bucket, cut by uncached tokens into about equal counts."""

    bucket: pl.String = _column("Bucket", "tokens", "range of prompt tokens that the stratum belongs to")
    stratum: pl.Int64 = _column("Stratum", "", "number within the bucket, ascending by uncached tokens", ge=0, le=15)
    requests: pl.Int64 = _column("Requests", "count", "requests in the stratum", ge=1)
    prompt_tokens_mean: pl.Float64 = _column("Mean prompt", "tokens", "E[p] of the stratum", ge=1)
    uncached_tokens_mean: pl.Float64 = _column("Mean uncached", "tokens", "E[u] of the stratum", ge=1)
    attention_mean: pl.Float64 = _column("Mean attention", "tokens^2", "E[z] of the stratum", ge=1)
    prompt_tokens_m2: pl.Float64 = _column("Prompt, 2nd moment", "tokens^2", "E[p^2] of the stratum", ge=1)
    prompt_uncached_mean: pl.Float64 = _column("Mean prompt x uncached", "tokens^2", "E[p*u] of the stratum", ge=1)
    uncached_tokens_m2: pl.Float64 = _column("Uncached, 2nd moment", "tokens^2", "E[u^2] of the stratum", ge=1)

    class Config:
        """No other columns."""

        strict = True


class OutputStrata(pa.DataFrameModel):
    """One row per output stratum: at most 16 per bucket, cut by output tokens into about equal counts."""

    bucket: pl.String = _column("Bucket", "tokens", "range of prompt tokens that the stratum belongs to")
    stratum: pl.Int64 = _column("Stratum", "", "number within the bucket, ascending by output tokens", ge=0, le=15)
    requests: pl.Int64 = _column("Requests", "count", "requests in the stratum", ge=1)
    output_tokens_mean: pl.Float64 = _column("Mean output", "tokens", "E[o] of the stratum", ge=1)

    class Config:
        """No other columns."""

        strict = True


class Windows(pa.DataFrameModel):
    """How evenly requests arrive: one row per bucket and window length, of an open trace only."""

    bucket: pl.String = _column("Bucket", "tokens", "range of prompt tokens, or all")
    window_s: pl.Int64 = _column("Window", "s", "length of the windows that the log is cut into", ge=1)
    windows: pl.Int64 = _column("Windows", "count", "whole windows in the log", ge=1)
    dispersion: pl.Float64 = _column(
        "Dispersion",
        "ratio",
        "variance over mean of the arrivals per window; absent if there are none",
        ge=0,
        nullable=True,
    )
    peak_rps: pl.Float64 = _column("Peak rate", "requests/s", "most arrivals in one window, over its length", ge=0)

    class Config:
        """No other columns."""

        strict = True
