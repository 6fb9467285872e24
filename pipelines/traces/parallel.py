"""Working on the blocks of a log ahead of the one that is being looked at."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 2
"""Blocks per thread that may wait to be looked at: more would only take memory."""


def in_order(items: Iterator[Item], work: Callable[[Item], Result]) -> Iterator[tuple[Item, Result]]:
    """Every item with what ``work`` makes of it, in order, while threads work on the next ones.

    >>> list(in_order(iter([1, 2, 3]), lambda n: n * n))
    [(1, 1), (2, 4), (3, 9)]
    """
    threads = max(1, min(os.cpu_count() or 1, 8))
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) >= threads * _AHEAD:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
