"""The lines before the workers of a pool: one for all, or one for each."""

from collections.abc import Callable

from tests.replay.by_step_requests import Request
from tests.replay.cases import Case


class Lines:
    """Requests that wait for prefill, by `dispatch` and in the order of `discipline`."""

    def __init__(self, case: Case, workers: int, present: Callable[[int], int]) -> None:
        """`present` says how many requests a worker has beside those in its line."""
        self.dispatch, self.discipline, self.present = case.dispatch, case.discipline, present
        self.lines: list[list[Request]] = [[] for _ in range(1 if case.dispatch == "least_loaded" else workers)]

    def join(self, request: Request) -> None:
        """The request joins the line that it is dispatched to."""
        if self.dispatch == "least_loaded":
            number = 0
        elif self.dispatch == "round_robin":
            number = request.position % len(self.lines)
        else:
            assert self.dispatch == "shortest_queue"
            number = min(range(len(self.lines)), key=lambda worker: (self._at(worker), worker))
        self.lines[number].append(request)

    def head(self, worker: int) -> Request | None:
        """Who is next for this worker."""
        line = self._of(worker)
        if not line:
            return None
        if self.discipline == "shortest_first":
            return min(line, key=lambda request: (request.p - request.h, request.position))
        return line[0]

    def leave(self, worker: int, request: Request) -> None:
        """The worker takes the request out of the line."""
        self._of(worker).remove(request)

    def waiting(self) -> int:
        """Requests in all lines of the pool."""
        return sum(len(line) for line in self.lines)

    def _of(self, worker: int) -> list[Request]:
        return self.lines[0 if self.dispatch == "least_loaded" else worker]

    def _at(self, worker: int) -> int:
        return len(self.lines[worker]) + self.present(worker)
