"""`phaseledger kv`, as a person or a script calls it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cli.kv_arguments import shape_by_hand
from pipelines.declarations import model_configs
from pipelines.declarations.cache import CacheLayers, shape_text
from pipelines.declarations.model_cache import Factor, LayersWithout, ModelCache, ReadLayers
from tests.cli.kv_calls import found, kv, said

GPT_OSS = "full:18x8x64 window:18x8x64@128"
FORM = "[kind:]LAYERSxHEADSxKEY[+VALUE][@TOKENS], as in 32x8x128, 'full:18x8x64 window:18x8x64@128' or latent:61x512+64"
NAMES = "fp32, bf16, fp16, fp8, int8, fp4, fp8_ds_mla"


def explained(*arguments: str) -> str:
    """The text with --explain, its wrapped lines joined again."""
    return " ".join(said(*arguments, "--explain"))


def factors(**numbers: tuple[int, str]) -> tuple[Factor, ...]:
    return tuple(Factor(name, value, source) for name, (value, source) in numbers.items())


QWEN = ModelCache(
    "qwen3",
    (
        ReadLayers(
            CacheLayers("full", 36, 8, 128, 128),
            "keys and values of every token",
            factors(
                layers=(36, "num_hidden_layers 36"),
                heads=(8, "num_key_value_heads 8"),
                first=(128, "head_dim 128"),
                second=(128, "head_dim 128"),
            ),
        ),
    ),
    without=(LayersWithout(4, "they do not attend", "layer_types: 4 of 40"),),
    notes=("draft layers are not counted",),
    context_tokens=40_960,
)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file that is read as QWEN, whatever is in it."""
    monkeypatch.setattr(model_configs, "read_model_cache", lambda file: QWEN, raising=False)
    return str(tmp_path / "config.json")


def test_the_text_names_units_and_kinds(config: str) -> None:
    lines = said(config)
    assert lines[0] == f"{config}: qwen3"
    assert "36 keys and values of every token 8 key 128 + value 128 - 147,456 per token" in lines
    assert "4 layers keep nothing: they do not attend (layer_types: 4 of 40)" in lines
    assert "kv_bytes_per_token 147,456 144 KiB" in lines
    assert "allocated_bytes_per_token 147,456 144 KiB" in lines
    assert "to send kv_bytes_per_token of every token" in lines
    assert lines[-1] == "note: draft layers are not counted"


def test_an_explanation_has_every_factor_and_where_it_was_read(config: str) -> None:
    assert (
        "keys and values of every token: 2 (key and value) x 8 heads (num_key_value_heads 8) x 128 (head_dim 128) "
        "x 2 bytes (--kv-dtype bf16) = 4,096 bytes per token and layer; x 36 layers (num_hidden_layers 36) = 147,456"
    ) in explained(config)
    assert not any("num_hidden_layers" in line for line in said(config))


def test_json_has_every_factor_and_where_it_was_read(config: str) -> None:
    read = found(config)
    assert (read["file"], read["family"], read["context_tokens"]) == (config, "qwen3", 40_960)
    assert read["formula"][0]["factors"] == [
        {"name": "layers", "value": 36, "read_from": "num_hidden_layers 36"},
        {"name": "heads", "value": 8, "read_from": "num_key_value_heads 8"},
        {"name": "first", "value": 128, "read_from": "head_dim 128"},
        {"name": "second", "value": 128, "read_from": "head_dim 128"},
        {"name": "element_bytes", "value": 2, "read_from": "--kv-dtype bf16"},
    ]
    assert read["layers_without"] == [
        {"layers": 4, "meaning": "they do not attend", "read_from": "layer_types: 4 of 40"}
    ]
    assert read["notes"] == ["draft layers are not counted"]


