"""Causes of a connection's stall: ranks what overlaps it in time. A pure function of `Evidence`.

A score, 0 to 1, is the fraction of the stall that a cause explains. Direct causes are what the backend was seen doing:
stopped, waiting for a lock, for WAL, for storage, for a CPU, for its client, or running. They score their share of the
stall. External causes (a checkpoint, a vacuum) score their overlap, and more if the backend waited for the same thing;
one that explains all of it ranks above the wait that it causes (`DIRECT`), because it answers the next question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from engine.core.wait_kinds import kind_of
from engine.observe.evidence import Evidence, HostSecond, RoleEvidence, share
from engine.postgres.activity import Wait
from engine.postgres.serverlog import LogEvent

Sample = TypeVar("Sample", RoleEvidence, HostSecond)

SECOND_NS = 1_000_000_000
DIRECT = 0.9  # maximum score of a wait that may have a deeper cause
ENOUGH = 0.3  # below this the stall counts as not explained
LEAST = 0.1  # causes that explain less are not named
MOST_CAUSES = 5
NEAR_NS = 2 * SECOND_NS  # a cancelled vacuum or an error this long before a stall may have caused it


@dataclass(frozen=True, slots=True)
class CauseScore:
    """A cause: `name` is one of `NAMES`, `score` the fraction of the stall explained, `text` for people."""

    name: str
    score: float
    text: str

    def record(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Shares:
    """The activities of the stalled backend, as fractions of the stall."""

    cpu: float
    run_queue: float
    storage: float
    wal: float
    lock: float
    latch: float  # lightweight locks, and locks and pins of buffers
    idle: float  # waits for its client
    stopped: float
    client_stopped: float
    client_cpu: float

    @property
    def disk(self) -> float:
        return min(1.0, self.storage + self.wal)

    @property
    def own(self) -> float:
        """Causes other than checkpoint, vacuum or device: the backend ran, or was prevented from running."""
        return min(1.0, self.cpu + self.stopped)


def causes(evidence: Evidence) -> tuple[CauseScore, ...]:
    """Causes, likeliest first, at most `MOST_CAUSES`; never empty: `unknown` stands for the unexplained."""
    seconds = _overlapping(evidence.seconds, evidence)
    shares = shares_of(seconds)
    ranked = [cause for judge in JUDGES for cause in judge(evidence, seconds, shares) if cause.score >= LEAST]
    # The sort is stable, so equal scores keep the order of JUDGES and the result is deterministic.
    ranked.sort(key=lambda cause: -cause.score)
    best = {cause.name: cause for cause in reversed(ranked)}
    ranked = [cause for cause in ranked if best[cause.name] is cause][:MOST_CAUSES]
    if ranked and ranked[0].score >= ENOUGH:
        return tuple(ranked)
    waits = _most_frequent(second.wait for second in seconds if second.wait and second.wait.event)
    text = f"mostly waiting for {waits}" if waits else "no cause found"
    unknown = _cause("unknown", 1.0 - (ranked[0].score if ranked else 0.0), text)
    return (unknown, *ranked)[:MOST_CAUSES]


def shares_of(seconds: Sequence[RoleEvidence]) -> Shares:
    """Shares over some intervals. Times are the kernel's; waits are samples, one per interval."""
    total_ns = sum(second.dt_ns for second in seconds)
    waits = [second for second in seconds if second.wait is not None]

    def waiting(*kinds: str) -> float:
        """Fraction of samples; a stopped process still shows the wait in which it was stopped."""
        awaited = (second.wait for second in waits if second.backend_state not in ("T", "t"))
        return share(sum(wait is not None and kind_of(wait.event) in kinds for wait in awaited), len(waits))

    def in_state(states: str, of: Callable[[RoleEvidence], str]) -> float:
        seen = [of(second) for second in seconds if of(second)]
        return share(sum(state in states for state in seen), len(seen))

    return Shares(
        cpu=share(sum(second.backend_cpu_ns for second in seconds), total_ns),
        run_queue=share(sum(second.backend_runq_ns for second in seconds), total_ns),
        # Uninterruptible sleep is storage too, unless the backend reports its wait: throttled writers do not.
        storage=max(waiting("io"), in_state("D", lambda second: second.backend_state) - waiting("wal"), 0.0),
        wal=waiting("wal"),
        lock=waiting("lock"),
        latch=waiting("latch", "buffer"),
        idle=waiting("client"),
        stopped=in_state("Tt", lambda second: second.backend_state),
        client_stopped=in_state("Tt", lambda second: second.client_state),
        client_cpu=share(sum(second.client_cpu_ns for second in seconds), total_ns),
    )


def _stopped(evidence: Evidence, seconds: Sequence[RoleEvidence], shares: Shares) -> list[CauseScore]:
    text = "process {} of the {} is stopped (state T: SIGSTOP or a debugger)"
    return [
        _cause("stopped", shares.stopped, text.format(evidence.backend_pid, f"{evidence.role} backend")),
        _cause("stopped", shares.client_stopped, text.format(evidence.client_pid, f"{evidence.role} client")),
    ]


