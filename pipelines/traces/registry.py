"""The known formats of request logs.

To add one: write its module in ``formats``, add a line to ``_ALL``, and its name to ``pipelines/declarations/known_formats.py``, where a
cohort's ``format`` is checked. A log is of the first format here that recognises how it begins; no two should.
"""

from pipelines.traces.formats.aiperf_results import AIPERF_RESULTS
from pipelines.traces.formats.azure_llm import AZURE_LLM
from pipelines.traces.formats.burstgpt import BURSTGPT
from pipelines.traces.formats.generic import GENERIC
from pipelines.traces.formats.llmservingsim import LLMSERVINGSIM
from pipelines.traces.formats.mooncake import MOONCAKE
from pipelines.traces.formats.native import PHASELEDGER
from pipelines.traces.formats.otel_genai import OTEL_GENAI
from pipelines.traces.formats.qwen_bailian import QWEN_BAILIAN
from pipelines.traces.formats.ragpulse import RAGPULSE
from pipelines.traces.formats.servegen import SERVEGEN
from pipelines.traces.formats.sglang_results import SGLANG_RESULTS
from pipelines.traces.formats.splitwise_sim import SPLITWISE_SIM
from pipelines.traces.formats.srt_slurm import SRT_SLURM
from pipelines.traces.formats.vidur import VIDUR
from pipelines.traces.formats.vllm_results import VLLM_RESULTS
from pipelines.traces.trace_format import TraceFormat

_ALL: tuple[TraceFormat, ...] = (
    AZURE_LLM,
    MOONCAKE,
    BURSTGPT,
    QWEN_BAILIAN,
    VIDUR,
    RAGPULSE,
    SERVEGEN,
    SPLITWISE_SIM,
    LLMSERVINGSIM,
    SRT_SLURM,
    VLLM_RESULTS,
    SGLANG_RESULTS,
    AIPERF_RESULTS,
    OTEL_GENAI,
    PHASELEDGER,
    GENERIC,
)

FORMATS: dict[str, TraceFormat] = {known.name: known for known in _ALL}