def test_more_tokens_than_the_context_are_noted(config: str) -> None:
    assert "40,961 tokens are more than the model's context of 40,960" in found(config, "--tokens", "40961")["notes"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("--shape", "latent:78x512+64", "--kv-dtype", "fp8_ds_mla"),
            "latent of 512 (--shape) x 1 byte + 4 scales (1 per 128) x 4 bytes + 64 with the position (--shape) x 2 bytes "
            "(--kv-dtype fp8_ds_mla) = 656 bytes per token and layer; x 78 layers (--shape) = 51,168",
        ),
        (
            ("--shape", "latent:61x512+64"),
            "(latent of 512 (--shape) + 64 with the position (--shape)) x 2 bytes (--kv-dtype bf16) "
            "= 1,152 bytes per token and layer; x 61 layers (--shape) = 70,272",
        ),
        (
            ("--shape", "index:78x128+4"),
            "index vector of 128 (--shape) x 1 byte (engines keep an index in fp8 with its scale, whatever --kv-dtype says) "
            "+ 4 bytes of scale (--shape) = 132 bytes per token and layer; "
            "x 78 layers (--shape) = 10,296",
        ),
        (
            ("--shape", "state:2x3x100+50"),
            "3 heads (--shape) x state of 100 (--shape) x 4 bytes (fp32) + convolution of 50 (--shape) x 2 bytes (16 bits) "
            "= 1,300 bytes per sequence and layer; x 2 layers (--shape) = 2,600",
        ),
        (
            ("--shape", "window:1x1x192+128@512"),
            "1 head (--shape) x (key of 192 (--shape) + value of 128 (--shape)) x 2 bytes (--kv-dtype bf16) "
            "= 640 bytes per token and layer; x 1 layer (--shape) = 640, of the last 512 tokens (--shape)",
        ),
        (
            ("--shape", "window:1x1x4@1"),
            "2 (key and value) x 1 head (--shape) x 4 (--shape) x 2 bytes (--kv-dtype bf16) "
            "= 16 bytes per token and layer; x 1 layer (--shape) = 16, of the last 1 token (--shape)",
        ),
        (
            ("--shape", "cross:4x6x64@1500", "--kv-dtype", "fp8"),
            "2 (key and value) x 6 heads (--shape) x 64 (--shape) x 1 byte (--kv-dtype fp8) "
            "= 768 bytes per encoder position and layer; x 4 layers (--shape) = 3,072, of 1,500 encoder positions (--shape)",
        ),
    ],
)
def test_each_kind_of_layers_has_its_formula(arguments: tuple[str, ...], text: str) -> None:
    assert found(*arguments)["formula"][0]["text"] == text


def test_ranks_have_figures_of_their_own() -> None:
    read = found("--shape", "94x4x128", "--tp", "8", "--tokens", "32768")
    assert read["kv_bytes_per_token"] == 192_512
    assert read["per_rank"]["kv_bytes_per_token"] == 48_128
    assert read["all_ranks"]["kv_bytes_per_token"] == 385_024
    assert read["all_ranks"]["kv_bytes"] == 385_024 * 32_768
    assert read["notes"] == ["4 KV heads (full) on 8 ranks: each is kept 2 times"]
    lines = said("--shape", "94x4x128", "--tp", "8")
    assert "one copy one rank all 8 ranks" in lines
    assert "kv_bytes_per_token 192,512 188 KiB 48,128 47 KiB 385,024 376 KiB" in lines


@pytest.mark.parametrize(
    ("shape", "ranks", "note"),
    [
        (
            "2x8x64",
            "3",
            "8 KV heads (full) do not divide by 3 ranks: the rank with the most (3) is shown, and all ranks are counted like it",
        ),
        ("2x2x64", "3", "2 KV heads (full) on 3 ranks: each is kept 1 or 2 times"),
        ("2x2x64 window:2x2x64@8", "4", "2 KV heads (full, window) on 4 ranks: each is kept 2 times"),
        ("latent:2x64+8", "3", "a latent is shared by all heads: each of the 3 ranks keeps all of it"),
        ("2x8x64", "4", None),
        ("latent:2x64+8", "1", None),
    ],
)
def test_what_ranks_hold_more_than_once_is_noted(shape: str, ranks: str, note: str | None) -> None:
    assert found("--shape", shape, "--tp", ranks)["notes"] == ([note] if note else [])


def test_growth_windows_and_allocation_are_apart() -> None:
    read = found("--shape", GPT_OSS, "--tokens", "1000", "--block-tokens", "16")
    assert read["kv_bytes_per_token"] == 2 * 18 * 8 * 64 * 2 == 36_864
    assert (read["window_bytes_per_token"], read["window_tokens"]) == (36_864, 128)
    assert read["allocated_bytes_per_token"] == 73_728
    assert read["kv_bytes"] == 36_864 * 1000 + 36_864 * 128
    assert read["kv_bytes_in_blocks"] == 36_864 * 1008 + 36_864 * 128
    assert read["allocated_bytes"] == 73_728 * 1000
    assert read["allocated_bytes_in_blocks"] == 73_728 * 1008


