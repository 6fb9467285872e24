"""How many mutants of each kind the verifier rejects: `python -m tests.oracle.kill_table`, which takes half an hour on two cores.

Tries every mutant of the receipts in `receipts()`, writes the counts to `kill_table.json` and the tables into docs/verification.md.
With `--page`, it writes the tables alone, from the counts that there are.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from pipelines.declarations import load_cohort
from pipelines.frames.canonical import canonical_bytes
from pipelines.oracle.findings import Ledger
from pipelines.oracle.requests_file import Columns, Row, requests_from
from pipelines.oracle.verifying import check_content
from pipelines.receipts.build import build_receipt
from pipelines.traces import read_cohort_requests
from tests.oracle import test_mutations, test_other_mutations, test_planner_mutations, test_rule_mutations
from tests.oracle.forging import Receipt, name_anew, shrink
from tests.oracle.handmade import receipt_of
from tests.oracle.mutants import KINDS, Mutant, mutants, noticed_at
from tests.oracle.remembering import remembered
from tests.oracle.replaying_again import LOGS, log_key
from tests.oracle.ruled import ruled
from tests.oracle.test_requests import digest, rows_of
from tests.plans import plan_of

PROJECT = Path(__file__).resolve().parents[2]
COUNTS = Path(__file__).with_suffix(".json")
PAGE = PROJECT / "docs" / "verification.md"
MUTATIONS, KILL_TABLE = "mutations", "kill table"

SHIPPED = ("short-and-long", "overloaded")
HANDMADE = {
    "open, with hits": ("open", {"cached": True}),
    "closed loop": ("closed", {"cached": True}),
    "hybrid": ("rate", {"cached": True, "stack": "hybrid"}),
}
RULED = "rules of every kind"
MADE = HANDMADE | {RULED: ("rate", {})}
NAMES = (*SHIPPED, *MADE)
EVERY = {"short-and-long": 5, "open, with hits": 5, "hybrid": 5}
"""Of how many mutants of a receipt one is tried, where not all are: these are like others, but for routing, hits and kinds of layers."""

LEVELS = ("seal", "requests", "fingerprints")
"""What the forger renews, or the verifier is given: the seal alone; that, but the verifier has the requests; fingerprints as well."""

OF_THE_REQUESTS = {
    r"/workload/buckets/\d+/arrival_scv": "no equation reads it of a single bucket",
    r"/workload/buckets/\d+/\w+_tokens_max": "the largest of all is read; laws of moments bound the others",
    r"/workload/buckets/\d+/attention_m2": "read only with a cost of attention; laws of moments bound it",
    r"/workload/windows/\d+/(peak_rps|dispersion)": "no equation reads them; the former is a whole number of requests",
    r"/replay/sample/first": "where in the log the sample is",
    r"/replay/sample/requests/\d+/\d+": "what the sample is of, where every scenario is refused and nothing is replayed",
    r"/replay/scenarios/\[.*\]/(whole|worst_minute)/.*": "the replay of all requests, held against itself; that of the sample is repeated",
}
"""Leaves that may be changed unnoticed where only the seal is renewed, unless the requests are given, as patterns of names, and why."""

MEANINGLESS = {
    r"/cohort/(name|title)": "names, where no rule names the cohort",
    r"/workload/(format|note)": "where the log is from, in words",
    r"/workload/dropped/\d+/kind": "about rows that are not there; their number is checked",
    r"/workload/steps/\d+/(step|detail)": "what was done to a log that is not there; the numbers of requests are checked",
    r"/workload/prefix_cache/scope": "what the cache was; its hits are counted",
    r"/workload/warnings/\d+": "prose, which may claim no measurement",
    r"/replay/which": "what was asked for, where nothing can be replayed",
    r"/changes/speaking/\d+/sensitivity/\d+/margin_down": "swapped with the one upwards, where both are alike but for the last digit",
}
"""Leaves that may be changed unnoticed where only the seal is renewed, whatever is given, and why."""

FREE = {
    r"/(rules/)?fingerprint": "renewed",
    r"/inputs/\[.*\]/(note|source)": "prose; a date in a source counts where a rule asks for it",
    r"/inputs/\[.*\]/low": "the end of a range that does not hurt",
    r"/inputs/\[network\.effective_bandwidth\]/provenance": "the decision does not rest on it: nothing is moved",
    r"/inputs/\[service\.(admission|decode\.step_overhead)\]/value": "every scenario is refused: no latency is computed from it",
    r"/rules/gates/\[.*\]/(kind|message|owner|rationale)": "who made the rule, in which words",
    r"/rules/gates/\[.*\]/(severity|blocking|op|bound|metric|aggregate)": "another rule with the same verdicts",
    r"/rules/gates/\[.*\]/(id|limit|cohorts/\d+|topologies/\d+)": "of a gate that does not apply, or another rule with the same verdicts",
    r"/rules/exceptions/\d+/(owner|reason)": "who made the exception, and why",
    r"/rules/exceptions/\d+/(cohorts|topologies)/\d+": "of an exception that does not hold",
}
"""Leaves that may be changed unnoticed in some receipt where the fingerprints are renewed as well, and why."""

OF_RECEIPTS = (
    test_mutations.REMOVE_TRANSFER_OVERHEAD,
    test_mutations.MERGE_THE_PHASE_QUEUES,
    test_mutations.SUBSTITUTE_PEAK,
    test_mutations.IGNORE_AN_OVERLOADED_POOL,
    test_mutations.REPORT_MODELED_AS_MEASURED,
)
"""Forms of the named mutations in receipts, in the order of the planner's."""