def _server_error(evidence: Evidence, seconds: Sequence[RoleEvidence], shares: Shares) -> list[CauseScore]:
    for event in evidence.events:
        of_backend, message = event.data.get("pid") == evidence.backend_pid, event.data.get("message", "")
        grave = of_backend or event.data.get("severity") == "PANIC" or "terminated by signal" in message
        if event.kind == "server_error" and grave and _near(event, evidence):
            return [_cause("server_error", 0.97, f"server: {message or 'error'}")]
    return []


def _lock(evidence: Evidence, seconds: Sequence[RoleEvidence], shares: Shares) -> list[CauseScore]:
    of_backend = [event for event in evidence.events if event.data.get("pid") == evidence.backend_pid]
    # A lock wait that is over appears twice, as begun and as ended: the later one counts.
    logged = {event.started_ns: event for event in of_backend if event.kind == "lock_wait"}.values()
    part = max([shares.lock, *(_overlap(event, evidence) for event in logged)])
    holders = dict.fromkeys(pid for second in seconds if second.wait for pid in second.wait.blocked_by)
    for event in logged:
        if _overlap(event, evidence) > 0:
            holders |= dict.fromkeys(event.data.get("holders", ()))
    kind = _waited_for(("lock",), seconds)
    what = f"lock ({kind.removeprefix('Lock:')})" if kind else "lock"
    latch = _waited_for(("latch", "buffer"), seconds)
    held = f" held by {_people(holders, evidence)}" if holders else ""
    causes = [
        _cause("lock", DIRECT * shares.latch, f"waiting for {latch} in {shares.latch:.0%} of the samples"),
        _cause("lock", part, f"waiting for {what}{held} for {part:.0%} of the stall"),
    ]
    if any("autovacuum" in evidence.names.get(pid, "") for pid in holders):
        causes.append(_cause("vacuum", part, f"autovacuum holds the lock: {_people(holders, evidence)}"))
    return causes


def _wal(evidence: Evidence, seconds: Sequence[RoleEvidence], shares: Shares) -> list[CauseScore]:
    text = f"waiting for WAL ({_waited_for(('wal',), seconds)}) in {shares.wal:.0%} of the samples"
    return [_cause("wal", DIRECT * shares.wal, text)]


def _io(evidence: Evidence, seconds: Sequence[RoleEvidence], shares: Shares) -> list[CauseScore]:
    event = _waited_for(("io",), seconds)
    busy = _mean([second.device_busy for second in _overlapping(evidence.host, evidence)])
    device = f"; the device was busy for {busy:.0%}" if busy >= 0.5 else ""
    waits = f"waiting for storage{f' ({event})' if event else ''} for {shares.storage:.0%} of the stall"
    # A busy device alone is only a hint: others may keep it busy.
    hint = 0.4 * busy * (1.0 - shares.own) * (1.0 - shares.idle) * (1.0 - shares.lock)
    if DIRECT * shares.storage >= hint:
        return [_cause("io", DIRECT * shares.storage, waits + device)]
    return [_cause("io", hint, f"the device was busy for {busy:.0%} of the stall")]


def _cpu(evidence: Evidence, seconds: Sequence[RoleEvidence], shares: Shares) -> list[CauseScore]:
    queued = f"ready to run, but waited for a CPU for {shares.run_queue:.0%} of the stall"
    return [
        _cause("run_queue", shares.run_queue, queued),
        _cause("cpu", shares.cpu, f"backend on CPU for {shares.cpu:.0%} of the stall"),
    ]


def _client(evidence: Evidence, seconds: Sequence[RoleEvidence], shares: Shares) -> list[CauseScore]:
    in_flight = share(sum(second.in_flight_ns > 0 for second in seconds), len(seconds))
    busy = f"; the client was on CPU for {shares.client_cpu:.0%}" if shares.client_cpu >= 0.5 else ""
    # An idle backend without a statement in flight may be idle by design: see `_partner`.
    score = shares.idle * max(in_flight, shares.client_cpu, 0.3)
    text = f"the backend waited for its client in {shares.idle:.0%} of the samples{busy}"
    return [_cause("client", DIRECT * score, text)]


def _partner(evidence: Evidence, seconds: Sequence[RoleEvidence], shares: Shares) -> list[CauseScore]:
    partners = []
    length_ns = max(1, evidence.ended_ns - evidence.started_ns)
    waiting = share(sum(second.in_flight_ns == 0 for second in seconds), len(seconds))
    for partner in evidence.partners:
        theirs = _overlapping(partner.seconds, evidence)
        busy = shares_of(theirs).cpu
        why = f", on CPU for {busy:.0%}" if busy >= 0.5 else ""
        # After a stall, the statement waited for is over, too: use its greatest age.
        age_ns = max([partner.in_flight_ns, *(second.in_flight_ns for second in theirs)])
        part = min(shares.idle, waiting) * share(age_ns, length_ns)
        runs = "has run" if partner.in_flight_ns else "ran"
        text = f"waits for the {partner.role} role, whose statement {runs} for {age_ns / SECOND_NS:.1f} s{why}"
        partners.append(_cause("partner", part, text))
    return partners


