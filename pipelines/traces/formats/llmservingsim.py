"""The request logs of LLMServingSim: JSON lines with an arrival in nanoseconds and two token counts.

The ids of the tokens are the text of a prompt in other signs: they stay behind, and so do prefixes, which nothing else tells. How many
ids there are is no check of the counts: they are optional, and the simulator's own documentation shows fewer than ``input_toks``.
A record may instead be a session of requests that wait for each other; such a record is no request.
"""

from pipelines.traces import faults
from pipelines.traces.jsonl import InvalidRow, JsonlFormat, Record, Row, time_of, tokens_of
from pipelines.traces.timestamps import UNITS_NS

_FIELDS = {"arrival_time_ns", "input_toks", "output_toks"}
_SESSION = "sub_requests"


def _is_head(record: Record) -> bool:
    return set(record) >= _FIELDS or set(record) >= {"arrival_time_ns", _SESSION}


def _row(record: Record) -> Row:
    if _SESSION in record:
        raise InvalidRow(faults.SESSION, column=_SESSION)
    return {
        "timestamp_ns": time_of(record, "arrival_time_ns", UNITS_NS["ns"]),
        "prompt_tokens": tokens_of(record, "input_toks", "prompt_tokens"),
        "output_tokens": tokens_of(record, "output_toks", "output_tokens"),
    }


LLMSERVINGSIM = JsonlFormat(
    name="llmservingsim",
    expects="JSONL with arrival_time_ns, input_toks and output_toks",
    is_head=_is_head,
    row=_row,
)
