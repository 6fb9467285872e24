"""Cohorts drawn at random: every kind of cache, memory, link and transfer that can be declared, in combinations that nobody wrote."""

import random
import shutil
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

_CACHES: tuple[list[Json] | None, ...] = (
    None,
    [
        {"kind": "full", "layers": 18, "kv_heads": 8, "head_dim": 64},
        {"kind": "window", "layers": 18, "kv_heads": 8, "head_dim": 64, "window_tokens": 130},
    ],
    [
        {"kind": "latent", "layers": 61, "latent_dim": 512, "rope_dim": 64},
        {"kind": "index", "layers": 61, "index_dim": 128, "scale_bytes": 4},
    ],
    [
        {"kind": "full", "layers": 15, "kv_heads": 2, "head_dim": 256},
        {"kind": "state", "layers": 45, "heads": 64, "elements_per_head": 16384, "convolution_elements": 36864},
    ],
    [
        {"kind": "window", "layers": 8, "kv_heads": 10, "head_dim": 256, "window_tokens": 2048},
        {"kind": "state", "layers": 18, "heads": 1, "elements_per_head": 0, "convolution_elements": 7680},
    ],
    [
        {"kind": "full", "layers": 9, "kv_heads": 3, "head_dim": 128, "value_dim": 64},
        {"kind": "window", "layers": 9, "kv_heads": 8, "head_dim": 64, "window_tokens": 512},
        {"kind": "window", "layers": 4, "kv_heads": 1, "head_dim": 64, "window_tokens": 9000},
    ],
)
_AFFINE = (
    "line_rate",
    "effective_bandwidth",
    "peak_bandwidth",
    "registration",
    "synchronization",
    "receiver_visibility",
    "seconds_per_descriptor",
    "regions_per_block",
)


def write_random_cohort(seed: int, template: Path, directory: Path) -> Path:
    """A cohort in ``directory``: the requests and service of the cohort ``template``, the rest as ``seed`` draws it."""
    draw = random.Random(seed)
    cohort = yaml.safe_load((template / "cohort.yaml").read_text())
    directory.mkdir(parents=True)
    shutil.copy(template / "requests.csv", directory)
    _model(draw, cohort["model"])
    _inventory(draw, cohort["inventory"], cohort["model"])
    _network(draw, cohort["network"], cohort["model"])
    if draw.random() < 0.4:
        cohort["network"]["transfer_curve"] = {"file": "curve.csv", "provenance": "observed", "source": "a benchmark"}
        if draw.random() < 0.5:
            for name in _AFFINE:
                cohort["network"].pop(name, None)
    (directory / "curve.csv").write_text(_curve(draw))
    _traffic(draw, cohort)
    _requests(draw, cohort["requests"])
    _service(draw, cohort["service"], directory)
    _pools(draw, cohort, directory)
    _objectives(draw, cohort["objectives"])
    _topologies(draw, cohort)
    (directory / "cohort.yaml").write_text(yaml.safe_dump(cohort, sort_keys=False))
    return directory


def _supplied(value: float | str, **ends: float | str) -> Json:
    return {"value": value, **ends, "provenance": "supplied"}


def _model(draw: random.Random, model: Json) -> None:
    cache = draw.choice(_CACHES)
    dtypes = ["bf16", "fp8", "fp4", "fp32"]
    if cache is not None:
        for name in ("layers", "kv_heads", "head_dim"):
            del model[name]
        model["cache"] = cache
        dtypes += ["fp8_ds_mla"] if any(part["kind"] == "latent" for part in cache) else []
    model["kv_dtype"] = draw.choice(dtypes)
    if draw.random() < 0.5:
        model["layout_factor"] = _supplied(draw.choice([1, 1.1]), high=1.3)
    if draw.random() < 0.5:
        model["block_tokens"] = draw.choice([16, 64, 100])
    if draw.random() < 0.5:
        model["kv_allocation"] = draw.choice(["uniform", "by_kind"])


def _inventory(draw: random.Random, inventory: Json, model: Json) -> None:
    each = draw.choice([1, 1, 2, 8])
    inventory |= {"gpus": 6 * each, "gpus_per_worker": each}
    model["tensor_parallel"] = draw.choice(range(1, each + 1))
    way = draw.random()
    if way < 0.25 and model.get("kv_allocation") != "by_kind":
        del inventory["kv_memory_per_worker"]
        inventory["kv_tokens_per_worker"] = _supplied(draw.choice([20_000, 78_384, 900_000]), low=15_000)
    elif way < 0.5:
        del inventory["kv_memory_per_worker"]
        inventory |= {
            "gpu_memory": _supplied("80 GiB"),
            "memory_utilization": _supplied(0.9, low=0.85),
            "weights_per_worker": _supplied("16 GB", high="18 GB"),
            "activations_per_worker": _supplied("3 GB", high="5 GB"),
        }


