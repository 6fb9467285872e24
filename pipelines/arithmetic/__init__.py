"""The equations of docs/arithmetic.md: pure functions over numbers and numpy arrays, one per equation.

Symbols in the docstrings are those of docs/arithmetic.md; units are SI.
"""

VERSION = "5"
"""Version of docs/arithmetic.md that is computed here, as a receipt states it."""