def _checkpoint(evidence: Evidence, seconds: Sequence[RoleEvidence], shares: Shares) -> list[CauseScore]:
    # A completed checkpoint appears twice, as begun and as ended: the later one counts.
    known = {event.started_ns: event for event in evidence.events if event.kind == "checkpoint"}
    checkpoints = []
    for event in known.values():
        overlap = _overlap(event, evidence)
        score = overlap * (0.3 + 0.65 * shares.disk) * (1.0 - 0.9 * shares.own) * (1.0 - shares.idle)
        data = event.data
        if event.ended_ns is None:
            text = f"a checkpoint ({data.get('cause') or 'requested'}) is running"
        else:
            text = f"checkpoint ({data.get('cause') or 'requested'}): wrote {data.get('buffers', 0)} buffers"
            text += f" in {data.get('write_s', 0):.1f} s, sync {data.get('sync_s', 0):.1f} s"
        checkpoints.append(_cause("checkpoint", score, f"{text}, over {overlap:.0%} of the stall"))
    return checkpoints


def _vacuum(evidence: Evidence, seconds: Sequence[RoleEvidence], shares: Shares) -> list[CauseScore]:
    part = (0.25 + 0.6 * shares.disk + 0.6 * shares.latch) * (1.0 - 0.9 * shares.own) * (1.0 - shares.idle)
    vacuums = [
        _cause("vacuum", part, f"vacuum of {vacuum.relation} is at work: {vacuum.phase}")
        for vacuum in evidence.vacuums
        if _concerns(vacuum.relation, evidence)
    ]
    for event in evidence.events:
        relation = event.data.get("relation", "")
        if not _concerns(relation, evidence):
            continue
        if event.kind == "autovacuum":
            overlap = _overlap(event, evidence)
            what = "autoanalyze" if event.data.get("operation") == "analyze" else "autovacuum"
            text = f"{what} of {relation} for {event.data.get('elapsed_s', 0):.1f} s, over {overlap:.0%} of the stall"
            vacuums.append(_cause("vacuum", overlap * part, text))
        elif event.kind == "autovacuum_cancelled" and _near(event, evidence):
            vacuums.append(_cause("vacuum", 0.25 + 0.5 * shares.lock, f"autovacuum of {relation} was cancelled"))
    return vacuums


def _steal(evidence: Evidence, seconds: Sequence[RoleEvidence], shares: Shares) -> list[CauseScore]:
    steal = _mean([second.steal for second in _overlapping(evidence.host, evidence)])
    return [_cause("steal", steal, f"the hypervisor gave {steal:.0%} of the machine's CPU time to other guests")]


Judge = Callable[[Evidence, Sequence[RoleEvidence], Shares], list[CauseScore]]
JUDGES: tuple[Judge, ...] = (
    _stopped, _server_error, _lock, _partner, _checkpoint, _vacuum, _wal, _io, _cpu, _client, _steal,
)  # fmt: skip
NAMES = (
    "stopped", "server_error", "lock", "partner", "checkpoint", "vacuum", "wal", "io", "run_queue", "cpu", "client",
    "steal", "unknown",
)  # fmt: skip


def _cause(name: str, score: float, text: str) -> CauseScore:
    return CauseScore(name, round(min(1.0, max(0.0, score)), 3), text)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _most_frequent(waits: Iterable[Wait]) -> str:
    """The most frequent event, the first among equals; '' without waits."""
    return next((event for event, _ in Counter(wait.event for wait in waits).most_common(1)), "")


def _waited_for(kinds: tuple[str, ...], seconds: Sequence[RoleEvidence]) -> str:
    return _most_frequent(second.wait for second in seconds if second.wait and kind_of(second.wait.event) in kinds)


def _overlapping(samples: Sequence[Sample], evidence: Evidence) -> list[Sample]:
    """Samples at least half within the stall, as its first interval is half good; else the latest before its end."""
    before = [sample for sample in samples if sample.t_ns - sample.dt_ns < evidence.ended_ns]
    inside = [
        sample
        for sample in before
        if min(sample.t_ns, evidence.ended_ns) - max(sample.t_ns - sample.dt_ns, evidence.started_ns)
        >= sample.dt_ns // 2
    ]
    return inside or [sample for sample in before[-1:] if sample.t_ns > evidence.started_ns]


def _overlap(event: LogEvent, evidence: Evidence) -> float:
    ended_ns = evidence.ended_ns if event.ended_ns is None else event.ended_ns
    common_ns = min(ended_ns, evidence.ended_ns) - max(event.started_ns, evidence.started_ns)
    return share(common_ns, evidence.ended_ns - evidence.started_ns)


def _near(event: LogEvent, evidence: Evidence) -> bool:
    """Whether an instantaneous event lies in the stall or shortly before it."""
    return evidence.started_ns - NEAR_NS <= event.started_ns <= evidence.ended_ns


def _concerns(relation: str, evidence: Evidence) -> bool:
    return not evidence.relations or relation in evidence.relations


def _people(pids: Iterable[int], evidence: Evidence) -> str:
    return ", ".join(f"pid {pid} ({evidence.names[pid]})" if pid in evidence.names else f"pid {pid}" for pid in pids)
