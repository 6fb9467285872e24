"""What a receipt has to say of the declarations that it was planned from, whatever was computed from them."""

import json
from datetime import date
from typing import Any

from pipelines.declarations.typed import Cohort, Rules
from pipelines.frames.canonical import canonical_bytes
from pipelines.frames.inputs import InputTable, inputs_json
from pipelines.gates.rules import exceptions_frame, gates_frame, preference_frame, reads_a_date, rule_set_frame
from pipelines.receipts.rules import RuleFrames, rules_section
from pipelines.traces.freeze import frozen_cohort, inputs_frame
from pipelines.traces.requests import CohortRequests

Json = dict[str, Any]

FIGURES = ("buckets", "strata", "outputs", "windows")
"""Members of a workload that follow from its requests, and so are for who recomputes them."""

_AS_THEY_ARE = ("requests_sha256", "format", "provenance", "source", "note", "kind", "requests", "duration_s")
_COUNTS = ("rows_read", "rows_dropped")
_AS_JSON = ("dropped", "steps", "prefix_cache", "warnings")

A_DATE = "a date, which the rules read"


def declared_sections(cohort: Cohort, rules: Rules, found: CohortRequests, as_of: date | None) -> Json:
    """The members of the receipt of a plan on the day ``as_of`` that are declared: all but figures, verdicts and the decision."""
    reads = reads_a_date(rules, cohort.name)
    day = as_of if reads else None
    inputs = inputs_frame(cohort)
    frames = RuleFrames(
        gates_frame(rules, cohort.name, day),
        exceptions_frame(rules, cohort.name, day),
        rule_set_frame(rules, day),
        preference_frame(rules),
    )
    row = frozen_cohort(cohort, found, inputs).row(0, named=True)
    sections = {
        "fingerprint": row["fingerprint"],
        "cohort": {"name": cohort.name, "title": cohort.title},
        "as_of": A_DATE if reads and day is None else frames.as_of,
        "inputs": inputs_json(inputs),
        "workload": said_of_requests(row),
        "rules": rules_section(frames, InputTable.of(inputs)),
    }
    plain: Json = json.loads(canonical_bytes(sections))
    return plain


def said_of_requests(row: Json) -> Json:
    """The members of a workload that say what was read and done, from the row of a :class:`FrozenCohort` frame."""
    edges = [int(edge) for edge in row["bucket_edges_tokens"].split()]
    read = {name: None if row[name] is None else json.loads(row[name]) for name in _AS_JSON}
    return {name: row[name] for name in (*_AS_THEY_ARE, *_COUNTS)} | read | {"bucket_edges_tokens": edges}
