"""In which window work is done: where it begins, a decode step on its own (docs/replay.md, Windows)."""

from pipelines.replay.compiled import part, rare
from pipelines.replay.records import LAST_TICK, Record, Times, Windows
from pipelines.replay.steps import run_ticks, steps_until


@part
def _look_at(worker: Record, windows: Windows, begin: int) -> None:
    """The worker's window is that of tick ``begin``."""
    if begin >= worker.window_end:
        worker.window = begin // windows.length
        worker.window_end = (worker.window + 1) * windows.length


@part
def add_work(worker: Record, windows: Windows, begin: int, ticks: int) -> None:
    """Work of ``ticks`` that ``worker`` begins at tick ``begin``, not before what it began last."""
    _look_at(worker, windows, begin)
    if worker.window < windows.met.size:
        _put(worker, windows, ticks)


@part
def _put(worker: Record, windows: Windows, ticks: int) -> None:
    """Work of ``ticks`` in the worker's window."""
    windows.work[worker.row, worker.window] += ticks
    if windows.work[worker.row, worker.window] >= LAST_TICK:
        _take_out(windows, worker.row, worker.window)


@rare
def _take_out(windows: Windows, row: int, window: int) -> None:
    """There is room again for what is added to the work of a window."""
    windows.work[row, window] -= LAST_TICK
    windows.clocks[row, window] += 1


@part
def add_step_work(worker: Record, windows: Windows, times: Times) -> None:
    """The run of steps that ``worker`` has done: what each takes beyond one without sequences or pieces."""
    steps = worker.steps
    empty = times.base[0]
    if worker.due <= worker.window_end and worker.window < windows.met.size:
        _put(worker, windows, worker.due - worker.begin - steps * empty)
        return
    _add_across(worker, windows, times)


@rare
def _add_across(worker: Record, windows: Windows, times: Times) -> None:
    """The same of a run that begins or ends in another window than the worker's last."""
    steps = worker.steps
    empty = times.base[0]
    begun, before = 0, 0
    while True:
        begin = worker.begin + before
        _look_at(worker, windows, begin)
        upto = steps
        if worker.due > worker.window_end:
            upto = min(steps, steps_until(worker, times.gamma, worker.window_end - worker.begin))
        ticks = run_ticks(worker, times.gamma, upto)
        add_work(worker, windows, begin, ticks - before - (upto - begun) * empty)
        if upto == steps:
            break
        begun, before = upto, ticks
