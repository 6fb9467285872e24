"""What a cache of several kinds of layers moves, holds and leaves room for, worked out by hand: requests and costs are those of worked.py.

STEADY on one mixed worker (test_hand_worked_whole_prompts.py) is held for E[p·S] + p1·dw + t·(PD + D2/2) = 110 + 1000·dw + 105000·t
token-seconds and S̄ + dw + 100·t s, with the dw and t worked out there. Half of the default layers are 5 x 5 heads x 100 x 2 bytes = 5 kB
a token.
"""

import math
from typing import Any

import pytest

from pipelines.frames.inputs import InputTable
from pipelines.topologies.memory import kv_memory_bytes, served_cache
from tests.plans import Ranged, evaluation_of, in_pairs, inputs_frame_of, row_of
from tests.topologies.by_hand import decode_pool, run_of, whole_prompts
from tests.topologies.worked import FIVE, STEADY, close, loads_of

AT_REST = whole_prompts(FIVE)
THETA, PSI = 110 + 1000 * AT_REST.dw + 105_000 * AT_REST.t, 0.11 + AT_REST.dw + 100 * AT_REST.t
HALF_WINDOWS = "full:5x5x50+50 window:5x5x50+50@512"


def mixed(bound: str = "nominal", **overrides: Any) -> dict[str, Any]:
    return row_of(evaluation_of("aggregated", inputs_frame_of(**overrides), STEADY), "aggregated/n1", bound)


def separate(bound: str = "nominal", **overrides: Any) -> dict[str, Any]:
    return row_of(evaluation_of("disaggregated", inputs_frame_of(**overrides), STEADY), "disaggregated/p1/d1", bound)


class TestMoved:
    """Of 1000 tokens over 1 GB/s, with 5 ms of overhead."""

    @pytest.mark.parametrize(
        ("shape", "size"),
        [
            (HALF_WINDOWS, 5000 * 1000 + 5000 * 512),
            ("full:5x5x50+50 window:5x5x50+50@1000", 5000 * 1000 + 5000 * 1000),
            ("full:5x5x50+50 window:5x5x50+50@4096", 5000 * 1000 + 5000 * 1000),
            ("full:4x5x50+50 window:3x5x50+50@512 window:3x5x50+50@128", 4000 * 1000 + 3000 * (512 + 128)),
            # a recurrent state of 4 heads x 1000 x 4 bytes and 600 x 2 bytes of convolution in each of 5 layers
            ("full:5x5x50+50 state:5x4x1000+600", 5000 * 1000 + 5 * (16_000 + 1200)),
            # an index of 128 bytes and 4 of scale a token
            ("full:5x5x50+50 index:5x1x128+4", (5000 + 5 * 132) * 1000),
        ],
    )
    def test_by_kind_of_layers(self, shape: str, size: float) -> None:
        assert separate(cache=shape)["kv_movement_s"] == close(0.005 + size / 1e9)

    def test_ranks_hold_a_latent_each(self) -> None:
        """8 ranks x 61 layers x 576 elements x 2 bytes; packed in fp8: 512 + 4 scales of 4 + 64 x 2 = 656 bytes."""
        latent = {"cache": "latent:61x1x512+64", "w": 1e11, "kv_memory": 1e12}
        assert separate(**latent)["kv_movement_s"] == close(0.005 + 61 * 576 * 2 * 1000 / 1e11)
        assert separate(**latent, tensor_parallel=8)["kv_movement_s"] == close(0.005 + 8 * 61 * 576 * 2 * 1000 / 1e11)
        packed = separate(**latent, tensor_parallel=8, kv_dtype="fp8_ds_mla")
        assert packed["kv_movement_s"] == close(0.005 + 8 * 61 * 656 * 1000 / 1e11)

    def test_more_ranks_than_heads_hold_some_twice(self) -> None:
        """Of 5 heads each of 8 ranks holds one: 5 layers x 8 x 100 x 2 bytes = 8 kB a token.

        State: a rank holds one head of 4000 bytes and a quarter of 600 convolution elements, 300 bytes.
        """
        row = separate(cache="full:5x5x50+50 state:5x4x1000+600", tensor_parallel=8)
        assert row["kv_movement_s"] == close(0.005 + (8000 * 1000 + 5 * 8 * (4000 + 300)) / 1e9)

    def test_the_layout_takes_its_share_of_everything(self) -> None:
        shape = "full:5x5x50+50 window:2x5x50+50@512 state:5x4x1000+600"
        padded = {"cache": shape, "layout_factor": Ranged(1.25, high=1.5)}
        size = 5000 * 1000 + 2000 * 512 + 86_000
        assert separate(**padded)["kv_movement_s"] == close(0.005 + 1.25 * size / 1e9)
        assert separate("conservative", **padded)["kv_movement_s"] == close(0.005 + 1.5 * size / 1e9)

    def test_a_prompt_ends_anywhere_in_its_last_block_and_the_longest_fills_it(self) -> None:
        """Blocks of 16: 1000 tokens take 1007.5 on average, of which a window holds 512; the longest prompt takes 63 blocks, 1008.

        With the first token by prefill 200 decode steps a second, t = 0.0105/0.9 s. The stall is a run of transfers, the longest of
        which is whole in blocks, its own, a slot and two long steps.
        """
        row = separate(cache=HALF_WINDOWS, block_tokens=16, first_token="prefill")
        assert row["kv_movement_s"] == close(0.005 + (5000 * 1007.5 + 5000 * 512) / 1e9)
        longest = 0.005 + (5000 * 1008 + 5000 * 512) / 1e9
        usual, pool = row["kv_movement_s"], decode_pool(FIVE, g=1)
        run = run_of([usual] * 5, longest, 2.0, 1, 0.0, 5)
        assert row["stall_s"] == close(run + longest + pool.slot + 2 * pool.longest)


