"""The canonical form is that of RFC 8785, for the examples of the RFC."""

import hashlib
import struct

import pytest

from pipelines.oracle.canonical import canonical_bytes, canonical_text, es6_number, sha256_of
from pipelines.oracle.reading import parse_json

# RFC 8785, appendix B
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "expected"), NUMBERS)
def test_numbers_are_written_as_ecmascript_writes_them(bits: str, expected: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert es6_number(value) == expected


@pytest.mark.parametrize(("bits", "expected"), [pair for pair in NUMBERS if pair[0][0] != "8"])
def test_a_canonical_number_is_read_back_to_its_canonical_form(bits: str, expected: str) -> None:
    assert canonical_text(parse_json(expected.encode())) == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_a_number_has_no_canonical_form(value: float) -> None:
    with pytest.raises(ValueError, match="no JSON form"):
        canonical_text([value])


def test_the_sample_of_the_rfc() -> None:
    # RFC 8785, section 3.2.2
    source = rb"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical_bytes(parse_json(source)) == expected.encode("utf-8")


def test_members_are_sorted_by_utf16_code_units() -> None:
    # RFC 8785, section 3.2.3: a smiley (two surrogates) sorts before the letter dalet of the presentation forms
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\x80", "\xf6"]
    expected = ["\r", "1", "\x80", "\xf6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(parse_json(canonical_bytes(dict.fromkeys(names)))) == expected


def test_digests_are_of_the_canonical_bytes() -> None:
    assert sha256_of({"b": 1.0, "a": []}) == hashlib.sha256(b'{"a":[],"b":1}').hexdigest()