def _network(draw: random.Random, network: Json, model: Json) -> None:
    maybe: dict[str, Json | str] = {
        "link_sharing": draw.choice(["shared", "per_prefill_worker", "per_decode_worker"]),
        "competing_traffic": _supplied(0.1, high=0.3),
        "router_handover": _supplied("5 ms", high="20 ms"),
        "relayout_factor": _supplied(1.2, high=1.5),
        "prefix_at_destination": _supplied(0.5, low=0.2),
        "overlap": _supplied(draw.choice([0.3, 0.9, 1.0]), low=0.1),
    }
    network |= {name: value for name, value in maybe.items() if draw.random() < 0.4}
    if draw.random() < 0.4:
        network |= {"links": _supplied(8), "links_per_transfer": _supplied(draw.choice([2, 3, 8]))}
    if draw.random() < 0.4 and "block_tokens" in model:
        network["seconds_per_descriptor"] = _supplied("1 us", high="2 us")
        network["regions_per_block"] = _supplied(draw.choice([1, 2]), high=4)


def _curve(draw: random.Random) -> str:
    """Measured transfers that no link of the template is too slow for."""
    with_upper = draw.random() < 0.5
    lines = ["bytes,seconds" + (",high_s" if with_upper else "")]
    size, seconds = draw.choice([10**5, 10**7]), 0.005
    for _ in range(draw.choice([2, 5, 8])):
        lines.append(f"{size},{seconds:.7f}" + (f",{seconds * 1.2:.7f}" if with_upper else ""))
        size *= draw.choice([2, 4, 16])
        seconds = max(seconds * draw.choice([1.0, 1.9, 3.5]), size / 3e9)
    return "\n".join(lines) + "\n"


def _traffic(draw: random.Random, cohort: Json) -> None:
    service = cohort["service"]
    service["first_token_source"] = draw.choice(["decode", "prefill"])
    service["dispatch"] = draw.choice(["least_loaded", "round_robin"])
    if draw.random() < 0.3:
        service["prefill"]["prefix_hit_ratio"] = _supplied(0.4, low=0.2)
    kind, scv = draw.random(), draw.choice([0, 0.3, 1, 2, 6])
    if kind < 0.2:
        arrivals: Json = {"concurrency": _supplied(draw.choice([4, 64]), high=80)}
        cohort["requests"]["arrivals"] = arrivals | {"scv": _supplied(scv, high=scv + draw.choice([0, 2]))}
    elif kind < 0.6:
        rate = draw.choice([0.05, 1, 3, 8, 20])
        arrivals = {"rate": _supplied(f"{rate}/s", high=f"{rate * 1.3}/s")}
        cohort["requests"]["arrivals"] = arrivals | {"scv": _supplied(scv, high=scv + 1)}
    if draw.random() < 0.2:
        cohort["objectives"]["ttft_growth"] = "380 ms"


def _requests(draw: random.Random, requests: Json) -> None:
    """Other buckets, fewer requests, or classes of them: one length, one output, tokens that only prefill emits."""
    if draw.random() < 0.3:
        requests["bucket_edges_tokens"] = draw.choice([[700], {"quantiles": 5}, {"log": 3}])
    way = draw.random()
    if way < 0.2 and "arrivals" in requests:
        del requests["trace"]
        requests["classes_from"] = {"provenance": "supplied"}
        lengths = draw.choice(
            [[(1000, 0, 100)], [(400, 0, 1), (3000, 0, 1)], [(300, 0, 1), (900, 0, 40), (9000, 0, 400)]]
        )
        requests["classes"] = [
            {"weight": draw.choice([1, 5]), "prompt_tokens": p, "cached_prompt_tokens": h, "output_tokens": o}
            for p, h, o in lengths
        ]
    elif way < 0.4:
        requests["slice"] = {"thin": {"keep": 1, "of": draw.choice([3, 40, 900])}}


def _service(draw: random.Random, service: Json, directory: Path) -> None:
    prefill, decode = service["prefill"], service["decode"]
    prefill["discipline"] = draw.choice(["fifo", "shortest_first"])
    if draw.random() < 0.3:
        service["mixed_step_penalty"] = _supplied(0.2, high=1.5)
    if draw.random() < 0.4:
        prefill["seconds_per_token_squared"] = _supplied(1e-9, high=3e-9)
    if draw.random() < 0.2:
        decode["max_sequences"] = _supplied(draw.choice([4, 24]), low=3)
    if draw.random() < 0.15:
        decode["seconds_per_context_token"] = _supplied(0)
    if draw.random() < 0.3:
        ceiling = draw.choice([0.5, 0.95])
        prefill["utilization_ceiling"] = decode["utilization_ceiling"] = _supplied(ceiling)
    if draw.random() < 0.35:
        _measured(draw, prefill, directory / "prefill.csv", ("tokens_per_second", "overhead"))
    if draw.random() < 0.35:
        _measured(draw, decode, directory / "decode.csv", ("tokens_per_second", "step_overhead"))


