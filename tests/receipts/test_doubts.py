"""What a plan calls doubtful about its inputs."""

from typing import Any

import polars as pl
import pytest

from pipelines.declarations.cohort import DEFAULT_NOTE
from pipelines.frames.inputs import InputTable
from pipelines.receipts.doubts import input_doubts
from tests.plans import in_pairs, inputs_frame_of, workload_of

STEADY = in_pairs(*[(1000, 101)] * 5)
"""Prompts of 10 MB each."""

HALF = in_pairs(*[(1000, 101)] * 5, cached={1000: 500})
USUAL = {"line_rate": 4e9, "w": 1e9}
ALONE = dict.fromkeys(
    ("line_rate", "w", "registration", "synchronization", "receiver_visibility", "per_descriptor", "regions")
)


def doubts(requests: pl.DataFrame = STEADY, **overrides: Any) -> list[str]:
    table = InputTable.of(inputs_frame_of(**(USUAL | overrides)))
    return input_doubts(table, workload_of(requests, (), table))


def test_round_inputs_are_not_doubtful() -> None:
    assert doubts() == []


def test_ranks_that_nobody_declared_of_a_worker_of_several_gpus() -> None:
    table = InputTable.of(inputs_frame_of(gpus_per_worker=2, **USUAL))
    assert input_doubts(table, workload_of(STEADY, (), table)) == []
    table.rows["model.tensor_parallel"]["note"] = DEFAULT_NOTE
    (said,) = input_doubts(table, workload_of(STEADY, (), table))
    assert said.startswith("model.tensor_parallel is not declared, and a worker has 2 GPUs: the cache is counted once")


def test_links_that_no_transfer_uses() -> None:
    assert doubts(links=8, links_per_transfer=3) == ["of 8 links in transfers of 3, 2 stay idle"]


def test_a_bandwidth_that_may_be_in_bits() -> None:
    (said,) = doubts(line_rate=25e9 / 8, w=2e9 / 8)
    assert said == "network.effective_bandwidth is 8 % of the line rate: Gbit/s where GB/s was meant?"
    assert doubts(line_rate=25e9 / 8, w=25e9 / 64) == []


def test_a_prefix_at_the_destination_of_prompts_that_have_none() -> None:
    assert doubts(at_destination=0.5) == ["network.prefix_at_destination changes nothing: no prompt has cached tokens"]
    assert doubts(at_destination=0.5, eta=0.3) == []
    assert doubts(HALF, at_destination=0.5) == []


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        ("5000000:0.01:0.02 20000000:0.04:0.05", None),
        ("20000000:0.04:0.05 30000000:0.05:0.06", "about 100 % of transfers are smaller than any"),
        ("1000000:0.01:0.02 5000000:0.04:0.05", "about 100 % of transfers are larger than any"),
    ],
)
def test_transfers_outside_of_a_curve(curve: str, said: str | None) -> None:
    found = doubts(curve=curve, **ALONE)
    where = "in network.transfer_curve"
    bounds = ("nominal", "conservative") if said else ()
    assert found == [f"{said} {where} ({bound} bound): its ends are continued there" for bound in bounds]
    if said is not None:
        assert doubts(curve=curve)[0] == f"{said} {where} (nominal bound): overhead and bandwidth hold there"


def test_some_transfers_and_the_longest_prompt() -> None:
    requests = in_pairs((500, 10), (1000, 10), (1000, 10), (1000, 10), (1500, 10))
    first, _ = doubts(requests, curve="6000000:0.01:0.02 20000000:0.04:0.05")
    assert first.startswith("about 20 % of transfers are smaller than any in network.transfer_curve (nominal bound)")


def test_a_curve_without_upper_times() -> None:
    assert doubts(curve="5000000:0.01 20000000:0.04") == [
        "network.transfer_curve has no upper times: its conservative bound is its nominal one"
    ]
