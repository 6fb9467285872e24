"""The equations of docs/arithmetic.md: pure functions over polars expressions.

Every function takes and returns expressions (or plain floats, where only ``+ - * / **`` are used), one function per
equation. Symbols in the docstrings are those of docs/arithmetic.md; units are SI.
"""

VERSION = "4"
"""Version of docs/arithmetic.md that is computed here, as a receipt states it."""
