"""The worked example at the end of docs/arithmetic.md: every number on the page is computed here in plain numbers, and by the planner."""

import math
import re
from pathlib import Path

import pytest

from tests.plans import evaluation_of, in_pairs, inputs_frame_of, row_of
from tests.topologies.by_hand import crossing, loss, within
from tests.topologies.worked import LONG, SHORT

REQUESTS = in_pairs((500, 41), (500, 41), (500, 41), (500, 41), (3000, 81))
INPUTS = inputs_frame_of(ttft=0.5)
PROMPTS, OUTPUTS = (500, 500, 500, 500, 3000), (41, 41, 41, 41, 81)

Values = dict[str, float]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def requests() -> Values:
    """Moments, g = 1."""
    p, o = PROMPTS, OUTPUTS
    return {
        "Λ": 2.0,
        "ca²": 1.0,
        "p1": mean([float(one) for one in p]),
        "o1": mean([float(one) for one in o]),
        "o2": mean([float(one * one) for one in o]),
        "po": mean([float(one * other) for one, other in zip(p, o, strict=True)]),
        "m": 1.0,
    }


def service(v: Values) -> Values:
    v = v | {"S(500)": 0.01 + 500 / 10_000, "S(3000)": 0.01 + 3000 / 10_000}
    v["S̄"] = (4 * v["S(500)"] + v["S(3000)"]) / 5
    v["S2"] = (4 * v["S(500)"] ** 2 + v["S(3000)"] ** 2) / 5
    v["cs²"] = v["S2"] / v["S̄"] ** 2 - 1
    v["E[p·S]"] = (4 * 500 * v["S(500)"] + 3000 * v["S(3000)"]) / 5
    v["c"] = 1 / 2000
    v["t(1)"] = 0.01 + v["c"]
    return v


def decode(v: Values, g: int) -> Values:
    v = v | {"D1": v["o1"] - g, "D2": v["o2"] - 2 * g * v["o1"] + g, "PD": v["po"] - g * v["p1"]}
    v["R"] = (v["PD"] + v["D2"] / 2) / v["D1"]
    v["cH²"] = v["D2"] / v["D1"] ** 2 - 1
    return v


def most(kappa: float, r: float) -> float:
    """k_N of five requests."""

    def rate(k: float) -> float:
        return k * math.log(k / (kappa * (k + r))) + r * math.log(r / ((1 - kappa) * (k + r)))

    return crossing(rate, r * kappa / (1 - kappa), math.log(5))


