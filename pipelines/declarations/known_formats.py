"""The names of the trace formats: this room checks what a cohort names, and reads no log."""

GENERIC = "generic"
"""The format of logs of no known format, whose columns the cohort names."""

TRACE_FORMATS: tuple[str, ...] = (
    "azure-llm",
    "mooncake",
    "burstgpt",
    "qwen-bailian",
    "vidur",
    "ragpulse",
    "servegen",
    "splitwise-sim",
    "llmservingsim",
    "srt-slurm",
    "vllm-results",
    "sglang-results",
    "aiperf-results",
    "otel-genai",
    "phaseledger",
    GENERIC,
)
