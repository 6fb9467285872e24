"""`phaseledger init`."""

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
from pipelines.declarations.cache import cache_shape, plain_shape
from pipelines.declarations.model_configs import read_model_cache
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
    stock = inventory(Shape("m", plain_shape(32, 8, 128), "bf16", "", parameters=int(parameters)), gpus)
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


@pytest.mark.parametrize(
    ("change", "shape"),
    [
        ({"kv_lora_rank": 512, "qk_rope_head_dim": 64, "model_type": "deepseek_v3"}, "latent:32x1x512+64"),
        ({"model_type": "mistral", "sliding_window": 4096}, "window:32x8x128+128@4096"),
        (
            {"model_type": "gpt_oss", "head_dim": 64, "sliding_window": 128},
            "full:16x8x64+64 window:16x8x64+64@128",
        ),
    ],
)
def test_a_cache_of_several_kinds_is_declared_by_kind_and_plans(
    change: dict[str, Any], shape: str, here: Path, phaseledger: Command
) -> None:
    (here / "config.json").write_text(json.dumps(LLAMA | change))
    arguments = ("my-chat", "--trace", "log.csv", "--model", "config.json", "--parameters", "8e9", "--gpus", "2")
    assert init(*arguments).exit_code == 0
    values = {row.path: row.value for row in load_cohort(here / "my-chat").inputs}
    assert values["model.cache"] == shape
    plan = phaseledger("plan", "my-chat", "--out", "out", cwd=here)
    assert plan.code in (0, 1), plan.err


def test_every_published_model_makes_a_cohort_or_is_refused_with_a_reason(shared: Path, here: Path) -> None:
    declared_shapes = 0
    for path in sorted((shared / "models").glob("*/*.json")):
        weights = ("--parameters", "8e9", "--active-parameters", "4e9")
        arguments = ("--trace", "log.csv", "--model", str(path), *weights, "--force")
        run = init("my-chat", *arguments)
        if run.exit_code == 0:
            values = {row.path: row.value for row in load_cohort(here / "my-chat").inputs}
            read = read_model_cache(path).shape
            plain = [values.get(f"model.{name}") for name in ("layers", "kv_heads", "head_dim")]
            assert (cache_shape(str(values["model.cache"])) if None in plain else plain_shape(*map(int, plain))) == read
            declared_shapes += 1
        else:
            assert run.exit_code == 2, path.name
            assert "expected" in run.stderr, path.name
    assert declared_shapes > 80


def test_weights_that_cannot_be_counted_are_asked_for(here: Path) -> None:
    model = LLAMA | {"model_type": "deepseek_v3", "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    (here / "config.json").write_text(json.dumps(model))
    run = init("my-chat", "--trace", "log.csv", "--model", "config.json")
    assert run.exit_code == 2
    assert "config.json:1:1: its weights are not counted, since its layers are not all alike" in run.stderr
    assert not (here / "my-chat").exists()


def test_experts_that_a_token_passes_through_are_asked_for(here: Path) -> None:
    experts = {"n_routed_experts": 256, "num_experts_per_tok": 8, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    (here / "config.json").write_text(json.dumps(LLAMA | experts | {"model_type": "deepseek_v3"}))
    arguments = ("my-chat", "--trace", "log.csv", "--model", "config.json", "--gpus", "32", "--parameters", "671e9")
    run = init(*arguments)
    assert run.exit_code == 2
    assert "it has experts, and how many weights a token passes through is not counted; expected --active" in run.stderr
    assert init(*arguments, "--active-parameters", "37e9").exit_code == 0
    service = declared("my-chat")["service"]
    each = declared("my-chat")["inventory"]["gpus_per_worker"]
    assert service["prefill"]["tokens_per_second"]["value"] == pytest.approx(each * 150e12 / (2 * 37e9), rel=2e-3)
    # a latent is on every GPU: 32 layers x 576 x 2 bytes over the bandwidth of one
    context = service["decode"]["seconds_per_context_token"]["value"]
    assert context == pytest.approx(32 * 576 * 2 / 1.5e12, rel=5e-3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--active-parameters", "8e9"), "given without --parameters"),
        (("--parameters", "8e9", "--active-parameters", "9e9"), "more than all weights"),
    ],
)
def test_active_weights_are_some_of_all(arguments: tuple[str, ...], said: str, here: Path) -> None:
    run = init("my-chat", "--trace", "log.csv", *BY_HAND, *arguments)
    assert run.exit_code == 2
    assert f"--active-parameters:1:1: {said}; expected those of --parameters" in run.stderr


@pytest.mark.parametrize(
    ("model", "dtype", "said"),
    [
        ({"model_type": "t5", "is_encoder_decoder": True, "num_layers": 12, "num_heads": 12, "d_kv": 64, "d_model": 768}
         | {"num_decoder_layers": 12}, "bf16", "its layers attend to an encoder or an image, which is not planned"),
        (LLAMA, "fp8_ds_mla", "it has no latent, of which fp8_ds_mla is a layout"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_is_refused(model: dict[str, Any], dtype: str, said: str, here: Path) -> None:
    (here / "config.json").write_text(json.dumps(model))
    run = init("my-chat", "--trace", "log.csv", "--model", "config.json", "--kv-dtype", dtype)
    assert run.exit_code == 2
    assert said in run.stderr


def test_ranks_of_a_worker_of_several_gpus_are_declared(here: Path) -> None:
    assert init("my-chat", "--trace", "log.csv", *BY_HAND, "--parameters", "70e9").exit_code == 0
    assert declared("my-chat")["model"]["tensor_parallel"] == declared("my-chat")["inventory"]["gpus_per_worker"] == 4


def test_layers_that_share_a_cache_are_declared_once(here: Path) -> None:
    shared = LLAMA | {"model_type": "hunyuan_v1_moe", "use_cla": True, "cla_share_factor": 2}
    (here / "config.json").write_text(json.dumps(shared))
    assert init("my-chat", "--trace", "log.csv", "--model", "config.json").exit_code == 0
    values = {row.path: row.value for row in load_cohort(here / "my-chat").inputs}
    assert (values["model.layers"], values["model.kv_heads"], values["model.head_dim"]) == (16, 8, 128)


def test_a_model_that_cannot_be_read_is_refused_by_its_key(here: Path) -> None:
    (here / "config.json").write_text(json.dumps(LLAMA | {"model_type": "brand_new"}))
    run = init("my-chat", "--trace", "log.csv", "--model", "config.json")
    assert run.exit_code == 2
    assert 'model_type: "brand_new" is not a family whose cache is known' in run.stderr


def test_help_shows_examples() -> None:
    assert "phaseledger init my-chat --trace" in init("--help").stdout
