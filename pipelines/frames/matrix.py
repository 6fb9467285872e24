"""The scenario matrix and the verdicts on it."""

from typing import Any

import pandera.polars as pa
import polars as pl

from pipelines.frames.evaluation import ScenarioColumns


def _by_bucket(meaning: str) -> Any:
    about = {"unit": "s", "meaning": f"{meaning} of each bucket of the workload, in their order (modeled means)"}
    return pa.Field(nullable=True, metadata=about)


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
    ttft_by_bucket: pl.List = _by_bucket("TTFT")
    tpot_by_bucket: pl.List = _by_bucket("TPOT")
    e2e_by_bucket: pl.List = _by_bucket("E2E")
    prefill_wait_by_bucket: pl.List = _by_bucket("prefill wait")
    transfer_by_bucket: pl.List = _by_bucket("transfer wait plus KV movement")
    decode_wait_by_bucket: pl.List = _by_bucket("decode wait")


class Gates(pa.DataFrameModel):
    """One row per gate that a cohort is judged by, in the order of files and of their lines."""

    gate: str = pa.Field(unique=True, metadata={"unit": "", "meaning": "gate id"})
    file: str = pa.Field(metadata={"unit": "", "meaning": "rules file that declares it"})
    overrides: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "file of the gate in whose place it stands"}
    )
    instead_of: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "what it asks for, and what that gate did"}
    )
    kind: str = pa.Field(metadata={"unit": "", "meaning": "kind of that document"})
    scope: str = pa.Field(
        isin=["scenario", "decision"], metadata={"unit": "", "meaning": "what the judged figure is of"}
    )
    metric: str = pa.Field(metadata={"unit": "", "meaning": "figure judged"})
    unit: str = pa.Field(
        isin=["s", "ratio", "count", "days"], metadata={"unit": "", "meaning": "unit of the judged figure"}
    )
    topologies: str = pa.Field(metadata={"unit": "", "meaning": "topologies that it concerns, space-separated"})
    buckets: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "prompt buckets, shortest or longest, space-separated; or all"}
    )
    aggregate: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "how figures by bucket make one"})
    within: float = pa.Field(nullable=True, metadata={"unit": "s", "meaning": "declared, if not an objective"})
    within_objective: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "objective that a bucket that counts is within"}
    )
    inputs: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "patterns of inputs that count, space-separated; or all"}
    )
    cohorts: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "cohorts that it concerns, space-separated; or all"}
    )
    here: bool = pa.Field(metadata={"unit": "", "meaning": "whether it concerns this cohort"})
    waived: str = pa.Field(
        metadata={"unit": "", "meaning": "topologies, or decision, for which an exception holds, space-separated"}
    )
    bound: str = pa.Field(
        nullable=True, isin=["nominal", "conservative"], metadata={"unit": "", "meaning": "bound of the figure"}
    )
    op: str = pa.Field(
        isin=["lte", "lt", "gte", "gt"], metadata={"unit": "", "meaning": "how figure and limit compare"}
    )
    limit: float = pa.Field(
        nullable=True, metadata={"unit": "as unit", "meaning": "declared limit, if not an objective or a metric"}
    )
    objective: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "objective of the cohort that is the limit"}
    )
    limit_metric: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "metric whose multiple is the limit"})
    limit_baseline: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "topology of whose best figure a multiple is the limit"}
    )
    limit_times: float = pa.Field(nullable=True, metadata={"unit": "", "meaning": "what that is multiplied by"})
    severity: str = pa.Field(isin=["error", "warn"], metadata={"unit": "", "meaning": "severity of a failure"})
    blocking: bool = pa.Field(metadata={"unit": "", "meaning": "whether the decision depends on it"})
    message: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "what is said of it where it does not pass"}
    )
    owner: str = pa.Field(metadata={"unit": "", "meaning": "who answers for the rule"})
    rationale: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "why the rule exists"})

    class Config:
        """No other columns."""

        strict = True


