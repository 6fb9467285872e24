"""The verifier as a program: exit codes, both ways to start it, and no traceback whatever it is given."""

import copy
import json
import random
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.oracle import main, render_json, render_text, verify, verifying
from pipelines.oracle.canonical import canonical_bytes
from pipelines.oracle.reading import ReceiptFile, read_receipt
from tests.oracle.forging import attach, load, matrix_rows, write


@pytest.fixture
def copied(receipt_directories: dict[str, Path], tmp_path: Path) -> Path:
    """A receipt and its matrix, to be changed."""
    for name in ("receipt.json", "matrix.csv"):
        shutil.copy(receipt_directories["moderate-chat"] / name, tmp_path / name)
    return tmp_path / "receipt.json"


def test_every_shipped_cohort_is_verified(receipt_directories: dict[str, Path]) -> None:
    for name, directory in receipt_directories.items():
        verification = verify(directory / "receipt.json")
        assert verification.passed, f"{name}: {render_text(verification)}"
        assert verification.matrix == str(directory / "matrix.csv")
        assert {"seal", "canonical form", "fingerprints", "lanes", "loads", "matrix", "verdicts", "decision"} <= set(
            verification.checked
        )


@pytest.mark.parametrize(
    "start", [["-m", "pipelines.oracle"], ["-I", "-S", "pipelines/oracle"]], ids=["module", "alone"]
)
def test_it_starts_as_a_module_and_alone(start: list[str], copied: Path, project: Path) -> None:
    done = subprocess.run(
        [sys.executable, *start, str(copied)], cwd=project, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "verified" in done.stdout.splitlines()[0]


def test_it_starts_packed_into_an_archive(copied: Path, project: Path, tmp_path: Path) -> None:
    packed = tmp_path / "phaseledger-oracle.pyz"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("__main__.py", "import sys\n\nfrom oracle import main\n\nsys.exit(main())\n")
        for module in (project / "pipelines" / "oracle").glob("*.py"):
            archive.write(module, f"oracle/{module.name}")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", str(packed), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    done = run("receipt.json", "--matrix", "matrix.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].endswith("values compared: verified")
    assert run("none.json").returncode == 2
    assert run("--help").stdout.startswith("usage: phaseledger-oracle [-h]")


def test_alone_it_loads_nothing_but_itself_and_the_standard_library(copied: Path, project: Path) -> None:
    script = (
        "import runpy, sys\n"
        "sys.argv = ['oracle', sys.argv[1]]\n"
        "try:\n    runpy.run_path('pipelines/oracle', run_name='__main__')\n"
        "except SystemExit as done:\n    code = done.code\n"
        "own = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(code, sorted(own))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(copied)],
        cwd=project, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "0 ['__main__', 'oracle']", done.stderr


def test_exit_codes(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(copied)]) == 0
    copied.write_bytes(copied.read_bytes() + b"\n")
    assert main([str(copied)]) == 3
    assert main([str(copied.parent / "none.json")]) == 2
    assert main([str(copied), "--matrix", str(copied.parent / "none.csv")]) == 2
    capsys.readouterr()


def test_without_its_matrix_the_receipt_says_that_it_was_not_checked(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied.parent / "matrix.csv").unlink()
    assert main([str(copied)]) == 0
    out = capsys.readouterr().out
    assert "verified, without its matrix" in out
    assert "the matrix was not checked" in out


def test_a_directory_is_its_receipt(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(copied.parent)]) == 0
    assert capsys.readouterr().out.startswith(f"{copied.parent}: verified (")
    assert verify(copied.parent).matrix == str(copied.parent / "matrix.csv")
    copied.unlink()
    assert main([str(copied.parent)]) == 2
    assert capsys.readouterr().err == f"{copied.parent}: cannot be read: No such file or directory\n"


