"""Receipts built in memory, once for all tests of this room."""

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines.receipts.build import build_receipt
from pipelines.receipts.plan import PlanFrames
from tests.plans import plan_of


@dataclass(frozen=True)
class Built:
    """A plan with both of its exports."""

    plan: PlanFrames
    receipt: dict[str, Any]
    matrix: bytes

    @property
    def rows(self) -> list[dict[str, str]]:
        """The rows of the matrix by column."""
        return list(csv.DictReader(io.StringIO(self.matrix.decode(), newline=""), strict=True))


def built(cohort: Path, rules: Path) -> Built:
    plan = plan_of(cohort, rules)
    return Built(plan, *build_receipt(plan))


Edit = tuple[str, str]


@pytest.fixture(scope="session")
def good(project: Path) -> Built:
    """Eight requests, all three topologies, a topology chosen."""
    return built(project / "tests" / "declarations" / "good", project / "rules")


@pytest.fixture(scope="session")
def built_with(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Built]:
    """Builds the good cohort with parts of its text replaced, and with ``files`` beside it."""

    def build(*edits: Edit, files: Mapping[str, str] | None = None) -> Built:
        source, directory = project / "tests" / "declarations" / "good", tmp_path_factory.mktemp("cohort")
        text = (source / "cohort.yaml").read_text(encoding="utf-8")
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new)
        (directory / "cohort.yaml").write_text(text, encoding="utf-8")
        (directory / "requests.csv").write_bytes((source / "requests.csv").read_bytes())
        for name, content in (files or {}).items():
            (directory / name).write_text(content, encoding="utf-8")
        return built(directory, project / "rules")

    return build


@pytest.fixture(scope="session")
def hopeless(built_with: Callable[..., Built]) -> Built:
    """Objectives that nothing meets, a prefill pool that is too slow for one worker, and budgets that starve it."""
    return built_with(
        ("ttft: 800 ms", "ttft: 70 ms"),
        ("value: 11800, low: 10400", "value: 8000, low: 7900"),
        ("chunk_tokens: [512, 1024, 2048]", "chunk_tokens: [48, 512]"),
    )


@pytest.fixture(scope="session")
def one_pool(built_with: Callable[..., Built], project: Path) -> Built:
    """Aggregated alone: no network, no chunks, no stall objective."""
    text = (project / "tests" / "declarations" / "good" / "cohort.yaml").read_text(encoding="utf-8")
    network = text[text.index("network:") : text.index("objectives:")]
    return built_with(
        (network, ""),
        ("  chunked: {chunk_tokens: [512, 1024, 2048]}\n  disaggregated: {}\n", ""),
        ("  stall: 400 ms\n  ttft_growth: 60 ms\n", ""),
    )


@pytest.fixture(scope="session")
def paced(built_with: Callable[..., Built]) -> Built:
    """Six requests a second, or eight, are declared instead of the trace's, and that a third of each prompt hits."""
    return built_with(
        (
            "  bucket_edges_tokens: [512, 2048]\n",
            "  bucket_edges_tokens: [512, 2048]\n"
            "  arrivals:\n"
            "    rate: {value: 6/s, high: 8/s, provenance: observed, source: gateway log}\n"
            "    scv: {value: 1, high: 4, provenance: supplied}\n",
        ),
        (
            "    overhead: {value: 8 ms, high: 12 ms, provenance: supplied}\n",
            "    overhead: {value: 8 ms, high: 12 ms, provenance: supplied}\n"
            "    prefix_hit_ratio: {value: 0.3, low: 0.2, provenance: supplied}\n",
        ),
    )


@pytest.fixture(scope="session")
def looped(built_with: Callable[..., Built], project: Path) -> Built:
    """Two classes of requests without a trace, 24 of them in the system, or 60: more than the smaller scenarios sustain."""
    text = (project / "tests" / "declarations" / "good" / "cohort.yaml").read_text(encoding="utf-8")
    trace = text[text.index("  trace:") : text.index("  bucket_edges_tokens:")]
    return built_with(
        (
            trace,
            "  classes:\n"
            "    - {weight: 3, prompt_tokens: 400, output_tokens: 150}\n"
            "    - {weight: 1, prompt_tokens: 4000, cached_prompt_tokens: 3000, output_tokens: 300}\n"
            "  classes_from: {provenance: supplied}\n"
            "  arrivals:\n"
            "    concurrency: {value: 24, high: 60, provenance: supplied}\n",
        ),
    )


PRICED = "Chat with objectives of its own"
ROUTED = (
    ("  title: Moderate chat on four workers\n", f"  title: {PRICED}\n"),
    ("  disaggregated: {}\n", "  disaggregated: {}\n  routed: {threshold_tokens: [640, 2048], chunk_tokens: [512]}\n"),
    (
        "  attainment: 0.95\n",
        "  e2e: 20 s\n  attainment: 0.95\n  buckets:\n    - {prompt_tokens_below: 512, ttft: 300 ms, e2e: 15 s}\n",
    ),
    (
        "  kv_memory_per_worker: {value: 40 GiB, low: 36 GiB, provenance: supplied}\n",
        "  kv_memory_per_worker: {value: 40 GiB, low: 36 GiB, provenance: supplied}\n"
        "  gpu_hour_price: {value: 2.5, provenance: supplied}\n",
    ),
)
"""Routed is compared too; objectives of short prompts, of E2E, and a price."""


@pytest.fixture(scope="session")
def routed(built_with: Callable[..., Built]) -> Built:
    """All four topologies, objectives by bucket, and a price."""
    return built_with(*ROUTED)


CURVE = "bytes,seconds,high_s\n1000000,0.002,0.003\n20000000,0.004,0.0045\n100000000,0.012,0.02\n"
MEASURED = (
    (
        "  layers: 32\n  kv_heads: 8\n  head_dim: 128\n",
        "  cache:\n"
        "    - {kind: full, layers: 18, kv_heads: 8, head_dim: 64}\n"
        "    - {kind: window, layers: 18, kv_heads: 8, head_dim: 64, window_tokens: 128}\n"
        "    - {kind: state, layers: 4, heads: 8, elements_per_head: 1024, convolution_elements: 512}\n"
        "  block_tokens: 16\n"
        "  kv_allocation: by_kind\n",
    ),
    ("  effective_bandwidth: {value: 18 GB/s, low: 12 GB/s, provenance: supplied}\n", ""),
    ("  peak_bandwidth: {value: 25 GB/s, provenance: supplied}\n", ""),
    ("  registration: {value: 1 ms, high: 2 ms, provenance: supplied}\n", ""),
    ("  synchronization: {value: 1 ms, provenance: supplied}\n", ""),
    (
        "  receiver_visibility: {value: 1 ms, provenance: supplied}\n",
        "  router_handover: {value: 5 ms, high: 10 ms, provenance: supplied}\n"
        "  transfer_curve: {file: transfers.csv, provenance: observed, source: transfer benchmark}\n",
    ),
    ("  attainment: 0.95\n", "  transfer_reserve: 0.75\n  attainment: 0.95\n"),
)
"""Full layers, windows and states, and a curve in place of a bandwidth."""


@pytest.fixture(scope="session")
def measured(built_with: Callable[..., Built]) -> Built:
    """Three kinds of layers, held by kind in blocks of 16, moved along a curve."""
    return built_with(*MEASURED, files={"transfers.csv": CURVE})
