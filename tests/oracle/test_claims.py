"""Prose must not turn a modeled latency into a measured one."""

import pytest

from pipelines.oracle.claims import claims_a_measurement


@pytest.mark.parametrize(
    "prose",
    [
        "measured TTFT is 0.31 s",
        "meets the objective at p99",
        "p99.9 stays below 400 ms",
        "The observed latency is 0.3 s.",
        "No gate fails. The 95th percentile is 0.4 s",
        "Benchmarked on the real stack.",
        "Not chosen; measurements show 12 ms.",
    ],
)
def test_a_claim(prose: str) -> None:
    assert claims_a_measurement(prose)


@pytest.mark.parametrize(
    "prose",
    [
        "the smallest of 18 passing scenarios: 3 operating parts, 2 GPUs, 5.263 % margin",
        "Latencies are modeled means; none was measured, and no percentile is stated.",
        "It is not a GPU, network, scheduler, or production benchmark.",
        "rests on 4 observed and 19 supplied inputs",
        "nearest miss disaggregated/p1/d2: goodput 0.91 of 0.95",
        "p1/d2 needs fewer GPUs",
        "passes, but with 14 GPUs where disaggregated/p10/d2 has 12 GPUs",
        "p12/d100 needs fewer GPUs",
    ],
)
def test_no_claim(prose: str) -> None:
    assert not claims_a_measurement(prose)
