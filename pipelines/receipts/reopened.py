"""A receipt's JSON back as the frames that a plan is made from: its inputs, its requests, its rules (docs/formats.md, Receipt)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.frames.inputs import Inputs
from pipelines.frames.matrix import Exceptions, Gates, Preference, RuleSet
from pipelines.frames.workload import Buckets, OutputStrata, Strata
from pipelines.gates.rules import ON_DECISION
from pipelines.receipts.rules import RuleFrames
from pipelines.topologies.question import Workload

Json = dict[str, Any]

DECLARED = "declared"
_AS_THEY_ARE = (
    "file",
    "overrides",
    "kind",
    "scope",
    "metric",
    "unit",
    "aggregate",
    "bound",
    "op",
    "limit_times",
    "severity",
    "blocking",
    "message",
    "owner",
    "rationale",
)
_LISTS = ("topologies", "buckets", "inputs", "cohorts")


@dataclass(frozen=True)
class Reopened:
    """What a plan is made from, as one receipt states it."""

    cohort: str
    inputs: pl.DataFrame  # Inputs
    workload: Workload
    frozen: Json  # provenance and source of the requests, and the edges of their buckets
    rules: RuleFrames


def reopened(receipt: Json) -> Reopened:
    """The frames of a receipt that is structurally valid; pandera.errors.SchemaError where they are none that a plan could be made from."""
    of = receipt["workload"]
    return Reopened(
        receipt["cohort"]["name"],
        inputs_of(receipt["inputs"]),
        workload_of(of),
        {name: of[name] for name in ("provenance", "source", "bucket_edges_tokens")},
        rules_of(receipt),
    )


def inputs_of(rows: Iterable[Json]) -> pl.DataFrame:
    """The inputs table of a receipt as an :class:`Inputs` frame."""
    return _frame(Inputs, [_with_words_apart(row) for row in rows])


def _with_words_apart(row: Json) -> Json:
    if row["unit"] != "text":
        return row | {"text": None}
    return row | {"text": row["value"], "value": None, "conservative": None}


def workload_of(section: Json) -> Workload:
    """The requests of a receipt as topologies read them."""
    return Workload(
        _frame(Buckets, section["buckets"]), _frame(Strata, section["strata"]), _frame(OutputStrata, section["outputs"])
    )


def rules_of(receipt: Json) -> RuleFrames:
    """The rules of a receipt as they stand for its cohort, limits that are objectives to be looked up again."""
    section, cohort = receipt["rules"], receipt["cohort"]["name"]
    holding = [row for row in section["exceptions"] if row["standing"] == "holds"]
    decision = section["decision"]
    return RuleFrames(
        gates=_frame(Gates, [_gate(row, cohort, holding) for row in section["gates"]]),
        exceptions=_frame(Exceptions, [row | _joined(row, ("topologies", "cohorts")) for row in section["exceptions"]]),
        rule_set=_frame(
            RuleSet,
            [
                {
                    "as_of": receipt["as_of"],
                    "decision_file": decision["file"],
                    "decision_overrides": decision["overrides"],
                }
            ],
        ),
        preference=_frame(Preference, _preference(decision)),
    )


def _preference(decision: Json) -> list[Json]:
    keys = [{"rule": "prefer", "name": name, "value": place} for place, name in enumerate(decision["prefer"])]
    weights = decision["operating_part_weights"].items()
    return keys + [{"rule": "weight", "name": name, "value": weight} for name, weight in weights]


def _gate(row: Json, cohort: str, holding: Sequence[Json]) -> Json:
    """A gate as it was declared: a limit that is an objective, a metric or a baseline is by its name again."""
    kind, _, name = row["limit_source"].partition(".")
    within = row["within_source"]
    return (
        {key: row[key] for key in _AS_THEY_ARE}
        | _joined(row, _LISTS)
        | {
            "gate": row["id"],
            "instead_of": None,  # in words, which no receipt keeps
            "limit": row["limit"] if kind == DECLARED else None,
            "objective": name if kind == "objectives" else None,
            "limit_metric": name if kind == "metrics" else None,
            "limit_baseline": name if kind == "baselines" else None,
            "within": row["within"] if within == DECLARED else None,
            "within_objective": None if within in (None, DECLARED) else within.partition(".")[2],
            "here": row["cohorts"] is None or cohort in row["cohorts"],
            "waived": _waived(row, holding),
        }
    )


def _waived(row: Json, holding: Sequence[Json]) -> str:
    own = [one for one in holding if one["gate"] == row["id"]]
    if row["scope"] == ON_DECISION:
        return ON_DECISION if own else ""
    return " ".join(name for name in row["topologies"] if any(name in one["topologies"] for one in own))


def _joined(row: Mapping[str, Any], names: Sequence[str]) -> Json:
    return {name: None if row[name] is None else " ".join(row[name]) for name in names}


def _frame(model: Any, rows: Sequence[Json]) -> pl.DataFrame:
    """Rows as a validated frame; JSON writes whole numbers without a point, and the frame says which are whole."""
    columns = {name: column.dtype.type for name, column in model.to_schema().columns.items()}
    cells = {name: [_cell(row[name], dtype) for row in rows] for name, dtype in columns.items()}
    frame: pl.DataFrame = model.validate(pl.DataFrame(cells, schema=columns))
    return frame


def _cell(value: Any, dtype: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    return int(value) if dtype == pl.Int64 else float(value)
