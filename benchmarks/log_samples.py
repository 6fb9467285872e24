"""A sample or more of every format of request logs, with a planted text wherever a log may hold one."""

import io
import json
import re
from typing import Any

import polars as pl

CANARY = "zqcanaryzq"
"""Stands for texts, ids and errors: nothing that is read or said may hold it."""


def _parquet(**columns: list[Any]) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(columns).write_parquet(file)
    return file.getvalue()


def _lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _csv(header: str, *rows: str) -> bytes:
    return "\n".join([f"{header},note", *(f"{row},{CANARY}" for row in rows), ""]).encode()


_RUN = {"request_rate": 5.0, "max_concurrency": None, "duration": 6.8, "completed": 4, "total_input_tokens": 205}
_ARRAYS = {
    "input_lens": [47, 50, 61, 47],
    "output_lens": [32, 32, 0, 7],
    "ttfts": [0.2, 0.2, 0.0, 0.2],
    "generated_texts": [CANARY] * 4,
    "errors": ["", "", CANARY, ""],
}
_VLLM = {"date": "20261129-155435", "model_id": CANARY, "tokenizer_id": CANARY, "num_prompts": 4, **_RUN, **_ARRAYS}
_SGLANG = {"backend": "sglang", "total_output_tokens_retokenized": 71, **_RUN, "request_rate": float("inf"), **_ARRAYS}


def _aiperf(start_ns: int, phase: str = "profiling", error: object = None) -> dict[str, Any]:
    metrics = {
        "input_sequence_length": {"value": 62, "unit": "tokens"},
        "output_sequence_length": {"value": 32, "unit": "tokens"},
    }
    metadata = {"x_request_id": CANARY, "request_start_ns": start_ns, "benchmark_phase": phase, "was_cancelled": False}
    return {"metadata": metadata, "metrics": metrics, "error": error}


def _span(attributes: dict[str, object], start_ns: int) -> dict[str, Any]:
    values = [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in attributes.items()
    ]
    return {"spanId": CANARY, "name": CANARY, "startTimeUnixNano": str(start_ns), "attributes": values}


def _spans(start_ns: int, scopes: str = "scopeSpans") -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, scopes: [{"scope": {}, "spans": [_span(_CHAT, start_ns)] * 2}]}]}


_CAPITAL = re.compile(r"(?<=[a-z])[A-Z](?=[A-Za-z]*\":)")
_METRICS = {"resourceMetrics": [{"resource": {}, "scopeMetrics": [{"metrics": [{"name": CANARY}]}]}]}


def _in_snake_case(record: dict[str, Any]) -> dict[str, Any]:
    """A record with the field names of protobuf's other spelling."""
    named: dict[str, Any] = json.loads(_CAPITAL.sub(lambda found: f"_{found[0].lower()}", json.dumps(record)))
    return named


_CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.usage.input_tokens": 20,
    "gen_ai.usage.output_tokens": 5,
}
_UNNAMED = {name: value for name, value in _CHAT.items() if name != "gen_ai.operation.name"}
_SPANS_NS = 1795967458860775817
_HASHED = {"input_length": 1030, "output_length": 9, "hash_ids": [0, 1, 2]}