def test_several_windows_are_listed() -> None:
    read = found("--shape", "window:2x1x64@512 window:1x1x64@128 window:1x1x64@512")
    assert read["window_tokens"] is None
    assert read["windows"] == [{"tokens": 128, "bytes_per_token": 256}, {"tokens": 512, "bytes_per_token": 768}]
    assert read["window_bytes_per_token"] == 1024
    assert "windows 256 of 128 tokens; 768 of 512 tokens" in said("--shape", "window:3x1x64@512 window:1x1x64@128")


def test_encoder_positions_are_the_models_or_those_given() -> None:
    whisper = ("--shape", "full:4x6x64 cross:4x6x64@1500", "--tokens", "100")
    assert found(*whisper)["kv_bytes"] == 6144 * 100 + 6144 * 1500
    assert found(*whisper, "--encoder-tokens", "0")["kv_bytes"] == 6144 * 100
    t5 = ("--shape", "full:4x6x64 cross:4x6x64", "--tokens", "100")
    note = "tokens of the prompt are positions of the encoder, which are not counted without --encoder-tokens"
    assert (found(*t5)["kv_bytes"], found(*t5)["notes"]) == (6144 * 100, [note])
    assert found(*t5, "--encoder-tokens", "7")["kv_bytes"] == 6144 * 107
    assert found(*t5, "--encoder-tokens", "7")["notes"] == []


def test_memory_holds_tokens_and_sequences_of_all_ranks() -> None:
    read = found("--shape", "94x4x128", "--tp", "8", "--memory", "40 GiB", "--tokens", "32768", "--block-tokens", "16")
    blocks = 40 * 2**30 // (385_024 * 16)
    assert read["tokens_that_fit"] == blocks * 16 == 111_536
    assert read["sequences_that_fit"] == 40 * 2**30 // (385_024 * 32_768) == 3
    lines = said("--shape", "32x8x128", "--memory", "1 GiB")
    assert "fit 8,192 tokens at allocated_bytes_per_token in 1,073,741,824 bytes (1 GiB)" in lines


