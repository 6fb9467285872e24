"""Gates on figures of the replay: which they are, and the figures beside those of the closed forms (docs/rules.md, Gates)."""

import polars as pl

from pipelines.frames.inputs import InputTable
from pipelines.frames.metrics import METRICS, REPLAYED
from pipelines.frames.replays import WHOLE
from pipelines.gates.rules import applicable

_FIGURES = tuple(METRICS[name].column for name in REPLAYED)


def by_closed_forms(gates: pl.DataFrame) -> pl.DataFrame:
    """``gates`` without those on replayed figures: what can be judged where nothing is replayed."""
    return gates.filter(~pl.col("metric").is_in(REPLAYED))


def on_replays(gates: pl.DataFrame, inputs: InputTable) -> list[str]:
    """The gates on replayed figures that apply to the cohort of ``inputs``, in their order."""
    own = applicable(gates, inputs).filter(pl.col("applies") & pl.col("metric").is_in(REPLAYED))
    return own["gate"].to_list()


def beside_replays(matrix: pl.DataFrame, replays: pl.DataFrame) -> pl.DataFrame:
    """A :class:`ScenarioMatrix` frame with the replayed figures of each row beside it; absent where a row was not replayed."""
    whole = replays.filter((pl.col("part") == WHOLE) & pl.col("reason").is_null())
    figures = whole.select("scenario", "bound", *_FIGURES)
    return matrix.join(figures, on=["scenario", "bound"], how="left", maintain_order="left")