SAMPLES: dict[str, tuple[bytes, ...]] = {
    "azure-llm": (
        _csv(
            "TIMESTAMP,ContextTokens,GeneratedTokens",
            *(f"2023-11-16 18:17:0{at}.97996,{at + 3},{at + 1}" for at in range(8)),
        ),
    ),
    "mooncake": (_lines(*({"timestamp": at * 3000, **_HASHED} for at in range(6))),),
    "burstgpt": (
        _csv(
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
            *(f"{at},ChatGPT,472,{at},490,API log" for at in range(8)),
        ),
        _csv(
            "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type",
            *(f"{at}.5,1,2.5,GPT-4,4,{at},5,API log" for at in range(8)),
        ),
    ),
    "qwen-bailian": (
        _lines(
            *(
                {
                    "chat_id": at,
                    "parent_chat_id": -1,
                    "timestamp": at / 8,
                    "input_length": 40,
                    "output_length": 9,
                    "type": "text",
                    "turn": 1,
                    "hash_ids": [1, 2, at],
                }
                for at in range(6)
            )
        ),
    ),
    "vidur": (
        _csv("arrived_at,num_prefill_tokens,num_decode_tokens", *(f"{at}.25,{at + 3},{at + 1}" for at in range(8))),
        _csv("num_prefill_tokens,num_decode_tokens", *(f"{at + 3},{at + 1}" for at in range(8))),
    ),
    "ragpulse": (
        _lines(
            *(
                {"timestamp": f"{at}.5", "input_length": 30, "output_length": 9, "hash_ids": {"sys": [1], "doc": [2]}}
                for at in range(6)
            )
        ),
    ),
    "servegen": (
        b"0,0,0,,0,0\n600,0.085,6.69,Gamma,0.0223,73.0\n1200,0.39,0.91,Weibull,1.19,2.07\n1800,0.01,1,Gamma,2,50\n2400,0,0,,0,0\n",
    ),
    "splitwise-sim": (
        _csv(
            "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size",
            *(f"{at},2,0,{at}.5,1,{at + 3},{at + 1}" for at in range(8)),
        ),
    ),
    "llmservingsim": (
        _lines(
            *(
                {
                    "input_toks": 13,
                    "output_toks": 5,
                    "arrival_time_ns": at * 10**8,
                    "input_tok_ids": [1, 2],
                    "text": CANARY,
                }
                for at in range(6)
            )
        ),
    ),
    "srt-slurm": (
        _lines(
            *(
                {
                    "session_id": CANARY,
                    "input_length": 700,
                    "output_length": 9,
                    "hash_ids": [1, 2],
                    **({"delay": 500} if at % 3 else {"timestamp": at * 900}),
                }
                for at in range(7)
            )
        ),
    ),
    "vllm-results": (
        json.dumps(_VLLM | {"start_times": [3599.7, 3599.9, 3600.0, 3601.5]}).encode(),
        json.dumps(_VLLM, indent=1).encode(),
    ),
    "sglang-results": (json.dumps(_SGLANG).encode() + b"\n",),
    "aiperf-results": (
        _lines(
            _aiperf(1, "warmup"),
            *(_aiperf(1795967458860775817 + at, error=None if at % 3 else {"message": CANARY}) for at in range(5)),
        ),
    ),
    "otel-genai": (
        _lines(*(_spans(_SPANS_NS + at) for at in range(3))),
        _lines(_METRICS, *(_spans(_SPANS_NS + at, "instrumentationLibrarySpans") for at in range(2)), _METRICS),
        _lines(*(_in_snake_case(_spans(_SPANS_NS + at)) for at in range(3))),
        json.dumps(_spans(_SPANS_NS), indent=1).encode(),
        _lines(*(_span(_UNNAMED, _SPANS_NS + at) for at in range(5))),
        _lines(*({"name": CANARY, "startTimeUnixNano": _SPANS_NS + at, "attributes": _UNNAMED} for at in range(5))),
        _lines(
            *(
                {
                    "name": CANARY,
                    **({"context": {"span_id": CANARY}} if at else {}),
                    "start_time": f"2026-03-02T10:00:0{at}.5Z",
                    "status": {},
                    "attributes": _CHAT,
                }
                for at in range(5)
            )
        ),
    ),
    "phaseledger": (
        _csv(
            "arrival_s,prompt_tokens,output_tokens,cached_prompt_tokens,model",
            *(f"{at}.5,{at + 3},{at + 1},{at},m" for at in range(8)),
        ),
        _lines(*({"arrival_s": f"{at}.5", "prompt_tokens": 5, "output_tokens": at + 1} for at in range(6))),
        _parquet(arrival_s=[0.5, 1.5, 9.25], prompt_tokens=[5, 6, 7], output_tokens=[1, 2, 3], note=[CANARY] * 3),
    ),
    "generic": (
        _csv("at,prompt,output", *(f"{at}.5,{at + 3},{at + 1}" for at in range(8))),
        _lines(*({"at": at, "prompt": 5, "output": at + 1, "note": CANARY} for at in range(6))),
    ),
}

LENGTHS = json.dumps(
    {
        "0": {"input_tokens": "{}", "output_tokens": "{}", "reason_ratio": "{}"},
        "600": {
            "input_tokens": "{60: 0.5, 61: 0.25, 4000: 0.25}",
            "output_tokens": "{10: 0.5, 200: 0.5}",
            "reason_ratio": "{0.5: 1.0}",
        },
        "1800": {
            "text_tokens": "{56: 1.0}",
            "output_tokens": "{2: 1.0}",
            "image_count": "{0: 0.5, 2: 0.5}",
            "image_tokens": "{9: 0.5, 1280: 0.5}",
        },
    }
).encode()