def test_a_model_without_growing_layers_holds_sequences() -> None:
    read = found("--shape", "state:32x40x4096+5120", "--memory", "1 GiB")
    assert (read["tokens_that_fit"], read["sequences_that_fit"]) == (None, 2**30 // 21_299_200)
    assert "no layer keeps anything per token: sequences fit, whatever their length" in read["notes"]
    assert found("--shape", "cross:6x8x64", "--memory", "1 GiB", "--tokens", "1")["sequences_that_fit"] is None


def test_tokens_of_a_model_with_a_state_are_those_of_a_single_sequence() -> None:
    hybrid = ("--shape", "full:12x2x256 state:36x64x16384+36864", "--memory")
    assert found(*hybrid, "1 GiB")["tokens_that_fit"] == (2**30 - 153_649_152) // 24_576 == 37_438
    note = "tokens that fit are those of a single sequence, beside its state: each further sequence keeps its own"
    assert note in found(*hybrid, "1 GiB")["notes"]
    assert (
        "fit 37,438 tokens at allocated_bytes_per_token in 1,073,741,824 bytes (1 GiB): of a single sequence, "
        "beside the 153,649,152 bytes (~146.531 MiB) that it keeps once"
    ) in said(*hybrid, "1 GiB")
    assert found(*hybrid, "100 MiB")["tokens_that_fit"] == 0
    assert (
        "fit 0 tokens in 104,857,600 bytes (100 MiB): not one sequence fits, "
        "which keeps 153,649,152 bytes (~146.531 MiB) whatever its length"
    ) in said(*hybrid, "100 MiB")
    whisper = ("--shape", "full:4x6x64 cross:4x6x64@1500", "--memory", "1 GiB")
    assert found(*whisper)["tokens_that_fit"] == 2**30 // 6144 - 1500
    assert "a single sequence, beside its encoder positions: each further" in found(*whisper)["notes"][-1]


def test_halves_of_a_byte_are_exact() -> None:
    read = found("--shape", "1x1x1+0", "--kv-dtype", "fp4", "--tokens", "3")
    assert (read["kv_bytes_per_token"], read["kv_bytes"]) == (0.5, 1.5)
    assert "kv_bytes_per_token 0.5 0.5 B" in said("--shape", "1x1x1+0", "--kv-dtype", "fp4")


REFUSED = [
    ((), "CONFIG.json or --shape is missing; expected one of them, as in --shape 32x8x128"),
    (
        ("x.json", "--shape", "32x8x128"),
        "CONFIG.json and --shape are both given; expected one of them, as in --shape 32x8x128",
    ),
    (("--shape", ""), f"Invalid value for '--shape': nothing is written; expected {FORM}"),
    (("--shape", "32,8,128"), f"Invalid value for '--shape': \"32\" cannot be read; expected {FORM}"),
    (("--shape", "32x8"), f"Invalid value for '--shape': \"32x8\" names two numbers; expected three: {FORM}"),
    (("--shape", "32.8.128"), f"Invalid value for '--shape': \"32.8.128\" cannot be read; expected {FORM}"),
    *(
        (
            ("--shape", text),
            f"Invalid value for '--shape': \"{text}\" has {sign} between its numbers, where a lower-case x belongs; expected {FORM}",
        )
        for text, sign in (
            ("32*8*128", "*"),
            ("32X8X128", "X"),
            ("32×8×128", "×"),
            ("window:32x8X128@9", "X"),
            ("32X", "X"),
        )
    ),
    *(
        (
            ("--shape", text),
            f"Invalid value for '--shape': \"{text}\" lacks a number beside an x, + or @; expected {FORM}",
        )
        for text in ("32x", "32x8x", "x8x128", "32xx128", "32x8x128+", "window:32x8x128@", "latent:x512+64")
    ),
    (
        ("--shape", "windw:32x8x128@9"),
        "Invalid value for '--shape': unknown kind \"windw\"; expected full, window, latent, index, state, cross "
        "(did you mean window?)",
    ),
    (
        ("--shape", "window:32x8x128"),
        "Invalid value for '--shape': \"window:32x8x128\" has no length; expected @ and tokens, as in window:18x8x64@128",
    ),
    (
        ("--shape", "32x8x128@512"),
        "Invalid value for '--shape': \"32x8x128@512\" has a length, which only window and cross have; expected no @512",
    ),
    (
        ("--shape", "window:1x1x1@0"),
        "Invalid value for '--shape': \"window:1x1x1@0\" has a length of 0; expected 1 or more",
    ),
    (
        ("--shape", "latent:61x512"),
        "Invalid value for '--shape': \"latent:61x512\" ends early; expected + and the elements that carry the position, "
        "as in latent:61x512+64",
    ),
    (
        ("--shape", "latent:61x16x512+64"),
        "Invalid value for '--shape': \"latent:61x16x512+64\" has 16 heads; expected 1: all heads share one latent",
    ),
    (
        ("--shape", "0x8x128"),
        "Invalid value for '--shape': \"0x8x128\" has a 0 where something is kept; expected numbers above 0",
    ),
    (
        ("--shape", "cross:1x1x1 cross:1x1x1@5"),
        "Invalid value for '--shape': cross layers with different numbers of positions; expected one number for all of them",
    ),
    (
        ("--shape", "2x2x2", "--kv-dtype", "16"),
        f"Invalid value for '--kv-dtype': 16 is bits, not bytes; expected one of {NAMES} (did you mean bf16 (2 bytes)?)",
    ),
    (
        ("--shape", "2x2x2", "--kv-dtype", "auto"),
        "Invalid value for '--kv-dtype': \"auto\" is the data type of the weights, which is not read here; "
        f"expected one of {NAMES} (bf16 for most models; name it)",
    ),
    (
        ("--shape", "2x2x2", "--memory", "16"),
        "Invalid value for '--memory': 16 has no unit; expected a size with its unit, as in 16 GiB",
    ),
    (
        ("--shape", "2x2x2", "--memory", "16 Gbit"),
        "Invalid value for '--memory': \"Gbit\" is a size in bits; expected a size: B kB MB GB TB KiB MiB GiB TiB "
        "(GB is bytes)",
    ),
    (("--shape", "2x2x2", "--memory", "0 GB"), "Invalid value for '--memory': 0 GB is zero; expected more than 0"),
    (
        ("--shape", "2x2x2", "--memory", "9999999 TB"),
        "Invalid value for '--memory': 9999999 TB is too much; expected less than 4 PiB",
    ),
    (
        ("--shape", "2x2x2", "--tokens", "0"),
        "Invalid value for '--tokens': \"0\" is not one; expected a whole number from 1 to 1,000,000,000",
    ),
    (
        ("--shape", "2x2x2", "--tokens", "128k"),
        "Invalid value for '--tokens': \"128k\" may be 128,000 or 131,072; expected a whole number from 1 to 1,000,000,000",
    ),
    (
        ("--shape", "2x2x2", "--tokens", "32,768"),
        "Invalid value for '--tokens': \"32,768\" has separators; expected a whole number from 1 to 1,000,000,000: write 32768",
    ),
    (
        ("--shape", "2x2x2", "--tp", "1025"),
        "Invalid value for '--tp': \"1025\" is not one; expected a whole number from 1 to 1,024",
    ),
    (
        ("--shape", "2x2x2", "--block-tokens", "16"),
        "--block-tokens rounds --tokens or --memory; expected one of them beside it",
    ),
    (("--shape", "2x2x2", "--encoder-tokens", "5"), "--encoder-tokens is of a sequence; expected --tokens beside it"),
]


@pytest.mark.parametrize(("arguments", "text"), REFUSED)
def test_a_mistake_is_named(arguments: tuple[str, ...], text: str) -> None:
    run = kv(*arguments)
    assert run.exit_code == 2
    assert run.stderr.splitlines()[-1] == f"Error: {text}"
    assert run.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ("--shape", "32x8x128", "--kv-dtype", "fp8_ds_mla"),
            "--shape:1:1: --kv-dtype: fp8_ds_mla is a layout of a latent, and no layer keeps one; expected another data type "
            "(hint: fp8 is 1 byte an element)",
        ),
        (
            ("--shape", "32x8x128", "--tokens", "5", "--encoder-tokens", "5"),
            "--shape:1:1: --encoder-tokens: no layer attends to an encoder; expected no --encoder-tokens",
        ),
        (
            ("--shape", "32x8x128", "--tokens", "1000000000", "--tp", "1024"),
            "--shape:1:1: 16,777,216,000,000,000 bytes; expected less than 4 PiB, up to where every figure is exact as a JSON number",
        ),
    ],
)
def test_what_does_not_go_together_is_a_problem_in_both_formats(arguments: tuple[str, ...], problem: str) -> None:
    run = kv(*arguments)
    assert run.exit_code == 2
    assert run.stderr.splitlines() == [problem, "1 problem; nothing was run or written"]
    scripted = kv(*arguments, "--format", "json")
    assert scripted.exit_code == 2
    assert [one["file"] for one in json.loads(scripted.stdout)["problems"]] == ["--shape"]


