"""A small part of the fault campaign, the same each time; `./check --faults` tries all of it with another seed."""

from __future__ import annotations

import pytest

from tests.faults.__main__ import PARTS, failures

SHARES = {"arguments": 0.03, "hostile": 0.06, "manifests": 0.04, "journals": 0.04, "kills": 0.03}


@pytest.mark.nightly("each of its cases starts a program; the whole campaign is tried there, too")
@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_the_fault_campaign_holds(part: str) -> None:
    found = list(failures(part, seed=1, share=SHARES[part]))
    assert len(found) > 1
    assert [(name, wrong) for name, wrong in found if wrong] == []


def test_every_option_of_every_command_is_tried(tmp_path_factory: pytest.TempPathFactory) -> None:
    from tests.faults import arguments

    folder = tmp_path_factory.mktemp("arguments")
    tried = {case.name.partition(":")[0] for case in arguments.cases(folder, "16.3", "made")}
    assert {"run rows", "compare base", "probes cost pairs", "list runs out", "delete names", "mark text"} <= tried
    assert len(tried) > 80
