"""Results of ``sglang.bench_serving --output-details`` as a log of the requests that it sent.

JSON lines, one run a line, appended to the file run by run. Without ``--output-details`` there are aggregates only. An unlimited rate
is written as a bare Infinity, which is no JSON.
"""

from pipelines.traces.formats.run_results import RunResults
from pipelines.traces.jsonl import Record

_FIELDS = {"backend", "request_rate", "duration", "completed", "total_input_tokens", "total_output_tokens_retokenized"}


def _is_run(record: Record) -> bool:
    return set(record) >= _FIELDS


SGLANG_RESULTS = RunResults(
    name="sglang-results",
    expects="JSONL of sglang.bench_serving, with total_output_tokens_retokenized, input_lens and output_lens",
    tool="sglang.bench_serving",
    flag="--output-details",
    is_run=_is_run,
)