class TestHeld:
    """By mixed workers, at two requests a second, of 1 GB."""

    def test_uniform_gives_every_layer_the_full_length(self) -> None:
        assert mixed(cache=HALF_WINDOWS)["load_kv_mixed"] == close(2 * 10_000 * THETA / 1e9)

    def test_by_kind_a_window_holds_itself_at_most(self) -> None:
        held = 5000 * THETA + 5000 * 512 * PSI
        assert mixed(cache=HALF_WINDOWS, allocation="by_kind")["load_kv_mixed"] == close(2 * held / 1e9)

    def test_by_kind_a_window_that_is_not_full_holds_what_there_is(self) -> None:
        shape = "full:5x5x50+50 window:5x5x50+50@2048"
        assert mixed(cache=shape, allocation="by_kind")["load_kv_mixed"] == close(2 * 10_000 * THETA / 1e9)

    @pytest.mark.parametrize("allocation", ["uniform", "by_kind"])
    def test_a_state_is_held_for_as_long_as_its_sequence(self, allocation: str) -> None:
        row = mixed(cache="full:5x5x50+50 state:5x4x1000+600", allocation=allocation)
        assert row["load_kv_mixed"] == close(2 * (5000 * THETA + 86_000 * PSI) / 1e9)

    def test_blocks_add_half_a_block_less_half_a_token_to_each_sequence(self) -> None:
        """(16 - 1)/2 = 7.5 tokens."""
        assert mixed(block_tokens=16)["load_kv_mixed"] == close(2 * 10_000 * (THETA + 7.5 * PSI) / 1e9)

    def test_separate_pools_hold_windows_while_caches_move(self) -> None:
        """t = 0.0105/0.899 s, T = 0.005 + 7.56 MB/1 GB/s; decoding holds t·106100.5 token-seconds in 101·t seconds."""
        row = separate(cache=HALF_WINDOWS, allocation="by_kind")
        t, transfer = 0.0105 / 0.899, 0.01256
        wait = 0.5 * 2 * transfer / (1 - 2 * transfer) * transfer
        assert (row["kv_movement_s"], row["transfer_wait_s"]) == close((transfer, wait))
        moving = wait + transfer
        prefill = 5000 * (110 + 1000 * moving) + 5000 * 512 * (0.11 + moving)
        after = moving + row["decode_wait_s"]
        decode = 5000 * (1000 * after + t * 106_100.5) + 5000 * 512 * (after + 101 * t)
        assert (row["load_kv_prefill"], row["load_kv_decode"]) == close((2 * prefill / 1e9, 2 * decode / 1e9))