@cache
def receipts() -> dict[str, Receipt]:
    """Receipts on small inventories, so that every leaf can be tried: of shipped cohorts, and of what those do not have."""
    found = {}
    for name in SHIPPED:
        body, _ = build_receipt(plan_of(PROJECT / "cohorts" / name, PROJECT / "rules"))
        LOGS[log_key(body["workload"])] = _log(name)
        found[name] = shrink(json.loads(canonical_bytes(body)), workers=3, chunk_tokens=512)
    for name, (kind, options) in HANDMADE.items():
        found[name] = _of_its_requests(shrink(receipt_of(kind, **options), workers=2, chunk_tokens=512), name)
    found[RULED] = _of_its_requests(ruled(), RULED)
    return found


def _of_its_requests(receipt: Receipt, name: str) -> Receipt:
    """A handmade receipt with the digest of the requests that it was made of, which those are not read for otherwise."""
    kind, options = MADE[name]
    receipt["workload"]["requests_sha256"] = digest(rows_of(options.get("cached", False), kind))
    name_anew(receipt)
    return receipt


def excused(name: str, patterns: Iterable[str]) -> bool:
    """Whether a leaf is among those of which a reason says why they may change."""
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def outcome(name: str, mutant: Mutant) -> tuple[bool, bool, bool]:
    """Whether a mutant of a receipt is rejected, by level."""
    changed = mutant.of(receipts()[name])
    named = noticed_at(changed, renamed=True, section=mutant.section) is not None
    sealed = (
        named or noticed_at(changed, renamed=False, section=mutant.section) is not None
    )  # what is noticed with other names is without them
    given = sealed or (mutant.section in ("workload", "replay") and _contradicted(name, changed))
    return sealed, given, named


def _contradicted(name: str, changed: Receipt) -> bool:
    """Whether the requests say something else than a receipt."""
    ledger = Ledger()
    check_content(ledger, changed, None, requests()[name])
    return bool(ledger.disagreements)


@cache
def _log(name: str) -> list[Row]:
    """The requests of a shipped cohort."""
    return list(read_cohort_requests(load_cohort(PROJECT / "cohorts" / name)).requests.iter_rows())


@cache
def requests() -> dict[str, Columns]:
    """The requests of each of the receipts."""
    found = {name: _log(name) for name in SHIPPED}
    made = {name: rows_of(options.get("cached", False), kind) for name, (kind, options) in MADE.items()}
    return {name: requests_from(rows) for name, rows in (found | made).items()}


def mutants_of(name: str) -> list[Mutant]:
    """The mutants of a receipt that are tried."""
    return list(mutants(receipts()[name]))[:: EVERY.get(name, 1)]


def counted(name: str) -> dict[str, dict[str, int]]:
    """Section -> kind -> how many mutants of a receipt are tried."""
    found: dict[str, Counter[str]] = {}
    for mutant in mutants_of(name):
        found.setdefault(mutant.section, Counter())[mutant.kind] += 1
    return {section: dict(kinds) for section, kinds in found.items()}


