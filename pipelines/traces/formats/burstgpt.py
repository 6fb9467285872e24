"""The BurstGPT traces: CSV with a timestamp in seconds since their first day, the model, and two token counts per request.

The third of them has a session and the time that its requests took beside these; neither is read. A response of 0 tokens is a request
that failed.
"""

from pipelines.traces.csv_format import CsvColumns, CsvFormat

BURSTGPT = CsvFormat(
    name="burstgpt",
    columns=CsvColumns(
        arrival="Timestamp",
        unit="s",
        prompt_tokens="Request tokens",
        output_tokens="Response tokens",
        model="Model",
    ),
    optional=("model",),
)
