"""Which scenarios there are, and how their rows are made of lanes."""

import polars as pl
import pytest

from pipelines.frames.evaluation import LANES
from pipelines.frames.inputs import InputTable
from pipelines.topologies.declared import TOPOLOGIES
from pipelines.topologies.matrix import MixedCohortsError, scenario_matrix
from pipelines.topologies.scenarios import scenario_frame
from tests.plans import (
    UNIT_WEIGHTS,
    evaluation_of,
    evaluations_of,
    in_pairs,
    inputs_frame_of,
    matrix_of,
    requests_of,
    row_of,
)

STEADY = in_pairs(*[(1000, 101)] * 5)
VARIED = in_pairs((500, 1), (500, 41), (500, 41), (500, 41), (3000, 81))
SHORT, LONG = "[1,1000)", "[1000,inf)"


def scenarios_of(**overrides: object) -> pl.DataFrame:
    return scenario_frame(InputTable.of(inputs_frame_of(**overrides)))


class TestScenarios:
    def test_of_three_workers_in_matrix_order(self) -> None:
        frame = scenarios_of(gpus=3, chunk_tokens="256 512")
        assert frame["scenario"].to_list() == [
            "aggregated/n1",
            "aggregated/n2",
            "aggregated/n3",
            "chunked/n1/c256",
            "chunked/n1/c512",
            "chunked/n2/c256",
            "chunked/n2/c512",
            "chunked/n3/c256",
            "chunked/n3/c512",
            "disaggregated/p1/d1",
            "disaggregated/p1/d2",
            "disaggregated/p2/d1",
        ]
        assert frame["place"].to_list() == list(range(12))

    def test_knobs_and_gpus(self) -> None:
        knobs = ["workers_mixed", "workers_prefill", "workers_decode", "chunk_tokens", "gpus"]
        frame = scenarios_of(gpus=3, chunk_tokens="256").select("scenario", *knobs)
        rows = {row[0]: row[1:] for row in frame.iter_rows()}
        assert rows["aggregated/n2"] == (2, None, None, None, 2)
        assert rows["chunked/n3/c256"] == (3, None, None, 256, 3)
        assert rows["disaggregated/p2/d1"] == (None, 2, 1, None, 3)

    def test_a_worker_on_two_gpus_leaves_an_odd_gpu_idle(self) -> None:
        frame = scenarios_of(gpus=7, gpus_per_worker=2)
        assert frame["scenario"].to_list()[:3] == ["aggregated/n1", "aggregated/n2", "aggregated/n3"]
        assert frame["gpus"].to_list() == [2, 4, 6, 2, 4, 6, 4, 6, 6]

    @pytest.mark.parametrize("workers", [2, 4, 8])
    def test_how_many(self, workers: int) -> None:
        counts = dict(scenarios_of(gpus=workers, chunk_tokens="256 512 1024").group_by("topology").len().iter_rows())
        expected = {"aggregated": workers, "chunked": 3 * workers, "disaggregated": workers * (workers - 1) // 2}
        assert counts == expected

    def test_one_worker_cannot_be_split(self) -> None:
        assert scenarios_of(gpus=1)["topology"].to_list() == ["aggregated", "chunked"]

    def test_routed_by_threshold_then_by_the_sizes_of_three_pools(self) -> None:
        """With and without chunks on the mixed pool; prefill workers of two GPUs leave fewer splits."""
        routed = {"compared": "routed", "thresholds": "600 1000", "routed_chunks": "64", "gpus": 4}
        frame = scenario_frame(InputTable.of(inputs_frame_of(**routed)), [1000])
        names = [
            "n1/p1/d1",
            "n1/p1/d2",
            "n1/p2/d1",
            "n1/c64/p1/d1",
            "n1/c64/p1/d2",
            "n1/c64/p2/d1",
            "n2/p1/d1",
            "n2/c64/p1/d1",
        ]
        assert frame["scenario"].to_list() == [f"routed/t1000/{name}" for name in names]
        assert set(frame["gpus"]) == {3, 4}
        frame = scenario_frame(InputTable.of(inputs_frame_of(**routed, gpus_p=2)), [600, 1000])
        assert frame["scenario"].to_list() == [f"routed/t{t}/n1/{c}p1/d1" for t in (600, 1000) for c in ("", "c64/")]
        assert frame["threshold_tokens"].to_list() == [600, 600, 1000, 1000]

    def test_only_compared_topologies_are_enumerated(self) -> None:
        assert set(scenarios_of(compared="aggregated disaggregated")["topology"]) == {"aggregated", "disaggregated"}
        without_network = dict.fromkeys(["links", "line_rate", "w", "registration", "synchronization"])
        frame = scenarios_of(compared="chunked", chunk_tokens="64", **without_network)
        assert frame["scenario"].to_list() == [f"chunked/n{n}/c64" for n in (1, 2, 3, 4)]


class TestRows:
    def test_two_rows_a_scenario_nominal_first(self) -> None:
        inputs = inputs_frame_of()
        matrix = matrix_of(inputs, STEADY)
        names = scenario_frame(InputTable.of(inputs))["scenario"].to_list()
        assert matrix["scenario"].to_list() == [name for name in names for _ in range(2)]
        assert matrix["bound"].to_list() == ["nominal", "conservative"] * len(names)

    def test_in_whatever_order_the_topologies_are_given(self) -> None:
        inputs = inputs_frame_of()
        evaluations = evaluations_of(inputs, VARIED, [1000])
        matrix = scenario_matrix(evaluations, InputTable.of(inputs), UNIT_WEIGHTS)
        assert matrix.equals(scenario_matrix(evaluations[::-1], InputTable.of(inputs), UNIT_WEIGHTS))

    def test_no_network_is_needed_where_nothing_is_separated(self) -> None:
        network = ("links", "line_rate", "w", "registration", "synchronization", "receiver_visibility", "phi", "u_l")
        inputs = inputs_frame_of(compared="aggregated chunked", ttft_growth=None, **dict.fromkeys(network))
        assert set(matrix_of(inputs, STEADY)["topology"]) == {"aggregated", "chunked"}

    def test_rows_of_two_cohorts_do_not_meet(self) -> None:
        inputs = inputs_frame_of()
        one, other, *_ = evaluations_of(inputs, STEADY)
        other = other.with_columns(fingerprint=pl.lit("0" * 64))
        with pytest.raises(MixedCohortsError, match=r"different cohorts .*: fingerprints 000000000000, ffffffffffff$"):
            scenario_matrix([one, other], InputTable.of(inputs), UNIT_WEIGHTS)

    def test_figures_have_ten_significant_digits(self) -> None:
        matrix = matrix_of(inputs_frame_of(), VARIED, [1000])
        numbers = matrix.select(pl.col(pl.Float64)).to_dict(as_series=False)
        values = [value for column in numbers.values() for value in column if value is not None]
        assert values == [float(f"{value:.9e}") for value in values]
        # ρ_d = 0.101: t = 0.0105/0.899 s
        assert row_of(matrix_of(inputs_frame_of(), STEADY), "disaggregated/p1/d1")["tpot_worst_s"] == 0.01167964405

    def test_a_limit_is_declared_and_keeps_its_digits(self) -> None:
        row = row_of(matrix_of(inputs_frame_of(u_p=0.123456789012345), STEADY), "aggregated/n1")
        assert (row["refusal_figure"], row["refusal_limit"]) == (0.32, 0.123456789012345)


class TestWorstBucket:
    def test_the_largest_figure_and_its_bucket(self) -> None:
        inputs = inputs_frame_of(first_token="prefill", w=5e7, ttft=9.0)
        matrix = row_of(matrix_of(inputs, VARIED, [1000]), "disaggregated/p1/d1")
        evaluation = evaluation_of("disaggregated", inputs, VARIED, [1000])
        short, long = (row_of(evaluation, "disaggregated/p1/d1", bucket=bucket) for bucket in (SHORT, LONG))
        assert short["ttft_s"] < long["ttft_s"]
        assert (matrix["ttft_worst_s"], matrix["ttft_worst_bucket"]) == (pytest.approx(long["ttft_s"], rel=1e-9), LONG)
        assert matrix["e2e_worst_s"] == pytest.approx(max(short["e2e_s"], long["e2e_s"]), rel=1e-9)

    def test_ttft_and_tpot_may_be_worst_in_different_buckets(self) -> None:
        """The way to the decode pool falls on 4 tokens of the short answers, and on 80 of the long ones."""
        requests = in_pairs((500, 5), (500, 5), (500, 5), (500, 5), (3000, 81))
        matrix = matrix_of(inputs_frame_of(first_token="prefill", w=5e8, ttft=9.0), requests, [1000])
        row = row_of(matrix, "disaggregated/p1/d1")
        assert (row["ttft_worst_bucket"], row["tpot_worst_bucket"]) == (LONG, SHORT)

    def test_the_first_bucket_speaks_if_equal_in_the_exported_digits(self) -> None:
        row = row_of(matrix_of(inputs_frame_of(ttft=9.0), VARIED, [1000]), "disaggregated/p1/d1")
        assert row["tpot_worst_bucket"] == SHORT  # one pool, one pace, with the first token by decode

    def test_a_bucket_of_single_tokens_has_no_tpot_to_be_the_worst(self) -> None:
        requests = in_pairs((500, 1), (500, 1), (500, 1), (500, 1), (3000, 81))
        row = row_of(matrix_of(inputs_frame_of(ttft=9.0), requests, [1000]), "aggregated/n1")
        assert row["tpot_worst_bucket"] == LONG

    def test_nothing_is_worst_where_no_request_has_two_tokens(self) -> None:
        row = row_of(matrix_of(inputs_frame_of(), in_pairs(*[(500, 1)] * 5)), "aggregated/n1")
        assert (row["tpot_worst_s"], row["tpot_worst_bucket"]) == (None, None)
        assert row["ttft_worst_bucket"] == "[1,inf)"


class TestTransfer:
    def test_only_disaggregated_rows_have_transfer_figures(self) -> None:
        matrix = matrix_of(inputs_frame_of(), STEADY)
        for column in ("transfer_worst_s", "transfer_envelope_share"):
            known = matrix.filter(pl.col(column).is_not_null())
            assert set(known["topology"]) == {"disaggregated"}
            assert known.height == matrix.filter(pl.col("topology") == "disaggregated").height

    def test_it_is_wait_and_movement_of_the_worst_bucket_and_their_share_of_the_growth(self) -> None:
        """10 MB over 1 GB/s, 5 ms overhead: T = 15 ms, rho = 0.03, the wait 0.5·0.03/0.97·15 ms; growth 0.1 s."""
        row = row_of(matrix_of(inputs_frame_of(), STEADY), "disaggregated/p1/d1")
        transfer = 0.5 * 0.03 / 0.97 * 0.015 + 0.015
        assert row["transfer_worst_s"] == pytest.approx(transfer, rel=1e-9)
        assert row["transfer_envelope_share"] == pytest.approx(transfer / 0.1, rel=1e-9)

    def test_the_longest_prompts_have_the_worst_transfer(self) -> None:
        inputs = inputs_frame_of(w=1e8, slots=64, ttft=9.0)
        evaluation = evaluation_of("disaggregated", inputs, VARIED, [1000])
        long = row_of(evaluation, "disaggregated/p1/d1", bucket=LONG)
        row = row_of(matrix_of(inputs, VARIED, [1000]), "disaggregated/p1/d1")
        expected = long["transfer_wait_s"] + 0.305  # 30 MB over 100 MB/s
        assert row["transfer_worst_s"] == pytest.approx(expected, rel=1e-9)


class TestOperatingParts:
    def test_counted_from_the_declaration(self) -> None:
        parts = {topology.name: topology.operating_parts(UNIT_WEIGHTS) for topology in TOPOLOGIES.values()}
        assert parts == {
            "aggregated": 1 + 1 + 0 + 1,
            "chunked": 1 + 2 + 0 + 1,
            "disaggregated": 2 + 3 + 1 + 5,
            "routed": 3 + 5 + 1 + 7,
        }

    def test_weighed(self) -> None:
        weights = {"pools": 10.0, "queues": 2.0, "state_transfers": 0.5, "failure_edges": 0.0}
        matrix = matrix_of(inputs_frame_of(), STEADY, weights=weights)
        parts = dict(matrix.select("topology", "operating_parts").unique().iter_rows())
        assert parts == {"aggregated": 12.0, "chunked": 14.0, "disaggregated": 26.5}


def test_what_is_dropped_from_lanes_is_the_lanes() -> None:
    """The matrix holds no lane: those are exported bucket by bucket."""
    assert not set(LANES) & set(matrix_of(inputs_frame_of(), STEADY).columns)


def test_one_request_pattern_twice_as_long_is_the_same_cohort_twice() -> None:
    """Figures are means of a stationary load: they do not grow with the length of the log. The rarest gap between tokens does."""
    once = requests_of(*((place, 1000, 101) for place in range(11)))
    twice = requests_of(*((place, 1000, 101) for place in range(21)))
    short, long = (matrix_of(inputs_frame_of(), requests) for requests in (once, twice))
    assert short.drop("stall_s").equals(long.drop("stall_s"))
    assert (short["stall_s"] < long["stall_s"]).all()