class TestMemoryOfAWorker:
    def memory(self, **overrides: Any) -> tuple[float, float]:
        table = InputTable.of(inputs_frame_of(**overrides))
        return kv_memory_bytes(table, "nominal"), kv_memory_bytes(table, "conservative")

    def test_declared(self) -> None:
        assert self.memory(kv_memory=Ranged(4e8, 3e8, 5e8)) == (4e8, 3e8)

    def test_tokens_of_an_engine_times_what_all_layers_take_of_one(self) -> None:
        """10 kB a token; under the conservative bound fewer tokens, of 15 kB each."""
        tokens = {"kv_memory": None, "kv_tokens": Ranged(20_000, low=16_000), "layout_factor": Ranged(1, high=1.5)}
        assert self.memory(**tokens) == (2e8, 16_000 * 15_000)
        assert self.memory(**tokens, cache=HALF_WINDOWS) == (2e8, 16_000 * 15_000)
        # whatever the bytes, so many of 20000 or 16000 tokens
        assert mixed(**tokens)["load_kv_mixed"] == close(2 * THETA / 20_000)
        assert mixed("conservative", **tokens)["load_kv_mixed"] == close(2 * THETA / 16_000)

    def test_what_weights_and_activations_leave(self) -> None:
        """2 x 1 GB x 0.9 - 0.8 - 0.2 GB = 0.8 GB; at the other ends 2 x 0.9 GB x 0.8 - 0.9 - 0.24 GB = 0.3 GB."""
        left = {
            "kv_memory": None,
            "gpus_per_worker": 2,
            "gpu_memory": Ranged(1e9, 0.9e9, 1.1e9),
            "utilization": Ranged(0.9, 0.8, 0.95),
            "weights": Ranged(0.8e9, 0.7e9, 0.9e9),
            "activations": Ranged(0.2e9, high=0.24e9),
        }
        assert self.memory(**left) == close((0.8e9, 0.3e9))
        assert mixed(**left)["load_kv_mixed"] == close(2e4 * THETA / 0.8e9)
        assert mixed("conservative", **left)["load_kv_mixed"] == close(2e4 * THETA / 0.3e9)

    def test_without_layers_that_have_tokens_there_is_nothing_to_count(self) -> None:
        states = served_cache(InputTable.of(inputs_frame_of(cache="state:5x4x1000+600")))
        assert (states.allocated, states.state) == (0, 86_000)


