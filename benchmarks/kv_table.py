"""Rewrite the table of published configurations in docs/kv.md from a directory of them: what each takes, and what that was held against.

``python benchmarks/kv_table.py [DIRECTORY]``; without one, ../shared/models beside the checkout.
"""

import csv
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from pathlib import Path

from pipelines.arithmetic.kv import cache_bytes
from pipelines.cli.kv_numbers import figure
from pipelines.declarations.cache import CacheShape
from pipelines.declarations.model_configs import read_model_cache
from pipelines.declarations.problems import DeclarationProblems

PROJECT = Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "kv.md"
FOLDERS = ("hf", "mlc_preset", "transformers_defaults")
BLOCK = re.compile(r"(?<=<!-- published configurations -->\n).*?(?=<!-- end -->)", re.DOTALL)
HEAD = """\
| configuration | family | grows, B/token | window, B/token | state, B/sequence | held against |
| --- | --- | ---: | ---: | ---: | --- |
"""
_LONGEST_REASON = 96

GIB = 2**30


@dataclass(frozen=True)
class Printed:
    """Bytes of a number of tokens as somebody measured or printed them: allocated, over all ranks."""

    words: str
    size: float
    tokens: int
    kv_dtype: str = "bf16"
    ranks: int = 1

    def differs(self, shape: CacheShape) -> str | None:
        """Ours beside theirs, where they are further apart than printed digits and whole blocks explain."""
        ours, theirs = float(cache_bytes(shape, self.kv_dtype, self.ranks).allocated), self.size / self.tokens
        return None if abs(ours / theirs - 1) <= APART else f"{ours:,.0f} allocated, {theirs:,.0f} printed"


APART = 0.001
PUBLISHED = {
    "hf/Qwen--Qwen3-235B-A22B": Printed("12.62 GB for 32,768 tokens at tp 8", 12.62e9, 32_768, ranks=8),
    "hf/inference-sim__qwen3-14b": Printed("40 MiB for 256 tokens", 40 * 2**20, 256),
    "hf/deepseek-ai--DeepSeek-V3": Printed("0.65446 GiB for 10,000 tokens", 0.65446 * GIB, 10_000),
    "hf/zai-org--GLM-5-FP8": Printed("26.22 GiB for 457,920 tokens, packed", 26.22 * GIB, 457_920, "fp8_ds_mla"),
    "hf/openai--gpt-oss-120b": Printed("5.38 GiB for 78,384 tokens, all allocated", 5.38 * GIB, 78_384),
    "mlc_preset/qwen2_0_5b": Printed("0.11444 GiB for 10,000 tokens of the like Qwen2.5-0.5B", 0.11444 * GIB, 10_000),
}

BY_HAND = {
    "hf/meta-llama--Meta-Llama-3.1-405B": "2 x 126 x 8 x 128 x 2",
    "mlc_preset/aya-23": "2 x 32 x 8 x 128 x 2",
    "mlc_preset/baichuan": "2 x 32 x 32 x 128 x 2",
    "mlc_preset/deepseek_v2_lite": "27 x 576 x 2",
    "mlc_preset/gemma2_27b": "2 x 23 x 16 x 128 x 2",
    "mlc_preset/gpt2": "2 x 12 x 12 x 64 x 2",
    "mlc_preset/gpt_j": "2 x 28 x 16 x 256 x 2",
    "mlc_preset/internlm2": "2 x 32 x 8 x 128 x 2",
    "mlc_preset/llava": "2 x 32 x 32 x 128 x 2",
    "mlc_preset/minicpm_2b": "2 x 40 x 36 x 64 x 2",
    "mlc_preset/olmo2_32b": "2 x 64 x 8 x 128 x 2",
    "mlc_preset/phi-3_5": "2 x 32 x 32 x 96 x 2",
    "mlc_preset/phi-3_5-vision": "2 x 32 x 32 x 96 x 2",
    "mlc_preset/stablelm": "2 x 32 x 32 x 80 x 2",
    "mlc_preset/starcoder2": "2 x 32 x 4 x 128 x 2",
    "transformers_defaults/apertus": "2 x 32 x 32 x 128 x 2",
    "transformers_defaults/codegen": "2 x 28 x 16 x 256 x 2",
    "transformers_defaults/gemma": "2 x 28 x 16 x 256 x 2",
    "transformers_defaults/gemma3n": "2 x 20 x 2 x 256 x 2",
    "transformers_defaults/gpt_neox": "2 x 44 x 64 x 96 x 2",
    "transformers_defaults/idefics3": "2 x 32 x 32 x 128 x 2",
    "transformers_defaults/mbart": "2 x 12 x 16 x 64 x 2",
    "transformers_defaults/mistral": "2 x 32 x 8 x 128 x 2",
    "transformers_defaults/mixtral": "2 x 32 x 8 x 128 x 2",
    "transformers_defaults/phi4_multimodal": "2 x 32 x 8 x 96 x 2",
    "transformers_defaults/qwen2_5_vl": "2 x 80 x 8 x 128 x 2",
    "transformers_defaults/smollm3": "2 x 36 x 4 x 128 x 2",
    "transformers_defaults/stablelm": "2 x 32 x 32 x 80 x 2",
    "transformers_defaults/t5gemma": "2 x 26 x 4 x 256 x 2",
    "transformers_defaults/vaultgemma": "2 x 26 x 4 x 256 x 2",
}
"""Growth with windows, of layers, heads and elements as the file has them, or as its family has them by default."""

