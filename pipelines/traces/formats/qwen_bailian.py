"""The Qwen-Bailian usage traces: JSON lines with a timestamp in seconds and the hashes of prompt blocks of 16 tokens.

``input_length`` and ``hash_ids`` of a later turn cover the conversation before it as well: every record is a whole request.
``type`` (text, search, image, file) is what a request is about, none of the groups of a cohort; chat ids stay behind.
"""

from pipelines.traces.jsonl import JsonlFormat, Record, Row, ids_of, time_of, tokens_of
from pipelines.traces.timestamps import UNITS_NS

BLOCK_TOKENS = 16
_FIELDS = {"chat_id", "timestamp", "input_length", "output_length", "hash_ids"}


def _is_head(record: Record) -> bool:
    return set(record) >= _FIELDS and isinstance(record["hash_ids"], list)


def _row(record: Record) -> Row:
    return {
        "timestamp_ns": time_of(record, "timestamp", UNITS_NS["s"]),
        "prompt_tokens": tokens_of(record, "input_length", "prompt_tokens"),
        "output_tokens": tokens_of(record, "output_length", "output_tokens"),
        "hash_ids": ids_of(record, "hash_ids"),
    }


QWEN_BAILIAN = JsonlFormat(
    name="qwen-bailian",
    expects="JSONL with chat_id, timestamp (s), input_length, output_length and hash_ids",
    is_head=_is_head,
    row=_row,
    columns=("hash_ids",),
    block_tokens=BLOCK_TOKENS,
)
