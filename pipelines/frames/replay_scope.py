"""Which scenarios of a cohort were replayed, or why none was (docs/formats.md, Receipt, replay)."""

import pandera.polars as pa

from pipelines.frames.replays import COHORT_REASONS

FINALISTS, ALL = "finalists", "all"
SCOPES = (FINALISTS, ALL)


class ReplayScope(pa.DataFrameModel):
    """What was replayed, in one row."""

    which: str = pa.Field(
        isin=SCOPES,
        metadata={"unit": "", "meaning": "the speaking scenarios of the closed forms, or all that are kept"},
    )
    reason: str = pa.Field(
        nullable=True, isin=COHORT_REASONS, metadata={"unit": "", "meaning": "why none of the cohort is replayed"}
    )

    class Config:
        """No other columns."""

        strict = True