@pytest.mark.parametrize("content", [None, "", "[]", "{", '{"a": 1}', "\0", '{"model_type": 5}'])
def test_a_file_that_is_no_configuration_is_refused(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    if content is not None:
        file.write_text(content)
    run = kv(str(file))
    assert run.exit_code == 2
    assert run.stderr.startswith(f"{file}:1:")
    assert json.loads(kv(str(file), "--format", "json").stdout)["problems"][0]["file"] == str(file)


CONFIGURATIONS: list[tuple[str, dict[str, Any], int, int]] = [
    (
        "hidden size for KV heads, and 8 bytes for 8 bits",
        {"model_type": "qwen2", "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "hidden_size": 3584},
        57_344,
        2 * 3584 * 28 * 8,
    ),
    (
        "hidden size over heads",
        {
            "model_type": "qwen3", "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "hidden_size": 1024,
            "head_dim": 128,
        },
        2 * 28 * 8 * 128 * 2,
        57_344,
    ),
    (
        "a latent told by the model's name only",
        {
            "model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 61, "num_attention_heads": 64,
            "num_key_value_heads": 64, "hidden_size": 7168, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
            "v_head_dim": 128, "q_lora_rank": 1536,
        },
        61 * (512 + 64) * 2,
        2 * 61 * 64 * 112 * 2,
    ),
    (
        "71 heads of a model whose queries share one",
        {
            "model_type": "falcon", "num_hidden_layers": 32, "num_attention_heads": 71, "num_kv_heads": 71, "multi_query": True,
            "new_decoder_architecture": False, "hidden_size": 4544,
        },
        2 * 32 * 1 * 64 * 2,
        581_632,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("why", "content", "right", "wrong"), CONFIGURATIONS, ids=[row[0] for row in CONFIGURATIONS])
def test_configurations_that_calculators_got_wrong(
    why: str, content: dict[str, Any], right: int, wrong: int, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(content))
    read = found(str(tmp_path / "config.json"))
    assert read["kv_bytes_per_token"] == right != wrong


@given(st.one_of(st.text(max_size=40), st.text("0123456789x+@:, fulwindocarest", max_size=30)))
def test_any_text_is_a_shape_or_a_mistake(text: str) -> None:
    try:
        shape = shape_by_hand(text)
    except ValueError as refused:
        assert str(refused).isprintable()  # noqa: PT017
        assert "expected" in str(refused)  # noqa: PT017
    else:
        assert shape_by_hand(shape_text(shape)) == shape