def test_a_link_is_followed_once(copied: Path, tmp_path: Path) -> None:
    """The matrix is the one beside the receipt that a link leads to, and is called by the name that was given."""
    store, shown = tmp_path / "_store", tmp_path / "shown"
    store.mkdir()
    for name in ("receipt.json", "matrix.csv"):
        (copied.parent / name).rename(store / name)
    shown.symlink_to("_store")
    verification = verify(shown / "receipt.json")
    assert (verification.passed, verification.matrix) == (True, str(shown / "matrix.csv"))
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "receipt.json").symlink_to("../_store/receipt.json")
    (alone / "matrix.csv").write_text("of another plan")
    verification = verify(alone / "receipt.json")
    assert (verification.passed, verification.matrix) == (True, str(store / "matrix.csv"))
    assert verify(alone).receipt == str(alone)


def test_a_link_that_is_replaced_meanwhile_does_not_mix_two_plans(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two files that are read, the link comes to lead to another pair."""
    shown, stores = tmp_path / "shown", [tmp_path / "first", tmp_path / "second"]
    for store in stores:
        shutil.copytree(copied.parent, store, ignore=shutil.ignore_patterns("first", "second", "shown"))
    (stores[1] / "matrix.csv").write_text("of another plan")
    shown.symlink_to("first")

    def read_and_replace(path: Path, name: Path | None = None) -> ReceiptFile:
        file = read_receipt(path, name)
        shown.unlink()
        shown.symlink_to("second")
        return file

    monkeypatch.setattr(verifying, "read_receipt", read_and_replace)
    assert verify(shown).passed
    monkeypatch.undo()
    assert not verify(shown).passed


def test_both_outputs_end_with_the_outcome(copied: Path) -> None:
    verification = verify(copied)
    total = sum(verification.checked.values())
    assert render_text(verification).splitlines()[-1] == f"{total} values compared: verified"
    document = json.loads(render_json(verification))
    assert (document["compared"], document["outcome"], document["requests"]) == (total, "verified", None)
    receipt = load(copied.parent)
    receipt["decision"]["accepted"], receipt["decision"]["unobserved_share"] = None, 0.25
    write(copied.parent, receipt, attach(receipt, matrix_rows(receipt)))
    verification = verify(copied)
    assert render_text(verification).splitlines()[-1].endswith(" values compared: 1 values disagree")
    assert json.loads(render_json(verification))["outcome"] == "1 values disagree"


def test_text_shows_twenty_disagreements_and_counts_the_rest(copied: Path) -> None:
    receipt = load(copied.parent)
    for row in receipt["scenarios"]:
        for bound in row["bounds"].values():
            bound["pressure"] = 0.123
    write(copied.parent, receipt, attach(receipt, matrix_rows(receipt)))
    verification = verify(copied)
    lines = render_text(verification).splitlines()
    shown = [line for line in lines if ": found " in line]
    assert len(shown) == 20
    assert f"... and {len(verification.disagreements) - 20} more disagreements" in lines
    name = receipt["scenarios"][0]["scenario"]
    first = next(line for line in lines if line.startswith(f"scenarios[{name}].bounds.nominal.pressure"))
    assert re.search(r": found 0\.123, recomputed \d\.\d+ \(docs/arithmetic\.md section 6\)", first)


def test_json_holds_every_disagreement(copied: Path) -> None:
    receipt = load(copied.parent)
    receipt["scenarios"] = receipt["scenarios"][1:]
    write(copied.parent, receipt, attach(receipt, matrix_rows(receipt)))
    verification = verify(copied)
    document = json.loads(render_json(verification))
    assert document["passed"] is False
    assert len(document["disagreements"]) == len(verification.disagreements)
    assert {"where", "found", "expected", "why"} == set(document["disagreements"][0])


def test_what_a_terminal_would_act_on_is_escaped(copied: Path) -> None:
    receipt = load(copied.parent)
    receipt["scenarios"][0]["scenario"] = "\x1b[2J"
    write(copied.parent, receipt, (copied.parent / "matrix.csv").read_bytes())
    assert "\x1b" not in render_text(verify(copied))


def test_a_receipt_that_is_not_canonical_fails_where_it_departs(copied: Path) -> None:
    raw = copied.read_bytes()
    copied.write_bytes(json.dumps(json.loads(raw), indent=1).encode())
    [form] = [item for item in verify(copied).disagreements if item.why == "RFC 8785"]
    assert (form.where, str(form.found)[0], str(form.expected)[0]) == ("byte 1", "\n", '"')


def test_a_broken_seal_fails(copied: Path) -> None:
    receipt = load(copied.parent)
    receipt["seal"] = "0" * 64
    copied.write_bytes(canonical_bytes(receipt))
    assert [item.where for item in verify(copied).disagreements] == ["seal"]


NUMBERS = (0, -1, 1, 2, 0.5, -0.5, 1e-300, 1e300, 10**15)
WORDS = ("", "a", "é", "=1", "observed", "refused", "objectives.stall", "[1,inf)")
MONSTERS: tuple[Any, ...] = (None, True, False, *NUMBERS, *WORDS, [], [[]], {}, {"a": {}}, [None, 1, "x"])


def test_no_change_makes_it_stumble(copied: Path) -> None:
    """Many changes at once, of any kind, anywhere: always an exit code, never an exception."""
    original = copied.read_bytes()
    dice = random.Random(20261101)
    for _ in range(150):
        receipt = json.loads(original)
        for _ in range(dice.choice((1, 1, 2, 5))):
            _disturb(receipt, dice)
        copied.write_bytes(canonical_bytes(receipt))
        assert main([str(copied), "--format", dice.choice(("text", "json"))]) in (2, 3)


def _endless_links(receipt: Any) -> None:
    row = next(row for row in receipt["inputs"] if row["path"] == "network.links")
    row.update(value=2**53, conservative=2**53, low=None)


def _names_of_objects(receipt: Any) -> None:
    receipt["__proto__"] = receipt["cohort"]["constructor"] = {}
    receipt["scenarios"][0]["scenario"] = receipt["rules"]["gates"][0]["id"] = "__proto__"


def _the_same_scenario_over_and_over(receipt: Any) -> None:
    receipt["scenarios"] *= 10


def _the_same_bucket_over_and_over(receipt: Any) -> None:
    receipt["workload"]["buckets"] += receipt["workload"]["buckets"][1:2] * 500


def _beyond_doubles(receipt: Any) -> None:
    receipt["workload"]["buckets"][1]["attention_m2"] = 1e308
    receipt["inputs"][0]["value"] = 1e308


@pytest.mark.parametrize(
    "change",
    [
        _endless_links,
        _names_of_objects,
        _the_same_scenario_over_and_over,
        _the_same_bucket_over_and_over,
        _beyond_doubles,
    ],
)
def test_a_hostile_receipt_is_rejected_before_long(change: Callable[[Any], None], copied: Path) -> None:
    """Links without end would otherwise be counted one by one."""
    receipt = load(copied.parent)
    change(receipt)
    write(copied.parent, receipt, (copied.parent / "matrix.csv").read_bytes())
    assert main([str(copied)]) == 3


def test_a_receipt_that_is_nested_beyond_reason_is_rejected(copied: Path) -> None:
    raw = copied.read_bytes()
    for depth, code in ((900, 3), (100_000, 2)):
        copied.write_bytes(raw.replace(b'"warnings":[]', b'"warnings":' + b"[" * depth + b"]" * depth))
        assert main([str(copied)]) == code


def _disturb(receipt: Any, dice: random.Random) -> None:
    """Walk to a random place and do something there."""
    here = receipt
    while True:
        keys = list(here) if isinstance(here, dict) else range(len(here))
        if not keys:
            return
        key = dice.choice(list(keys))
        if isinstance(here[key], dict | list) and here[key] and dice.random() < 0.9:
            here = here[key]
            continue
        if dice.random() < 0.2:
            del here[key]
        elif isinstance(here, list) and dice.random() < 0.3:
            here.insert(0, copy.deepcopy(here[key]))
        else:
            here[key] = copy.deepcopy(dice.choice(MONSTERS))
        return