class Exceptions(pa.DataFrameModel):
    """One row per exception of the rules, in the order of files and of their lines."""

    gate: str = pa.Field(metadata={"unit": "", "meaning": "gate that is waived"})
    file: str = pa.Field(metadata={"unit": "", "meaning": "rules file that declares it"})
    topologies: str = pa.Field(
        metadata={"unit": "", "meaning": "topologies that it holds for, space-separated; none of a decision"}
    )
    cohorts: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "cohorts that it holds for, space-separated; or all"}
    )
    reason: str = pa.Field(metadata={"unit": "", "meaning": "why"})
    owner: str = pa.Field(metadata={"unit": "", "meaning": "who answers for it"})
    expires: str = pa.Field(metadata={"unit": "date", "meaning": "the last day on which it holds"})
    standing: str = pa.Field(
        isin=["holds", "expired", "other_cohort"],
        metadata={"unit": "", "meaning": "whether it holds for this cohort at the date of the plan"},
    )

    class Config:
        """No other columns."""

        strict = True


class RuleSet(pa.DataFrameModel):
    """What the rules are as a whole, in one row."""

    as_of: str = pa.Field(
        nullable=True, metadata={"unit": "date", "meaning": "the date that exceptions and ages are read at, if any is"}
    )
    decision_file: str = pa.Field(metadata={"unit": "", "meaning": "rules file that declares the decision"})
    decision_overrides: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "file of the decision in whose place it stands"}
    )

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
    limit: float = pa.Field(nullable=True, metadata={"unit": "as unit", "meaning": "the gate's limit"})
    margin: float = pa.Field(
        nullable=True, metadata={"unit": "ratio", "meaning": "distance to the limit, negative beyond it"}
    )
    verdict: str = pa.Field(isin=["pass", "fail", "refused"], metadata={"unit": "", "meaning": "pass, fail or refused"})
    severity: str = pa.Field(isin=["error", "warn"], metadata={"unit": "", "meaning": "severity of a failure"})
    blocking: bool = pa.Field(metadata={"unit": "", "meaning": "whether the decision depends on it"})
    waived: bool = pa.Field(
        metadata={"unit": "", "meaning": "whether it would, but for an exception that holds for the topology"}
    )

    class Config:
        """No other columns."""

        strict = True


class Acceptance(pa.DataFrameModel):
    """One row per gate on the decision that applies, judged on what the decision rests on."""

    gate: str = pa.Field(unique=True, metadata={"unit": "", "meaning": "gate id"})
    metric: str = pa.Field(metadata={"unit": "", "meaning": "figure judged"})
    unit: str = pa.Field(metadata={"unit": "", "meaning": "unit of figure and limit"})
    op: str = pa.Field(isin=["lte", "lt"], metadata={"unit": "", "meaning": "how figure and limit compare"})
    figure: float = pa.Field(nullable=True, metadata={"unit": "as unit", "meaning": "the decision's figure"})
    limit: float = pa.Field(metadata={"unit": "as unit", "meaning": "the gate's limit"})
    margin: float = pa.Field(
        nullable=True, metadata={"unit": "ratio", "meaning": "distance to the limit, negative beyond it"}
    )
    verdict: str = pa.Field(isin=["pass", "fail", "refused"], metadata={"unit": "", "meaning": "pass, fail or refused"})
    severity: str = pa.Field(isin=["error", "warn"], metadata={"unit": "", "meaning": "severity of a failure"})
    blocking: bool = pa.Field(metadata={"unit": "", "meaning": "whether acceptance depends on it"})
    waived: bool = pa.Field(metadata={"unit": "", "meaning": "whether it would, but for an exception that holds"})
    inputs: str = pa.Field(metadata={"unit": "", "meaning": "inputs that make the figure, space-separated"})
    counted: int = pa.Field(ge=0, metadata={"unit": "count", "meaning": "inputs that it was looked for in"})

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
