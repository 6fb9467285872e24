"""The search that looks at every scenario: for closed loops, where none shares a path with another; the other search must equal it."""

import polars as pl

from pipelines.frames.inputs import InputTable
from pipelines.gates.decision import decide
from pipelines.gates.judge import bucket_requests, judge
from pipelines.gates.replayed import by_closed_forms
from pipelines.gates.rules import part_weights
from pipelines.planning.frontier import frontier
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.matrix import scenario_matrix
from pipelines.topologies.question import Workload
from pipelines.topologies.scenarios import scenario_frame


def speaking_by_enumeration(
    inputs: InputTable, workload: Workload, gates: pl.DataFrame, preference: pl.DataFrame
) -> pl.DataFrame:
    """The speaking scenarios and the frontier, with their knobs and whether they ``speaks``: a scenario may be both."""
    scenarios = scenario_frame(inputs, workload.thresholds(inputs))
    names = inputs.words("topologies.compared")
    frames = [evaluate(name, "", scenarios, inputs, workload) for name in names]
    matrix = scenario_matrix(frames, inputs, part_weights(preference))
    own = by_closed_forms(gates)
    decision = decide(matrix, judge(matrix, own, inputs, bucket_requests(workload.buckets)), preference, inputs, own)
    speaking = scenarios.filter(pl.col("scenario").is_in(decision["scenario"].to_list()))
    others = scenarios.filter(pl.col("scenario").is_in(frontier(matrix, inputs)["scenario"].to_list()))
    return pl.concat([speaking.with_columns(speaks=pl.lit(True)), others.with_columns(speaks=pl.lit(False))])
