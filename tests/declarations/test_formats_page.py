"""Each way to declare a model, KV memory and a network that docs/formats.md shows is read."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.declarations import Cohort, load_cohort

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
}


def shown(project: Path, section: str) -> list[dict[str, Any]]:
    """The YAML documents of a section of the page."""
    (block, *_) = blocks(project, section)
    return list(yaml.safe_load_all(block))


def blocks(project: Path, section: str) -> list[str]:
    """The YAML of a section of the page, block by block."""
    page = (project / "docs" / "formats.md").read_text(encoding="utf-8")
    found = re.search(rf"^##+ {re.escape(section)}\n(.*?)^##", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    return re.findall(r"```yaml\n(.*?)```", found.group(1), re.DOTALL)


def declared_with(project: Path, directory: Path, changes: dict[str, Any]) -> Cohort:
    """The good cohort with the blocks of ``changes`` in place of its own."""
    good = project / "tests" / "declarations" / "good"
    cohort = yaml.safe_load((good / "cohort.yaml").read_text(encoding="utf-8"))
    shutil.copy(good / cohort["requests"]["trace"]["file"], directory)
    (directory / "config.json").write_text(json.dumps(LLAMA))
    (directory / "transfers.csv").write_text("bytes,transfer_ms\n1000000,0.5\n100000000,1.5\n")
    (directory / "prefill.csv").write_text("tokens,ms\n512,50\n2048,190\n")
    (directory / "decode.csv").write_text("sequences,seconds,seconds_high\n1,0.012,0.013\n64,0.02,0.02\n")
    (directory / "cohort.yaml").write_text(yaml.safe_dump(cohort | changes, sort_keys=False))
    return load_cohort(directory)


@pytest.mark.parametrize("way", range(3))
def test_a_model(way: int, project: Path, tmp_path: Path) -> None:
    documents = shown(project, "The model")
    assert len(documents) == 3
    paths = {row.path for row in declared_with(project, tmp_path, documents[way]).inputs}
    assert ("model.layers" in paths, "model.cache" in paths) == (way == 0, way > 0)


@pytest.mark.parametrize("way", range(3))
def test_kv_memory(way: int, project: Path, tmp_path: Path) -> None:
    documents = shown(project, "KV memory")
    assert len(documents) == 3
    paths = {row.path for row in declared_with(project, tmp_path, documents[way]).inputs}
    ways = ("kv_memory_per_worker", "kv_tokens_per_worker", "gpu_memory")
    assert [f"inventory.{name}" in paths for name in ways] == [place == way for place in range(3)]


def test_a_network(project: Path, tmp_path: Path) -> None:
    (document,) = shown(project, "The network")
    model, *_ = shown(project, "The model")
    in_blocks = {"model": model["model"] | {"block_tokens": 16}}
    inputs = {row.path: row.value for row in declared_with(project, tmp_path, document | in_blocks).inputs}
    assert {f"network.{name}" for name in document["network"]} <= set(inputs)
    assert inputs["network.transfer_curve"] == "1000000:0.0005 100000000:0.0015"


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The mapping with what the other one says, at every depth."""
    both = one | other
    for key in one.keys() & other.keys():
        if isinstance(one[key], dict) and isinstance(other[key], dict):
            both[key] = merged(one[key], other[key])
    return both


def test_the_cohort_of_the_page(project: Path, tmp_path: Path) -> None:
    (document,) = shown(project, "Cohort (`cohorts/NAME/cohort.yaml`)")
    cohort = declared_with(project, tmp_path, document)
    assert cohort.topologies == ("aggregated", "chunked", "disaggregated", "routed")
    assert cohort.forced_edges_tokens == (512, 2048)


def test_measured_service_and_pools_of_their_own(project: Path, tmp_path: Path) -> None:
    (document,) = shown(project, "Measured service and pools of their own")
    good = yaml.safe_load((project / "tests" / "declarations" / "good" / "cohort.yaml").read_text(encoding="utf-8"))
    good["inventory"]["gpus"] = 8
    del good["service"]["prefill"]["tokens_per_second"], good["service"]["prefill"]["overhead"]
    del good["service"]["decode"]["tokens_per_second"], good["service"]["decode"]["step_overhead"]
    inputs = {row.path: row.value for row in declared_with(project, tmp_path, merged(good, document)).inputs}
    assert inputs["service.prefill.curve"] == "512:0.05 2048:0.19"
    assert inputs["service.decode.curve"] == "1:0.012:0.013 64:0.02:0.02"
    declared = {f"separated.{pool}.{name}" for pool, of in document["separated"].items() for name in of}
    assert declared == {path for path in inputs if path.startswith("separated.")}
