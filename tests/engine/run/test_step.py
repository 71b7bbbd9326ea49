"""The order in which a cell does its steps."""

from __future__ import annotations

from engine.run.step import in_order
from workloads.base import Step


def test_interchangeable_neighbours_turn_round_in_every_other_repeat() -> None:
    steps = [Step(name, "", {}, interchangeable=name.startswith("c")) for name in ("init", "c1", "c2", "c3", "end")]
    names = [" ".join(step.name for step in in_order(steps, repeat)) for repeat in (1, 2, 3)]
    assert names == ["init c1 c2 c3 end", "init c3 c2 c1 end", "init c1 c2 c3 end"]
