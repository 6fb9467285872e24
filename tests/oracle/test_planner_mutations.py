"""A planner that breaks one of its promises writes a receipt that the verifier rejects, seal and fingerprint intact."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipelines.frames.canonical import canonical_bytes
from pipelines.frames.inputs import InputTable
from pipelines.oracle import Verification, render_text, verify
from pipelines.receipts import build, scenarios
from pipelines.topologies import constants, question, transfers
from pipelines.topologies.paths import separated
from tests.oracle import forging as forge
from tests.oracle.cohorts import FULL, HYBRID, STACKS, STRAIGHT, Changes, planned, supplied
from tests.oracle.filling import Receipt
from tests.oracle.rejection import rejected_at
from tests.plans import plan_of

Mutation = Callable[[pytest.MonkeyPatch], None]


def verified(cohort: str, project: Path, directory: Path) -> Verification:
    """The verifier's view of what the planner, as it is now, exports for a bundled cohort."""
    receipt, matrix = build.build_receipt(plan_of(project / "cohorts" / cohort, project / "rules"))
    (directory / "receipt.json").write_bytes(canonical_bytes(receipt))
    (directory / "matrix.csv").write_bytes(matrix)
    return verify(directory / "receipt.json", directory / "matrix.csv")


def without_overheads(patch: pytest.MonkeyPatch) -> None:
    """Transfers begin at once, whatever registration, synchronization and visibility take."""
    patch.setattr(transfers, "OVERHEAD_INPUTS", ())


def without_transfers(patch: pytest.MonkeyPatch) -> None:
    """The KV cache is where it is needed already."""
    original = transfers.Transfers.movements_s.fget
    assert original is not None
    patch.setattr(transfers.Transfers, "movements_s", property(lambda moved: original(moved) * 0))


def with_prompts_at_decode_workers(patch: pytest.MonkeyPatch) -> None:
    """Prefill waits as if decode workers served prompts too."""
    original = separated._prefill_wait

    def merged(work: Any, n_p: Any, prompts: Any) -> Any:
        return original(work, n_p + 1, prompts)

    patch.setattr(separated, "_prefill_wait", merged)


def with_one_pool_for_both_phases(patch: pytest.MonkeyPatch) -> None:
    """Prompts wait as if all pools were one of four times the workers."""
    original = separated._prefill_wait
    patch.setattr(separated, "_prefill_wait", lambda work, n_p, prompts: original(work, n_p * 4, prompts))


def at_peak(path: str, peak: str) -> Mutation:
    """Computes with the vendor's peak where an effective figure is declared."""

    def mutate(patch: pytest.MonkeyPatch) -> None:
        original = InputTable.number

        def number(inputs: InputTable, asked: str, *arguments: Any, **options: Any) -> Any:
            return original(inputs, peak if asked == path else asked, *arguments, **options)

        patch.setattr(InputTable, "number", number)

    return mutate


def with_peak_prefill_rate(patch: pytest.MonkeyPatch) -> None:
    original = constants.pool_number

    def peak(inputs: Any, bound: Any, pool: str, phase: str, name: str, default: float = 0.0) -> Any:
        own = "peak_tokens_per_second" if (phase, name) == ("prefill", "tokens_per_second") else name
        return original(inputs, bound, pool, phase, own, default)

    patch.setattr(constants, "pool_number", peak)


def ignoring_a_full_pool(patch: pytest.MonkeyPatch) -> None:
    """Every path as evaluated, but pools that prefill are never full."""
    for kind, evaluate in list(question._LANES.items()):

        def endless(work: Any, sizes: Any, evaluate: Any = evaluate) -> Any:
            found = evaluate(work, sizes)
            pools = ("mixed", "prefill")
            loads = [replace(load, ceiling=1e9) if load.resource in pools else load for load in found.loads]
            return replace(found, loads=tuple(loads))

        patch.setitem(question._LANES, kind, endless)


def with_higher_ceilings(patch: pytest.MonkeyPatch) -> None:
    """Refuses only just before saturation, whatever ceiling is declared."""
    original = constants.pool_number

    def high(inputs: Any, bound: Any, pool: str, phase: str, name: str, default: float = 0.0) -> Any:
        return 0.999 if name == "utilization_ceiling" else original(inputs, bound, pool, phase, name, default)

    patch.setattr(constants, "pool_number", high)


def reporting_as(**claims: str) -> Mutation:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        original = scenarios._bound
        patch.setattr(scenarios, "_bound", lambda *arguments: original(*arguments) | claims)

    return mutate


def claiming(name: str, text: str) -> Mutation:
    return lambda patch: patch.setattr(build, name, text)


MUTATIONS: dict[str, dict[str, tuple[str, Mutation, str]]] = {
    "transfer overhead removed": {
        "overheads dropped": ("bursty-documents", without_overheads, "kv_movement_s"),
        "no movement": ("bursty-documents", without_transfers, "kv_movement_s"),
    },
    "phase queues merged": {
        "decode workers take prompts": ("bursty-documents", with_prompts_at_decode_workers, "prefill_wait_s"),
        "one pool for all": ("bursty-documents", with_one_pool_for_both_phases, "prefill_wait_s"),
    },
    "peak for effective": {
        "bandwidth": (
            "bursty-documents",
            at_peak("network.effective_bandwidth", "network.peak_bandwidth"),
            "kv_movement_s",
        ),
        "prefill rate": ("bursty-documents", with_peak_prefill_rate, "prefill_execution_s"),
    },
    "overloaded pool ignored": {
        "prefill never full": ("moderate-chat", ignoring_a_full_pool, "loads"),
        "ceilings raised": ("moderate-chat", with_higher_ceilings, "refusal"),
    },
    "modeled latency reported as measured": {
        "label": ("overloaded", reporting_as(label="measured"), "label"),
        "provenance": ("overloaded", reporting_as(provenance="observed"), "provenance"),
        "statement": (
            "overloaded",
            claiming("STATEMENT", "All latencies were measured on the production stack."),
            "truth_boundary.statement",
        ),
    },
}
"""Of each mutation that the guide names: form -> cohort, patch, and what the verifier names."""

