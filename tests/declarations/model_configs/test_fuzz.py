"""Whatever a config says, it is read or refused with a place: nothing else is raised."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipelines.declarations.cache import cache_shape, shape_text
from pipelines.declarations.model_configs import read_model_cache
from pipelines.declarations.model_configs.families import FAMILIES
from pipelines.declarations.model_configs.special import SPECIAL
from pipelines.declarations.problems import DeclarationProblems
from tests.declarations.model_configs.conftest import PLAIN, without_omitted
from tests.declarations.model_configs.test_hand_worked import CASES

CONFIGS = [without_omitted(PLAIN | change) for _, change, _, _ in CASES]
KEYS = sorted({key for config in CONFIGS for key in config} | set(SPECIAL))
VALUES = st.one_of(
    st.sampled_from([..., None, True, False, 0, -1, 1, 3, 2**31, 10**30, 1.5, float("nan"), float("inf"), "", "8", [], {}]),
    st.integers(-2, 70),
    st.lists(st.one_of(st.integers(-1, 5), st.none(), st.sampled_from(["full_attention", "mamba", "x"])), max_size=5),
    st.dictionaries(st.sampled_from(KEYS), st.one_of(st.integers(0, 9), st.none(), st.text(max_size=3)), max_size=3),
    st.text(max_size=4),
)  # fmt: skip


def read_or_refuse(path: Path, config: dict[str, Any]) -> None:
    path.write_text(json.dumps(config))
    try:
        cache = read_model_cache(path)
    except DeclarationProblems as refused:
        (problem,) = refused.problems
        assert problem.line >= 1
        assert "; expected" in problem.message
    else:
        assert cache.shape
        assert cache_shape(shape_text(cache.shape)) == cache.shape


@given(config=st.sampled_from(CONFIGS), changes=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_changed_configs(config: dict[str, Any], changes: dict[str, Any], tmp_path: Path) -> None:
    read_or_refuse(tmp_path / "config.json", without_omitted(config | changes))


@given(family=st.sampled_from(sorted(FAMILIES)), config=st.sampled_from(CONFIGS))
def test_configs_of_another_family(family: str, config: dict[str, Any], tmp_path: Path) -> None:
    read_or_refuse(tmp_path / "config.json", config | {"model_type": family})


@given(family=st.sampled_from(sorted(FAMILIES)), changes=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_sections_that_leave_everything_to_the_class(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    read_or_refuse(tmp_path / "config.json", {"text_config": without_omitted({"model_type": family} | changes)})


@given(dropped=st.data())
def test_published_configs_without_some_keys(dropped: st.DataObject, shared: Path, tmp_path: Path) -> None:
    path = dropped.draw(st.sampled_from(sorted((shared / "models").glob("*/*.json"))))
    config = json.loads(path.read_text())
    for key in dropped.draw(st.lists(st.sampled_from(sorted(config)), max_size=4, unique=True)):
        del config[key]
    read_or_refuse(tmp_path / "config.json", config)
