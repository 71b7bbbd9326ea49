"""Wait events of each role's server processes over time: a letter for the longest wait of a column."""

from collections.abc import Mapping, Sequence

from engine.core.wait_kinds import kind_of
from tui.marks import Line, joined

# Letter and name of each type of wait event; `` is work: the process ran, or waited for a CPU.
LETTERS = {
    "": ("c", "on CPU", "rate"),
    "Client": (".", "its client", "dim"),
    "IO": ("I", "I/O", "base"),
    "Lock": ("L", "lock", "worse"),
    "LWLock": ("W", "lightweight lock", "third"),
    "Buffer": ("B", "buffer lock", "third"),
    "IPC": ("P", "another process", "third"),
    "Timeout": ("T", "time-out", "dim"),
    "Activity": ("A", "idle", "dim"),
    "Extension": ("E", "extension", "third"),
    "InjectionPoint": ("E", "extension", "third"),
}
OTHER = ("?", "unknown to pgbed", "third")
TYPE_OF_KIND = {"buffer": "Buffer", "io": "IO"}  # of which other versions have events of another type


def strip_of(columns: Sequence[Mapping[int | str, float] | None], special: Mapping[int, str]) -> Line:
    """One row: the letter of each column, blank without samples."""
    cells = []
    for x, column in enumerate(columns):
        if not column:
            cells.append((" ", special.get(x, "")))
            continue
        letter, _, mark = LETTERS.get(type_of(most_of(column)), OTHER)
        cells.append((letter, special.get(x, mark)))
    return joined(cells)


def most_of(weights: Mapping[int | str, float]) -> str:
    """The event with the greatest weight; of equal ones the first by name."""
    return str(min(weights, key=lambda event: (-weights[event], str(event))))


def type_of(event: str) -> str:
    """The type of an event, the same in all versions: a lock on a buffer is an LWLock up to 18."""
    return TYPE_OF_KIND.get(kind_of(event)) or event.partition(":")[0]


def legend(rows: Sequence[Sequence[Mapping[int | str, float] | None]]) -> str:
    """The letters that are shown, in words."""
    seen = {type_of(most_of(column)) for row in rows for column in row if column}
    entries = [LETTERS[kind] for kind in LETTERS if kind in seen] + ([OTHER] if seen - set(LETTERS) else [])
    return "  ".join(dict.fromkeys(f"{letter} {words}" for letter, words, _ in entries))
