"""The traces published with Mooncake: JSON lines with a timestamp in milliseconds and the hashes of prompt blocks of 512 tokens.

Tools that replay such traces also read records without hashes.
"""

from pipelines.traces.jsonl import JsonlFormat, Record, Row, ids_of, time_of, tokens_of
from pipelines.traces.timestamps import UNITS_NS

BLOCK_TOKENS = 512
_FIELDS = {"timestamp", "input_length", "output_length"}
_OTHERS = {"session_id", "delay", "chat_id"}


def _is_head(record: Record) -> bool:
    is_plain = set(record) >= _FIELDS and not _OTHERS & set(record) and not isinstance(record["timestamp"], str)
    return is_plain and isinstance(record.get("hash_ids", []), list)


def _row(record: Record) -> Row:
    return {
        "timestamp_ns": time_of(record, "timestamp", UNITS_NS["ms"]),
        "prompt_tokens": tokens_of(record, "input_length", "prompt_tokens"),
        "output_tokens": tokens_of(record, "output_length", "output_tokens"),
        "hash_ids": ids_of(record, "hash_ids") if "hash_ids" in record else [],
    }


MOONCAKE = JsonlFormat(
    name="mooncake",
    expects="JSONL with timestamp (ms), input_length, output_length and mostly hash_ids",
    is_head=_is_head,
    row=_row,
    columns=("hash_ids",),
    block_tokens=BLOCK_TOKENS,
)
