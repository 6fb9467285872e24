"""The traces published with Mooncake: JSON lines with a timestamp in milliseconds and the hashes of prompt blocks of 512 tokens."""

from pipelines.traces.jsonl import JsonlFormat, Record, Row, ids_of, time_of, tokens_of
from pipelines.traces.timestamps import UNITS_NS

BLOCK_TOKENS = 512
_FIELDS = {"timestamp", "input_length", "output_length", "hash_ids"}
_OTHERS = {"session_id", "delay", "chat_id"}


def _is_head(record: Record) -> bool:
    return set(record) >= _FIELDS and not _OTHERS & set(record) and isinstance(record["hash_ids"], list)


def _row(record: Record) -> Row:
    return {
        "timestamp_ns": time_of(record, "timestamp", UNITS_NS["ms"]),
        "prompt_tokens": tokens_of(record, "input_length", "prompt_tokens"),
        "output_tokens": tokens_of(record, "output_length", "output_tokens"),
        "hash_ids": ids_of(record, "hash_ids"),
    }


MOONCAKE = JsonlFormat(
    name="mooncake",
    expects="JSONL with timestamp (ms), input_length, output_length and hash_ids",
    is_head=_is_head,
    row=_row,
    columns=("hash_ids",),
    block_tokens=BLOCK_TOKENS,
)
