"""The stops of the guided minute over two recordings. Its words about stalls come from the record."""

from pathlib import Path

from engine.core.errors import UserError
from engine.journal.reader import FAR_NS, JournalReader
from engine.journal.rows import EventRow
from engine.view.events import incident_words, incidents_of
from tui.demo.guide import TourStop

QUERIES = "qr100"
Stalled = tuple[str, str, list[tuple[EventRow, ...]]]  # a cell, its step, its stalls by incident


def stalled(run: Path) -> Stalled:
    """The step with the most stalls, which is played first."""
    with JournalReader(run) as reader:
        steps = [
            (attempt.cell, step.name, incidents_of(reader.events(step.id, kinds=("stall",))))
            for attempt in reader.attempts(origins=False)
            for step in reader.steps(attempt.id)
        ]
    most = max(steps, key=lambda entry: len(entry[2]), default=None)
    if most is None or not most[2]:
        raise UserError(f"{run.name}: the run has no stall for the guide to show")
    return most


def stops_of(step: Stalled) -> tuple[TourStop, ...]:
    cell, name, stalls = step
    first, last = (incident_words(stall, FAR_NS).removeprefix("STALL ") for stall in (stalls[0], stalls[-1]))
    return (
        TourStop(
            7,
            "Two builds of PostgreSQL under one workload, recorded on a small machine. Their servers run side by side "
            "and take turns many times a second, so that noise hits both. ● is main, ○ is patch.",
            until="REPLAY",
            replay=(cell, name),
            anew=True,
        ),
        TourStop(
            6,
            "A stall: the client has work, but nothing moves. It is marked within two seconds, with its cause. "
            f"The first one here: {first}.",
            ("g", "0", "enter", "n", "space"),  # back to the start: `n` skips a stall that is over
            until="1 stall",
        ),
        TourStop(
            8,
            f"The last one: {last}. Enter shows everything known about it.",
            (*("n",) * (len(stalls) - 1), "enter"),
            until="blocked in",
        ),
        TourStop(
            9,
            "A query step. The ratio so far stands below the chart, with a 95% interval that stays valid however "
            "often you check it. It narrows while the step runs.",
            ("escape",),
            until="qr100",
            replay=(cell, QUERIES),
            anew=True,
        ),
        TourStop(
            8,
            "Compare: a line for each verdict, then every ratio with its interval on one axis. The band is the margin "
            "within which two builds count as the same.",
            ("3",),
            until="every cell",
            anew=True,
        ),
        TourStop(
            7,
            "Every cell is a dot. Below are possible causes of a difference, and whether the builds are comparable.",
            ("end", "up", "up", "up"),
            until="every cell",
            top=True,
        ),
        TourStop(
            7,
            "The blocks of a step, two slices of each server: their ratios over time, and how the total settles.",
            ("l",),
            until="blocks",
        ),
        TourStop(
            6,
            "What the query's backend did on its CPU, as a flame graph: the outermost function is on top, enter zooms. "
            "A frame with ▼ takes significantly more of each query than in the base.",
            ("escape", "f", "enter"),
            until="takes more",
        ),
        TourStop(
            6,
            "The same as a list, significant changes first. compare_once is new: the patch has added it, and calls it "
            "several times for each key.",
            ("v",),
            until="compare_once",
        ),
        TourStop(
            7,
            "History lists all runs. The older one is about an application: its schema has twelve tables, and two "
            "releases planned 40 statements, but executed none.",
            ("5", "end"),
            until="HISTORY",
            anew=True,
        ),
        TourStop(
            8,
            "Compare lists changed plans before any ratio: a new plan explains more than a profile does.",
            ("3",),
            until="p plans",
        ),
        TourStop(
            9,
            "Both plans of a statement, side by side. Nodes that differ are marked; each shows its estimated rows.",
            ("p", "down"),
            until="PLANS",
        ),
        TourStop(
            6,
            "In short: patch compares each key several times, in its new function compare_once, and so a query takes "
            "more CPU time. Launch (1) starts a run of your own: choose two builds and press s. The guide ends here.",
            ("escape", "5"),
            until="HISTORY",
        ),
    )
