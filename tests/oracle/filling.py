"""Fills the parts of a receipt that follow from inputs and requests, as a planner with one consistent mistake would.

The figures at the envelope are searched for here; the verifier only checks them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipelines.oracle import budget as bd
from pipelines.oracle import transfers as tr
from pipelines.oracle.cache import layer_bytes
from pipelines.oracle.equations import decode_work
from pipelines.oracle.findings import round_significant
from pipelines.oracle.memory import batch_cap, mean_tokens, resident_bytes, whole_tokens
from pipelines.oracle.names import BOUNDS
from pipelines.oracle.parameters import (
    BANDWIDTH,
    CURVE,
    HANDOVER,
    OVERHEAD_INPUTS,
    SEPARATED,
    Inputs,
    Parameters,
    Setting,
)
from pipelines.oracle.separation import decoding_of, in_flight_sequences
from pipelines.oracle.topologies import Evaluator
from pipelines.oracle.traffic import Moments, Requests, traffic_of
from pipelines.oracle.words import KV_FORMULA, TRANSFER_FORMULA

Receipt = dict[str, Any]
Change = Callable[[Parameters], Parameters]


def setting_of(inputs: Inputs, bound: str, change: Change) -> Setting:
    """What an evaluation reads, with a mistake in the parameters of both kinds of pools."""
    setting = inputs.setting(bound)
    return replace(setting, mixed=change(setting.mixed), separated=change(setting.separated))


def as_it_is(of: Parameters) -> Parameters:
    return of


def digits(value: float | None) -> float | None:
    """A figure as it is exported."""
    return None if value is None else round_significant(value, 10)


def kv_of(receipt: Receipt, inputs: Inputs, change: Change) -> Receipt:
    dtype, ranks = inputs.nominal("model.kv_dtype"), inputs.nominal("model.tensor_parallel")
    return {
        "formula": KV_FORMULA,
        "kv_dtype": dtype,
        "tensor_parallel": ranks,
        "block_tokens": inputs.nominal("model.block_tokens"),
        "allocation": inputs.nominal("model.kv_allocation"),
        "layers": [
            {"kind": of.kind, "layers": of.layers, "heads": of.heads, "first": of.first, "second": of.second,
             "tokens": of.tokens, "bytes_per_layer": digits(float(layer_bytes(of, dtype, ranks)))}
            for of in inputs.shape
        ],
        **{bound: _kv_bound(change(inputs.parameters(bound)), inputs, bound) for bound in BOUNDS},
        "batch_caps": [_batch_cap(receipt, inputs, change, topology, bound)
                       for topology in inputs.compared if topology != "routed" for bound in BOUNDS],
    }  # fmt: skip


def _kv_bound(of: Parameters, inputs: Inputs, bound: str) -> Receipt:
    cache = of.cache
    return {
        "layout_factor": inputs.at("model.layout_factor", bound),
        "growth_bytes_per_token": digits(cache.growth_bytes),
        "windows": [{"window_tokens": w.tokens, "bytes_per_token": digits(w.bytes_per_token)} for w in cache.windows],
        "state_bytes_per_sequence": digits(cache.state_bytes),
        "allocated_bytes_per_token": digits(cache.allocated_bytes),
        "kv_memory_bytes": digits(of.kv_memory_bytes),
    }


def _batch_cap(receipt: Receipt, inputs: Inputs, change: Change, topology: str, bound: str) -> Receipt:
    separated, whole = topology in SEPARATED, traffic_of(receipt["workload"], inputs, bound).whole
    of = change(inputs.parameters(bound, separated=separated))
    emits = not separated or not of.decode_emits_first_token
    work = decode_work(whole, prefill_emits_first_token=emits)
    tokens = work.resident_tokens
    held = resident_bytes(of, tokens, 1.0)
    return {"topology": topology, "bound": bound, "sequence_tokens": digits(tokens), "sequence_bytes": digits(held),
            "sequences": digits(batch_cap(of, work.steps, tokens)),
            "resident_tokens": digits(of.kv_memory_bytes / held * tokens) if tokens else None}  # fmt: skip


def transfer_of(receipt: Receipt, inputs: Inputs, change: Change) -> Receipt | None:
    if not inputs.separated:
        return None
    affine, curve = BANDWIDTH in inputs.rows, CURVE in inputs.rows
    return {
        "formula": TRANSFER_FORMULA,
        "sources": ["affine"] * affine + ["curve"] * curve,
        "bandwidth_input": BANDWIDTH if affine else None,
        "overhead_inputs": [HANDOVER, *(OVERHEAD_INPUTS if affine else ())],
        **{
            bound: _transfer_bound(
                change(inputs.parameters(bound, separated=True)),
                traffic_of(receipt["workload"], inputs, bound).requests,
            )
            for bound in BOUNDS
        },
        "budget": None,
    }


def _transfer_bound(of: Parameters, requests: Requests) -> Receipt:
    sizes = tuple(tr.moved_bytes(of, mean_tokens(of, tr.tokens_of(of, s))) for s in requests.strata)
    largest = tr.moved_bytes(of, whole_tokens(of, requests.whole.p_max))
    return {
        "overhead_s": None if of.bandwidth_bytes_per_s is None else digits(of.transfer_overhead_s),
        "handover_s": digits(of.handover_s),
        "bandwidth_bytes_per_s": digits(tr.transfer_bandwidth(of)),
        "channels": tr.channels(of),
        "bytes_mean": digits(requests.mean("all", sizes)),
        "bytes_max": digits(largest),
        "leaves_curve": None if of.curve is None else not all(of.curve.covers(size) for size in (*sizes, largest)),
    }


def budget_of(receipt: Receipt, inputs: Inputs, scenario: str | None, change: Change) -> Receipt | None:
    if scenario is None:
        return None
    row = next(row for row in receipt["scenarios"] if row["scenario"] == scenario)
    rows, staging = [], []
    for bound in BOUNDS:
        rate = row["bounds"][bound]["rate_rps"]
        traffic = traffic_of(receipt["workload"], inputs, bound).at_rate(rate)
        reserve = inputs.nominal("objectives.transfer_reserve")
        share = reserve if reserve is not None and bound == "nominal" else 1.0
        envelope = bd.envelope_of(Evaluator(setting_of(inputs, bound, change), traffic), row, share)
        if envelope is not None:
            growth = inputs.nominal("objectives.ttft_growth")
            rows += [{"bound": bound, "bucket": k.bucket, **budget_row(envelope, k, growth)} for k in traffic.buckets]
            staging.append({"bound": bound, **staging_of(envelope)})
    return {
        "scenario": scenario,
        "envelope_s": inputs.nominal("objectives.ttft_growth"),
        "reserve": inputs.nominal("objectives.transfer_reserve"),
        "rows": rows,
        "staging": staging,
    }


def budget_row(envelope: bd.Envelope, k: Moments, growth: float) -> Receipt:
    return {
        "used_s": digits(envelope.used(k)),
        "envelope_share": digits(envelope.used(k) / growth),
        "limit_s": digits(envelope.seconds),
        "limit_share": digits(envelope.used(k) / envelope.seconds),
        "bytes_mean": digits(envelope.bytes_mean(k.bucket)),
        "bytes_at_limit": bytes_at_limit(envelope, k),
        "bandwidth_at_limit_bytes_per_s": bandwidth_at_limit(envelope, k),
        "largest_prompt_tokens": largest_prompt(envelope),
    }


def staging_of(envelope: bd.Envelope) -> Receipt:
    of, p1, transit = envelope.of, envelope.requests.whole.p1, envelope.transit
    per_worker = transit.rate_rps / transit.workers_decode
    moving = p1 * transit.wait_s + transit.movement.prompt_token_s
    in_flight = per_worker * resident_bytes(of, moving, transit.wait_s + transit.movement.mean_s)
    decoding = per_worker * resident_bytes(of, *decoding_of(p1, transit))
    return {
        "in_flight_sequences": digits(in_flight_sequences(transit)),
        "free_sequences": digits(transit.decode.cap - transit.batch),
        "in_flight_bytes": digits(in_flight),
        "free_bytes": digits(of.kv_memory_bytes - decoding),
    }


def turn(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that holds at `low` and not at `high` turns, by bisection of the logarithm."""
    while max(low, high) / min(low, high) > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return round_significant(low, 10)


def bytes_at_limit(envelope: bd.Envelope, k: Moments) -> float | None:
    used = envelope.with_bytes(k)
    if used(bd.LARGEST_BYTES) <= envelope.seconds or used(0.0) > envelope.seconds:
        return None
    return turn(lambda size: used(size) <= envelope.seconds, 1e-6, bd.LARGEST_BYTES)


def bandwidth_at_limit(envelope: bd.Envelope, k: Moments) -> float | None:
    used = envelope.with_bandwidth(k)
    if envelope.of.curve is not None or used(bd.LARGEST_BANDWIDTH) > envelope.seconds:
        return None
    return turn(lambda bandwidth: used(bandwidth) <= envelope.seconds, bd.LARGEST_BANDWIDTH, 1e-6)


def largest_prompt(envelope: bd.Envelope) -> int | None:
    low, high = 0, bd.LARGEST_PROMPT
    if envelope.with_prompt(high) <= envelope.seconds:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if envelope.with_prompt(middle) <= envelope.seconds else (low, middle)
    return low