def _measured(draw: random.Random, phase: Json, path: Path, instead: tuple[str, ...]) -> None:
    """A service curve in place of a rate and an overhead."""
    for name in (*instead, "peak_tokens_per_second"):
        phase.pop(name, None)
    path.write_text(_service_curve(draw, "tokens" if path.stem.endswith("prefill") else "sequences"))
    phase["curve"] = {"file": path.name, "provenance": "observed", "source": "a sweep"}


def _service_curve(draw: random.Random, sizes: str) -> str:
    with_upper = draw.random() < 0.5
    size, seconds = (draw.choice([1, 100]), 0.009) if sizes == "tokens" else (draw.choice([1, 1, 2, 8]), 0.011)
    per_one = 1 / 11_000 if sizes == "tokens" else 1 / 4_000
    lines = [f"{sizes},seconds" + (",seconds_high" if with_upper else "")]
    for _ in range(draw.choice([2, 3, 6, 9])):
        lines.append(f"{size},{seconds:.7f}" + (f",{seconds * 1.15:.7f}" if with_upper else ""))
        more = size * draw.choice([1, 2, 7])
        size, seconds = size + more, seconds + more * per_one * draw.choice([0.0, 0.6, 1.0, 1.3])
    return "\n".join(lines) + "\n"


def _pools(draw: random.Random, cohort: Json, directory: Path) -> None:
    """Workers of the separate pools that are not those of the mixed one."""
    each = cohort["inventory"]["gpus_per_worker"]
    separated: Json = {}
    if draw.random() < 0.3:
        separated["prefill"] = {
            "tokens_per_second": _supplied(9000, low=7000),
            "overhead": _supplied("9 ms"),
            "kv_memory_per_worker": _supplied("12 GiB"),
        }
        if draw.random() < 0.3:
            _measured(draw, separated["prefill"], directory / "own-prefill.csv", ("tokens_per_second", "overhead"))
        if draw.random() < 0.5 and each > 1:
            separated["prefill"]["gpus_per_worker"] = _supplied(each // 2)
            cohort["model"]["tensor_parallel"] = 1
    if draw.random() < 0.3:
        separated["decode"] = {
            "tokens_per_second": _supplied(6000, low=5000),
            "step_overhead": _supplied("8 ms", high="9 ms"),
            "seconds_per_context_token": _supplied(3e-8),
            "kv_memory_per_worker": _supplied("60 GiB"),
            "max_sequences": _supplied(100),
        }
        if draw.random() < 0.3:
            _measured(draw, separated["decode"], directory / "own-decode.csv", ("tokens_per_second", "step_overhead"))
    if separated:
        cohort["separated"] = separated


def _objectives(draw: random.Random, objectives: Json) -> None:
    stretch = draw.choice([0.5, 1, 1, 3, 20])
    objectives["ttft"], objectives["tpot"] = f"{stretch * 800} ms", f"{max(13, stretch * 30)} ms"
    objectives["attainment"] = draw.choice([0.5, 0.9, 0.99])
    if draw.random() < 0.4:
        objectives["e2e"] = f"{stretch * 12} s"
    if draw.random() < 0.3:
        objectives.pop("stall", None)
    if draw.random() < 0.3:
        objectives["transfer_reserve"] = 0.6
    if draw.random() < 0.4:
        own: Json = {"prompt_tokens_below": draw.choice([600, 2048]), "ttft": f"{stretch * 300} ms"}
        objectives["buckets"] = [own | ({"tpot": f"{stretch * 25} ms"} if draw.random() < 0.5 and stretch >= 1 else {})]
    if draw.random() < 0.3:
        objectives["note"] = "drawn"


def _topologies(draw: random.Random, cohort: Json) -> None:
    topologies: Json = {
        "aggregated": {},
        "chunked": {"chunk_tokens": draw.choice([[512], [128, 512, 2048], [300, 8192]])},
    }
    way = draw.random()
    if way < 0.75:
        topologies["disaggregated"] = {}
    if way > 0.45:
        topologies["routed"] = {"threshold_tokens": draw.choice([[1024], [500, 2048]])}
        if draw.random() < 0.6:
            topologies["routed"]["chunk_tokens"] = draw.choice([[512], [256, 1024]])
    cohort["topologies"] = topologies
    if draw.random() < 0.4:
        cohort["inventory"]["gpu_hour_price"] = _supplied(2.5)
    if "routed" in topologies:
        cohort["inventory"]["gpus"] -= cohort["inventory"]["gpus_per_worker"] * draw.choice([0, 1])
