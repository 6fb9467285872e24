"""Whether a log has what a cohort declares of it: an option that it does not serve would be accepted and ignored."""

from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.declarations.typed import Cohort, TraceSource
from pipelines.traces.doubts import misfits
from pipelines.traces.log import Log


@dataclass(frozen=True)
class Misfit:
    """Something that a cohort declares at ``path`` and that its log does not bear out."""

    path: str
    message: str
    hint: str | None = None


def declared_in_vain(cohort: Cohort, trace: TraceSource, log: Log) -> Iterator[Misfit]:
    """Everything that ``cohort`` declares of a log that ``log`` does not have."""
    if not log.is_timed:
        yield from _without_arrivals(cohort)
    yield from _of_the_cache(cohort, log)
    yield from _of_the_reader(trace, {step for step, _ in log.steps})
    for field in cohort.slice.where:
        if field not in log.rows.columns:
            yield Misfit(
                f"requests.slice.where.{field}", f"no request of the log ({log.format}) says its {field}; expected some"
            )


def _without_arrivals(cohort: Cohort) -> Iterator[Misfit]:
    if cohort.kind == "open":
        message = "a log without arrivals; expected timestamps, or requests.arrivals: a rate or a concurrency"
        yield Misfit("requests.trace.file", message)
    if cohort.slice.window_ns is not None:
        yield Misfit("requests.slice.window", "the log has no arrivals; expected timestamps to cut it by")


def _of_the_cache(cohort: Cohort, log: Log) -> Iterator[Misfit]:
    if cohort.prefix_cache is not None and log.block_tokens is None:
        message = f"no request of the log ({log.format}) has block hashes; expected them"
        yield Misfit("requests.prefix_cache", message, "declare service.prefill.prefix_hit_ratio instead")
    elif cohort.prefix_cache is not None and log.block_tokens is not None:
        wrong = misfits(log.rows, log.block_tokens)
        if 2 * wrong > log.rows.height:
            found = (
                f"block hashes of {wrong} of {log.rows.height} requests do not fit blocks of {log.block_tokens} tokens"
            )
            yield Misfit(
                "requests.prefix_cache", f"{found}; expected one hash a block", "is the format that of this log?"
            )
    if "cached_prompt_tokens" in log.rows.columns and _hit_ratio(cohort):
        message = "the log states cached prompt tokens itself; expected one of the two: hits would count twice"
        yield Misfit("service.prefill.prefix_hit_ratio", message)


def _of_the_reader(trace: TraceSource, steps: set[str]) -> Iterator[Misfit]:
    for key, time in (
        ("turn_time", trace.turn_time_ns),
        ("turn_time_per_output_token", trace.turn_time_per_output_token_ns),
    ):
        if time is not None and "place_turns" not in steps:
            yield Misfit(f"requests.trace.{key}", "the log has no delays between turns; expected some", "leave it out")
    if trace.lengths is not None and "expand" not in steps:
        message = "the log is one of requests, not of rates; expected no data set of lengths beside it"
        yield Misfit("requests.trace.lengths", message, "leave it out")


def _hit_ratio(cohort: Cohort) -> bool:
    return any(row.path == "service.prefill.prefix_hit_ratio" and row.value for row in cohort.inputs)
