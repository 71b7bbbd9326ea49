"""Events of a run in words: stalls with their likeliest causes, checkpoints, vacuums, messages of probes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from engine.core.format import short
from engine.journal.reader import FAR_NS
from engine.journal.rows import EventRow
from engine.results.incidents import incidents, ranked

AFTER_NS = 5_000_000_000  # shown after the end of a stall
MOST_ROLES = 2  # named besides the first


def lasts(event: EventRow, at_ns: int) -> bool:
    return event.ended_ns is None or event.ended_ns > at_ns


def until_ns(event: EventRow, at_ns: int) -> int:
    """End of an event, or `at_ns` while it lasts; for a stall about to end, since when it seems to be over."""
    if event.ended_ns is not None and not lasts(event, at_ns):
        return event.ended_ns
    return _ending_ns(event) or at_ns


def _ending_ns(event: EventRow) -> int | None:
    """Since when a stall seems to be over, while that is not certain yet."""
    ending_ns = event.data.get("ending_ns")
    return ending_ns if event.ended_ns is None and isinstance(ending_ns, int) else None


def stall_seconds(stall: EventRow, at_ns: int) -> float:
    return max(0.0, (until_ns(stall, at_ns) - stall.started_ns) / 1e9)


def cause(stall: EventRow) -> str:
    return str(_first_cause(stall).get("text", ""))


def _first_cause(stall: EventRow) -> dict[str, Any]:
    causes = stall.data.get("causes")
    likeliest = causes[0] if isinstance(causes, list) and causes else None
    return likeliest if isinstance(likeliest, dict) else {}


def _likeliest(stall: EventRow) -> tuple[str, str, float]:
    cause = _first_cause(stall)
    score = cause.get("score")
    return str(stall.role), str(cause.get("name", "")), score if isinstance(score, int | float) else 0.0


def _client(stall: EventRow) -> int:
    client = stall.data.get("client")
    return client if isinstance(client, int) else 1


def incidents_of(stalls: Iterable[EventRow]) -> list[tuple[EventRow, ...]]:
    """Group stalls: overlapping ones of one client form an incident."""
    return incidents(stalls, lambda stall: (_client(stall), stall.started_ns, stall.ended_ns))


def landings_ns(incidents: Sequence[tuple[EventRow, ...]], ends_ns: Mapping[int | None, int]) -> list[int]:
    """The position to seek for each incident: a while after its end, in its step, at most midway to the next one."""
    landings = []
    for place, incident in enumerate(incidents):
        end_ns = max(stall.ended_ns or stall.started_ns for stall in incident)
        later_ns = [stall.started_ns for other in incidents[place + 1 :] for stall in other]
        midway_ns = max(end_ns, (end_ns + min(later_ns, default=FAR_NS)) // 2)
        landings.append(min(end_ns + AFTER_NS, midway_ns, ends_ns.get(incident[0].step_id, end_ns)))
    return landings


def incident_beside(
    incidents: Sequence[tuple[tuple[EventRow, ...], int]], at_ns: int, by: int, chosen_ns: int | None
) -> tuple[tuple[EventRow, ...], int] | None:
    """The next (`by` 1) or previous (-1) incident and its landing, counted from the chosen one while that is shown."""
    begun = [place for place, (incident, _) in enumerate(incidents) if incident[0].started_ns <= at_ns]
    chosen = [
        place
        for place, (incident, lands_ns) in enumerate(incidents)
        if incident[0].started_ns == chosen_ns and lands_ns <= at_ns <= lands_ns + AFTER_NS
    ]
    place = chosen[0] + by if chosen else len(begun) - (by < 0)
    return incidents[place] if 0 <= place < len(incidents) else None


def main_stall(incident: Sequence[EventRow]) -> EventRow:
    return ranked(incident, _likeliest)[0]


def roles_words(incident: Sequence[EventRow]) -> str:
    """`insert`, `insert and delete`, `insert and 4 more`: the role of the main stall first."""
    main, *others = dict.fromkeys(str(stall.role) for stall in ranked(incident, _likeliest))
    several = others if len(others) <= MOST_ROLES else [f"{len(others)} more"]
    return " and ".join(filter(None, (", ".join([main, *several[:-1]]), *several[-1:])))


def incident_words(incident: Sequence[EventRow], at_ns: int) -> str:
    """`STALL insert and delete 3.2s so far: backend 123 is stopped (SIGSTOP)`."""
    return f"STALL {roles_words(incident)} {length_words(incident, at_ns)}"


def length_words(incident: Sequence[EventRow], at_ns: int) -> str:
    """`3.2s so far: backend 123 is stopped (SIGSTOP)`; `3.2s, ending` once work has resumed."""
    began_ns = min(stall.started_ns for stall in incident)
    seconds = max(0, max(until_ns(stall, at_ns) for stall in incident) - began_ns) / 1e9
    lasting = [stall for stall in incident if lasts(stall, at_ns)]
    state = "" if not lasting else ", ending" if all(map(_ending_ns, lasting)) else " so far"
    because = f": {text}" if (text := cause(main_stall(incident))) else ""
    return f"{seconds:.1f}s{state}{because}"


def unlike(incidents: Iterable[tuple[EventRow, ...]]) -> list[tuple[tuple[EventRow, ...], int]]:
    """The first of each group of incidents with the same roles and cause, with the size of the group."""
    kinds: dict[tuple[str, str], list[tuple[EventRow, ...]]] = {}
    for incident in incidents:
        kinds.setdefault((roles_words(incident), cause(main_stall(incident))), []).append(incident)
    return [(alike[0], len(alike)) for alike in kinds.values()]


def clients_words(count: int) -> str:
    """` (3 clients)`; empty for one."""
    return f" ({count} clients)" if count > 1 else ""


def stall_words(stall: EventRow, at_ns: int) -> str:
    return incident_words((stall,), at_ns)


def event_words(event: EventRow, at_ns: int) -> str:
    """An event in a few words, safe to print."""
    if event.kind == "stall":
        return stall_words(event, at_ns)
    data = event.data
    if event.kind == "probe_gap":
        seconds = (until_ns(event, at_ns) - event.started_ns) / 1e9
        lasting = " so far" if lasts(event, at_ns) else ""
        return f"{data.get('probe')}: no figures for {seconds:.0f} s{lasting}: {data.get('text', '')}"
    if lasts(event, at_ns):  # a replay knows the outcome, but must not show it yet
        data = {name: value for name, value in data.items() if name not in _AT_END}
    words = _WORDS.get(event.kind)
    return words(data) if words else str(data.get("text") or data.get("message") or event.kind)


def _checkpoint(data: dict[str, Any]) -> str:
    if "total_s" not in data:
        return f"checkpoint begins: {data.get('cause', '')}"
    return (
        f"checkpoint ({data.get('cause', '')}) wrote {short(data.get('buffers'))} buffers"
        f" in {data['total_s']}s, sync {data.get('sync_s', 0)}s"
    )


def _autovacuum(data: dict[str, Any]) -> str:
    what = f"auto{data.get('operation', 'vacuum')} {data.get('relation', '')}"
    if "elapsed_s" not in data:
        return what
    removed = f", {short(data['tuples_removed'])} tuples removed" if "tuples_removed" in data else ""
    return f"{what} {data['elapsed_s']}s{removed}"


def _lock_wait(data: dict[str, Any]) -> str:
    who, held = data.get("pid"), data.get("holders")
    words = f"pid {who} waits for {data.get('lock', 'a lock')} on {data.get('target', '?')}"
    words += f" held by pid {', '.join(map(str, held))}" if isinstance(held, list) and held else ""
    if "waited_ms" not in data:
        return words
    failed = " in vain" if data.get("failed") else ""
    return f"{words.replace(' waits ', ' waited ', 1)}{failed} for {data['waited_ms'] / 1000:.1f} s"


# Known only at the end of an event; the first logged line of a lock wait has its duration at that time.
_AT_END = ("total_s", "elapsed_s", "waited_ms", "failed")
_WORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "checkpoint": _checkpoint,
    "autovacuum": _autovacuum,
    "lock_wait": _lock_wait,
    "autovacuum_cancelled": lambda data: f"autovacuum of {data.get('relation', '')} was cancelled",
    "mark": lambda data: f"mark: {data.get('text', '')}",
}
