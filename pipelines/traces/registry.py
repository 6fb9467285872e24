"""The known formats of request logs. To add one, write its module and add a line to ``_ALL``."""

from pipelines.traces.azure_llm import AZURE_LLM
from pipelines.traces.trace_format import TraceFormat

_ALL: tuple[TraceFormat, ...] = (AZURE_LLM,)

FORMATS: dict[str, TraceFormat] = {known.name: known for known in _ALL}
