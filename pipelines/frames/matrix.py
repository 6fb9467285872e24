"""The scenario matrix and the verdicts on it."""

import pandera.polars as pa

from pipelines.frames.evaluation import ScenarioColumns


class ScenarioMatrix(ScenarioColumns):
    """One row per scenario and bound, all topologies of one cohort; figures rounded to the exported digits."""

    operating_parts: float = pa.Field(ge=0, metadata={"unit": "count", "meaning": "weighted parts of the topology"})
    ttft_worst_s: float = pa.Field(
        nullable=True, ge=0, metadata={"unit": "s", "meaning": "largest TTFT of any bucket (modeled)"}
    )
    ttft_worst_bucket: str = pa.Field(nullable=True, metadata={"unit": "tokens", "meaning": "the bucket that has it"})
    tpot_worst_s: float = pa.Field(
        nullable=True, ge=0, metadata={"unit": "s", "meaning": "largest TPOT of any bucket (modeled)"}
    )
    tpot_worst_bucket: str = pa.Field(nullable=True, metadata={"unit": "tokens", "meaning": "the bucket that has it"})
    e2e_worst_s: float = pa.Field(
        nullable=True, ge=0, metadata={"unit": "s", "meaning": "largest E2E of any bucket (modeled)"}
    )
    ttft_judged_bucket: str = pa.Field(
        nullable=True, metadata={"unit": "tokens", "meaning": "the bucket whose TTFT is largest against its objective"}
    )
    tpot_judged_bucket: str = pa.Field(
        nullable=True, metadata={"unit": "tokens", "meaning": "the bucket whose TPOT is largest against its objective"}
    )
    e2e_judged_bucket: str = pa.Field(
        nullable=True, metadata={"unit": "tokens", "meaning": "the bucket whose E2E is largest against its objective"}
    )
    ttft_judged_s: float = pa.Field(nullable=True, ge=0, metadata={"unit": "s", "meaning": "its TTFT (modeled)"})
    tpot_judged_s: float = pa.Field(nullable=True, ge=0, metadata={"unit": "s", "meaning": "its TPOT (modeled)"})
    e2e_judged_s: float = pa.Field(nullable=True, ge=0, metadata={"unit": "s", "meaning": "its E2E (modeled)"})
    ttft_objective_s: float = pa.Field(
        nullable=True, metadata={"unit": "s", "meaning": "the TTFT objective of that bucket"}
    )
    tpot_objective_s: float = pa.Field(
        nullable=True, metadata={"unit": "s", "meaning": "the TPOT objective of that bucket"}
    )
    e2e_objective_s: float = pa.Field(
        nullable=True, metadata={"unit": "s", "meaning": "the E2E objective of that bucket"}
    )
    transfer_worst_s: float = pa.Field(
        nullable=True,
        ge=0,
        metadata={"unit": "s", "meaning": "largest transfer wait plus KV movement of any bucket (modeled)"},
    )
    transfer_envelope_share: float = pa.Field(
        nullable=True, ge=0, metadata={"unit": "ratio", "meaning": "transfer_worst_s over objectives.ttft_growth"}
    )


