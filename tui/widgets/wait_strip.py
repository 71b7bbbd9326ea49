"""What the server's processes of each role waited for, over time: a letter for what took most of a column."""

from collections.abc import Mapping, Sequence

from tui.marks import Line, joined

# What an event's type is drawn as, and what it is called; `` is work: the process ran, or waited for a CPU.
LETTERS = {
    "": ("c", "on CPU", "rate"),
    "Client": (".", "its client", "dim"),
    "IO": ("I", "I/O", "base"),
    "Lock": ("L", "lock", "worse"),
    "LWLock": ("W", "lightweight lock", "third"),
    "BufferPin": ("B", "buffer pin", "third"),
    "IPC": ("P", "another process", "third"),
    "Timeout": ("T", "time-out", "dim"),
    "Activity": ("A", "idle", "dim"),
    "Extension": ("E", "extension", "third"),
}
OTHER = ("?", "other", "third")


def strip_of(columns: Sequence[Mapping[int | str, float] | None], special: Mapping[int, str]) -> Line:
    """One row: the letter of each column, blank where nothing is known."""
    cells = []
    for x, column in enumerate(columns):
        if not column:
            cells.append((" ", special.get(x, "")))
            continue
        letter, _, mark = LETTERS.get(most_of(column).partition(":")[0], OTHER)
        cells.append((letter, special.get(x, mark)))
    return joined(cells)


def most_of(weights: Mapping[int | str, float]) -> str:
    """The event that took most time; of equal ones the first by its name."""
    return str(min(weights, key=lambda event: (-weights[event], str(event))))


def legend(rows: Sequence[Sequence[Mapping[int | str, float] | None]]) -> str:
    """What the letters are that are seen."""
    seen = {most_of(column).partition(":")[0] for row in rows for column in row if column}
    known = [LETTERS[kind] for kind in LETTERS if kind in seen] + ([OTHER] if seen - set(LETTERS) else [])
    return "  ".join(f"{letter} {words}" for letter, words, _ in known)
