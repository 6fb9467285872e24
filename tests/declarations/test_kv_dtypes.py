"""The data type of a KV cache as people write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.declarations.kv_dtypes import NAMES, SYNONYMS, kv_dtype
from pipelines.declarations.units import QuantityError

EXPECTED = "expected one of fp32, bf16, fp16, fp8, int8, fp4, fp8_ds_mla"


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_itself(name: str) -> None:
    assert kv_dtype(name) == name


@pytest.mark.parametrize(("written", "name"), SYNONYMS.items())
def test_another_name_of_the_same_width_is_read(written: str, name: str) -> None:
    assert kv_dtype(written) == name


@pytest.mark.parametrize(
    ("raw", "found", "hint"),
    [
        (16, "16 is bits, not bytes", "did you mean bf16 (2 bytes)?"),
        ("16", "16 is bits, not bytes", "did you mean bf16 (2 bytes)?"),
        (8, "8 is bits, not bytes", "did you mean fp8 (1 byte)? int8 is 1 byte too"),
        ("4", "4 is bits or bytes", "4 bits is fp4, 4 bytes is fp32"),
        (2, "2 is no data type", "2 bytes is bf16 or fp16"),
        (2.0, "2.0 is no data type", "2 bytes is bf16 or fp16"),
        (0.5, "0.5 is no data type", "half a byte is fp4"),
        (3, "3 is no data type", None),
        (True, "true is no data type", None),
        (None, "nothing is no data type", None),
        ("8bit", '"8bit" is a width, not a data type', "did you mean fp8 or int8?"),
        ("16 bits", '"16 bits" is a width, not a data type', "did you mean bf16 or fp16?"),
        ("2 bytes", '"2 bytes" is a width, not a data type', "did you mean bf16 or fp16?"),
        ("auto", '"auto" is the data type of the weights, which is not read here', "bf16 for most models; name it"),
        (
            "nvfp4",
            '"nvfp4" is no data type of a KV cache',
            "did you mean fp4? nvfp4 keeps 1 byte of scale per 16 elements beside it, an eighth more",
        ),
        (
            "mxfp4",
            '"mxfp4" is no data type of a KV cache',
            "did you mean fp4? mxfp4 keeps 1 byte of scale per 32 elements beside it, a sixteenth more",
        ),
        ("int4", '"int4" is no data type of a KV cache', "fp4 is as wide: half a byte an element"),
        ("float8", '"float8" is no data type of a KV cache', "did you mean fp8?"),
        ("BF16", '"BF16" is no data type of a KV cache', "did you mean bf16?"),
        ("torch.bfloat16", '"torch.bfloat16" is no data type of a KV cache', "did you mean bf16?"),
        (
            "W4A16",
            '"W4A16" is of the weights, not of the KV cache',
            "the cache of such a model is mostly bf16 or fp16",
        ),
        ("bf61", '"bf61" is no data type of a KV cache', "did you mean bf16?"),
        ("", '"" is no data type of a KV cache', None),
    ],
)
def test_a_mistake_is_named(raw: object, found: str, hint: str | None) -> None:
    with pytest.raises(QuantityError) as refused:
        kv_dtype(raw)
    assert (refused.value.message, refused.value.hint) == (f"{found}; {EXPECTED}", hint)


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.integers())))
def test_anything_is_read_or_refused_in_one_line(raw: object) -> None:
    try:
        assert kv_dtype(raw) in NAMES
    except QuantityError as refused:
        assert refused.message.isprintable()  # noqa: PT017
        assert len(refused.message) < 200  # noqa: PT017
