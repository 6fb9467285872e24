"""receipt.json, matrix.csv, and the verification of both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from pipelines import __version__, arithmetic
from pipelines.assets import evaluate
from pipelines.assets.frames_io import StoredFrames
from pipelines.assets.source import COHORT_PARTITIONS, PlanSource
from pipelines.frames.canonical import canonical_bytes, digest
from pipelines.oracle import Disagreement, verify
from pipelines.receipts.build import Json, build_receipt
from pipelines.receipts.finding import MATRIX, RECEIPT
from pipelines.receipts.plan import PlanFrames
from pipelines.receipts.store import read_pair
from pipelines.receipts.write import write_atomically
from pipelines.topologies.declared import TOPOLOGIES

GROUP = "export"
_FRAMES = (
    "frozen_cohort",
    "buckets",
    "strata",
    "outputs",
    "windows",
    "scenario_matrix",
    "gates",
    "exceptions",
    "rule_set",
    "preference",
    "verdicts",
    "decision",
    "acceptance",
    "search",
    "speaking",
    "sensitivity",
    "break_even",
    "workers_less",
    "replays",
    "replay_sample",
    "replay_scope",
)


class VerificationError(Exception):
    """The independent verifier disagrees with the receipt just written; ``receipt`` is where it is."""

    def __init__(self, receipt: Path, disagreements: list[Disagreement]) -> None:
        """Name the first disagreement."""
        first = disagreements[0]
        found = f"{first.where}: found {first.found}, expected {first.expected} ({first.why})"
        super().__init__(f"{len(disagreements)} values disagree, the first is {found}")
        self.receipt = receipt


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            key,
            deps=["cohort", *_FRAMES, *([evaluate.PREFIX, name] for name in TOPOLOGIES)],
            group_name=GROUP,
            kinds={kind},
            code_version=f"{__version__}+{arithmetic.VERSION}",
            description=description,
        )
        for key, kind, description in (
            ("matrix", "csv", "The scenario matrix as CSV, each value beside its provenance."),
            ("receipt", "json", "The decision as canonical, sealed JSON."),
        )
    ],
    partitions_def=COHORT_PARTITIONS,
)
def exports(context: dg.AssetExecutionContext, stored_frames: StoredFrames) -> Iterator[dg.MaterializeResult[None]]:
    """Write both exports to where they wait for their verification."""
    frames = {name: stored_frames.read([name], context.partition_key) for name in ("cohort", *_FRAMES)}
    plan = PlanFrames(
        inputs=frames["cohort"],
        frozen=frames["frozen_cohort"],
        buckets=frames["buckets"],
        strata=frames["strata"],
        outputs=frames["outputs"],
        windows=frames["windows"],
        evaluations=[stored_frames.read([evaluate.PREFIX, name], context.partition_key) for name in TOPOLOGIES],
        matrix=frames["scenario_matrix"],
        gates=frames["gates"],
        exceptions=frames["exceptions"],
        rule_set=frames["rule_set"],
        preference=frames["preference"],
        verdicts=frames["verdicts"],
        decision=frames["decision"],
        acceptance=frames["acceptance"],
        searched=frames["search"]["searched"][0],
        speaking=frames["speaking"],
        sensitivity=frames["sensitivity"],
        break_even=frames["break_even"],
        workers_less=frames["workers_less"],
        replays=frames["replays"],
        replay_sample=frames["replay_sample"],
        replay_scope=frames["replay_scope"],
    )
    receipt, matrix = build_receipt(plan)
    directory = stored_frames.exports(context.partition_key)
    write_atomically(directory / MATRIX, matrix)
    yield _exported("matrix", directory / MATRIX, receipt["matrix"]["sha256"], receipt["matrix"]["columns"], receipt)
    write_atomically(directory / RECEIPT, canonical_bytes(receipt))
    yield _exported("receipt", directory / RECEIPT, receipt["seal"], list(receipt), receipt)


def _exported(key: str, path: Path, sha256: str, columns: list[str], receipt: Json) -> dg.MaterializeResult[None]:
    """What Dagster shows of an exported file; rows are scenarios, columns those of the CSV or the members of the JSON."""
    metadata = {
        "path": dg.MetadataValue.path(str(path)),
        "sha256": sha256,
        "bytes": path.stat().st_size,
        "outcome": receipt["decision"]["outcome"],
        "fingerprint": receipt["fingerprint"],
        "unobserved_share": receipt["decision"]["unobserved_share"],
        "dagster/row_count": len(receipt["scenarios"]),
        "dagster/column_schema": dg.TableSchema(columns=[dg.TableColumn(name) for name in columns]),
    }
    return dg.MaterializeResult(asset_key=key, metadata=metadata, data_version=dg.DataVersion(sha256))


@dg.asset(
    deps=["receipt", "matrix"],
    partitions_def=COHORT_PARTITIONS,
    group_name=GROUP,
    kinds={"python"},
    code_version=f"{__version__}+{arithmetic.VERSION}",
)
def verified_receipt(
    context: dg.AssetExecutionContext, plan_source: PlanSource, stored_frames: StoredFrames
) -> dg.MaterializeResult[None]:
    """What the independent verifier recomputed from the two files alone; only then do they take the place of older ones."""
    waiting = stored_frames.exports(context.partition_key)
    pair = read_pair(waiting)
    verification = verify(waiting / RECEIPT, waiting / MATRIX)
    if read_pair(waiting) != pair:
        why = "another run of this partition wrote to the same place"
        verification.disagreements.append(Disagreement("receipt", "other bytes", "the bytes that were verified", why))
    if not verification.passed:
        raise VerificationError(waiting / RECEIPT, verification.disagreements)
    found = plan_source.publish(context.partition_key, pair)
    compared = sum(verification.checked.values())
    columns = [dg.TableColumn("check"), dg.TableColumn("values_compared", "int")]
    metadata: dict[str, Any] = {
        "path": dg.MetadataValue.path(str(found / RECEIPT)),
        "sha256": pair.sha256,
        "values_compared": compared,
        **verification.checked,
        "dagster/row_count": len(verification.checked),
        "dagster/column_schema": dg.TableSchema(columns=columns),
    }
    return dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(digest(verification.checked)))


ASSETS = [exports, verified_receipt]
