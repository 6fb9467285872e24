"""A receipt as ``phaseledger explain`` reads it: its shape is checked, and what it refers to is found."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipelines.arithmetic import VERSION

Json = dict[str, Any]

RATE_INPUT, CONCURRENCY_INPUT = "requests.rate", "requests.concurrency"
BOUNDS = ("nominal", "conservative")
SEPARATED = ("disaggregated", "routed")


class UnfitError(Exception):
    """A file that is no receipt which can be explained; says what is wrong with it on one line."""


@dataclass(frozen=True)
class Receipt:
    """A receipt whose members are those of docs/formats.md, and the topologies that were asked for."""

    json: Json
    topologies: tuple[str, ...]

    @cached_property
    def scenarios(self) -> dict[str, Json]:
        """The kept scenarios by name."""
        return {row["scenario"]: row for row in self.json["scenarios"]}

    @cached_property
    def gates(self) -> dict[str, Json]:
        """The gates by id."""
        return {row["id"]: row for row in self.json["rules"]["gates"]}

    @cached_property
    def inputs(self) -> dict[str, Json]:
        """The inputs by path; the rate of a trace, which is no row of the table, among them."""
        return self._rate_of_trace | {row["path"]: row for row in self.json["inputs"]}

    @property
    def _rate_of_trace(self) -> dict[str, Json]:
        of = self.json["workload"]
        if of["kind"] != "open":
            return {}
        row = {"path": RATE_INPUT, "unit": "requests/s", "value": of["buckets"][0]["rate_rps"]}
        return {RATE_INPUT: row | {"provenance": of["provenance"]}}

    @cached_property
    def speaking(self) -> list[Json]:
        """What would change each speaking scenario, of the topologies that were asked for."""
        return [row for row in self.json["changes"]["speaking"] if row["topology"] in self.topologies]

    @property
    def chosen(self) -> str | None:
        """The scenario that was chosen."""
        name: str | None = self.json["decision"]["scenario"]
        return name

    @property
    def blocking(self) -> set[str]:
        """The gates on scenarios that decide."""
        gates = self.json["rules"]["gates"]
        return {row["id"] for row in gates if row["blocking"] and row["applies"] and row["scope"] == "scenario"}

    def scenario(self, name: str) -> Json:
        """A scenario that some part of the receipt names."""
        return _found(self.scenarios, name, "scenario")

    def gate(self, name: str) -> Json:
        """A gate that some part of the receipt names."""
        return _found(self.gates, name, "gate")

    def input(self, path: str) -> Json:
        """An input that some part of the receipt names."""
        return _found(self.inputs, path, "input")

    def standing(self, topology: str, scenario: str) -> str:
        """Whether a speaking scenario is chosen, passes but is larger, or is the nearest miss."""
        if scenario == self.chosen:
            return "chosen"
        row = next((row for row in self.json["rejected"] if row["topology"] == topology), None)
        if row is None:
            raise UnfitError(f"says of {topology} neither that it was chosen nor why not")
        return str(row["status"])


def _found(rows: dict[str, Json], name: str, kind: str) -> Json:
    if name not in rows:
        raise UnfitError(f"names the {kind} {name!r}, which it does not hold")
    return rows[name]


def is_missing(file: Path) -> bool:
    """Whether there is no such file; not known of what lies in a directory that may not be read."""
    try:
        return not file.exists()
    except OSError:
        return False


def read(file: Path, wanted: Sequence[str]) -> Receipt:
    """The receipt in ``file`` with the topologies that are wanted, or all; UnfitError where there is none to explain."""
    from pipelines.oracle.findings import Ledger
    from pipelines.oracle.reading import Unreadable, read_receipt
    from pipelines.oracle.structure import check_structure

    try:
        found = read_receipt(file).receipt
    except Unreadable as error:
        hint = (
            ""
            if not is_missing(file)
            else " (hint: give the directory of a plan's receipt, as in receipts/moderate-chat)"
        )
        raise UnfitError(f"{str(error).removeprefix(f'{file}: ')}{hint}") from error
    _check_version(found)
    ledger = Ledger()
    if not check_structure(ledger, found):
        first, more = ledger.disagreements[0], len(ledger.disagreements) - 1
        others = f" (and {more} more)" if more else ""
        raise UnfitError(
            f"is not a receipt: {first.where}: found {_short(first.found)}, expected {first.expected}{others}"
        )
    compared = tuple(row["topology"] for row in found["changes"]["speaking"])
    missing = next((name for name in wanted if name not in compared), None)
    if missing is not None:
        raise UnfitError(f"--topology {missing}: not in this receipt; expected one of {', '.join(compared)}")
    return Receipt(found, tuple(name for name in compared if not wanted or name in wanted))


def _check_version(found: Json) -> None:
    """Before the shape, which is another in another version."""
    versions = found.get("versions")
    version = versions.get("arithmetic") if isinstance(versions, dict) else None
    if isinstance(version, str) and version != VERSION:
        raise UnfitError(
            f"is a receipt of arithmetic {_short(version)}; expected {VERSION} (hint: plan the cohort again)"
        )


def _short(value: object) -> str:
    from pipelines.cli.log_text import plain

    return plain(repr(value), 60)
