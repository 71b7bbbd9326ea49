"""The plan of a workload, from the options that it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import UserError
from engine.plan import planfile
from engine.plan.design import decide
from engine.plan.request import workload_argument


def test_what_follows_a_workloads_colon_is_its_argument(tmp_path: Path) -> None:
    one, two = str(tmp_path / "a+b.sql"), str(tmp_path / "pgbench.sql")
    assert workload_argument("insert") == ("insert", {})
    assert workload_argument(f"pgbench:{one},{two}") == ("pgbench", {"script": [one, two]})
    for text, message in (("insert:a", "takes no value"), ("insert+pgbench-select", "unknown workload")):
        with pytest.raises(UserError, match=message):
            planfile.request({"builds": ["16.3"], "workload": text})


@pytest.mark.parametrize(("entries", "pairs"), [({}, 4), ({"repeats": 2}, 2), ({"plans_only": False}, 8)])
def test_plans_alone_take_fewer_pairs_of_clusters(tmp_path: Path, entries: dict[str, Any], pairs: int) -> None:
    for name in ("schema", "statements"):
        (tmp_path / name).write_text("-- name: a\nSELECT 1;")
    files = {name: str(tmp_path / name) for name in ("schema", "statements")}
    wanted = {"builds": ["16.3", "17.0"], "workload": "own", "interleave": "slices", "plans_only": True, **files}
    request, _, _ = decide(planfile.request({**wanted, **entries}), tmp_path)
    assert request.planned_repeats == pairs
