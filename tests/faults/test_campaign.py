"""Whatever is typed, and whatever a record holds, a command ends in time with an answer or one line: a sample of the
fault campaign, the same each time. `./check --faults` tries all of it with another seed, and kills processes besides.
"""

from __future__ import annotations

import hypothesis
import pytest

from tests.faults import arguments
from tests.faults.__main__ import PARTS, failures

SHARES = {"arguments": 0.01, "hostile": 0.03, "manifests": 0.04, "journals": 0.03}  # for a hundred examples


@pytest.mark.outside  # as root nothing is refused for lack of privileges
@pytest.mark.parametrize("part", SHARES)
@pytest.mark.usefixtures("servers")
def test_a_sample_of_the_campaign_holds(part: str) -> None:
    share = SHARES[part] * hypothesis.settings().max_examples / 100
    checked = list(failures(part, seed=1, share=share))
    assert len(checked) > 1
    assert [(name, wrong) for name, wrong in checked if wrong] == []


def test_every_option_of_every_command_is_tried(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("arguments")
    tried = {case.name.partition(":")[0] for case in arguments.cases(folder, "16.3", "made")}
    assert {"run rows", "compare base", "probes cost pairs", "list runs out", "delete names", "mark text"} <= tried
    assert len(tried) > 80 and set(SHARES) < set(PARTS)
