"""The scenario matrix and the verdicts on it."""

import pandera.polars as pa

from pipelines.frames.evaluation import ScenarioColumns


class ScenarioMatrix(ScenarioColumns):
    """One row per scenario and bound, all topologies of one cohort; figures rounded to the exported digits."""

    ttft_worst_s: float = pa.Field(nullable=True, ge=0, metadata={"unit": "s", "meaning": "largest TTFT of any bucket (modeled)"})
    ttft_worst_bucket: str = pa.Field(nullable=True, metadata={"unit": "tokens", "meaning": "the bucket that has it"})
    tpot_worst_s: float = pa.Field(nullable=True, ge=0, metadata={"unit": "s", "meaning": "largest TPOT of any bucket (modeled)"})
    tpot_worst_bucket: str = pa.Field(nullable=True, metadata={"unit": "tokens", "meaning": "the bucket that has it"})
    e2e_worst_s: float = pa.Field(nullable=True, ge=0, metadata={"unit": "s", "meaning": "largest E2E of any bucket (modeled)"})
    transfer_worst_s: float = pa.Field(
        nullable=True, ge=0, metadata={"unit": "s", "meaning": "largest transfer wait plus KV movement of any bucket (modeled)"}
    )
    transfer_envelope_share: float = pa.Field(
        nullable=True, ge=0, metadata={"unit": "ratio", "meaning": "transfer_worst_s over objectives.ttft_growth"}
    )


class Verdicts(pa.DataFrameModel):
    """One row per scenario and gate that concerns it."""

    scenario: str = pa.Field(metadata={"unit": "", "meaning": "scenario judged"})
    topology: str = pa.Field(metadata={"unit": "", "meaning": "its topology"})
    place: int = pa.Field(ge=0, metadata={"unit": "", "meaning": "position of the scenario in the matrix"})
    gate: str = pa.Field(metadata={"unit": "", "meaning": "gate id"})
    metric: str = pa.Field(metadata={"unit": "", "meaning": "figure judged"})
    unit: str = pa.Field(metadata={"unit": "", "meaning": "unit of figure and limit"})
    bound: str = pa.Field(isin=["nominal", "conservative"], metadata={"unit": "", "meaning": "bound of the figure"})
    op: str = pa.Field(isin=["lte", "lt", "gte", "gt"], metadata={"unit": "", "meaning": "how figure and limit compare"})
    figure: float = pa.Field(nullable=True, metadata={"unit": "as unit", "meaning": "the scenario's figure"})
    limit: float = pa.Field(metadata={"unit": "as unit", "meaning": "the gate's limit"})
    margin: float = pa.Field(nullable=True, metadata={"unit": "ratio", "meaning": "distance to the limit, negative beyond it"})
    verdict: str = pa.Field(isin=["pass", "fail", "refused"], metadata={"unit": "", "meaning": "pass, fail or refused"})
    severity: str = pa.Field(isin=["error", "warn"], metadata={"unit": "", "meaning": "severity of a failure"})
    blocking: bool = pa.Field(metadata={"unit": "", "meaning": "whether the decision depends on it"})

    class Config:
        """No other columns."""

        strict = True
