"""The parameters of the equations: what each bound takes from the inputs table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

ELEMENT_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
RATE, CONCURRENCY, ARRIVAL_SCV = "requests.rate", "requests.concurrency", "requests.arrival_scv"
HIT_RATIO = "service.prefill.prefix_hit_ratio"
OVERHEAD_INPUTS = ("network.registration", "network.synchronization", "network.receiver_visibility")


@dataclass(frozen=True)
class Parameters:
    """Every number an evaluation reads, at one bound, with its symbol in docs/arithmetic.md section 1."""

    admission_s: float
    prefill_overhead_s: float
    prefill_tokens_per_s: float
    prefill_s_per_token2: float
    prefill_ceiling: float
    step_overhead_s: float
    decode_tokens_per_s: float
    decode_s_per_context_token: float
    max_sequences: float
    decode_ceiling: float
    kv_memory_bytes: float
    kv_bytes_per_token: float
    ttft_objective_s: float
    tpot_objective_s: float
    round_robin: bool
    decode_emits_first_token: bool
    links: float = 1.0
    bandwidth_bytes_per_s: float = 1.0
    transfer_overhead_s: float = 0.0
    overlap: float = 0.0
    link_ceiling: float = 1.0
    ttft_growth_s: float | None = None

    @property
    def mixed_ceiling(self) -> float:
        """`u_m`: the ceiling of a pool that does both phases."""
        return min(self.prefill_ceiling, self.decode_ceiling)


@dataclass(frozen=True)
class Inputs:
    """The inputs table of a receipt, found to be complete and in range."""

    rows: Mapping[str, Mapping[str, Any]]
    compared: tuple[str, ...]
    chunk_tokens: tuple[int, ...]

    @property
    def workers(self) -> int:
        """`W`: workers the inventory can hold."""
        return int(self.rows["inventory.gpus"]["value"] // self.rows["inventory.gpus_per_worker"]["value"])

    def nominal(self, path: str) -> Any:
        """Return the declared value at a path, or None where it is not declared."""
        return self.rows[path]["value"] if path in self.rows else None

    def at(self, path: str, bound: str) -> Any:
        """Return the value that a bound takes at a path, or None where it is not declared."""
        return self.rows[path]["value" if bound == "nominal" else "conservative"] if path in self.rows else None

    def kv_bytes_per_token(self, bound: str) -> Fraction:
        """`κ` (docs/arithmetic.md section 2), exactly; bytes per token."""
        shape = [int(self.at(f"model.{name}", bound)) for name in ("layers", "kv_heads", "head_dim")]
        element_bytes = ELEMENT_BYTES[self.at("model.kv_dtype", bound)]
        return 2 * shape[0] * shape[1] * shape[2] * element_bytes * Fraction(self.at("model.layout_factor", bound))

    def parameters(self, bound: str) -> Parameters:
        """Collect what an evaluation reads at one bound."""
        return Parameters(
            admission_s=self.at("service.admission", bound),
            prefill_overhead_s=self.at("service.prefill.overhead", bound),
            prefill_tokens_per_s=self.at("service.prefill.tokens_per_second", bound),
            prefill_s_per_token2=self.at("service.prefill.seconds_per_token_squared", bound),
            prefill_ceiling=self.at("service.prefill.utilization_ceiling", bound),
            step_overhead_s=self.at("service.decode.step_overhead", bound),
            decode_tokens_per_s=self.at("service.decode.tokens_per_second", bound),
            decode_s_per_context_token=self.at("service.decode.seconds_per_context_token", bound),
            max_sequences=self.at("service.decode.max_sequences", bound),
            decode_ceiling=self.at("service.decode.utilization_ceiling", bound),
            kv_memory_bytes=self.at("inventory.kv_memory_per_worker", bound),
            kv_bytes_per_token=float(self.kv_bytes_per_token(bound)),
            ttft_objective_s=self.at("objectives.ttft", bound),
            tpot_objective_s=self.at("objectives.tpot", bound),
            round_robin=self.at("service.dispatch", bound) == "round_robin",
            decode_emits_first_token=self.at("service.first_token_source", bound) == "decode",
            ttft_growth_s=self.at("objectives.ttft_growth", bound),
            **self._network(bound),
        )

    def _network(self, bound: str) -> dict[str, float]:
        if "network.links" not in self.rows:
            return {}
        return {
            "links": float(self.at("network.links", bound)),
            "bandwidth_bytes_per_s": float(self.at("network.effective_bandwidth", bound)),
            "transfer_overhead_s": float(sum(Fraction(self.at(path, bound)) for path in OVERHEAD_INPUTS)),
            "overlap": float(self.at("network.overlap", bound)),
            "link_ceiling": float(self.at("network.utilization_ceiling", bound)),
        }