class Gates(pa.DataFrameModel):
    """One row per declared gate, in the order of files and of their lines."""

    gate: str = pa.Field(unique=True, metadata={"unit": "", "meaning": "gate id"})
    file: str = pa.Field(metadata={"unit": "", "meaning": "rules file that declares it"})
    kind: str = pa.Field(metadata={"unit": "", "meaning": "kind of that document"})
    metric: str = pa.Field(metadata={"unit": "", "meaning": "figure judged"})
    unit: str = pa.Field(isin=["s", "ratio", "count"], metadata={"unit": "", "meaning": "unit of the metric"})
    topologies: str = pa.Field(metadata={"unit": "", "meaning": "topologies that it concerns, space-separated"})
    bound: str = pa.Field(isin=["nominal", "conservative"], metadata={"unit": "", "meaning": "bound of the figure"})
    op: str = pa.Field(
        isin=["lte", "lt", "gte", "gt"], metadata={"unit": "", "meaning": "how figure and limit compare"}
    )
    limit: float = pa.Field(
        nullable=True, metadata={"unit": "as unit", "meaning": "declared limit, if not an objective"}
    )
    objective: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "objective of the cohort that is the limit"}
    )
    severity: str = pa.Field(isin=["error", "warn"], metadata={"unit": "", "meaning": "severity of a failure"})
    blocking: bool = pa.Field(metadata={"unit": "", "meaning": "whether the decision depends on it"})
    owner: str = pa.Field(metadata={"unit": "", "meaning": "who answers for the rule"})
    rationale: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "why the rule exists"})

    class Config:
        """No other columns."""

        strict = True


class Preference(pa.DataFrameModel):
    """The decision rule: the order of preference and the weights of operating parts."""

    rule: str = pa.Field(
        isin=["prefer", "weight"], metadata={"unit": "", "meaning": "an entry of prefer, or a part's weight"}
    )
    name: str = pa.Field(metadata={"unit": "", "meaning": "ranking key, or kind of part"})
    value: float = pa.Field(ge=0, metadata={"unit": "", "meaning": "rank of the key (0 first), or the weight"})

    class Config:
        """No other columns."""

        strict = True


class Verdicts(pa.DataFrameModel):
    """One row per scenario and gate that concerns it."""

    scenario: str = pa.Field(metadata={"unit": "", "meaning": "scenario judged"})
    topology: str = pa.Field(metadata={"unit": "", "meaning": "its topology"})
    place: int = pa.Field(ge=0, metadata={"unit": "", "meaning": "position of the scenario in the matrix"})
    gate: str = pa.Field(metadata={"unit": "", "meaning": "gate id"})
    metric: str = pa.Field(metadata={"unit": "", "meaning": "figure judged"})
    unit: str = pa.Field(metadata={"unit": "", "meaning": "unit of figure and limit"})
    bound: str = pa.Field(isin=["nominal", "conservative"], metadata={"unit": "", "meaning": "bound of the figure"})
    op: str = pa.Field(
        isin=["lte", "lt", "gte", "gt"], metadata={"unit": "", "meaning": "how figure and limit compare"}
    )
    figure: float = pa.Field(nullable=True, metadata={"unit": "as unit", "meaning": "the scenario's figure"})
    limit: float = pa.Field(metadata={"unit": "as unit", "meaning": "the gate's limit"})
    margin: float = pa.Field(
        nullable=True, metadata={"unit": "ratio", "meaning": "distance to the limit, negative beyond it"}
    )
    verdict: str = pa.Field(isin=["pass", "fail", "refused"], metadata={"unit": "", "meaning": "pass, fail or refused"})
    severity: str = pa.Field(isin=["error", "warn"], metadata={"unit": "", "meaning": "severity of a failure"})
    blocking: bool = pa.Field(metadata={"unit": "", "meaning": "whether the decision depends on it"})

    class Config:
        """No other columns."""

        strict = True


class Decision(pa.DataFrameModel):
    """One row per compared topology: the scenario that speaks for it, and how it stands."""

    topology: str = pa.Field(unique=True, metadata={"unit": "", "meaning": "compared topology"})
    scenario: str = pa.Field(metadata={"unit": "", "meaning": "its best passing scenario, or its nearest miss"})
    place: int = pa.Field(ge=0, metadata={"unit": "", "meaning": "position of the scenario in the matrix"})
    standing: str = pa.Field(
        isin=["chosen", "passes_but_larger", "nearest_miss"],
        metadata={"unit": "", "meaning": "how the topology stands"},
    )
    reason: str = pa.Field(metadata={"unit": "", "meaning": "why, in words"})

    class Config:
        """No other columns."""

        strict = True
