"""The Azure LLM inference traces of 2023 to 2025: CSV with a timestamp and two token counts per request."""

from pipelines.traces.csv_format import CsvColumns, CsvFormat

AZURE_LLM = CsvFormat(
    name="azure-llm",
    columns=CsvColumns(arrival="TIMESTAMP", prompt_tokens="ContextTokens", output_tokens="GeneratedTokens"),
)
