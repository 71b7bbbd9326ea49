"""What servers side by side are refused for, where no command line comes to it."""

import pytest

from engine.core.errors import UserError
from engine.plan import interleaving
from engine.plan.request import Request
from workloads.base import Step


def test_steps_that_know_no_slices_are_refused() -> None:
    request = Request(builds=("12.11", "16.3"), interleave="slices")
    whole = Step("l.x", "index", {})
    with pytest.raises(UserError, match="none of these steps can be sliced"):
        interleaving.check(request, [whole])
    interleaving.check(request, [whole, Step("l.i0", "load", {}, sliced="work")])


def test_short_slices_are_said_to_be_warm_up_for_more_of_their_time() -> None:
    steps = [Step("l.x", "index", {}), Step("qr100", "query", {}, sliced="time")]
    said = {
        slice_ms: interleaving.notices(Request(builds=("12.11", "16.3"), interleave="slices", slice_ms=slice_ms), steps)
        for slice_ms in (20.0, 39.0, 40.0, 50.0)
    }
    assert [bool(lines) for lines in said.values()] == [True, True, False, False]
    (line,) = said[20.0]
    assert "2 ms of each slice are not counted, 10% of the time; from 40 ms on it is 5% at most" in line
    assert interleaving.notices(Request(builds=("12.11", "16.3"), interleave="cells", slice_ms=20.0), steps) == ()
    cut = [Step("select.c1", "transactions", {}, sliced="time", gated=False), Step("l.x", "index", {}, sliced="whole")]
    assert interleaving.notices(Request(builds=("12.11", "16.3"), interleave="slices", slice_ms=20.0), cut) == ()