FORMS = [(name, form) for name, forms in MUTATIONS.items() for form in forms]


@pytest.mark.parametrize("name", ["bursty-documents", "overloaded"])
def test_the_planner_as_it_is_passes(name: str, project: Path, tmp_path: Path) -> None:
    assert verified(name, project, tmp_path).passed


@pytest.mark.parametrize(("name", "form"), FORMS)
def test_a_broken_planner_is_caught_and_the_value_named(
    name: str, form: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort, mutate, value = MUTATIONS[name][form]
    mutate(monkeypatch)
    verification = verified(cohort, project, tmp_path)
    assert not verification.passed
    assert any(value in disagreement.where for disagreement in verification.disagreements), [
        disagreement.where for disagreement in verification.disagreements[:10]
    ]


# a planner that computes from other declarations than it states


def stating(honest: Receipt, computed: Receipt) -> Receipt:
    """The computed receipt with the inputs of the honest one, judged, named, and told of its matrix as before."""
    receipt = copy.deepcopy(computed)
    receipt["inputs"] = honest["inputs"]
    forge.name_anew(receipt)
    return receipt


@pytest.fixture(scope="module")
def honest(project: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Receipt]:
    """What the planner exports for a cohort of each stack."""
    base, rules = project / "cohorts" / "moderate-chat", project / "rules"
    directory = tmp_path_factory.mktemp("stacks")
    return {name: planned(base, rules, directory / name, changes)[0] for name, changes in STACKS.items()}


@pytest.mark.parametrize("stack", STACKS)
def test_the_planner_as_it_is_passes_with_every_stack(stack: str, honest: dict[str, Receipt], tmp_path: Path) -> None:
    verification = forge.verified(tmp_path, copy.deepcopy(honest[stack]))
    assert verification.passed, render_text(verification)


NO_TIME = supplied("0 ms")
MOVEMENT, LINK = r"disaggregated/.*\.kv_movement_s$", r"disaggregated/.*\.loads\[link\]\.utilization$"
OTHER_DECLARATIONS: dict[str, tuple[str, Changes, str]] = {
    **{
        f"{name} removed": ("windows", {f"network.{name}": NO_TIME}, MOVEMENT)
        for name in (
            "registration",
            "synchronization",
            "receiver_visibility",
            "router_handover",
            "seconds_per_descriptor",
        )
    },
    "replication dropped": ("latent", {"model.tensor_parallel": 1}, MOVEMENT),
    "windows counted as growing": ("windows", {"model.cache": [FULL | {"layers": 36}]}, MOVEMENT),
    "windows not counted": ("windows", {"model.cache": [FULL]}, MOVEMENT),
    "windows held in full": ("windows", {"model.kv_allocation": "uniform"}, r"\.loads\[kv_\w+\]\.utilization$"),
    "state dropped": ("hybrid", {"model.cache": HYBRID["model.cache"][:-1]}, MOVEMENT),
    "a curve replaced by the bandwidth of its largest point": (
        "latent",
        {"network.transfer_curve": STRAIGHT},
        MOVEMENT,
    ),
    "a curve denied beside a bandwidth": ("hybrid", {"network.transfer_curve": None}, MOVEMENT),
    "competing traffic dropped": ("windows", {"network.competing_traffic": supplied(0)}, MOVEMENT),
    "line rate for effective bandwidth": ("windows", {"network.effective_bandwidth": supplied("400 Gbit/s")}, MOVEMENT),
    "peak for effective bandwidth": ("windows", {"network.effective_bandwidth": supplied("50 GB/s")}, MOVEMENT),
    "relayout ignored": ("hybrid", {"network.relayout_factor": supplied(1)}, MOVEMENT),
    "all of the prefix at its destination": ("hybrid", {"network.prefix_at_destination": supplied(1)}, MOVEMENT),
    "links of each worker for shared ones": ("windows", {"network.link_sharing": "per_prefill_worker"}, LINK),
    "a batch cap raised": (
        "latent",
        {"inventory.kv_tokens_per_worker": supplied(10**6)},
        r"\.loads\[slots_mixed\]\.util",
    ),
    "weights that take no memory": ("windows", {"inventory.weights_per_worker": supplied("0 GB")}, r"\[kv_decode\]"),
    "a budget of a wider envelope": (
        "plain",
        {"objectives.ttft_growth": "120 ms"},
        r"budget\.rows\[.*\]\.bytes_at_limit",
    ),
    "a budget of a larger reserve": (
        "windows",
        {"objectives.transfer_reserve": 1},
        r"budget\.rows\[.*\]\.limit_share$",
    ),
}


@pytest.mark.parametrize("form", OTHER_DECLARATIONS)
def test_a_planner_of_other_declarations_is_caught(
    form: str, honest: dict[str, Receipt], project: Path, tmp_path: Path
) -> None:
    stack, changes, pattern = OTHER_DECLARATIONS[form]
    base, rules = project / "cohorts" / "moderate-chat", project / "rules"
    computed, _ = planned(base, rules, tmp_path / "cohort", {**STACKS[stack], **changes})
    rejected_at(forge.verified(tmp_path, stating(honest[stack], computed)), pattern)
