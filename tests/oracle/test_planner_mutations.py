"""A planner that breaks one of its promises writes a receipt that the verifier rejects, seal and fingerprint intact."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.arithmetic import queues
from pipelines.frames.canonical import canonical_bytes
from pipelines.oracle import Verification, verify
from pipelines.receipts import build
from pipelines.topologies import constants, declared
from tests.planning import plan_of

Mutation = Callable[[pytest.MonkeyPatch], None]


def verified(cohort: str, project: Path, directory: Path) -> Verification:
    """The verifier's view of what the planner, as it is now, exports for a bundled cohort."""
    receipt, matrix = build.build_receipt(plan_of(project / "cohorts" / cohort, project / "rules"))
    (directory / "receipt.json").write_bytes(canonical_bytes(receipt))
    (directory / "matrix.csv").write_bytes(matrix)
    return verify(directory / "receipt.json", directory / "matrix.csv")


def without_transfer_overhead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(constants, "transfer_overhead_s", lambda inputs, bound: 0.0)


def with_merged_phase_queues(patch: pytest.MonkeyPatch) -> None:
    """Prefill waits as if decode workers served prompts too."""
    original = queues.pool_wait

    def merged(dispatch: str, ca2: Any, cs2: Any, rho: Any, servers: Any, s_mean: Any) -> queues.Wait:
        if servers.meta.output_name() != "workers_prefill":
            return original(dispatch, ca2, cs2, rho, servers, s_mean)
        both = servers + pl.col("workers_decode")
        return original(dispatch, ca2, cs2, rho * servers / both, both, s_mean)

    patch.setattr(queues, "pool_wait", merged)


def with_peak_bandwidth(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(constants._NETWORK_SYMBOLS, "w", "network.peak_bandwidth")


def with_peak_prefill_rate(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(constants._SYMBOLS, "r_p", "service.prefill.peak_tokens_per_second")


def ignoring_a_full_pool(patch: pytest.MonkeyPatch) -> None:
    for name, topology in declared.TOPOLOGIES.items():
        others = tuple(load for load in topology.loads if load.resource not in ("mixed", "prefill"))
        patch.setitem(declared.TOPOLOGIES, name, replace(topology, loads=others))


def with_higher_ceilings(patch: pytest.MonkeyPatch) -> None:
    """Refuses only just before saturation, whatever ceiling is declared."""
    original = constants._constants
    patch.setattr(
        constants,
        "_constants",
        lambda inputs, bound: original(inputs, bound) | {"u_m": 0.999, "u_p": 0.999},
    )


def reporting_as(**claims: str) -> Mutation:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        original = build._bound
        patch.setattr(build, "_bound", lambda *arguments: original(*arguments) | claims)

    return mutate


MUTATIONS: dict[str, tuple[str, Mutation, str]] = {
    "transfer overhead removed": ("bursty-documents", without_transfer_overhead, "kv_movement_s"),
    "phase queues merged": ("bursty-documents", with_merged_phase_queues, "prefill_wait_s"),
    "peak for effective bandwidth": ("bursty-documents", with_peak_bandwidth, "kv_movement_s"),
    "peak for effective prefill rate": ("bursty-documents", with_peak_prefill_rate, "prefill_execution_s"),
    "overloaded pool ignored": ("moderate-chat", ignoring_a_full_pool, "loads"),
    "ceilings raised": ("moderate-chat", with_higher_ceilings, "refusal"),
    "modeled reported as measured": ("bursty-documents", reporting_as(label="measured"), "label"),
    "derived reported as observed": ("bursty-documents", reporting_as(provenance="observed"), "provenance"),
}


@pytest.mark.parametrize("name", ["bursty-documents", "overloaded"])
def test_the_planner_as_it_is_passes(name: str, project: Path, tmp_path: Path) -> None:
    assert verified(name, project, tmp_path).passed


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_planner_is_caught_and_the_value_named(
    name: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort, mutate, value = MUTATIONS[name]
    mutate(monkeypatch)
    verification = verified(cohort, project, tmp_path)
    assert not verification.passed
    assert any(value in disagreement.where for disagreement in verification.disagreements), [
        disagreement.where for disagreement in verification.disagreements[:10]
    ]
