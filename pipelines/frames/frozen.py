"""The frozen cohort: one row that says what was read and what everything else is computed for."""

import pandera.polars as pa


class FrozenCohort(pa.DataFrameModel):
    """One row; ``fingerprint`` covers the inputs table, the requests and the bucket edges."""

    name: str = pa.Field(metadata={"unit": "", "meaning": "name of the cohort"})
    title: str = pa.Field(metadata={"unit": "", "meaning": "its title"})
    model_name: str = pa.Field(metadata={"unit": "", "meaning": "name of the served model"})
    fingerprint: str = pa.Field(
        str_length=64, metadata={"unit": "", "meaning": "SHA-256 of inputs, requests and bucket edges"}
    )
    requests_sha256: str = pa.Field(str_length=64, metadata={"unit": "", "meaning": "SHA-256 of the requests frame"})
    format: str = pa.Field(metadata={"unit": "", "meaning": "trace format"})
    provenance: str = pa.Field(
        isin=["observed", "supplied"], metadata={"unit": "", "meaning": "provenance of the trace"}
    )
    source: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "where an observed trace was recorded"})
    note: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "the declaring person's remark"})
    kind: str = pa.Field(
        isin=["open", "rate", "closed"],
        metadata={"unit": "", "meaning": "arrivals of the trace, at a declared rate, or as requests leave"},
    )
    requests: int = pa.Field(
        ge=1, metadata={"unit": "count", "meaning": "requests in the frame, or weights of classes"}
    )
    duration_s: float = pa.Field(
        gt=0, nullable=True, metadata={"unit": "s", "meaning": "last arrival minus first; absent unless kind is open"}
    )
    rows_read: int = pa.Field(ge=1, metadata={"unit": "count", "meaning": "rows of the trace"})
    rows_dropped: int = pa.Field(ge=0, metadata={"unit": "count", "meaning": "rows of the trace that were invalid"})
    dropped: str = pa.Field(metadata={"unit": "", "meaning": "JSON list: kind and rows of what was dropped"})
    steps: str = pa.Field(
        metadata={"unit": "", "meaning": "JSON list: what was done to the log, with the requests left"}
    )
    prefix_cache: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "JSON object: the cache whose hits the frame holds"}
    )
    warnings: str = pa.Field(metadata={"unit": "", "meaning": "JSON list: what is doubtful about the log"})
    bucket_edges_tokens: str = pa.Field(
        metadata={"unit": "tokens", "meaning": "inner edges of the prompt buckets, space-separated"}
    )

    class Config:
        """No other columns."""

        strict = True
