"""What the equations compute with: one number, or an array with one entry per evaluated row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Number = float | Floats


def column(value: Number) -> Number:
    """``value`` set beside the columns of a two-dimensional array: an array of rows gets a second axis, one number stays.

    >>> column(2.0), column(np.array([1.0, 2.0])).shape
    (2.0, (2, 1))
    """
    return value[:, None] if isinstance(value, np.ndarray) and value.ndim else value


def where(condition: Any, then: Any, otherwise: Any) -> Number:
    """``np.where`` whose branches may be numbers; one number where nothing is an array.

    >>> where(True, 1.0, 2.0)
    1.0
    """
    chosen = np.where(condition, then, otherwise)
    return chosen if chosen.ndim else float(chosen)
