"""Clocks by their ticks: one that is set, and a machine that was suspended."""

from engine.core.clock import Anchor
from engine.observe.clock_jumps import clock_events

SECOND_NS = 1_000_000_000
BEFORE = Anchor(monotonic_ns=5 * SECOND_NS, wall_ns=70 * SECOND_NS, boot_ns=6 * SECOND_NS)


def after(*, wall_s: float, boot_s: float) -> list[tuple[str, str]]:
    """The events of a tick of one second, during which the other two clocks moved by so much."""
    now = Anchor(
        BEFORE.monotonic_ns + SECOND_NS,
        BEFORE.wall_ns + round(wall_s * SECOND_NS),
        BEFORE.boot_ns + round(boot_s * SECOND_NS),
    )
    return [(kind, data["text"]) for kind, data in clock_events(BEFORE, now)]


def test_clocks_that_go_alike_are_no_event() -> None:
    assert after(wall_s=1.05, boot_s=1.0) == []


def test_a_suspension_is_one_event_not_a_set_clock() -> None:
    assert after(wall_s=41.0, boot_s=41.0) == [("suspended", "the machine was suspended for 40.0 s")]


def test_a_set_wall_clock_is_distinguished_from_suspension() -> None:
    assert after(wall_s=0.5, boot_s=1.0) == [("clock_step", "the wall clock was set by -0.5 s")]
    assert after(wall_s=44.0, boot_s=41.0) == [
        ("suspended", "the machine was suspended for 40.0 s"),
        ("clock_step", "the wall clock was set by +3.0 s"),
    ]
