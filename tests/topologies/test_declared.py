"""A topology is a declaration: a fifth one is a file, read and evaluated without any code of its own."""

from pathlib import Path

import polars as pl
import pytest

from pipelines.frames.evaluation import LANES, LOADS
from pipelines.frames.inputs import InputTable
from pipelines.topologies import evaluator
from pipelines.topologies.declared import TOPOLOGIES, Topology, TopologyPath, read_topology
from pipelines.topologies.evaluator import evaluate
from pipelines.topologies.matrix import scenario_matrix
from pipelines.topologies.scenarios import scenario_frame
from tests.plans import FINGERPRINT, UNIT_WEIGHTS, evaluation_of, inputs_frame_of, row_of, workload_of
from tests.topologies.by_hand import chunks
from tests.topologies.worked import LONG, MIX, SHORT, VARIED, close, lanes_of

UPSIDE_DOWN = """\
apiVersion: phaseledger/v1
kind: Topology
metadata:
  name: upside_down
  title: Long prompts stay in chunks on one pool, short ones go over a prefill pool, links and a decode pool
  order: 5
paths:
  - {prompts: below_threshold, kind: separated}
  - {prompts: from_threshold, kind: chunks}
parts:
  pools: [mixed, prefill, decode]
  queues: [short_prompts, transfers, decode_admission, long_prompts, partly_prefilled]
  state_transfers: [kv_cache]
  failure_edges: [worker_lost]
"""
INPUTS = inputs_frame_of(
    compared="routed", thresholds="1000", routed_chunks="700", gpus=3, rate=2.0, ca2=2.0, ttft=0.9, price=3.6
)


@pytest.fixture
def fifth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Topology:
    """The declaration, known to the evaluator for one test."""
    file = tmp_path / "upside_down.yaml"
    file.write_text(UPSIDE_DOWN, encoding="utf-8")
    topology = read_topology(file)
    monkeypatch.setitem(TOPOLOGIES, topology.name, topology)
    assert evaluator.TOPOLOGIES is TOPOLOGIES
    return topology


def evaluation(topology: Topology) -> pl.DataFrame:
    """The scenarios of routed, under the name of the fifth."""
    table, workload = InputTable.of(INPUTS), workload_of(VARIED, [1000], InputTable.of(INPUTS))
    scenarios = scenario_frame(table, workload.thresholds(table)).filter(pl.col("chunk_tokens").is_not_null())
    renamed = scenarios.with_columns(
        topology=pl.lit(topology.name), scenario=pl.col("scenario").str.replace("routed", topology.name)
    )
    return evaluate(topology.name, FINGERPRINT, renamed, table, workload)


def test_it_is_read(fifth: Topology) -> None:
    assert fifth.paths == (TopologyPath("below_threshold", "separated"), TopologyPath("from_threshold", "chunks"))
    assert (fifth.separates, fifth.routes, fifth.order) == (True, True, 5)
    assert fifth.operating_parts(UNIT_WEIGHTS) == 3 + 5 + 1 + 1


def test_it_is_evaluated(fifth: Topology) -> None:
    """The short ones of VARIED over separate pools, the long one, 0.4 a second with ca² = 1.2, in five chunks of a mixed pool."""
    frame = evaluation(fifth)
    short, long = (row_of(frame, "upside_down/t1000/n1/c700/p1/d1", bucket=bucket) for bucket in (SHORT, LONG))
    # S = 0.06 s of 1.6 a second, ca² = 1.8; 5 MB at 1 GB/s and 5 ms
    assert short["prefill_wait_s"] == close(0.9 * 0.096 / 0.904 * 0.06)
    assert short["kv_movement_s"] == close(0.01)
    found = chunks(MIX[4:], 700, rate=0.4, ca2=1.2)
    assert lanes_of(long) == close((0.002, found.wait, found.execution[0], 0, 0, found.e, found.t, 79 * found.t))
    for row in (short, long):
        loads = [load for load in LOADS if row[f"load_{load}"] is not None]
        assert loads == list(LOADS)  # of both paths
        assert row["goodput"] > 0
        assert row["cost_per_million_tokens"] > 0
    first_token = sum(short[lane] for lane in LANES[:7])
    assert short["ttft_s"] == close(first_token)  # its path emits the first token in the decode pool
    assert long["ttft_s"] == close(sum(long[lane] for lane in LANES[:3]))


def test_the_short_path_is_disaggregated_on_the_short_requests_alone(fifth: Topology) -> None:
    row = row_of(evaluation(fifth), "upside_down/t1000/n1/c700/p1/d1", bucket=SHORT)
    inputs = inputs_frame_of(rate=1.6, ca2=1.8, ttft=0.9)
    alone = evaluation_of("disaggregated", inputs, VARIED.filter(pl.col("prompt_tokens") < 1000), [1000])
    assert lanes_of(row) == close(lanes_of(row_of(alone, "disaggregated/p1/d1", bucket=SHORT)))


def test_it_stands_in_the_matrix_beside_the_others(fifth: Topology) -> None:
    matrix = scenario_matrix([evaluation(fifth)], InputTable.of(INPUTS), UNIT_WEIGHTS)
    row = row_of(matrix, "upside_down/t1000/n1/c700/p1/d1")
    assert (row["topology"], row["operating_parts"], row["ttft_worst_bucket"]) == ("upside_down", 10, LONG)
    assert row["transfer_worst_s"] is not None


@pytest.mark.parametrize(
    ("found", "instead", "said"),
    [
        ("kind: separated", "kind: shared_nothing", "no such path"),
        ("prompts: below_threshold", "prompts: short", "no such path"),
        (
            "paths:\n  - {prompts: below_threshold, kind: separated}\n  - {prompts: from_threshold, kind: chunks}\n",
            "",
            "paths",
        ),
        ("  pools: [mixed, prefill, decode]\n", "", "pools"),
        ("  name: upside_down\n", "", "name"),
        ("  order: 5\n", "", "order"),
        ("metadata:", "meta:", "metadata"),
        ("{prompts: below_threshold, kind: separated}", "{prompts: below_threshold}", "kind"),
        ("{prompts: below_threshold, kind: separated}", "separated", "no topology"),
        (
            "  queues: [short_prompts, transfers, decode_admission, long_prompts, partly_prefilled]\n",
            "  queues: 5\n",
            "no topology",
        ),
    ],
)
def test_a_malformed_one_is_an_error_that_names_the_file(tmp_path: Path, found: str, instead: str, said: str) -> None:
    assert found in UPSIDE_DOWN
    file = tmp_path / "malformed.yaml"
    file.write_text(UPSIDE_DOWN.replace(found, instead), encoding="utf-8")
    with pytest.raises(ValueError, match=r"malformed\.yaml") as raised:
        read_topology(file)
    assert said in str(raised.value)


@pytest.mark.parametrize("text", ["", "- a\n- list\n", "just words\n"])
def test_what_is_no_mapping_names_the_file_too(tmp_path: Path, text: str) -> None:
    file = tmp_path / "malformed.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"malformed\.yaml"):
        read_topology(file)


def test_text_that_is_no_yaml_names_the_file_too(tmp_path: Path) -> None:
    file = tmp_path / "malformed.yaml"
    file.write_text("paths: [\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"malformed\.yaml"):
        read_topology(file)


def test_those_that_are_shipped_are_four_in_their_order() -> None:
    assert list(TOPOLOGIES) == ["aggregated", "chunked", "disaggregated", "routed"]
    assert [topology.order for topology in TOPOLOGIES.values()] == [1, 2, 3, 4]
    assert [topology.separates for topology in TOPOLOGIES.values()] == [False, False, True, True]
