"""What would change the decision, and the frontier: one frame each."""

import pandera.polars as pa

_TOPOLOGY = {"unit": "", "meaning": "topology that the scenario speaks for"}
_SCENARIO = {"unit": "", "meaning": "speaking scenario"}
_PATH = {"unit": "", "meaning": "input that is changed"}
_MARGIN = {"unit": "ratio", "meaning": "smallest margin of the blocking gates; absent where one is refused"}


class Speaking(pa.DataFrameModel):
    """One row per compared topology: its scenario, and what would mend or break it at once."""

    topology: str = pa.Field(unique=True, metadata=_TOPOLOGY)
    scenario: str = pa.Field(metadata=_SCENARIO)
    margin: float = pa.Field(nullable=True, metadata=_MARGIN)
    most_sensitive: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "input that moves the margin most"})
    fix_path: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "input whose smallest change makes it pass"}
    )
    fix_factor: float = pa.Field(nullable=True, gt=0, metadata={"unit": "ratio", "meaning": "by how much"})
    fix_value: float = pa.Field(nullable=True, metadata={"unit": "as input", "meaning": "the value of the input then"})
    more_gpus: int = pa.Field(
        nullable=True, metadata={"unit": "count", "meaning": "fewest GPUs with which a scenario of the topology passes"}
    )
    more_gpus_scenario: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "that scenario"})
    rate_factor: float = pa.Field(
        nullable=True, gt=0, metadata={"unit": "ratio", "meaning": "traffic at which the standing changes"}
    )
    rate_value: float = pa.Field(
        nullable=True, metadata={"unit": "requests/s or count", "meaning": "that rate, or that concurrency"}
    )
    rate_event: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "passes or fails beyond it"})
    rate_gate: str = pa.Field(
        nullable=True, metadata={"unit": "", "meaning": "first blocking gate that is then not passed"}
    )
    rate_verdict: str = pa.Field(nullable=True, metadata={"unit": "", "meaning": "fail or refused"})

    class Config:
        """No other columns."""

        strict = True


class SensitivityRows(pa.DataFrameModel):
    """One row per speaking scenario and input: the margin with the input a tenth down and up."""

    topology: str = pa.Field(metadata=_TOPOLOGY)
    path: str = pa.Field(metadata=_PATH)
    margin_down: float = pa.Field(nullable=True, metadata=_MARGIN)
    margin_up: float = pa.Field(nullable=True, metadata=_MARGIN)
    passes_down: bool = pa.Field(nullable=True, metadata={"unit": "", "meaning": "whether it passes a tenth down"})
    passes_up: bool = pa.Field(nullable=True, metadata={"unit": "", "meaning": "whether it passes a tenth up"})

    class Config:
        """No other columns."""

        strict = True


class BreakEvenRows(pa.DataFrameModel):
    """One row per speaking scenario, input and direction in which a change of the input changes whether the scenario passes."""

    topology: str = pa.Field(metadata=_TOPOLOGY)
    path: str = pa.Field(metadata=_PATH)
    factor: float = pa.Field(gt=0, metadata={"unit": "ratio", "meaning": "multiple of the input at which it changes"})
    value: float = pa.Field(metadata={"unit": "as input", "meaning": "the input there"})
    event: str = pa.Field(isin=["passes", "fails"], metadata={"unit": "", "meaning": "what it does beyond"})

    class Config:
        """No other columns."""

        strict = True


class WorkerLessRows(pa.DataFrameModel):
    """One row per speaking scenario and pool: one worker less in it."""

    topology: str = pa.Field(metadata=_TOPOLOGY)
    pool: str = pa.Field(
        isin=["mixed", "prefill", "decode"], metadata={"unit": "", "meaning": "pool that loses a worker"}
    )
    workers: int = pa.Field(ge=1, metadata={"unit": "count", "meaning": "workers before"})
    load_factor: float = pa.Field(
        nullable=True, metadata={"unit": "ratio", "meaning": "n/(n-1): growth of load per worker"}
    )
    passes: bool = pa.Field(metadata={"unit": "", "meaning": "whether the scenario still passes"})
    margin: float = pa.Field(nullable=True, metadata=_MARGIN)

    class Config:
        """No other columns."""

        strict = True


class FrontierRows(pa.DataFrameModel):
    """Scenarios that no other beats in operating parts, GPUs and one figure, the other figures within their objectives."""

    figure: str = pa.Field(
        isin=["ttft", "tpot", "stall"], metadata={"unit": "", "meaning": "figure that could be promised"}
    )
    scenario: str = pa.Field(metadata={"unit": "", "meaning": "scenario on the frontier"})
    operating_parts: float = pa.Field(metadata={"unit": "count", "meaning": "its operating parts"})
    gpus: int = pa.Field(metadata={"unit": "count", "meaning": "its GPUs"})
    value_s: float = pa.Field(metadata={"unit": "s", "meaning": "its figure (modeled, nominal)"})

    class Config:
        """No other columns."""

        strict = True


class SearchSpace(pa.DataFrameModel):
    """The scenarios that are kept, in matrix order, and how many there are in all."""

    scenario: str = pa.Field(unique=True, metadata={"unit": "", "meaning": "topology with its pool sizes and knobs"})
    topology: str = pa.Field(metadata={"unit": "", "meaning": "its topology"})
    place: int = pa.Field(ge=0, metadata={"unit": "", "meaning": "position among the kept scenarios"})
    threshold_tokens: int = pa.Field(nullable=True, metadata={"unit": "tokens", "meaning": "routing threshold"})
    workers_mixed: int = pa.Field(nullable=True, metadata={"unit": "count", "meaning": "mixed workers"})
    workers_prefill: int = pa.Field(nullable=True, metadata={"unit": "count", "meaning": "prefill workers"})
    workers_decode: int = pa.Field(nullable=True, metadata={"unit": "count", "meaning": "decode workers"})
    chunk_tokens: int = pa.Field(nullable=True, metadata={"unit": "tokens", "meaning": "token budget of one step"})
    gpus: int = pa.Field(ge=1, metadata={"unit": "count", "meaning": "GPUs that the scenario occupies"})
    searched: int = pa.Field(ge=1, metadata={"unit": "count", "meaning": "scenarios of the cohort in all"})
    rules: str = pa.Field(
        metadata={"unit": "", "meaning": "digest of the rules that decided which are kept; empty where all are"}
    )

    class Config:
        """No other columns."""

        strict = True