def aggregated() -> Values:
    v = decode(service(requests()), 1)
    v["ρ_p"] = 2 * v["S̄"]
    v["x"] = 2 * v["D1"]
    v["ρ_d"] = v["x"] * v["c"]
    v["ρ"] = v["ρ_p"] + v["ρ_d"]
    v["κ0"] = v["ρ_d"] / (1 - v["ρ_p"])
    v["r0"] = v["t(1)"] / v["c"]
    v["A"] = 1 - (1 - v["κ0"]) ** v["r0"]
    v["p_0"] = (1 - v["ρ_p"]) * (1 - v["A"])
    v["a"] = 2 * (v["S̄"] + v["D1"] * v["t(1)"])
    v["E"] = loss(0, v["a"])
    v["β"] = v["y"] = 1 - v["p_0"]
    v["φ"] = v["β"] / v["y"]
    v["pace(ρ_p, x)"] = v["t(1)"] / (1 - v["ρ"])
    v["τ_r"] = (1 - v["ρ_p"]) * v["pace(ρ_p, x)"]
    v["W_res"] = v["A"] * v["τ_r"] / 2
    v["Pw"] = v["ρ_p"]
    v["W"] = (1 + v["cs²"]) / 2 * v["ρ_p"] / (1 - v["ρ_p"]) * v["S̄"]
    v["dw"] = 2 * (v["W"] + v["W_res"] + v["S̄"]) * v["S̄"] / (1 - v["ρ_p"])
    v["f"] = v["dw"] / v["S̄"]
    v["t"] = (0.01 + v["c"] * (1 + v["f"])) / (1 - v["ρ"])
    v["b"] = v["x"] * v["t"]
    v["σ"] = v["b"] / 7
    v["W_slot"] = (1 + v["cH²"]) / 2 * v["σ"] ** (math.sqrt(16) - 1) / (7 * (1 - v["σ"])) * v["D1"] * v["t"]
    v["prefill_wait"] = v["W"] + v["W_res"] + v["W_slot"]
    v["first_decode_step"] = v["t"] * (1 - v["ρ_p"])
    for name, p, o in (("500", 500, 41), ("3000", 3000, 81)):
        v[f"TTFT({name})"] = 0.002 + v["prefill_wait"] + v[f"S({p})"]
        v[f"remaining_generation({name})"] = (o - 2) * v["t"]
        v[f"E2E({name})"] = v[f"TTFT({name})"] + v["dw"] + v["first_decode_step"] + v[f"remaining_generation({name})"]
        v[f"TPOT({name})"] = (v[f"E2E({name})"] - v[f"TTFT({name})"]) / (o - 1)
    v["k_N"] = min(most(v["κ0"], v["r0"]), 7.0)
    v["τ_N"] = 0.01 + v["c"] * v["k_N"]
    best = math.inf
    for i in range(-40, 25):
        s = 2 ** (i / 4) / 0.31
        more = s * v["S̄"] + v["S2"] / 0.31**2 * (math.exp(s * 0.31) - 1 - s * 0.31)
        if s > 2 * more:
            bound = (math.log(5) + math.log1p(more) + 2 * v["τ_N"] * more) / (s - 2 * more)
            best = min(best, bound)
    v["stall"] = best + v["τ_N"]
    v["kv_mixed"] = 2 * 10_000 * (v["E[p·S]"] + v["p1"] * v["dw"] + v["t"] * (v["PD"] + v["D2"] / 2)) / 1e9
    v["fix(500)"], v["fix(3000)"] = (v[f"TTFT({p})"] - v["W"] for p in (500, 3000))
    for p in (500, 3000):
        v[f"in time({p})"] = 1 - v["Pw"] * math.exp(-v["Pw"] * (0.5 - v[f"fix({p})"]) / v["W"])
    v["P_r"] = v["Pw"] + 2 * v["W_res"]
    for p, o in ((500, 41), (3000, 81)):
        d, x = o - 1, (o - 1) / v["D1"] * (1 - v["κ0"])
        v[f"v_b({p})"] = (d * v["c"] / (1 - v["ρ_p"])) ** 2 * v["b"] / (1 - v["κ0"]) * 2 * (x - 1 + math.exp(-x)) / x**2
        v[f"μ({p})"] = v["dw"] + d * (v["t"] - v["t(1)"])
        steps = d * v["first_decode_step"] * 2 * v["S2"] / (1 - v["ρ_p"]) ** 3
        v[f"σ²({p})"] = v["dw"] ** 2 * (2 / v["P_r"] - 1) + steps + v[f"v_b({p})"]
        v[f"paced({p})"] = within(d * (0.02 - v["t(1)"]), v[f"μ({p})"], v[f"σ²({p})"])
    v["goodput"] = 0.8 * v["in time(500)"] * v["paced(500)"] + 0.2 * v["in time(3000)"] * v["paced(3000)"]
    return v