ALSO_BY_HAND = {
    "hf/deepseek-ai--DeepSeek-V3.2": {"index": "61 x 132"},
    "hf/nvidia--GLM-5.2-NVFP4": {"index": "21 x 132"},
    "hf/zai-org--GLM-5": {"index": "78 x 132"},
    "hf/zai-org--GLM-5-FP8": {"index": "78 x 132"},
    "hf/zai-org--GLM-5.1": {"index": "78 x 132"},
    "hf/zai-org--GLM-5.1-FP8": {"index": "78 x 132"},
    "hf/zai-org--GLM-5.2-FP8": {"index": "21 x 132"},
    "mlc_preset/rwkv5_3b": {"state": "32 x 40 x 64 x 64 x 4 + 32 x 2 x 2560 x 2"},
    "transformers_defaults/bart": {"cross": "2 x 12 x 16 x 64 x 2"},
    "transformers_defaults/cohere2": {"window": "2 x 30 x 64 x 128 x 2"},
    "transformers_defaults/gemma2": {"window": "2 x 13 x 4 x 256 x 2"},
    "transformers_defaults/gemma3_text": {"window": "2 x 22 x 4 x 256 x 2"},
    "transformers_defaults/jamba": {"state": "28 x 8192 x 16 x 4 + 28 x 8192 x 3 x 2"},
    "transformers_defaults/mbart": {"cross": "2 x 12 x 16 x 64 x 2"},
    "transformers_defaults/minimax": {"state": "16 x 32 x 128 x 128 x 4"},
    "transformers_defaults/mllama": {"cross": "2 x 8 x 8 x 128 x 2"},
    "transformers_defaults/qwen3_next": {"state": "36 x 32 x 128 x 128 x 4 + 36 x 8192 x 3 x 2"},
    "transformers_defaults/recurrent_gemma": {
        "window": "2 x 8 x 10 x 256 x 2",
        "state": "18 x 2560 x 4 + 18 x 2560 x 3 x 2",
    },
    "transformers_defaults/t5": {"cross": "2 x 6 x 8 x 64 x 2"},
    "transformers_defaults/t5gemma": {"cross": "2 x 26 x 4 x 256 x 2"},
    "transformers_defaults/whisper": {"cross": "2 x 4 x 6 x 64 x 2"},
}
"""The other figures of files whose expectations have none of them."""


@dataclass(frozen=True)
class Row:
    """A line of the table; ``differs`` says how the figures and what they were held against do not agree."""

    name: str
    cells: tuple[str, ...]
    differs: str | None = None

    def __str__(self) -> str:
        """The line in Markdown."""
        return f"| {' | '.join((self.name, *self.cells))} |\n"


def table(models: Path) -> str:
    """The table of all configurations under ``models``."""
    return HEAD + "".join(map(str, rows(models)))


def rows(models: Path) -> Iterator[Row]:
    """A row per configuration, by folder and name."""
    expected = expectations(models)
    for folder in FOLDERS:
        for file in sorted((models / folder).glob("*.json"), key=lambda path: path.name.lower()):
            yield _row(f"{folder}/{file.stem.removesuffix('_config')}", file, expected.get(f"{folder}/{file.name}"))


def expectations(models: Path) -> dict[str, dict[str, str]]:
    """What was derived beside the files, by other means than ours: the columns of their lists by file."""
    found: dict[str, dict[str, str]] = {}
    for name in ("KV_EXPECTED_traps.csv", "KV_EXPECTED.csv"):
        with (models / name).open(encoding="utf-8", newline="") as lines:
            found |= {row["file"]: row for row in csv.DictReader(lines)}
    return found


