"""Plans of statements as they are kept."""

import json
from typing import Any

import pytest

from workloads.own.execution import explained
from workloads.own.statements import Statement

SCAN = {"Node Type": "Seq Scan", "Relation Name": "t"}
INIT = {"Node Type": "Result", "Parent Relationship": "InitPlan", "Subplan Name": "InitPlan 1 (returns $1)"}


@pytest.mark.parametrize(
    ("plan", "chosen"),
    [
        (SCAN | {"Filter": "(id = $1)"}, "generic"),
        (SCAN | {"Filter": "(id = 7)"}, ""),  # the parameter may be in a LIMIT, which the plan does not show
        (SCAN | {"Filter": "(price = '$1 a piece'::text)"}, ""),
        (SCAN | {"Filter": "(id > $1)", "Plans": [INIT]}, ""),
    ],
)
def test_a_plan_shows_at_most_that_it_is_generic(plan: dict[str, Any], chosen: str) -> None:
    statement = Statement(name="s", sql="", parameters=(":a",))
    text = json.dumps([{"Plan": plan}]).encode()
    assert explained(statement, text, "").chosen == chosen
    assert explained(statement, text, "custom").chosen == "custom"
