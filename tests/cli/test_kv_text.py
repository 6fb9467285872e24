"""What `phaseledger kv` says beside its figures, word by word."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines.cli import kv_text
from tests.cli.kv_calls import found, kv, said

GPT_OSS = "full:18x8x64 window:18x8x64@128"


@pytest.mark.parametrize(
    ("arguments", "sent", "held"),
    [
        (
            ("--shape", "32x8x128"),
            "kv_bytes_per_token of every token",
            "allocated_bytes_per_token of every token: how many sequences fit",
        ),
        (
            ("--shape", GPT_OSS),
            "kv_bytes_per_token of every token and window_bytes_per_token of the last 128 tokens (window_tokens)",
            "allocated_bytes_per_token of every token, where an engine gives every layer the full length: how many sequences fit",
        ),
        (
            ("--shape", "full:12x2x256 state:36x64x16384+36864"),
            "kv_bytes_per_token of every token and state_bytes_per_sequence once",
            "allocated_bytes_per_token of every token and state_bytes_per_sequence once: how many sequences fit",
        ),
        (
            ("--shape", "state:32x40x4096+5120"),
            "state_bytes_per_sequence once",
            "state_bytes_per_sequence once: how many sequences fit",
        ),
        (
            ("--shape", "full:4x6x64 window:4x6x64@1 state:2x2x2+0 cross:4x6x64@1"),
            "kv_bytes_per_token of every token, window_bytes_per_token of the last 1 token (window_tokens), "
            "state_bytes_per_sequence once and cross_bytes_per_encoder_token of 1 position (cross_tokens)",
            "allocated_bytes_per_token of every token, state_bytes_per_sequence once and cross_bytes_per_encoder_token of 1 position "
            "(cross_tokens), where an engine gives every layer the full length: how many sequences fit",
        ),
        (
            ("--shape", "94x4x128", "--tp", "8"),
            "kv_bytes_per_token of every token, in the column of all 8 ranks: what several ranks keep moves several times",
            "allocated_bytes_per_token of every token, in the column of all 8 ranks: how many sequences fit",
        ),
    ],
)
def test_the_figures_of_sending_and_of_holding_are_named(arguments: tuple[str, ...], sent: str, held: str) -> None:
    lines = said(*arguments)
    assert f"to send {sent}" in lines
    assert f"to hold {held}" in lines


def test_a_kind_has_the_words_that_a_file_is_read_with(tmp_path: Path) -> None:
    file = {
        "model_type": "deepseek_v32", "num_hidden_layers": 61, "num_attention_heads": 128, "hidden_size": 7168,
        "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(file))
    words = ["one latent of keys and values per token (MLA)", "an index vector per token for sparse attention"]
    for arguments in (("--shape", "latent:61x512+64 index:61x128+4"), (str(tmp_path / "config.json"),)):
        assert [one["meaning"] for one in found(*arguments)["layers"]] == words
    others = found("--shape", "full:1x1x1 window:1x1x1@512 window:1x1x1@1 state:1x1x1+0 cross:1x1x1")["layers"]
    assert [one["meaning"] for one in others] == [
        "keys and values of every token",
        "keys and values of the last 512 tokens",
        "keys and values of the last 1 token",
        "a recurrent state",
        "keys and values of every position of the encoder",
    ]


def test_an_explanation_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    arguments = ("--shape", "state:36x64x16384+36864", "--explain")
    lines = kv(*arguments).stdout.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("a recurrent state: 64 heads"))
    assert lines[start + 1].startswith("  ")
    assert all(len(line) <= 140 for line in lines[start : start + 2])
    assert len(lines[start]) > 60, "no terminal, so COLUMNS is nobody's width"


def test_an_explanation_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(kv_text, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    lines = kv("--shape", "latent:61x512+64", "--explain").stdout.splitlines()
    start = lines.index("one latent of keys and values per token (MLA): (latent of")
    assert lines[start + 1 : start + 5] == [
        "  512 (--shape) + 64 with the position (--shape)) x 2 bytes",
        "  (--kv-dtype bf16) = 1,152 bytes per token and layer; x 61",
        "  layers (--shape) = 70,272",
        "",
    ]


def test_a_convolution_is_one_for_all_heads() -> None:
    assert "36 a recurrent state 64 state 16,384; convolution 36,864 per layer - 153,649,152 per sequence" in said(
        "--shape", "state:36x64x16384+36864"
    )


def test_single_things_have_no_plural() -> None:
    lines = said("--shape", "cross:1x1x1@1 full:1x1x1", "--tokens", "1", "--block-tokens", "1", "--memory", "8 B")
    for line in (
        "encoder 1 position",
        "blocks 1 token each",
        "fit 1 token in 1 block at allocated_bytes_per_token in 8 bytes (8 B): of a single sequence, "
        "beside the 4 bytes (4 B) that it keeps once",
        "fit 1 sequence of 1 token in 8 bytes (8 B)",
    ):
        assert line in lines


def test_the_mark_of_a_rounded_size_is_explained() -> None:
    assert "with ~ where three decimals do not show them exactly" in " ".join(kv("-h").stdout.split())
    assert "kv_bytes_per_token 131,073 ~128.001 KiB" in said("--shape", "1x1x131072+1", "--kv-dtype", "fp8")
