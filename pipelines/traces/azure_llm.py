"""The Azure LLM inference traces of 2023 to 2025: CSV with a timestamp and two token counts per request."""

from pipelines.traces.csv_columns import CsvColumns
from pipelines.traces.trace_format import TraceFormat

_COLUMNS = CsvColumns(timestamp="TIMESTAMP", prompt_tokens="ContextTokens", output_tokens="GeneratedTokens")

AZURE_LLM = TraceFormat(
    name="azure-llm",
    expects=f"CSV with the columns {', '.join(_COLUMNS.names)}",
    detect=_COLUMNS.detect,
    read=_COLUMNS.read,
)
