"""Refusals of servers side by side, where no command line leads to them."""

import msgspec
import pytest

from engine.core.errors import UserError
from engine.plan import interleaving
from engine.plan.request import Request
from workloads.api.base import Step


def test_steps_that_know_no_slices_are_refused() -> None:
    request = Request(builds=("12.11", "16.3"), interleave="slices")
    unsliced = Step("l.x", "index", {})
    with pytest.raises(UserError, match="none of these steps can be sliced"):
        interleaving.check(request, [unsliced])
    interleaving.check(request, [unsliced, Step("l.i0", "load", {}, sliced="work")])


def test_slices_are_as_long_as_suits_the_steps_or_as_asked_for() -> None:
    request = Request(builds=("12.11", "16.3"), interleave="slices")
    index, query = Step("l.x", "index", {}), Step("qr100", "query", {}, sliced="time")
    stopped = Step("select.c1", "transactions", {}, sliced="time", gated=False)
    assert interleaving.slice_ms(request, [index, query]) == 20
    assert interleaving.slice_ms(request, [index, stopped]) == 50
    assert interleaving.slice_ms(msgspec.structs.replace(request, slice_ms=100.0), [query]) == 100
