"""What servers side by side are refused for, where no command line comes to it."""

import pytest

from engine.core.errors import UserError
from engine.core.request import Request
from engine.plan import abreast
from workloads.base import Step


def test_steps_that_know_no_slices_are_refused() -> None:
    request = Request(builds=("12.11", "16.3"), interleave="slices")
    whole = Step("l.x", "index", {})
    with pytest.raises(UserError, match="none of these steps can be driven in slices"):
        abreast.check(request, [whole])
    abreast.check(request, [whole, Step("l.i0", "load", {}, sliced="work")])
