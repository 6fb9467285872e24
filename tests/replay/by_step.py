"""The replay of docs/replay.md, token by token: every step of every worker is an activity of its own.

Slow and to be checked by eye. It is what the planner's replay and the verifier's are compared with.
"""

from tests.replay.by_step_mixed import replay_mixed
from tests.replay.by_step_outcome import Ledger, Outcome, outcome_of
from tests.replay.by_step_separated import replay_separated
from tests.replay.cases import Case

MINUTE_NS = 60_000_000_000


def replay(case: Case, window_ns: int = MINUTE_NS) -> Outcome:
    """Sends the requests of a case through its workers; windows are as many nanoseconds long as said."""
    ledger = Ledger()
    everyone = list(range(len(case.requests)))
    if case.scheduler == "routed":
        short = [number for number in everyone if case.requests[number][1] < case.threshold]
        replay_mixed(case, short, ledger)
        replay_separated(case, [number for number in everyone if number not in set(short)], ledger)
    elif case.scheduler == "separated":
        replay_separated(case, everyone, ledger)
    else:
        assert (case.budget > 0) == (case.scheduler == "chunked")
        replay_mixed(case, everyone, ledger)
    return outcome_of(case, ledger, window_ns)
