"""The known formats of request logs. To add one, write its module in ``formats`` and add a line to ``_ALL``.

A log is of the first format here that recognises how it begins.
"""

from pipelines.traces.formats.azure_llm import AZURE_LLM
from pipelines.traces.formats.mooncake import MOONCAKE
from pipelines.traces.trace_format import TraceFormat

_ALL: tuple[TraceFormat, ...] = (
    AZURE_LLM,
    MOONCAKE,
)

FORMATS: dict[str, TraceFormat] = {known.name: known for known in _ALL}
