"""A role of any kind of step, one of whose statements takes long, as the stall detector sees it second by second."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from engine.observe.stalls import SECOND_NS, Detector, Stall, StallChange, StallRule
from workloads.client.limiter import Limiter

START_NS = 7_000 * SECOND_NS


@dataclass(frozen=True)
class Kind:
    """A role's work: the length of its statements, rounds per second if a limiter holds it, its share of the time."""

    statement_s: float
    per_s: int = 0
    servers: int = 1


def planted(kind: Kind, at_s: float, length_s: float, phase: float, *, blocked: bool = False) -> list[Stall]:
    """Stalls of a role of which one statement after `at_s` takes `length_s`, as the engine sees it each second.

    If it is `blocked`, by a lock or a signal, it takes so much longer than others, from its middle on, and is seen so.
    """
    slice_s, total_s, statement_s = 0.05, at_s + length_s + 8 * kind.servers + 2 * kind.statement_s, kind.statement_s
    now_s = opened_s = phase * slice_s
    active_s = paused_s = 0.0
    sent, ended, held, pauses = [], [], [], [(0.0, now_s)]
    rule = Limiter(kind.per_s, 1, 0, even=kind.servers > 1) if kind.per_s else None
    go_s = 0.0
    block_s: tuple[float, float] | None = None
    stuck = False
    while now_s < total_s:
        if kind.servers > 1 and now_s >= opened_s + slice_s:  # statements are never cut: the turn ends after one
            pauses.append((now_s, now_s + (kind.servers - 1) * slice_s))
            now_s = opened_s = pauses[-1][1]
        active_s = now_s - sum(end - begin for begin, end in pauses)
        if active_s < go_s:
            until_s = min(now_s + go_s - active_s, opened_s + slice_s if kind.servers > 1 else total_s)
            held.append((now_s, until_s))
            now_s = until_s + 1e-9
            continue
        begin_s, now_s = now_s, now_s + (statement_s if stuck or now_s < at_s else length_s)
        if blocked and not stuck and begin_s >= at_s:
            block_s, now_s = (begin_s + statement_s / 2, begin_s + statement_s / 2 + length_s), now_s + statement_s
        stuck = stuck or begin_s >= at_s
        sent.append(begin_s)
        ended.append(now_s)
        if rule is not None:
            go_s = rule.after(len(sent) - 1, int(max(go_s, active_s + now_s - begin_s) * SECOND_NS))[0] / SECOND_NS
    detector = Detector(StallRule(), "insert", 1, START_NS)
    changes: list[StallChange] = []
    done, ticked_s, blocked_ns = 0, 0.0, 0
    for quarter in range(1, int(total_s * 4)):
        t_s = quarter / 4
        finished = bisect_right(ended, t_s)
        in_flight_ns = int(max(0.0, t_s - sent[finished]) * SECOND_NS) if finished < len(sent) else 0
        if block_s is not None and block_s[0] <= t_s < block_s[1]:  # since the look before, or since it was sent
            blocked_ns = blocked_ns or START_NS + int(max(t_s - 0.25, sent[finished]) * SECOND_NS)
        else:
            blocked_ns = 0
        if quarter % 4:
            changes += detector.look(START_NS + int(t_s * SECOND_NS), in_flight_ns, 0, blocked_ns)
            continue
        paused_s = sum(max(0.0, min(end, t_s) - max(begin, ticked_s)) for begin, end in pauses)
        changes += detector.tick(
            START_NS + int(t_s * SECOND_NS),
            int((t_s - ticked_s - paused_s) * SECOND_NS),
            finished - done,
            finished - done,
            in_flight_ns,
            dict.fromkeys((0.5, 0.99), int(statement_s * 1e6)).get,
            held=any(begin < t_s and end > ticked_s for begin, end in held),
            blocked_ns=blocked_ns,
        )
        done, ticked_s = finished, t_s
    changes += detector.finish(START_NS + int(total_s * SECOND_NS))
    assert kind.per_s == 0 or blocked or sum(change.stall.ending_ns is not None for change in changes) <= 1
    return [change.stall for change in changes if change.kind == "ended"]