class TestBatchCap:
    """A decoding sequence holds R = 1000 + 100/2 = 1050 tokens, 10.5 MB; 1050.5 tokens where decode emits the first one."""

    B = AT_REST.b

    @pytest.mark.parametrize("cap", [4.0, 3.7])
    def test_memory_for_fewer_sequences_than_slots(self, cap: float) -> None:
        """42 MB are 4 of 7; a part of a sequence counts as that part."""
        row = mixed(kv_memory=cap * 10.5e6)
        sigma = self.B / cap
        slot = 0.5 * sigma ** (math.sqrt(2 * (cap + 1)) - 1) / (cap * (1 - sigma)) * 100 * AT_REST.t
        assert row["prefill_wait_s"] == close(AT_REST.w + AT_REST.w_res + slot)
        assert loads_of(row) == close({"mixed": 0.32, "slots_mixed": sigma, "kv_mixed": 2 * THETA / (cap * 1050)})

    def test_of_a_decode_worker(self) -> None:
        row = separate(kv_memory=4 * 10.505e6)
        t, b = 0.0105 / 0.899, 2.121 / 0.899
        slot = 0.5 * (b / 4) ** (math.sqrt(10) - 1) / (4 - b) * 101 * t
        assert row["decode_wait_s"] == close((1 - 0.899**21) * t / 2 + slot)
        in_flight = 2 * (0.5 * 0.03 / 0.97 * 0.015 + 0.015)
        assert (row["load_slots_decode"], row["load_staging"]) == close((b / 4, in_flight / (4 - b)))

    def test_each_bound_has_its_own(self) -> None:
        """12 kB a token and 63 MB: 63/12.6 = 5 sequences; nominal 105 MB/10.5 MB = 10, more than the slots."""
        inputs = {"kv_memory": Ranged(1.05e8, low=6.3e7), "layout_factor": Ranged(1, high=1.2)}
        assert mixed(**inputs)["load_slots_mixed"] == close(self.B / 7)
        assert mixed("conservative", **inputs)["load_slots_mixed"] == close(self.B / 5)

    def test_windows_make_room_where_they_are_bounded(self) -> None:
        """5 kB x 1050 + 5 kB x 512 = 7.81 MB by kind: 4 sequences in 31.24 MB; uniform 10.5 MB: 2.98 of them, more than full."""
        windows = {"cache": HALF_WINDOWS, "kv_memory": 31.24e6}
        assert mixed(**windows, allocation="by_kind")["load_slots_mixed"] == close(self.B / 4)
        row = mixed(**windows)
        assert (row["refusal_kind"], row["refusal_resource"]) == ("kv_memory", "slots_mixed")
        assert row["refusal_figure"] == close(self.B * 10.5 / 31.24)

    def test_states_and_blocks_are_part_of_a_sequence(self) -> None:
        """5 kB x (1050 + 7.5) + 86 kB = 5.3735 MB."""
        row = mixed(cache="full:5x5x50+50 state:5x4x1000+600", block_tokens=16, kv_memory=4 * 5.3735e6)
        assert row["load_slots_mixed"] == close(self.B / 4)

    @pytest.mark.parametrize(("memory", "kind"), [(31.5e6, "slots"), (31.4e6, "kv_memory")])
    def test_slots_are_named_where_memory_holds_as_many(self, memory: float, kind: str) -> None:
        row = mixed(slots=3, kv_memory=memory)
        assert (row["refusal_kind"], row["refusal_resource"], row["refusal_limit"]) == (kind, "slots_mixed", 0.9)
        assert row["refusal_figure"] == close(self.B * 10.5e6 / min(memory, 31.5e6))

    @pytest.mark.parametrize("scenario", ["aggregated/n1", "chunked/n1/c2000", "disaggregated/p1/d1"])
    def test_less_than_one_sequence_is_refused_however_few_decode(self, scenario: str) -> None:
        """Two tokens each: R = 1000.5, or 1001 of two steps; 9.9 MB are less than either, 10.01 MB hold one."""
        pairs = in_pairs(*[(1000, 2)] * 5)
        rows = {
            memory: row_of(
                evaluation_of(
                    scenario.partition("/")[0],
                    inputs_frame_of(kv_memory=memory, chunk_tokens="2000"),
                    pairs,
                ),
                scenario,
            )
            for memory in (9.9e6, 10.01e6)
        }
        held = 10.01e6 if scenario.startswith("disaggregated") else 10.005e6
        short = rows[9.9e6]
        resource = "slots_decode" if scenario.startswith("disaggregated") else "slots_mixed"
        assert (short["refusal_kind"], short["refusal_resource"]) == ("kv_memory", resource)
        assert short["refusal_figure"] == close(held / 9.9e6)
        assert rows[10.01e6]["status"] == "evaluated"

    def test_where_nothing_decodes_slots_are_those_declared(self) -> None:
        """One token each: 2·110 token-seconds of prefill are 2.2 MB."""
        requests = in_pairs(*[(1000, 1)] * 5)
        full, spare = (
            row_of(evaluation_of("aggregated", inputs_frame_of(kv_memory=memory), requests), "aggregated/n1")
            for memory in (2e6, 2.3e6)
        )
        assert (full["refusal_kind"], full["refusal_resource"], full["load_slots_mixed"]) == (
            "kv_memory",
            "kv_mixed",
            0,
        )
        assert full["refusal_figure"] == close(1.1)
        assert spare["status"] == "evaluated"