def disaggregated() -> Values:
    v = decode(service(requests()), 0)
    v["ρ_p"] = 2 * v["S̄"]
    v["W"] = (1 + v["cs²"]) / 2 * v["ρ_p"] / (1 - v["ρ_p"]) * v["S̄"]
    v["T(500)"], v["T(3000)"] = 0.005 + 5e6 / 1e9, 0.005 + 3e7 / 1e9
    v["T_l"] = (4 * v["T(500)"] + v["T(3000)"]) / 5
    v["c_l²"] = (4 * v["T(500)"] ** 2 + v["T(3000)"] ** 2) / 5 / v["T_l"] ** 2 - 1
    v["E[p·T]"] = (4 * 500 * v["T(500)"] + 3000 * v["T(3000)"]) / 5
    v["ρ_l"] = 2 * v["T_l"]
    v["W_l"] = (1 + v["c_l²"]) / 2 * v["ρ_l"] / (1 - v["ρ_l"]) * v["T_l"]
    v["x"] = 2 * v["D1"]
    v["κ0"] = v["ρ_d"] = v["x"] * v["c"]
    v["r0"] = v["t(1)"] / v["c"]
    v["A"] = 1 - (1 - v["κ0"]) ** v["r0"]
    v["t"] = v["t(1)"] / (1 - v["ρ_d"])
    v["b"] = v["x"] * v["t"]
    v["σ"] = v["b"] / 7
    v["W_slot"] = (1 + v["cH²"]) / 2 * v["σ"] ** (math.sqrt(16) - 1) / (7 * (1 - v["σ"])) * v["D1"] * v["t"]
    v["decode_wait"] = v["A"] * v["t"] / 2 + v["W_slot"]
    for p, o in ((500, 41), (3000, 81)):
        v[f"TTFT({p})"] = 0.002 + v["W"] + v[f"S({p})"] + v["W_l"] + v[f"T({p})"] + v["decode_wait"] + v["t"]
        v[f"E2E({p})"] = v[f"TTFT({p})"] + (o - 1) * v["t"]
        v[f"fix({p})"] = v[f"TTFT({p})"] - v["W"]
        v[f"in time({p})"] = 1 - v["ρ_p"] * math.exp(-v["ρ_p"] * (0.5 - v[f"fix({p})"]) / v["W"])
        d, x = o - 1, (o - 1) / v["D1"] * (1 - v["κ0"])
        v[f"μ({p})"] = d * (v["t"] - v["t(1)"])
        v[f"σ²({p})"] = (d * v["c"]) ** 2 * v["b"] / (1 - v["κ0"]) * 2 * (x - 1 + math.exp(-x)) / x**2
        v[f"paced({p})"] = within(d * (0.02 - v["t(1)"]), v[f"μ({p})"], v[f"σ²({p})"])
    v["TPOT"] = v["t"]
    v["k_N"] = min(most(v["κ0"], v["r0"]), 7.0)
    w = crossing(lambda y: v["b"] * (y * math.log(y) - (y - 1)), 1.0, math.log(5)) - 1
    v["stall"] = 0.01 + v["c"] * max(v["k_N"], v["b"] * (1 + w))
    moving = v["p1"] * v["W_l"] + v["E[p·T]"]
    v["kv_prefill"] = 2 * 10_000 * (v["E[p·S]"] + moving) / 1e9
    v["kv_decode"] = 2 * 10_000 * (moving + v["p1"] * v["decode_wait"] + v["t"] * (v["PD"] + v["D2"] / 2)) / 1e9
    v["staging"] = 2 * (v["W_l"] + v["T_l"]) / (7 - v["b"])
    v["goodput"] = 0.8 * v["in time(500)"] * v["paced(500)"] + 0.2 * v["in time(3000)"] * v["paced(3000)"]
    return v


SCENARIOS = {"aggregated": aggregated, "disaggregated": disaggregated}
NAMES = {"aggregated": "aggregated/n1", "disaggregated": "disaggregated/p1/d1"}


def printed(page: str) -> dict[str, list[tuple[str, str]]]:
    """Symbol and value as they stand in the tables of the worked example, by the topology that a heading names."""
    section = page.partition("A worked example\n")[2].partition("\n## ")[0]
    found: dict[str, list[tuple[str, str]]] = {}
    topology = ""
    for line in section.splitlines():
        if line.startswith("**"):
            topology = line.strip("*").split("**")[0].split(",")[0].lower()
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| `") else []
        if cells:
            found.setdefault(topology, []).append((cells[0].strip("`"), cells[-1]))
    return found


@pytest.fixture(scope="module")
def page(project: Path) -> str:
    return (project / "docs" / "arithmetic.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("topology", SCENARIOS)
def test_every_number_on_the_page_is_the_one_that_the_equations_give(page: str, topology: str) -> None:
    rows, values = printed(page)[topology], SCENARIOS[topology]()
    assert len(rows) == len(dict(rows)), "a symbol has one row"
    assert dict(rows) == {symbol: f"{value:.10g}" for symbol, value in values.items()}


def test_the_example_is_the_last_section_but_what_is_left_out(page: str) -> None:
    headings = re.findall(r"^## (.*)$", page, flags=re.M)
    assert [heading.partition(" ")[2] for heading in headings[-2:]] == ["A worked example", "What it leaves out"]


@pytest.mark.parametrize("topology", SCENARIOS)
def test_the_planner_says_the_same(topology: str) -> None:
    values, evaluation = SCENARIOS[topology](), evaluation_of(topology, INPUTS, REQUESTS, [1000])
    for bucket, p in ((SHORT, 500), (LONG, 3000)):
        row = row_of(evaluation, NAMES[topology], bucket=bucket)
        assert row["ttft_s"] == pytest.approx(values[f"TTFT({p})"], rel=1e-10)
        assert row["e2e_s"] == pytest.approx(values[f"E2E({p})"], rel=1e-10)
        tpot = values["TPOT" if topology == "disaggregated" else f"TPOT({p})"]
        assert row["tpot_s"] == pytest.approx(tpot, rel=1e-10)
        for name in ("goodput", "stall_s", "decode_batch"):
            assert row[name] == pytest.approx(
                values[{"stall_s": "stall", "decode_batch": "b"}.get(name, name)], rel=1e-10
            )
        for name in ("kv_mixed", "kv_prefill", "kv_decode", "staging"):
            if name in values:
                assert row[f"load_{name}"] == pytest.approx(values[name], rel=1e-10)
