"""Ranking of causes: each clear case comes out first with words a DBA would use, and the ranking is well behaved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.observe.causes import NAMES, CauseScore, causes
from engine.observe.evidence import Evidence, HostSecond, Partner, RoleEvidence
from engine.postgres.activity import Vacuum, Wait
from engine.postgres.serverlog import LogEvent

S = 1_000_000_000
START, END = 100 * S, 110 * S
BACKEND, CLIENT, PARTNER, WORKER = 11, 12, 13, 14


def second(
    t: int, wait: Wait | None = None, cpu: float = 0.0, in_flight: bool = True, **values: int | str
) -> RoleEvidence:
    plain = RoleEvidence(t * S, S, S if in_flight else 0, wait, int(cpu * S), 0, "S", 0, "S")
    return replace(plain, **values)  # type: ignore[arg-type]


def stall(*seconds: RoleEvidence, **values: object) -> Evidence:
    return replace(Evidence("insert", BACKEND, CLIENT, START, END, seconds), **values)  # type: ignore[arg-type]


def throughout(wait: Wait | None = None, cpu: float = 0.0, in_flight: bool = True, **values: int | str) -> Evidence:
    return stall(*(second(t, wait, cpu, in_flight, **values) for t in range(95, 111)))


def first(evidence: Evidence) -> CauseScore:
    return causes(evidence)[0]


def checkpoint(began: int, ended: int | None, sync_s: float = 6.4) -> LogEvent:
    data = {"cause": "time", "buffers": 812, "write_s": 1.5, "sync_s": sync_s}
    return LogEvent("checkpoint", began * S, None if ended is None else ended * S, data)


IDLE = Wait("Client:ClientRead", "idle")


def test_a_backend_on_cpu_all_along_is_named_so() -> None:
    cause = first(throughout(Wait("", "active"), cpu=0.97))
    assert (cause.name, cause.score, cause.text) == ("cpu", 0.97, "backend on CPU for 97% of the stall")


def test_a_stopped_backend_is_named_before_what_it_waited_for() -> None:
    cause = first(throughout(Wait("IO:DataFileRead", "active"), backend_state="T"))
    assert cause.name == "stopped" and "SIGSTOP" in cause.text and str(BACKEND) in cause.text


def test_a_backend_stopped_in_a_wait_did_not_wait_throughout() -> None:
    wait = Wait("LWLock:WALWrite", "active")
    cause = first(stall(*(second(t, wait, backend_state="S" if t < 104 else "T") for t in range(99, 111))))
    assert cause.name == "stopped" and 0.5 < cause.score < 0.9


def test_a_stopped_client_is_named() -> None:
    cause = first(throughout(IDLE, client_state="T"))
    assert cause.name == "stopped" and "client" in cause.text


def test_a_lock_names_its_holder() -> None:
    evidence = throughout(Wait("Lock:transactionid", "active", (PARTNER,)))
    cause = first(replace(evidence, names={PARTNER: "delete role"}))
    assert cause.name == "lock"
    assert cause.text == "waiting for lock (transactionid) held by pid 13 (delete role) for 100% of the stall"


def test_a_lock_wait_is_known_from_the_log_alone() -> None:
    event = LogEvent("lock_wait", START, None, {"pid": BACKEND, "holders": [WORKER]})
    ranking = causes(replace(throughout(), events=(event,), names={WORKER: "autovacuum worker"}))
    assert [cause.name for cause in ranking[:2]] == ["lock", "vacuum"]
    assert "held by pid 14 (autovacuum worker)" in ranking[0].text


def test_a_lock_waited_for_in_part_is_not_the_whole_stall() -> None:
    data = {"pid": BACKEND, "holders": [WORKER]}
    events = [LogEvent("lock_wait", START, ended, data) for ended in (None, START + 4 * S)]
    cause = first(replace(throughout(), events=events))
    assert cause.text == "waiting for lock held by pid 14 for 40% of the stall"


@pytest.mark.parametrize(
    "event", ("LWLock:WALWriteLock", "LWLock:WALWrite", "IO:WALSync", "IO:WalSync", "LWLock:wal_insert")
)
def test_wal_waits_of_all_versions_are_wal(event: str) -> None:
    cause = first(throughout(Wait(event, "active")))
    assert cause.name == "wal" and event in cause.text


def test_storage_waits_are_io_and_tell_how_busy_the_device_was() -> None:
    host = [HostSecond(t * S, S, 0.0, 0.99) for t in range(95, 111)]
    cause = first(replace(throughout(Wait("IO:DataFileRead", "active"), backend_state="D"), host=host))
    assert cause.name == "io" and "IO:DataFileRead" in cause.text and "99%" in cause.text


def test_uninterruptible_sleep_is_storage() -> None:
    assert first(throughout(Wait("", "active"), backend_state="D")).name == "io"


def test_a_checkpoint_is_the_first_cause_of_a_disk_wait() -> None:
    ranking = causes(replace(throughout(Wait("IO:WALSync", "active")), events=(checkpoint(98, 111),)))
    assert [cause.name for cause in ranking[:2]] == ["checkpoint", "wal"]
    assert "sync 6.4 s" in ranking[0].text and "100% of the stall" in ranking[0].text


def test_a_checkpoint_is_not_blamed_for_a_backend_on_cpu() -> None:
    ranking = causes(replace(throughout(Wait("", "active"), cpu=0.98), events=(checkpoint(98, None),)))
    assert [cause.name for cause in ranking] == ["cpu"]


def test_a_checkpoint_that_lasts_and_then_ends_is_one() -> None:
    events = (checkpoint(98, None), checkpoint(98, 111))
    ranking = causes(replace(throughout(Wait("IO:DataFileWrite", "active")), events=events))
    assert [cause.name for cause in ranking].count("checkpoint") == 1
    assert "sync" in ranking[0].text


def test_a_vacuum_counts_for_the_roles_own_tables_only() -> None:
    vacuum = (Vacuum(WORKER, "pi1", "vacuuming indexes", 1.0),)
    waiting = throughout(Wait("IO:DataFileRead", "active"))
    on_own_table = causes(replace(waiting, vacuums=vacuum, relations=frozenset(("pi1",))))
    other = causes(replace(waiting, vacuums=vacuum, relations=frozenset(("pi2",))))
    assert any(cause.name == "vacuum" and "vacuuming indexes" in cause.text for cause in on_own_table)
    assert all(cause.name != "vacuum" for cause in other)


def test_a_coupled_role_waits_for_its_partner() -> None:
    theirs = [second(t, Wait("", "active"), cpu=0.97) for t in range(95, 111)]
    evidence = throughout(IDLE, in_flight=False)
    cause = first(replace(evidence, partners=(Partner("delete", 10 * S, theirs),)))
    assert cause.name == "partner"
    assert cause.text == "waits for the delete role, whose statement has run for 10.0 s, on CPU for 97%"


def test_a_finished_partner_explains_a_stall_that_ended() -> None:
    theirs = [second(t, Wait("", "active"), in_flight_ns=(t - 100) * S) for t in range(101, 111)]
    cause = first(replace(throughout(IDLE, in_flight=False), partners=(Partner("insert", 0, theirs),)))
    assert (cause.name, cause.text) == ("partner", "waits for the insert role, whose statement ran for 10.0 s")


def test_a_backend_that_waits_for_its_client_blames_the_client() -> None:
    cause = first(throughout(IDLE, in_flight=False, client_cpu_ns=S))
    assert cause.name == "client" and "client was on CPU for 100%" in cause.text


def test_a_machine_without_free_cpus_is_run_queue_or_steal() -> None:
    cause = first(throughout(Wait("", "active"), cpu=0.1, backend_runq_ns=int(0.9 * S)))
    assert cause.name == "run_queue" and "90%" in cause.text
    host = [HostSecond(t * S, S, 0.8, 0.0) for t in range(95, 111)]
    assert first(replace(throughout(Wait("", "active"), cpu=0.2), host=host)).name == "steal"


def test_a_crash_is_named() -> None:
    message = "server process (PID 11) was terminated by signal 9: Killed"
    event = LogEvent("server_error", START, START, {"pid": 1, "severity": "LOG", "message": message})
    assert first(replace(throughout(), events=(event,))).text == f"server: {message}"


def test_nothing_seen_is_unknown_and_other_waits_are_told() -> None:
    assert causes(stall()) == (CauseScore("unknown", 1.0, "no cause found"),)
    assert first(throughout(Wait("IPC:SafeSnapshot", "active"))).text == "mostly waiting for IPC:SafeSnapshot"


def test_good_seconds_before_the_stall_do_not_count() -> None:
    before = [second(t, Wait("", "active"), cpu=0.9) for t in range(80, 101)]
    during = [second(t, Wait("Lock:tuple", "active", (PARTNER,))) for t in range(101, 111)]
    assert [cause.name for cause in causes(stall(*before, *during))] == ["lock"]


def test_host_shares_are_of_all_cpu_time() -> None:
    host = {"user_ns": 5 * S, "idle_ns": 10 * S, "iowait_ns": 4 * S, "steal_ns": S, "switches": 10**12}
    assert HostSecond.of(S, S, host, {"io_ns": S // 2}) == HostSecond(S, S, 0.05, 0.5)
    assert HostSecond.of(S, S, {}, {}) == HostSecond(S, S, 0.0, 0.0)


waits = st.none() | st.builds(
    Wait,
    st.sampled_from(
        ("", "Lock:relation", "IO:WALSync", "IO:DataFileRead", "LWLock:BufferContent", "Client:ClientRead", "X")
    ),
    st.just("active"),
    st.lists(st.integers(1, 20), max_size=2).map(tuple),
)
times = st.integers(0, 2 * S)
seconds = st.lists(
    st.builds(
        RoleEvidence,
        st.integers(95 * S, 115 * S),
        st.integers(0, 2 * S),
        st.integers(0, 20 * S),
        waits,
        times,
        times,
        st.sampled_from(("", "R", "S", "D", "T", "Z")),
        times,
        st.sampled_from(("", "R", "S", "T")),
    ),
    max_size=12,
)
instants = st.integers(90 * S, 120 * S)
log_events = st.lists(
    st.builds(
        LogEvent,
        st.sampled_from(("checkpoint", "autovacuum", "autovacuum_cancelled", "lock_wait", "server_error")),
        instants,
        st.none() | instants,
        st.fixed_dictionaries(
            {}, optional={"pid": st.integers(10, 14), "relation": st.just("pi1"), "holders": st.just([14])}
        ),
    ),
    max_size=6,
)
evidences = st.builds(
    Evidence,
    role=st.just("insert"),
    backend_pid=st.just(BACKEND),
    client_pid=st.just(CLIENT),
    started_ns=st.just(START),
    ended_ns=st.integers(START, END),
    seconds=seconds,
    partners=st.lists(st.builds(Partner, st.just("delete"), st.integers(0, 20 * S), seconds), max_size=2),
    host=st.lists(st.builds(HostSecond, instants, times, st.floats(0, 1), st.floats(0, 1)), max_size=5),
    events=log_events,
    vacuums=st.lists(
        st.builds(Vacuum, st.just(WORKER), st.just("pi1"), st.just("scanning heap"), st.floats(0, 1)), max_size=1
    ),
)


@pytest.mark.slow
@given(evidences)
def test_the_ranking_is_never_empty_sorted_and_within_bounds(evidence: Evidence) -> None:
    ranking = causes(evidence)
    assert 1 <= len(ranking) <= 5
    assert all(0.0 <= cause.score <= 1.0 and cause.text and cause.name in NAMES for cause in ranking)
    known = [cause.score for cause in ranking if cause.name != "unknown"]
    assert known == sorted(known, reverse=True)
    assert len({cause.name for cause in ranking}) == len(ranking)
    assert (ranking[0].name == "unknown") == (not known or known[0] < 0.3)
    assert causes(evidence) == ranking
    assert ranking[0].record().keys() == {"name", "score", "text"}


def score(evidence: Evidence, name: str) -> float:
    return next((cause.score for cause in causes(evidence) if cause.name == name), 0.0)


@pytest.mark.slow
@given(evidences, st.integers(90, 105), st.integers(105, 120))
def test_a_checkpoint_more_never_makes_checkpoints_less_likely(evidence: Evidence, began: int, ended: int) -> None:
    alone = replace(evidence, partners=(), host=(), vacuums=(), events=())
    more = replace(alone, events=(checkpoint(began, ended),))
    longer = replace(alone, events=(checkpoint(began - 5, ended + 5),))
    assert score(alone, "checkpoint") <= score(more, "checkpoint") <= score(longer, "checkpoint")


@pytest.mark.slow
@given(evidences)
def test_what_lies_outside_the_stall_changes_nothing(evidence: Evidence) -> None:
    far = [replace(one, t_ns=one.t_ns + 1000 * S) for one in evidence.seconds]
    events = [
        replace(event, started_ns=event.started_ns - 1000 * S, ended_ns=event.started_ns - 999 * S)
        for event in evidence.events
    ]
    more = replace(evidence, seconds=[*evidence.seconds, *far], events=[*events, *evidence.events])
    assert causes(more) == causes(evidence)
