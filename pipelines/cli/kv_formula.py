"""How the bytes of a kind of layers come about: every factor, and where it was read."""

from dataclasses import dataclass
from fractions import Fraction

from pipelines.arithmetic.kv import (
    CONVOLUTION_BYTES,
    KEYS_AND_VALUES,
    PACKED_POSITION_BYTES,
    PACKED_SCALE_BYTES,
    PACKED_SCALE_ELEMENTS,
    RECURRENT_BYTES,
    element_bytes,
    layer_bytes,
)
from pipelines.cli.kv_numbers import figure
from pipelines.declarations.kv_dtypes import PACKED_LATENT
from pipelines.declarations.model_cache import ReadLayers

PER = {"state": "sequence", "cross": "encoder position"}
"""What the bytes of a kind of layers are of; all others are of a token."""

INDEX_WIDTH = "engines keep an index in fp8 with its scale, whatever --kv-dtype says"


@dataclass(frozen=True)
class Formula:
    """The bytes of all ``part.layers``, of one copy."""

    part: ReadLayers
    kv_dtype: str

    @property
    def text(self) -> str:
        """Every factor, where it was read, and what comes of them, in one line."""
        return _text(self)

    @property
    def factors(self) -> list[tuple[str, Fraction, str]]:
        """Name, value, and where it was read: the numbers of the shape, then the widths in bytes."""
        read = [(factor.name, Fraction(factor.value), factor.read_from) for factor in self.part.factors]
        return read + _widths(self.part.layers.kind, self.kv_dtype)

    @property
    def per(self) -> str:
        """What the bytes are of."""
        return PER.get(self.part.layers.kind, "token")

    @property
    def layer_bytes(self) -> Fraction:
        """Bytes of one layer."""
        return layer_bytes(self.part.layers, self.kv_dtype)

    @property
    def bytes(self) -> Fraction:
        """Bytes of all layers of the kind."""
        return self.part.layers.layers * self.layer_bytes


def _text(one: Formula) -> str:
    """The formula of a kind of layers.

    >>> from pipelines.declarations.cache import plain_shape
    >>> print(_text(Formula(ReadLayers(plain_shape(36, 8, 128)[0], "keys and values", ()), "bf16")))
    2 (key and value) x 8 heads x 128 x 2 bytes (--kv-dtype bf16) = 4,096 bytes per token and layer; x 36 layers = 147,456
    """
    layers, read = one.part.layers, _read(one.part)
    of_layer = {"latent": _latent, "index": _index, "state": _state}.get(layers.kind, _heads)(one, read)
    text = (
        f"{of_layer} = {figure(one.layer_bytes)} bytes per {one.per} and layer; "
        f"x {_counted(layers.layers, 'layer')}{read['layers']} = {figure(one.bytes)}"
    )
    if layers.tokens is None:
        return text
    if layers.kind == "window":
        return f"{text}, of the last {_counted(layers.tokens, 'token')}{read['tokens']}"
    return f"{text}, of {_counted(layers.tokens, 'encoder position')}{read['tokens']}"


def _read(part: ReadLayers) -> dict[str, str]:
    """`` (num_hidden_layers 36)`` by the name of the factor that it is the source of."""
    nowhere = dict.fromkeys(("layers", "heads", "first", "second", "tokens"), "")
    return nowhere | {factor.name: f" ({factor.read_from})" for factor in part.factors}


def _widths(kind: str, kv_dtype: str) -> list[tuple[str, Fraction, str]]:
    """Widths in bytes that are no numbers of the model."""
    option = f"--kv-dtype {kv_dtype}"
    if kind == "state":
        return [
            ("recurrent_bytes", Fraction(RECURRENT_BYTES), "fp32"),
            ("convolution_bytes", Fraction(CONVOLUTION_BYTES), "16 bits"),
        ]
    if kind == "index":
        return [("element_bytes", Fraction(1), INDEX_WIDTH)]
    if kind == "latent" and kv_dtype == PACKED_LATENT:
        return [
            ("element_bytes", Fraction(1), option),
            ("scale_bytes", Fraction(PACKED_SCALE_BYTES), option),
            ("scale_elements", Fraction(PACKED_SCALE_ELEMENTS), option),
            ("position_bytes", Fraction(PACKED_POSITION_BYTES), option),
        ]
    return [("element_bytes", element_bytes(kv_dtype), option)]


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _width(kv_dtype: str) -> str:
    size = element_bytes(kv_dtype)
    return f"{figure(size)} byte{'' if size == 1 else 's'} (--kv-dtype {kv_dtype})"


def _heads(one: Formula, read: dict[str, str]) -> str:
    layers, width = one.part.layers, _width(one.kv_dtype)
    heads = f"{_counted(layers.heads, 'head')}{read['heads']}"
    if layers.first == layers.second:
        value = "" if read["second"] == read["first"] else read["second"]
        return f"{KEYS_AND_VALUES} (key and value) x {heads} x {layers.first:,}{read['first']}{value} x {width}"
    return f"{heads} x (key of {layers.first:,}{read['first']} + value of {layers.second:,}{read['second']}) x {width}"


def _latent(one: Formula, read: dict[str, str]) -> str:
    layers = one.part.layers
    latent = f"latent of {layers.first:,}{read['first']}"
    position = f"{layers.second:,} with the position{read['second']}"
    if one.kv_dtype != PACKED_LATENT:
        return f"({latent} + {position}) x {_width(one.kv_dtype)}"
    scales = _counted(-(-layers.first // PACKED_SCALE_ELEMENTS), "scale")
    return (
        f"{latent} x 1 byte + {scales} (1 per {PACKED_SCALE_ELEMENTS}) x {PACKED_SCALE_BYTES} bytes "
        f"+ {position} x {PACKED_POSITION_BYTES} bytes (--kv-dtype {one.kv_dtype})"
    )


def _index(one: Formula, read: dict[str, str]) -> str:
    layers = one.part.layers
    vector = f"index vector of {layers.first:,}{read['first']} x 1 byte ({INDEX_WIDTH})"
    return f"{vector} + {_counted(layers.second, 'byte')} of scale{read['second']}"


def _state(one: Formula, read: dict[str, str]) -> str:
    layers = one.part.layers
    heads = f"{_counted(layers.heads, 'head')}{read['heads']}"
    text = f"{heads} x state of {layers.first:,}{read['first']} x {RECURRENT_BYTES} bytes (fp32)"
    if layers.second:
        text += f" + convolution of {layers.second:,}{read['second']} x {CONVOLUTION_BYTES} bytes (16 bits)"
    return text