def _tried(part: tuple[str, int, int]) -> tuple[str, list[tuple[str, str, str, tuple[bool, bool, bool]]]]:
    """Name of the receipt; section, kind, leaf and outcome of every mutant of one part of it."""
    name, number, parts = part
    own = mutants_of(name)
    with remembered():
        return name, [
            (mutant.section, mutant.kind, mutant.name, outcome(name, mutant))
            for mutant in own[len(own) * number // parts : len(own) * (number + 1) // parts]
        ]


def tried(parts: int = 16) -> dict[str, Any]:
    """The counts of all receipts, and the leaves of which a mutant went unnoticed."""
    kinds: dict[str, dict[str, list[int]]] = {}
    unnoticed: dict[str, set[str]] = {level: set() for level in LEVELS}
    per_receipt = {name: counted(name) for name in NAMES}
    tasks = [(name, number, parts) for name in NAMES for number in range(parts)]
    # not forked: a copy of a process does not have the threads that polars waits for
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for done, (_, found) in enumerate(pool.map(_tried, tasks)):
            sys.stderr.write(f"\r{done + 1} of {len(tasks)} parts")
            for section, kind, leaf, rejected in found:
                row = kinds.setdefault(section, {}).setdefault(kind, [0, 0, 0, 0])
                row[0] += 1
                for place, (level, noticed) in enumerate(zip(LEVELS, rejected, strict=True), start=1):
                    row[place] += noticed
                    if not noticed:
                        unnoticed[level].add(leaf)
    return {
        "receipts": per_receipt,
        "sections": kinds,
        "unnoticed": {level: sorted(names) for level, names in unnoticed.items()},
    }


def without_reason(level: str, counts: Mapping[str, Any]) -> list[str]:
    """The leaves that went unnoticed at a level though no reason says why."""
    reasons = {
        "seal": MEANINGLESS | OF_THE_REQUESTS,
        "requests": MEANINGLESS,
        "fingerprints": MEANINGLESS | OF_THE_REQUESTS | FREE,
    }
    return [name for name in counts["unnoticed"][level] if not excused(name, reasons[level])]


def rendered(counts: Mapping[str, Any]) -> str:
    """The table as it stands in docs/verification.md."""
    parts = [f"{name} (every {EVERY[name]}th)" if name in EVERY else name for name in counts["receipts"]]
    lines = [f"Mutants of the receipts {', '.join(parts)}, all on inventories of two or three workers.", ""]
    lines += _sections(counts["sections"])
    lists = (
        ("With the seal renewed, these go unnoticed unless the requests are given:", OF_THE_REQUESTS),
        ("With the seal renewed, these go unnoticed:", MEANINGLESS),
        ("With the fingerprints renewed, these go unnoticed in one receipt or another as well:", FREE),
    )
    for title, reasons in lists:
        lines += ["", title, "", "| leaf | why |", "| --- | --- |"]
        lines += [f"| `{_shown(pattern)}` | {why} |" for pattern, why in reasons.items()]
    return "\n".join(lines) + "\n"


def _shown(pattern: str) -> str:
    """A pattern as a person writes it."""
    text = re.sub(r"\\([\[\].])", r"\1", pattern)
    return (
        text.replace("[1-9]\\d*", "N")
        .replace("\\d+", "N")
        .replace("\\w+", "NAME")
        .replace(".*", "…")
        .replace("|", "\\|")
    )


def _sections(sections: Mapping[str, Mapping[str, list[int]]]) -> Iterator[str]:
    heads = ("mutants", "seal renewed", "and requests given", "fingerprints renewed")
    yield "| section | " + " | ".join((*KINDS, *heads)) + " |"
    yield "| --- |" + " ---: |" * (len(KINDS) + len(heads))
    totals = [0] * (len(KINDS) + len(heads))
    for section, kinds in sections.items():
        row = [kinds[kind][0] if kind in kinds else 0 for kind in KINDS]
        row += [sum(counts[place] for counts in kinds.values()) for place in range(len(heads))]
        totals = [total + value for total, value in zip(totals, row, strict=True)]
        yield f"| `{section}` | " + " | ".join(f"{value:,}" if value else "" for value in row) + " |"
    yield "| all | " + " | ".join(f"{value:,}" for value in totals) + " |"


def named_mutations() -> str:
    """The mutations that the guide names, and the forms that each is made in."""
    lines = ["| mutation | in an exported receipt | in the planner |", "| --- | --- | --- |"]
    for (name, planner), receipt in zip(test_planner_mutations.MUTATIONS.items(), OF_RECEIPTS, strict=True):
        lines.append(f"| {name} | {'; '.join(receipt)} | {'; '.join(planner)} |")
    receipts_too, rules_too = test_other_mutations.OTHERS, test_rule_mutations.FORGED
    lines += [
        "",
        f"Likewise rejected: {len(receipts_too)} other forgeries of receipts ({'; '.join(receipts_too)}), "
        f"{len(rules_too)} of rules, verdicts and exceptions ({'; '.join(rules_too)}), and "
        f"{len(test_planner_mutations.OTHER_DECLARATIONS)} planners that compute from other declarations than they state.",
    ]
    return "\n".join(lines) + "\n"


def part_of_page(name: str) -> str:
    """What the page has between the marks of a table."""
    return PAGE.read_text().split(f"<!-- {name} -->\n")[1].split(f"<!-- end of the {name} -->\n")[0]


def put_into_page(counts: Mapping[str, Any]) -> None:
    """Write the tables into the page."""
    for name, text in ((MUTATIONS, named_mutations()), (KILL_TABLE, rendered(counts))):
        page = PAGE.read_text()
        PAGE.write_text(page.replace(f"<!-- {name} -->\n{part_of_page(name)}", f"<!-- {name} -->\n{text}"))


def main() -> None:
    """Try everything, and write down what was seen; leaves that went unnoticed without a reason are an error."""
    if sys.argv[1:] == ["--page"]:
        put_into_page(json.loads(COUNTS.read_text()))
        return
    began = time.monotonic()
    counts = tried()
    COUNTS.write_text(json.dumps(counts, indent=1) + "\n")
    put_into_page(counts)
    sys.stderr.write(f"\n{time.monotonic() - began:.0f} s\n")
    wrong = {name for level in LEVELS for name in without_reason(level, counts)}
    if wrong:
        sys.exit("unnoticed without a reason:\n  " + "\n  ".join(sorted(wrong)))


if __name__ == "__main__":
    main()
