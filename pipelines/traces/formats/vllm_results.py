"""Results of ``vllm bench serve --save-result --save-detailed`` (before: benchmark_serving.py) as a log of the requests that it sent.

One JSON object. Without ``--save-detailed`` there are aggregates only. Newer versions write ``start_times``, in seconds of the
client's monotonic clock.
"""

from pipelines.traces.formats.run_results import RunResults
from pipelines.traces.jsonl import Record

_FIELDS = {
    "date",
    "model_id",
    "tokenizer_id",
    "num_prompts",
    "request_rate",
    "duration",
    "completed",
    "total_input_tokens",
}


def _is_run(record: Record) -> bool:
    return set(record) >= _FIELDS and "total_output_tokens_retokenized" not in record


VLLM_RESULTS = RunResults(
    name="vllm-results",
    expects="JSON of vllm bench serve, with num_prompts, input_lens and output_lens",
    tool="vllm bench serve",
    flag="--save-result --save-detailed",
    is_run=_is_run,
)