def _row(name: str, file: Path, expected: dict[str, str] | None) -> Row:
    try:
        model = read_model_cache(file)
    except DeclarationProblems as refused:
        problem = refused.problems[0]
        found = f"{problem.path}: {problem.message}" if problem.path else problem.message
        reason = found.split("; expected")[0].replace("|", "/")
        short = reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON].rsplit(" ", 1)[0] + " …"
        wanted = _growth(expected)
        differs = f"refused, and {wanted} expected" if wanted not in (None, "", "REFUSE") else None
        return Row(name, ("", "", "", "", f"refused: {short}"), differs)
    cache = cache_bytes(model.shape, "bf16")
    checks, differs = _checks(name, model.shape, expected)
    windows = ", ".join(f"{figure(one.bytes_per_token)} to {one.tokens:,}" for one in cache.windows)
    growth = figure(cache.attention) + (f" + {figure(cache.index)} index" if cache.index else "")
    if cache.cross:
        positions = "prompt token" if cache.cross_tokens is None else f"position (of {cache.cross_tokens:,})"
        growth += f"; cross {figure(cache.cross)} per {positions}"
    state = figure(cache.state) if cache.state else ""
    return Row(name, (model.family or "", growth, windows, state, checks), differs)


def _growth(expected: dict[str, str] | None) -> str | None:
    if expected is None:
        return None
    found = expected.get("grow_bytes_per_token_bf16") or expected.get("expected_grow_bytes_per_token_bf16") or ""
    return found.removesuffix(" beyond 2048")


def _checks(name: str, shape: CacheShape, expected: dict[str, str] | None) -> tuple[str, str | None]:
    """In a few words what each figure was held against, and how they differ from it."""
    cache = cache_bytes(shape, "bf16")
    ours = {
        "growth": cache.attention,
        "window": cache.window,
        "state": cache.state,
        "index": cache.index,
        "cross": cache.cross,
    }
    words, derived, differs = [], [], []
    if name in PUBLISHED:
        words.append(f"published: {PUBLISHED[name].words}")
        differs.append(PUBLISHED[name].differs(shape))
    by_hand = {"growth": BY_HAND[name]} if name in BY_HAND else {}
    for what, text in (by_hand | ALSO_BY_HAND.get(name, {})).items():
        words.append(f"by hand: {what if what != 'growth' else ''} {text}".replace("  ", " "))
        differs.append(_differs(what, worked(text), ours, also_with_windows=what == "growth"))
    for what, column in (("window", "window_bytes_per_token"), ("state", "state_bytes_per_seq")):
        if expected is not None and expected.get(column):
            derived.append(what)
            differs.append(_differs(what, int(expected[column]), ours, also_with_windows=False))
    wanted = _growth(expected)
    if wanted == "REFUSE":
        differs.append("expected to be refused")
    elif wanted:
        derived.insert(0, "growth" if int(wanted) == cache.attention else "growth with window")
        differs.append(_differs("growth", int(wanted), ours, also_with_windows=True))
    if derived:
        words.append(f"derived: {', '.join(derived)}")
    unheld = [what for what, value in ours.items() if value and what not in " ".join(words) and what != "growth"]
    if not words or (unheld and name not in BY_HAND):
        differs.append(f"{', '.join(unheld) or 'growth'} held against nothing")
    return "; ".join(words), "; ".join(one for one in differs if one) or None


def _differs(what: str, wanted: int, ours: dict[str, Fraction], *, also_with_windows: bool) -> str | None:
    fits = wanted == ours[what] or (also_with_windows and wanted == ours["growth"] + ours["window"])
    return None if fits else f"{what} {figure(ours[what])}, expected {wanted:,}"


def worked(text: str) -> int:
    """What a sum of products comes to.

    >>> worked("2 x 3 + 4 x 5")
    26
    """
    return sum(prod(map(int, product.split(" x "))) for product in text.split(" + "))


def main() -> None:
    """Rewrite the table; say what does not agree."""
    models = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT.parent / "shared" / "models"
    if not models.is_dir():
        sys.exit(f"{models}: no such directory; expected one with {', '.join(FOLDERS)}")
    page = PAGE.read_text(encoding="utf-8")
    shown = table(models)
    PAGE.write_text(BLOCK.sub(lambda _: shown, page), encoding="utf-8")
    for row in rows(models):
        if row.differs:
            print(f"{row.name}: {row.differs}")


if __name__ == "__main__":
    main()
