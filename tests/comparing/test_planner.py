"""Plans of mixes: scenarios that a search did not keep, one worker less, and what is computed once."""

from pathlib import Path

from pipelines.comparing.mixes import Sides
from pipelines.comparing.planner import Planner
from pipelines.comparing.tracked import FIGURES, Tracked, figures
from pipelines.receipts.build import build_receipt
from pipelines.receipts.reopened import reopened
from pipelines.topologies.scenarios import KNOBS
from tests.comparing.told import asked, difference, make_cohort, told
from tests.conftest import PROJECT
from tests.plans import plan_of

SPARE = """\
apiVersion: phaseledger/v1
kind: Capacity
metadata: {name: own, owner: team}
gates:
  - {id: spare, metric: critical_pools, op: lte, limit: 0, severity: error, blocking: true}
"""


def test_a_scenario_that_the_search_did_not_keep_has_its_figures_all_the_same() -> None:
    """Of 60 GPUs few of the 2,010 scenarios are kept; what one of them promises does not depend on how many there are."""
    side = reopened(asked(("gpus: 4", "gpus: 60")))
    planned = Planner(Sides(side, side)).plan(frozenset())
    assert (planned.searched, planned.matrix.height < 2 * 1000) == (60 + 180 + 1770, True)
    row = next(row for row in told()["scenarios"] if row["scenario"] not in planned.matrix["scenario"])
    one = Tracked(row["scenario"], {name: row[name] for name in ("topology", "gpus", *KNOBS)}, {})
    found = figures(planned, one)
    assert found is not None
    for bound in ("nominal", "conservative"):
        assert found[bound] == {name: row["bounds"][bound][name] for name in ("status", *FIGURES)}


def test_a_scenario_that_the_cohort_does_not_have_has_none() -> None:
    side = reopened(asked())
    planned = Planner(Sides(side, side)).plan(frozenset())
    knobs = {"topology": "aggregated", "workers_mixed": 5, "gpus": 5}
    assert figures(planned, Tracked("aggregated/n5", knobs, {})) is None


def test_a_gate_on_critical_pools_is_judged_on_one_worker_less(tmp_path: Path) -> None:
    """chunked/n2 does not stand with one worker: the decision is not accepted, in the receipt and where it is planned again."""
    receipt, _ = build_receipt(plan_of(make_cohort(tmp_path, own=SPARE), PROJECT / "rules"))
    assert receipt["decision"]["objections"] == [{"kind": "verdict", "gate": "spare"}]
    found = difference(told(), receipt)
    assert [step["name"] for step in found["steps"]] == ["rules"]
    assert found["steps"][0]["decision"]["objections"] == [{"kind": "verdict", "gate": "spare"}]
    assert found["same_decision"] is False
