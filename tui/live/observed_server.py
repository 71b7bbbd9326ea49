"""The text of the Live screen over servers that are only watched: title, connections by role, rates of two servers."""

from collections.abc import Sequence

from engine.core.format import clock, short
from engine.view.observed_server import ObservedRole, ObservedServer, connection_words
from engine.view.view_state import ViewState
from tui.glyphs import Glyphs
from tui.marks import SIDES, Line, Span, cut, line, width

ROLE_ROWS, ROLE_ROWS_TALL = 4, 10
ROLE_CELLS, LEAST_WAIT = 18, 12
# Columns after the role and before the wait; rates by role are not known by application.
COLUMNS = (("conns", 6), ("active", 7), ("in trans", 9), ("calls/s", 8), ("ms/call", 8), ("age s", 7))
BY_ROLE = ("calls/s", "ms/call")
ROWS = (("+", "inserted"), ("~", "updated"), ("-", "deleted"))


def title(view: ViewState, server: ObservedServer) -> str:
    name = view.cell.subject.name if view.cell is not None else view.run
    length = clock(view.length_s) if view.step is not None else ""
    return " | ".join(filter(None, (f"{name} {server.version}", f"observed by {server.by}", length)))


def connections(server: ObservedServer) -> str:
    return ", ".join(connection_words(server.total))


def table(server: ObservedServer, columns: int, *, tall: bool, stalled: Sequence[str], glyphs: Glyphs) -> list[Line]:
    """A row for each of the busiest roles, and one for what the others add up to; then what is not visible."""
    heads = [head for head in COLUMNS if server.by != "application" or head[0] not in BY_ROLE]
    spare = columns - 1 - sum(room for _, room in heads) - ROLE_CELLS - LEAST_WAIT
    name_cells = ROLE_CELLS + max(0, spare // 2)
    wait_cells = max(0, columns - 2 - name_cells - sum(room for _, room in heads))
    most = ROLE_ROWS_TALL if tall else ROLE_ROWS
    shown, rest = server.roles[:most], server.roles[most:]
    head = f"{server.by:<{name_cells}}" + "".join(f"{name:>{room}}" for name, room in heads)
    more = f"  and {len(rest)} more, with {sum(role.connections for role in rest)} connections" if rest else ""
    lines = [line((f" {head} wait{more}"[:columns], "dim"))]
    for role in shown:
        values = _values(role)
        text = cut(role.title, name_cells - 1, glyphs).ljust(name_cells)
        wait = role.wait.partition(":")[2][:wait_cells]
        text += "".join(f"{values[name]:>{room}}" for name, room in heads) + f" {wait}"
        lines.append(line(("!", "stall"), (text, "stall")) if role.name in stalled else line(" " + text))
    notes = [f"not visible: {note}" if "not visible" not in note else note for note in server.notes]
    return lines + [line((f" {cut(note, columns - 2, glyphs)}", "dim")) for note in (notes if tall else notes[:1])]


def _values(role: ObservedRole) -> dict[str, str]:
    known = role.unseen < role.connections
    return {
        "conns": str(role.connections),
        "active": str(role.active) if known else "-",
        "in trans": str(role.idle_in_transaction) if known else "-",
        "calls/s": short(role.calls_per_s),
        "ms/call": short(role.ms_per_call),
        "age s": f"{role.oldest_s:.1f}" if role.active else "-",
    }


def states(server: ObservedServer, checkpoints: Sequence[Span]) -> Line:
    """Checkpoints and vacuums as far as they are to be seen, and what the server does each second."""
    spans: list[Span] = [*checkpoints, *((f" vacuum {vacuum} ", "strong") for vacuum in server.vacuums[:2])]
    rates = server.rates
    if "commits" in rates:
        rows = " ".join(f"{sign}{short(rates[name])}" for sign, name in ROWS)
        undone = f" ({short(rates['rollbacks'])} rolled back)" if rates["rollbacks"] else ""
        spans.append((f" tx/s {short(rates['commits'] + rates['rollbacks'])}{undone}  rows/s {rows}", ""))
    if server.hit_share is not None:
        spans.append((f"  hit {100 * server.hit_share:.1f}%", ""))
    if "wal_bytes" in rates:
        spans.append((f"  wal {short(rates['wal_bytes'] / (1 << 20))} MB/s", ""))
    return tuple(spans)


def legend(view: ViewState, kind: str, window: str, *, glyphs: Glyphs, columns: int) -> Line:
    """Sign, name and rate of the servers, `>` at the one whose connections are shown."""
    del kind
    assert view.pair is not None
    longest = max(len(side.name) for side in view.pair.sides)
    shown: Line = ()
    for cells in range(longest, 0, -1):
        spans: list[Span] = [(f" {view.unit}", "dim")]
        for place, side in enumerate(view.pair.sides):
            chosen = place == view.pair.chosen
            spans += [
                ("  >" if chosen else "  ", "chosen"),
                (f"{glyphs.sides[place]} {cut(side.name, cells, glyphs)} ", SIDES[place]),
                (short(side.rate_per_s), "strong" if chosen else ""),
            ]
        shown = (*spans, (f"  {window}", "dim"))
        if width(shown) <= columns:
            break
    return shown
