"""The processed traces of the Vidur simulator: CSV with two token counts per request, and in some of them when it arrived, in seconds.

Its prefill tokens are the whole prompt, and its decode tokens all that were generated, the first one included: the rows made from the
Azure code trace of 2023 are those of that trace.
"""

from pipelines.traces.csv_format import CsvColumns, CsvFormat

VIDUR = CsvFormat(
    name="vidur",
    columns=CsvColumns(
        arrival="arrived_at",
        unit="s",
        prompt_tokens="num_prefill_tokens",
        output_tokens="num_decode_tokens",
    ),
    optional=("time",),
    # arrivals of simulators that were made from Vidur: without these names their logs would be read as ones without arrivals
    unless=frozenset({"session_start_at", "think_time", "arrival_time", "arrival_timestamp", "timestamp"}),
)
