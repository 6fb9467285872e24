"""Frames between assets: Parquet files on disk, and what the UI shows of a frame."""

import hashlib
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pandera.polars as pa
import polars as pl

from pipelines import arithmetic
from pipelines.assets.source import COHORT_PARTITIONS
from pipelines.receipts.write import clear_unfinished


class FrameStore(dg.ConfigurableIOManager):
    """Stores each asset's frame as ``BASE/asset/key/PARTITION.parquet``; a killed run leaves the old file or the new one."""

    base: str

    def handle_output(self, context: dg.OutputContext, obj: pl.DataFrame) -> None:
        """Write the frame under a temporary name, then rename it."""
        path = self._path(context)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        obj.write_parquet(temporary)
        temporary.replace(path)

    def load_input(self, context: dg.InputContext) -> pl.DataFrame:
        """Read the frame of the upstream asset's partition."""
        return pl.read_parquet(self._path(context))

    def _path(self, context: dg.InputContext | dg.OutputContext) -> Path:
        return _place(self.base, context.asset_key.path, context.asset_partition_key)


class StoredFrames(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Reads what :class:`FrameStore` wrote, for a step with so many inputs that Dagster's events for them cost more than its work."""

    base: str

    def read(self, key: Sequence[str], partition: str) -> pl.DataFrame:
        """The stored frame of the asset ``key``."""
        return pl.read_parquet(_place(self.base, key, partition))

    def exports(self, partition: str) -> Path:
        """The directory that a pair of exports waits in for its verification."""
        return Path(self.base, "exports", partition)


def clear_unfinished_frames(base: str, partition: str) -> None:
    """Remove what killed plans of ``partition`` left half written; only for who holds the lock on its plans."""
    for left in Path(base).rglob(f".{partition}.parquet.*"):
        left.unlink(missing_ok=True)
    exports = Path(base, "exports", partition)
    if exports.is_dir():
        clear_unfinished(exports)


def _place(base: str, key: Sequence[str], partition: str) -> Path:
    return Path(base, *key, f"{partition}.parquet")


def column_schema(model: type[pa.DataFrameModel]) -> dg.TableSchema:
    """The model's columns with type, meaning, unit and nullability, as Dagster shows them."""
    columns = []
    for name, column in model.to_schema().columns.items():
        about = column.metadata or {}
        unit = f" [{about['unit']}]" if about.get("unit") else ""
        constraints = dg.TableColumnConstraints(nullable=column.nullable, unique=column.unique)
        columns.append(dg.TableColumn(name, str(column.dtype), f"{about.get('meaning', '')}{unit}", constraints))
    return dg.TableSchema(columns=columns)


def schema_metadata(model: type[pa.DataFrameModel]) -> dict[str, dg.TableSchema]:
    """Definition metadata that carries :func:`column_schema`."""
    return {"dagster/column_schema": column_schema(model)}


def frame_asset(model: type[pa.DataFrameModel], group: str, **options: Any) -> Callable[[Any], dg.AssetsDefinition]:
    """The decorator of an asset that yields one frame of ``model`` per cohort; ``options`` are those of ``dg.asset``."""
    kept = {"kinds": {"polars"}, "code_version": arithmetic.VERSION} | options
    return dg.asset(partitions_def=COHORT_PARTITIONS, group_name=group, metadata=schema_metadata(model), **kept)


def frame_out(model: type[pa.DataFrameModel], group: str, description: str, **options: Any) -> dg.AssetOut:
    """The same for one of several frames of a step; ``options`` are those of ``dg.AssetOut``."""
    kept = {"kinds": {"polars"}, "code_version": arithmetic.VERSION} | options
    return dg.AssetOut(group_name=group, metadata=schema_metadata(model), description=description, **kept)


def content_version(frame: pl.DataFrame) -> dg.DataVersion:
    """SHA-256 of the frame's columns and values."""
    buffer = io.BytesIO()
    frame.rechunk().write_parquet(buffer)
    return dg.DataVersion(hashlib.sha256(buffer.getbuffer()).hexdigest())


def shown(
    frame: pl.DataFrame,
    version: dg.DataVersion | None = None,
    checks: Sequence[dg.AssetCheckResult] = (),
    asset_key: str | None = None,
    **metadata: Any,
) -> dg.MaterializeResult[pl.DataFrame]:
    """``frame`` as a result with its row count, its data version, ``metadata`` and ``checks``; ``asset_key`` where a step has several."""
    about = {"dagster/row_count": frame.height, **metadata}
    found = version or content_version(frame)
    return dg.MaterializeResult(
        asset_key=asset_key, value=frame, metadata=about, data_version=found, check_results=checks
    )
