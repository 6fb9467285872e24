"""The replay: every request of a trace through the schedulers of a scenario, step by step, in whole ticks (docs/replay.md).

Kernels are compiled by numba and cached; what they compute with are the tuples and records of :mod:`pipelines.replay.records`.
"""
