"""No text, however broken, makes the loaders raise anything but DeclarationProblems, one line a problem."""

from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.declarations import Cohort, DeclarationProblems, Rules, bundled, load_cohort, load_rules

GOOD = Path(__file__).parent / "good"
TABLES = ("requests.csv", "prefill.csv", "decode.csv")
COHORTS = [file.read_text(encoding="utf-8").splitlines() for file in sorted(GOOD.glob("*.yaml"))]
RULES = "---\n".join(
    (bundled("rules") / f"{name}.yaml").read_text(encoding="utf-8") for name in ("latency", "decision")
)

SIGNS = tuple("{}[]:,-&*!|>'\"%@`#?\t\n\0~.")
YAML = (
    "<<: *a",
    "&a",
    "*a",
    "!!int",
    "!!binary",
    "---",
    "...",
    "%YAML 9.9",
    "null",
    "true",
    "{}",
    "[]",
    "- - -",
    "? ",
    ": ",
    "''",
)
VALUES = (
    "-1",
    "0",
    ".inf",
    ".nan",
    "1e999",
    "9" * 400,
    "0x",
    "80",
    "80 %",
    "8 ms",
    "m",
    "GB/s",
    "derived",
    "observed",
    '""',
)
LETTERS = ("\ud7ff", "\u2028", "\x85", "é", '"\\ud800"', '"\\0"', '"\\n8\\n ms"')
scraps = st.sampled_from(SIGNS + YAML + VALUES + LETTERS)


@st.composite
def mutated(draw: st.DrawFn, lines: list[str]) -> str:
    changed = list(lines)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed) - 1))
        line = changed[at]
        cut = draw(st.integers(0, len(line)))
        kind = draw(st.sampled_from(["insert", "cut", "drop", "double", "replace", "value", "indent"]))
        scrap = draw(scraps)
        changed[at] = {
            "insert": line[:cut] + scrap + line[cut:],
            "cut": line[:cut],
            "drop": "",
            "double": f"{line}\n{line}",
            "replace": line.replace(draw(st.sampled_from([" ", ":", "value", "supplied", "ms", "0", "1"])), scrap),
            "value": f"{line.partition(':')[0]}: {scrap}",
            "indent": f" {line}",
        }[kind]
    return "\n".join(changed)


def only_problems(directory: Path, name: str, content: bytes) -> None:
    (directory / name).write_bytes(content)
    loaded, problems = loaded_or_problems(directory / name)
    assert len("\n".join(problems).splitlines()) == len(problems)
    for problem in problems:
        assert problem.encode().startswith(str(directory).encode())
    if isinstance(loaded, Cohort):
        assert all(isinstance(row.value, str) or 0 <= row.value <= 1e24 for row in loaded.inputs)


def loaded_or_problems(file: Path) -> tuple[Cohort | Rules | None, list[str]]:
    try:
        return load_cohort(file) if file.name == "cohort.yaml" else load_rules(file.parent), []
    except DeclarationProblems as caught:
        return None, [str(problem) for problem in caught.problems]


@given(text=st.sampled_from(COHORTS).flatmap(mutated))
@settings(max_examples=500)
def test_mutated_cohorts(text: str, tmp_path: Path) -> None:
    for table in TABLES:
        (tmp_path / table).write_bytes((GOOD / table).read_bytes())
    only_problems(tmp_path, "cohort.yaml", text.encode("utf-8", "surrogatepass"))


@given(text=mutated((GOOD / "decode.csv").read_text(encoding="utf-8").splitlines()))
@settings(max_examples=200)
def test_mutated_curves(text: str, tmp_path: Path) -> None:
    for table in TABLES:
        (tmp_path / table).write_bytes((GOOD / table).read_bytes())
    (tmp_path / "decode.csv").write_bytes(text.encode("utf-8", "surrogatepass"))
    only_problems(tmp_path, "cohort.yaml", (GOOD / "routed.yaml").read_bytes())


@given(text=mutated(RULES.splitlines()))
@settings(max_examples=200)
def test_mutated_rules(text: str, tmp_path: Path) -> None:
    only_problems(tmp_path, "rules.yaml", text.encode("utf-8", "surrogatepass"))


@given(content=st.binary(max_size=60))
@example(content=b"\xff\xfe")
@example(content=b'"\\UFFFFFFFF"')
@example(content=b"%YAML " + b"9" * 5000 + b".1\n---\na: 1\n")
@example(content=b"a: !<tag:%FF> 1")
@example(content=b"!a%0Ab x")
@example(content=b"? " * 2000)
@example(content=b"- " * 5000)
@example(content=b"[" * 20000)
@example(content=b"{a: " * 2000)
@settings(max_examples=200)
def test_any_bytes(content: bytes, tmp_path: Path) -> None:
    only_problems(tmp_path, "cohort.yaml", content)
    (tmp_path / "cohort.yaml").unlink()
    only_problems(tmp_path, "rules.yaml", content)
    (tmp_path / "rules.yaml").unlink()
