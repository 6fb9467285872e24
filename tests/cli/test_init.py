"""`phaseledger init`, and the shapes of models that it reads."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from pipelines.cli import command
from pipelines.cli.init_template import Shape, inventory
from pipelines.declarations import load_cohort
from pipelines.declarations.model_config import read_model_shape
from pipelines.declarations.problems import DeclarationProblems
from pipelines.traces.formats.generic import GENERIC
from pipelines.traces.formats.native import PHASELEDGER
from pipelines.traces.formats.servegen import SERVEGEN
from pipelines.traces.freeze import read_cohort_requests
from pipelines.traces.registry import FORMATS
from tests.conftest import Command

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
ROWS = tuple(f"2023-11-16 18:17:{3 + place:02},{100 * (place + 1)},{place + 2}" for place in range(8))
BY_HAND = ("--layers", "32", "--kv-heads", "8", "--head-dim", "128")
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
"""The sizes of Llama-3.1-8B."""


@pytest.fixture(autouse=True)
def _formats(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (GENERIC, PHASELEDGER, SERVEGEN):
        monkeypatch.setitem(FORMATS, known.name, known)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a log and a config.json of Llama-3.1-8B."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("\n".join([HEADER, *ROWS]) + "\n")
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    return tmp_path


def init(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["init", *arguments])


def declared(directory: str | Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((Path(directory) / "cohort.yaml").read_text())
    return read


def shape_of(path: Path, **config: Any) -> tuple[int, int, int]:
    path.write_text(json.dumps(config))
    shape = read_model_shape(path)
    return shape.layers, shape.kv_heads, shape.head_dim


# the cohort


def test_a_first_cohort_plans_as_it_stands(here: Path, phaseledger: Command) -> None:
    run = init("my-chat", "--trace", "log.csv", "--model", "config.json")
    assert run.exit_code == 0, run.output
    assert run.stdout.splitlines()[-1] == "next: phaseledger plan my-chat"
    plan = phaseledger("plan", "my-chat", "--out", "out", cwd=here)
    assert plan.code in (0, 1), plan.err
    assert phaseledger("verify", "out/receipt.json", cwd=here).code == 0


def test_everything_that_nobody_said_is_marked_as_assumed(here: Path) -> None:
    assert init("my-chat", "--trace", "log.csv", "--model", "config.json").exit_code == 0
    cohort = load_cohort(here / "my-chat")
    texts = {
        "service.dispatch",
        "service.prefill.discipline",
        "service.decode.discipline",
        "service.first_token_source",
    }
    for row in cohort.inputs:
        if row.path.startswith("topologies.") or row.path in texts or row.note == "not declared: default":
            continue
        assert row.provenance == "supplied", row.path
        assert row.note, row.path
        if not row.path.startswith("model."):
            assert "ASSUMED" in row.note, row.path
        if row.path.startswith(("service.", "network.")) and "ceiling" not in row.path:
            assert "measure: " in row.note or "read: " in row.note, row.path


def test_rates_follow_from_the_weights_as_their_notes_say(here: Path) -> None:
    assert init("my-chat", "--trace", "log.csv", "--model", "config.json").exit_code == 0
    values = {row.path: row.value for row in load_cohort(here / "my-chat").inputs}
    # 8.03e9 weights: 150e12 / (2 x 8.03e9) tokens/s; 2 B x 8.03e9 / 1.5e12 B/s; 2 x 32 x 8 x 128 x 2 B / 1.5e12 B/s
    assert values["service.prefill.tokens_per_second"] == pytest.approx(9340, rel=2e-3)
    assert values["service.decode.step_overhead"] == pytest.approx(10.7e-3, rel=2e-3)
    assert values["service.decode.seconds_per_context_token"] == pytest.approx(8.74e-8, rel=2e-3)
    assert values["inventory.kv_memory_per_worker"] == pytest.approx(0.9 * 80e9 - 2 * 8.03e9, rel=2e-3)
    assert (values["model.layers"], values["model.kv_heads"], values["model.head_dim"]) == (32, 8, 128)


def test_no_peak_is_written(here: Path) -> None:
    assert init("my-chat", "--trace", "log.csv", "--model", "config.json").exit_code == 0
    assert not any("peak" in row.path for row in load_cohort(here / "my-chat").inputs)


def test_the_log_is_referred_to_where_it_is(here: Path) -> None:
    assert init("my-chat", "--trace", "log.csv", *BY_HAND).exit_code == 0
    assert declared("my-chat")["requests"]["trace"]["file"] == "../log.csv"
    (here / "own").mkdir()
    shutil.copy("log.csv", "own/log.csv")
    assert init("own", "--trace", str(here / "own" / "log.csv"), *BY_HAND).exit_code == 0
    assert declared("own")["requests"]["trace"]["file"] == "log.csv"
    assert sorted(path.name for path in (here / "own").iterdir()) == ["cohort.yaml", "log.csv"]
    assert init("deep/er", "--trace", "log.csv", *BY_HAND).exit_code == 0
    assert declared("deep/er")["requests"]["trace"]["file"] == "../../log.csv"


def test_a_log_is_copied_where_that_is_wanted_without_its_invalid_rows(here: Path) -> None:
    with (here / "log.csv").open("a") as log:
        log.write("2023-11-16 18:18:00,5,0\n")
    assert init("deep/er/my-chat", "--trace", "log.csv", "--copy", *BY_HAND).exit_code == 0
    said = declared("deep/er/my-chat")["requests"]["trace"]
    assert (said["file"], said["format"], "on_invalid" in said) == ("requests.csv", "phaseledger", False)
    requests = read_cohort_requests(load_cohort(here / "deep" / "er" / "my-chat")).requests
    assert requests["prompt_tokens"].to_list() == [100 * place for place in range(1, 9)]
    assert "1 of 9 rows (1 output_tokens_zero)" in (here / "deep/er/my-chat/cohort.yaml").read_text()


def test_edges_are_quarters_of_the_requests(here: Path) -> None:
    assert init("my-chat", "--trace", "log.csv", *BY_HAND).exit_code == 0
    assert declared("my-chat")["requests"]["bucket_edges_tokens"] == [300, 500, 700]


def test_invalid_rows_are_dropped_only_where_there_are_any(here: Path) -> None:
    assert init("clean", "--trace", "log.csv", *BY_HAND).exit_code == 0
    assert "on_invalid" not in (here / "clean" / "cohort.yaml").read_text()
    with (here / "log.csv").open("a") as log:
        log.write("2023-11-16 18:18:00,5,0\n")
    assert init("faulty", "--trace", "log.csv", *BY_HAND).exit_code == 0
    assert declared("faulty")["requests"]["trace"]["on_invalid"] == "drop"
    assert "1 of 9 rows: 1 output_tokens_zero" in (here / "faulty" / "cohort.yaml").read_text()


def test_ties_offer_a_tick(here: Path) -> None:
    rows = [f"2023-11-16 18:{place // 10:02}:{3 * (place // 2 % 5):02},5,2" for place in range(100)]
    (here / "ties.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    run = init("tied", "--trace", "ties.csv", *BY_HAND)
    assert run.exit_code == 0
    assert "warning: 100 of 100 requests share their timestamp" in run.stderr
    assert "\n    # spread_ties: 3 s\n" in (here / "tied" / "cohort.yaml").read_text()


@pytest.mark.parametrize("rows", [1, 2])
def test_a_log_of_too_few_arrivals_gets_an_assumed_rate(rows: int, here: Path, phaseledger: Command) -> None:
    (here / "short.csv").write_text("\n".join([HEADER, *ROWS[:rows]]) + "\n")
    assert init("short", "--trace", "short.csv", *BY_HAND).exit_code == 0
    assert declared("short")["requests"]["arrivals"]["rate"]["value"] == "1/s"
    plan = phaseledger("plan", "short", "--out", "out", cwd=here)
    assert plan.code in (0, 1), plan.err


def test_a_log_without_arrivals_gets_an_assumed_rate(here: Path) -> None:
    (here / "lengths.csv").write_text('"in, all",out\n5,2\n9,3\n'.replace('"in, all"', "in"))
    columns = "prompt_tokens=in,output_tokens=out"
    assert init("lengths", "--trace", "lengths.csv", "--columns", columns, *BY_HAND).exit_code == 0
    said = declared("lengths")["requests"]
    assert said["trace"]["columns"] == {"prompt_tokens": "in", "output_tokens": "out"}
    assert (said["trace"]["format"], "ASSUMED" in said["arrivals"]["rate"]["note"]) == ("generic", True)
    assert read_cohort_requests(load_cohort(here / "lengths")).requests.height == 2


@pytest.mark.parametrize("copied", [False, True])
def test_a_log_of_rates_needs_its_lengths(copied: bool, here: Path) -> None:
    (here / "rates.csv").write_text("0,0.5,1.0,Gamma,1.0,2.0\n600,0.1,1.0,Gamma,1.0,10.0\n")
    lengths = {"0": {"input_tokens": "{100: 0.5, 300: 0.5}", "output_tokens": "{20: 1.0}"}}
    (here / "dataset.json").write_text(json.dumps(lengths))
    options = ["--trace", "rates.csv", *(["--copy"] if copied else []), *BY_HAND]
    refused = init("rates", *options)
    assert refused.exit_code == 2
    assert "rates.csv:1:1: a log of rates, not of requests; expected requests, or --lengths" in refused.stderr
    assert init("rates", *options, "--lengths", "dataset.json").exit_code == 0
    said = declared("rates")["requests"]["trace"]
    near = {"file": "../rates.csv", "format": "servegen", "lengths": "../dataset.json"}
    far = {"file": "requests.csv", "format": "phaseledger"}
    assert {key: said[key] for key in ("file", "format", "lengths") if key in said} == (far if copied else near)
    assert read_cohort_requests(load_cohort(here / "rates")).requests.height == 360


def test_what_was_said_of_the_log_is_declared(here: Path) -> None:
    assert init("my-chat", "--trace", "log.csv", "--context", "4096", *BY_HAND).exit_code == 0
    assert declared("my-chat")["requests"]["trace"]["context_tokens"] == 4096


def test_a_cohort_that_is_there_stays_unless_forced(here: Path) -> None:
    (here / "my-chat").mkdir()
    (here / "my-chat" / "cohort.yaml").write_text("old")
    run = init("my-chat", "--trace", "log.csv", *BY_HAND)
    assert (run.exit_code, (here / "my-chat" / "cohort.yaml").read_text()) == (2, "old")
    assert run.stderr.startswith("my-chat/cohort.yaml:1:1: exists already")
    assert init("my-chat", "--trace", "log.csv", "--force", *BY_HAND).exit_code == 0
    assert declared("my-chat")["metadata"]["name"] == "my-chat"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--trace", "none.csv", *BY_HAND], "none.csv:1:1: cannot be read"),
        (["--trace", "log.csv", "--model", "none.json"], "none.json:1:1: does not exist"),
        (["--trace", "log.csv"], "--model is missing"),
        (["--trace", "log.csv", "--layers", "3"], "--model is missing"),
        (["--trace", "log.csv", "--model", "config.json", "--layers", "3"], "go together"),
        (["--trace", "log.csv", *BY_HAND, "--name", "My Chat"], "expected a-z, 0-9 and -"),
        (["--trace", "log.csv", *BY_HAND, "--parameters", "2e12"], "do not hold 4,000 GB of weights"),
        (["--trace", "log.csv", *BY_HAND, "--parameters", "8"], "as in 8e9"),
    ],
)
def test_bad_input_writes_nothing(arguments: list[str], said: str, here: Path) -> None:
    run = init("deep/my-chat", *arguments)
    assert run.exit_code == 2
    assert said in " ".join(run.stderr.split())
    assert not (here / "deep").exists()


def test_nothing_is_left_of_a_cohort_that_cannot_be_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    run = init("deep/my-chat", "--trace", "log.csv", *BY_HAND)
    assert run.exit_code == 2
    assert "No space left on device" in run.stderr
    assert not (here / "deep").exists()


def test_one_worker_leaves_separation_out(here: Path) -> None:
    assert init("my-chat", "--trace", "log.csv", *BY_HAND, "--gpus", "1").exit_code == 0
    assert list(declared("my-chat")["topologies"]) == ["aggregated", "chunked"]


@pytest.mark.parametrize(
    ("parameters", "gpus", "each"),
    [(8e9, 8, 1), (32e9, 8, 2), (70e9, 8, 4), (235e9, 8, 8), (235e9, 6, None), (90e9, 3, 3)],
)
def test_a_worker_has_as_few_gpus_as_hold_weights_and_cache(parameters: float, gpus: int, each: int | None) -> None:
    stock = inventory(Shape("m", 32, 8, 128, "bf16", "", parameters=int(parameters)), gpus)
    assert (stock and stock.gpus_per_worker) == each


def test_the_name_is_that_of_the_directory(here: Path) -> None:
    assert init("My Chat_2", "--trace", "log.csv", *BY_HAND).exit_code == 0
    assert declared("My Chat_2")["metadata"]["name"] == "my-chat-2"


@pytest.mark.parametrize(
    ("log", "model"),
    [
        ("azure_2023_code.csv", "hf/inference-sim__qwen3-14b_config.json"),
        ("mooncake_fast25_conversation.jsonl", "hf/Qwen--Qwen3-VL-8B-Instruct_config.json"),
        ("mooncake_fast25_conversation.jsonl", "hf/nvidia--Qwen3-235B-A22B-NVFP4_config.json"),
    ],
)
def test_published_logs_and_models_make_cohorts_that_plan(
    log: str, model: str, shared: Path, phaseledger: Command, tmp_path: Path
) -> None:
    shutil.copy(shared / "traces" / log, tmp_path / log)
    made = phaseledger("init", "first", "--trace", log, "--model", shared / "models" / model, cwd=tmp_path)
    assert made.code == 0, made.err
    plan = phaseledger("plan", "first", "--out", "out", "--quiet", cwd=tmp_path)
    assert plan.code in (0, 1), plan.err
    assert phaseledger("verify", "out/receipt.json", cwd=tmp_path).code == 0
    offers_cache = (
        "# prefix_cache: {capacity: unlimited, scope: shared}" in (tmp_path / "first/cohort.yaml").read_text()
    )
    assert offers_cache == log.startswith("mooncake")


def test_what_is_offered_in_comments_can_be_declared(shared: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    shutil.copy(shared / "traces" / "mooncake_fast25_conversation.jsonl", log)
    assert init(str(tmp_path / "first"), "--trace", str(log), *BY_HAND).exit_code == 0
    path = tmp_path / "first" / "cohort.yaml"
    path.write_text(
        path.read_text().replace("# prefix_cache:", "prefix_cache:").replace("# spread_ties:", "spread_ties:")
    )
    cohort = load_cohort(path)
    assert cohort.prefix_cache is not None
    assert cohort.trace is not None
    assert cohort.trace.spread_ties_ns == 3 * 10**9


# the shape of a model


def expected(shared: Path, name: str) -> list[dict[str, str]]:
    with (shared / "models" / name).open(newline="") as table:
        return list(csv.DictReader(table))


def test_no_published_config_is_read_wrong_and_none_is_guessed(shared: Path) -> None:
    read = 0
    for row in expected(shared, "KV_EXPECTED.csv"):
        path = shared / "models" / row["file"]
        if row["cls"] == "GQA":
            shape = read_model_shape(path)
            assert str(4 * shape.layers * shape.kv_heads * shape.head_dim) == row["grow_bytes_per_token_bf16"], row[
                "file"
            ]
            read += 1
        else:
            with pytest.raises(DeclarationProblems):
                read_model_shape(path)
    assert read >= 20


PLAIN_TRAPS = {"falcon", "gptj", "gpt2", "dbrx", "starcoder2", "qwen2_vl", "nemotron", "hunyuan_v1_moe"}


def test_published_traps_catch_nobody(shared: Path) -> None:
    for row in expected(shared, "KV_EXPECTED_traps.csv"):
        path = shared / "models" / row["file"]
        if path.stem in PLAIN_TRAPS and path.parent.name == "transformers_defaults":
            shape = read_model_shape(path)
            found = str(4 * shape.layers * shape.kv_heads * shape.head_dim)
            assert found == row["expected_grow_bytes_per_token_bf16"], row["file"]
        else:
            with pytest.raises(DeclarationProblems):
                read_model_shape(path)


def test_every_other_config_is_read_or_refused_with_a_key_and_a_way_out(shared: Path) -> None:
    for path in sorted((shared / "models").glob("*/*.json")):
        try:
            shape = read_model_shape(path)
        except DeclarationProblems as refused:
            (problem,) = refused.problems
            assert problem.path, path.name
            assert problem.hint is not None
            assert "--layers, --kv-heads and --head-dim" in problem.hint
        else:
            assert min(shape.layers, shape.kv_heads, shape.head_dim) >= 1


@pytest.mark.parametrize(
    ("change", "shape"),
    [
        ({}, (32, 8, 128)),
        ({"head_dim": 64}, (32, 8, 64)),
        ({"num_key_value_heads": None}, (32, 32, 128)),
        ({"sliding_window": None, "layer_types": ["full_attention"] * 32}, (32, 8, 128)),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, (32, 8, 128)),
        ({"model_type": "falcon", "multi_query": True}, (32, 1, 128)),
        ({"model_type": "falcon", "multi_query": True, "new_decoder_architecture": True}, (32, 8, 128)),
    ],
)
def test_plain_shapes(change: dict[str, Any], shape: tuple[int, int, int], tmp_path: Path) -> None:
    assert shape_of(tmp_path / "config.json", **(LLAMA | change)) == shape


@pytest.mark.parametrize("section", ["text_config", "language_config", "llm_config"])
def test_the_language_model_of_a_larger_one_is_read(section: str, tmp_path: Path) -> None:
    other = {"model_type": "clip", "num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 9}
    assert shape_of(tmp_path / "c.json", model_type="large", vision_config=other, **{section: LLAMA}) == (32, 8, 128)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"kv_lora_rank": 512}, "kv_lora_rank"),
        ({"sliding_window": 4096}, "sliding_window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"attention_chunk_size": 8192}, "attention_chunk_size"),
        ({"mamba_d_state": 16}, "mamba_d_state"),
        ({"num_kv_shared_layers": 15}, "num_kv_shared_layers"),
        ({"use_cla": True}, "use_cla"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"cross_attention_layers": [3]}, "cross_attention_layers"),
        ({"v_head_dim": 64}, "v_head_dim"),
        ({"model_type": "brand_new"}, "model_type"),
        ({"model_type": "mistral", "num_key_value_heads": ...}, "num_key_value_heads"),
        ({"model_type": "qwen3"}, "head_dim"),
        ({"model_type": ...}, "head_dim"),
        ({"num_hidden_layers": ...}, "num_hidden_layers"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"n_layer": 31}, "n_layer"),
        ({"num_key_value_heads": 5}, "num_key_value_heads"),
        ({"hidden_size": 4097}, "hidden_size"),
    ],
)
def test_what_is_not_plain_is_refused_by_its_key(change: dict[str, Any], key: str, tmp_path: Path) -> None:
    config = {name: value for name, value in (LLAMA | change).items() if value is not ...}
    with pytest.raises(DeclarationProblems) as caught:
        shape_of(tmp_path / "config.json", **config)
    (problem,) = caught.value.problems
    assert problem.path == key


def test_a_refusal_names_the_line_of_the_key(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(
        '{\n "vision_config": {"kv_lora_rank": 3},\n "text_config": {\n  "a": [{"b": 1}, "c"],\n  "kv_lora_rank": 512}}'
    )
    with pytest.raises(
        DeclarationProblems, match=r"config\.json:5:3: text_config\.kv_lora_rank: 512: one latent per token"
    ):
        read_model_shape(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n  "a": 1,\n  "b" 2\n}', r":3:7: not valid JSON: expecting ':' delimiter"),
        ('{\n  "n_layer": 1,\n  "n_layer": 2}', r":3:3: n_layer: the key is written twice"),
        ("[1]", r":1:1: a list; expected a model's config\.json: one object"),
        ("", r":1:1: (is empty|not valid JSON)"),
        ("[" * 100_000, r":1:1: cannot be read as JSON"),
    ],
)
def test_a_file_that_is_no_config_is_told_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(DeclarationProblems, match=said):
        read_model_shape(path)


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("hf/meta-llama--Meta-Llama-3.1-405B_config.json", 405e9, 405e9),
        ("hf/Qwen--Qwen3-235B-A22B_config.json", 235e9, 22e9),
        ("hf/inference-sim__mixtral-8x7b-v0.1_config.json", 46.7e9, 12.9e9),
        ("hf/Qwen--Qwen3-0.6B_config.json", 0.6e9, 0.6e9),
    ],
)
def test_weights_are_counted_within_a_few_per_cent(name: str, total: float, active: float, shared: Path) -> None:
    shape = read_model_shape(shared / "models" / name)
    assert shape.parameters == pytest.approx(total, rel=0.03)
    assert shape.active_parameters == pytest.approx(active, rel=0.03)


def test_help_shows_examples() -> None:
    assert "phaseledger init my-chat --trace" in init("--help").stdout
