"""Ages in active time: what a server's pauses take off them."""

from __future__ import annotations

from engine.observe.active_age import ActiveAges

MS = 1_000_000


def test_a_statement_does_not_age_while_its_server_is_stopped() -> None:
    ages = ActiveAges()
    for t_ms, active_ms in ((1000, 1000), (1250, 1125), (1500, 1250), (1750, 1500)):
        ages.remember(t_ms * MS, active_ms * MS)
    assert ages.of(0) == 0
    assert ages.of(100 * MS) == 100 * MS, "it was never stopped since"
    assert ages.of(250 * MS) == 250 * MS
    assert ages.of(500 * MS) == 375 * MS
    assert ages.of(600 * MS) == 425 * MS, "half of the time, as in the whole look"
    assert ages.of(750 * MS) == ages.of(9000 * MS) == 500 * MS, "no more than has been seen"


def test_after_one_look_nothing_is_old() -> None:
    ages = ActiveAges()
    ages.remember(1000 * MS, 900 * MS)
    assert ages.of(300 * MS) == 0
