"""The frontier: the search's candidates come to what the whole matrix comes to, and to what the definition says."""

import random

import polars as pl
import pytest

from pipelines.planning.frontier import FIGURES, Candidate, baselines, frontier, thinned
from tests.planning.drawn import asked_of, judged

COLUMNS = {"ttft": "ttft_worst_s", "tpot": "tpot_worst_s", "stall": "stall_s"}


def candidates(matrix: pl.DataFrame, stall: float | None) -> list[Candidate]:
    """Every scenario that is refused under no bound and holds the other two objectives."""
    refused = set(matrix.filter(pl.col("status") == "refused")["scenario"])
    found = []
    for row in matrix.filter((pl.col("bound") == "nominal") & ~pl.col("scenario").is_in(list(refused))).to_dicts():
        within = {
            name: row[f"{name}_judged_s"] is None or row[f"{name}_judged_s"] <= row[f"{name}_objective_s"]
            for name in ("ttft", "tpot")
        } | {"stall": stall is None or row["stall_s"] is None or row["stall_s"] <= stall}
        for figure in FIGURES:
            if row[COLUMNS[figure]] is not None and all(within[other] for other in FIGURES if other != figure):
                order = (float(row["place"]),)
                parts, gpus = row["operating_parts"], row["gpus"]
                found.append(Candidate(figure, parts, gpus, row[COLUMNS[figure]], order, {"scenario": row["scenario"]}))
    return found


def by_definition(found: list[Candidate]) -> list[str]:
    """Section 10, word by word."""
    kept: list[Candidate] = []
    for figure in FIGURES:
        own = sorted(
            (one for one in found if one.figure == figure),
            key=lambda one: (one.parts, one.gpus, one.value_s, one.order),
        )
        there: list[Candidate] = []
        for one in own:
            as_small = [other for other in there if other.parts <= one.parts and other.gpus <= one.gpus]
            if all(one.value_s < 0.99 * other.value_s for other in as_small):
                there.append(one)
        kept += there
    return [one.knobs["scenario"] for one in kept]


@pytest.mark.parametrize("seed", [0, 2, 4, 5, 7, 8, 11])
def test_of_the_matrix_and_of_candidates_in_any_order(seed: int) -> None:
    asked = asked_of(seed)
    matrix = judged(asked).matrix
    stall = asked.inputs.number("objectives.stall") if asked.inputs.has("objectives.stall") else None
    found = candidates(matrix, stall)
    names = frontier(matrix, asked.inputs)["scenario"].to_list()
    random.Random(seed).shuffle(found)
    assert [knobs["scenario"] for knobs in thinned(found)] == names == by_definition(found)


def test_some_are_on_it() -> None:
    matrices = [(asked, judged(asked).matrix) for asked in map(asked_of, (5, 11))]
    assert all(frontier(matrix, asked.inputs).height > 2 for asked, matrix in matrices)


def test_a_hundredth_is_not_worth_a_gpu() -> None:
    def on_it(*values: float) -> list[int]:
        found = [Candidate("ttft", 3.0, gpus + 1, value, (gpus,), {"n": gpus}) for gpus, value in enumerate(values)]
        return [knobs["n"] for knobs in thinned(found)]

    assert on_it(1.0, 0.99, 0.98) == [0, 2]
    assert on_it(1.0, 0.9899, 0.981) == [0, 1]  # 0.981 is above 99 % of 0.9899
    assert on_it(1.0, 1.1, 0.5) == [0, 2]


def test_fewer_parts_are_worth_more_gpus() -> None:
    few = Candidate("tpot", 3.0, 8, 1.0, (0,), {"n": 0})
    many = Candidate("tpot", 11.0, 2, 1.0, (1,), {"n": 1})
    assert [knobs["n"] for knobs in thinned([many, few])] == [0, 1]


def test_baselines_are_as_large_or_the_most_below() -> None:
    asked = asked_of(
        2, gpus=7, gpus_per_worker=2, gpus_p=1, gpus_d=2, r_pp=9e3, d_p=0.01, kv_memory_p=1e9, chunk_tokens="256 512"
    )
    matrix = judged(asked).matrix.filter(pl.col("bound") == "nominal")
    (row,) = baselines(matrix, ["disaggregated/p1/d2", "aggregated/n1"])
    assert row == {
        "scenario": "disaggregated/p1/d2",
        "aggregated": "aggregated/n2",
        "chunked": ["chunked/n2/c256", "chunked/n2/c512"],
    }
