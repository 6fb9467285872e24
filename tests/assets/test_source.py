"""Declarations are read again when any file changes that they were read from."""

import shutil
from pathlib import Path

import pytest

from pipelines.assets.source import PlanSource
from pipelines.declarations import Cohort


def value(cohort: Cohort, path: str) -> object:
    return next(row.value for row in cohort.inputs if row.path == path)


@pytest.fixture
def cohort(project: Path, tmp_path: Path) -> Path:
    """moderate-chat, with its model in a config.json and its transfers in a table."""
    shutil.copytree(project / "cohorts" / "moderate-chat", tmp_path / "cohort")
    file = tmp_path / "cohort" / "cohort.yaml"
    text = file.read_text().replace("  layers: 32\n  kv_heads: 8\n  head_dim: 128\n", "  config: config.json\n")
    curve = "network:\n  transfer_curve: {file: curve.csv, provenance: supplied}\n"
    file.write_text(text.replace("network:\n", curve))
    write_model(tmp_path / "cohort", 32)
    (tmp_path / "cohort" / "curve.csv").write_text("bytes,seconds\n1000000,0.01\n200000000,0.1\n")
    return tmp_path / "cohort"


def write_model(directory: Path, layers: int) -> None:
    (directory / "config.json").write_text(
        f'{{"model_type": "llama", "num_hidden_layers": {layers}, "num_attention_heads": 32, "num_key_value_heads": 8, '
        '"head_dim": 128, "hidden_size": 4096}'
    )


def test_a_model_that_changes_is_read_again(cohort: Path) -> None:
    source = PlanSource(cohort=str(cohort))
    assert value(source.load_cohort("cohort"), "model.cache") == "full:32x8x128+128"
    source.load_cohort("cohort")
    write_model(cohort, 320)
    assert value(source.load_cohort("cohort"), "model.cache") == "full:320x8x128+128"


def test_a_curve_that_changes_is_read_again(cohort: Path) -> None:
    source = PlanSource(cohort=str(cohort))
    assert value(source.load_cohort("cohort"), "network.transfer_curve") == "1000000:0.01 200000000:0.1"
    (cohort / "curve.csv").write_text("bytes,seconds\n1000000,0.01\n200000000,0.125\n")
    assert value(source.load_cohort("cohort"), "network.transfer_curve") == "1000000:0.01 200000000:0.125"


def test_what_has_not_changed_is_read_once(cohort: Path) -> None:
    source = PlanSource(cohort=str(cohort))
    source.load_cohort("cohort")
    assert source.load_cohort("cohort") is source.load_cohort("cohort")
