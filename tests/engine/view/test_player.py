"""Pictures of a run: of now, of its end, and of any moment that was recorded; all by one path."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.analysis.answer.compare import compare
from engine.core.errors import UserError
from engine.journal.reader import JournalReader
from engine.journal.rows import EventRow, StepRow
from engine.journal.totals import progress
from engine.view.events import event_words, stall_words
from engine.view.player import SPEEDS, Player
from engine.view.step_series import SECOND_NS
from tests.support.journal import CELL, START_NS, Hand, growing, interleaved

STALLED = "002-16.3-prebuilt-auto-r1"  # of the recording


def steps_of(recording: Path, cell: str) -> list[StepRow]:
    with JournalReader(recording) as reader:
        attempt = next(attempt for attempt in reader.attempts() if attempt.cell == cell)
        return reader.steps(attempt.id)


def playing(recording: Path, hand: Hand, cell: str | None = STALLED, step: str | None = None) -> Player:
    return Player(recording, hand.clock, cell, step)


# -- live


def test_of_a_finished_run_the_last_step_is_shown_as_it_ended(recording: Path) -> None:
    with playing(recording, Hand(), None) as player:
        view = player.look()
        assert (view.state, view.cells, view.cells_done, view.cells_failed) == ("finished", 6, 6, 0)
        assert view.step is not None and view.step.name == "qr100"
        assert view.at_ns == view.step.ended_ns
        assert view.fraction == 1.0 and view.unit == "q/s"
        assert view.sla is not None and view.sla.passed
        assert view == player.look()
        totals = view.step.totals
        assert totals is not None and view.rate_per_s == view.step.rate_per_s
        assert {role.name: role.rate_per_s for role in view.roles} == {
            name: pytest.approx(progress(name, role) / totals.seconds) for name, role in totals.roles.items()
        }, "means, not the last second"
        assert view.machine.server_cpu_percent == pytest.approx((totals.server_cpu_ns or 0) / totals.seconds / 1e7)


def test_it_follows_the_engine(tmp_path: Path) -> None:
    with growing(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        first = player.look()
        assert (first.state, first.cells, first.cells_done) == ("running", 2, 1)
        assert first.rate_per_s is None and first.fraction == 0.0
        for second in range(1, 11):
            live.second(insert=10 * second)
            view = player.look()
            assert view.rate_per_s == 10 * second
            assert view.length_s == second
        assert view.median_per_s == 55.0
        assert view.base_per_s is not None
        assert view.base == "16.3" and view.base_per_s == pytest.approx(20_000, rel=0.01)
        assert view.relative == pytest.approx(55 / (400_000 // 12)), "of the base at equal work, not of its whole step"
        assert view.fraction == pytest.approx(550 / 100_000)
        assert view.eta_s == pytest.approx(10 * (100_000 - 550) / 550)
        live.end_step()
        over = player.look()
        assert over.doing == "after l.i1" and over.fraction == 1.0
        live.journal.add_event("progress", live.hand.at_ns, {"text": "vacuum"}, attempt=live.attempt)
        live.journal.commit()
        assert player.look().doing == "after l.i1: vacuum"


def test_a_stall_is_told_while_it_lasts_and_after(tmp_path: Path) -> None:
    with growing(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        live.second()
        assert not player.look().incidents_now
        stall = live.stall()
        live.hand.at_ns += SECOND_NS // 2  # the next second has not come
        view = player.look()
        assert [[event.id for event in incident] for incident in view.incidents_now] == [[stall]]
        assert {role.name: role.stalled for role in view.roles} == {"insert": True, "delete": False}
        live.second(insert=0)
        ended_ns = live.hand.at_ns
        live.second()
        live.journal.update_event(stall, None, live.stall_record() | {"ending_ns": ended_ns})
        live.journal.commit()
        ((ending,),) = player.look().incidents_now
        assert stall_words(ending, live.hand.at_ns).endswith(" 1.0s, ending"), "its end is not counted on"
        live.end_stall(stall)
        live.second()
        view = player.look()
        assert not view.incidents_now and [event.id for event in view.stalls] == [stall]
        assert not any(role.stalled for role in view.roles)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"waited_ms": 1000.2}, "pid 7 waits for ShareLock on relation 16 held by pid 8, 9"),
        ({"waited_ms": 3456.7}, "pid 7 waited for ShareLock on relation 16 held by pid 8, 9 for 3.5 s"),
        (
            {"waited_ms": 9.0, "failed": True, "holders": []},
            "pid 7 waited for ShareLock on relation 16 in vain for 0.0 s",
        ),
    ],
)
def test_a_lock_wait_tells_who_waited_for_what_and_how_long(data: dict[str, object], words: str) -> None:
    known = {"pid": 7, "lock": "ShareLock", "target": "relation 16", "holders": [8, 9], **data}
    ended = None if "waits" in words else 5
    assert event_words(EventRow(1, 1, 1, "lock_wait", 1, ended, None, known), 10) == words


def test_an_engine_that_died_is_told_from_one_that_runs(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        live.second()
        live.stall()
        live.hand.at_ns += 900 * SECOND_NS
        with Player(live.run, live.hand.clock) as player:
            assert player.look().state == "running"
    with Player(live.run, live.hand.clock) as player:  # the lock is free, and nobody wrote an end
        view = player.look()
    assert view.state == "died" and "resume" in view.doing
    assert view.at_ns == START_NS + SECOND_NS  # when it was heard of last
    assert view.stalls and not view.incidents_now


def test_a_run_that_was_stopped_or_failed_says_so(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        live.second()
        live.end_step(state="interrupted")
        live.journal.end_attempt(live.attempt, live.hand.at_ns, "interrupted", "stopped")
    with Player(live.run, live.hand.clock) as player:
        assert player.look().state == "stopped"
    with growing(tmp_path / "other") as live:
        live.journal.end_attempt(live.attempt, live.hand.at_ns, "failed", "disk full")
    with Player(live.run, live.hand.clock) as player:
        assert (player.look().state, player.look().cells_failed) == ("failed", 1)


# -- replay


def test_a_picture_is_what_the_journal_says_of_its_moment(recording: Path) -> None:
    hand = Hand()
    with playing(recording, hand) as player, JournalReader(recording) as reader:
        player.pause(False)
        for step in steps_of(recording, STALLED):
            assert step.ended_ns is not None
            roles = {role.id: role for role in reader.roles(step.id)}
            seconds = [second for role in roles for second in reader.role_seconds(role)]
            ticks = sorted({second.t_ns for second in seconds})
            short = {row.t_ns for row in seconds if row.dt_ns < SECOND_NS / 2} - set(ticks[:1])  # at the step's end
            moments = [*ticks, *(tick - 1 for tick in ticks), step.started_ns + 1]  # and back from the last one
            for t_ns in [*moments, *moments[::-3]]:
                if t_ns > step.ended_ns:
                    continue
                player.seek(t_ns)
                view = player.look()
                assert view.step == step and view.at_ns == t_ns
                newest = max((tick for tick in ticks if tick <= t_ns and tick not in short), default=0)
                tick = [second for second in seconds if second.t_ns == newest]
                assert {line.name for line in view.roles} == {roles[second.role_id].name for second in tick}
                for line in view.roles:
                    (second,) = [second for second in tick if roles[second.role_id].name == line.name]
                    done = second.statements if line.name == "query" else second.rows
                    assert line.rate_per_s == pytest.approx(done * SECOND_NS / second.dt_ns)
                    assert line.backend_pid == roles[second.role_id].backend_pid
                    assert line.max_us == second.max_us
                    assert line.cpu_percent == pytest.approx(100 * (second.backend_cpu_ns or 0) / second.dt_ns)
                    assert line.in_flight_s == second.in_flight_ns / 1e9
                began = [event for event in reader.events(step.id) if event.started_ns <= t_ns]
                assert list(view.events) == began
                assert list(view.stalls) == [event for event in began if event.kind == "stall"]


def test_it_plays_at_its_speed_and_stops_at_the_end(recording: Path) -> None:
    hand = Hand()
    steps = steps_of(recording, STALLED)
    with playing(recording, hand) as player:
        at_ns = steps[0].started_ns
        assert player.look().at_ns == at_ns
        for speed in SPEEDS:
            assert player.speed == speed
            hand.at_ns += SECOND_NS // 8
            at_ns += speed * SECOND_NS // 8
            assert player.look().at_ns == at_ns
            player.faster(1)
        assert player.speed == SPEEDS[-1]
        hand.at_ns += 3600 * SECOND_NS
        view = player.look()
        assert view.at_ns == steps[-1].ended_ns and view.step == steps[-1]
        assert (view.state, view.speed, view.playing) == ("replay", 64, True)
        player.pause(False)
        player.pause(True)  # from the end it begins again
        assert player.look().at_ns == steps[0].started_ns
        player.seek(-5)
        assert player.look().at_ns == steps[0].started_ns
        for _ in SPEEDS:
            player.faster(-1)
        assert player.speed == 1


@pytest.mark.parametrize(
    ("cell", "step", "said"), [("000", None, "cell 000 has not been run"), (STALLED, "l.i9", "has no step l.i9")]
)
def test_what_is_not_there_is_said(recording: Path, cell: str, step: str | None, said: str) -> None:
    with pytest.raises(UserError, match=said):
        playing(recording, Hand(), cell, step)


def test_a_running_cell_replays_up_to_its_newest_second(tmp_path: Path) -> None:
    with growing(tmp_path) as live:
        for _ in range(5):
            live.second()
        with Player(live.run, live.hand.clock, CELL) as player:
            live.hand.at_ns += 60 * SECOND_NS
            view = player.look()
            assert view.state == "replay" and view.at_ns == START_NS + 5 * SECOND_NS


def test_a_build_and_step_have_one_rate_wherever_it_is_shown(sliced_recording: Path) -> None:
    with Player(sliced_recording) as player:
        view = player.look()
        assert view.interleaved is not None and view.over
        by_name = {role.name: role.rate_per_s for role in view.roles}
        shown = {side.cell.id: side.rate_per_s for side in view.interleaved.sides}
        planned = {cell.cell.id: cell.rates["qr100"] for cell in player.schedule()}
        compared = compare([sliced_recording])
    assert view.cell is not None
    assert view.interleaved.shown.rate_per_s == by_name["query"] == shown[view.cell.id]
    assert shown == planned == {cell.cell: cell.rate_per_s for cell in compared.cells if cell.step == "qr100"}


def test_neither_clock_nor_bar_goes_back(tmp_path: Path) -> None:
    """A server whose slice hangs has no known second; the end of a step is recorded late."""
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        seen = []

        def look() -> None:
            view = player.look()
            seen.append((view.length_s, view.fraction or 0.0))

        for _ in range(20):
            live.block(400, 400)
            look()
        for _ in range(12):
            live.hand.at_ns += SECOND_NS // 2
            look()
        for _ in range(10):
            live.block(400, 400)
            look()
        ended_ns = live.hand.at_ns
        live.hand.at_ns += SECOND_NS // 2
        look()
        live.hand.at_ns = ended_ns
        for side in range(2):
            live.end_step(side)
        look()
    for figure in range(2):
        course = [view[figure] for view in seen]
        assert course == sorted(course) and course[-1] > course[0]


def test_what_a_hanging_step_has_left_does_not_run_out(tmp_path: Path) -> None:
    with interleaved(tmp_path) as live, Player(live.run, live.hand.clock) as player:
        for _ in range(20):
            live.block(400, 400)
        before_s = player.look().eta_s
        live.hand.at_ns += 60 * SECOND_NS
        after_s = player.look().eta_s
        assert before_s is not None and after_s is not None and before_s > 10
        assert before_s - 3 <= after_s <= before_s
