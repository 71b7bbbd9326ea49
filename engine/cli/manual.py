"""Where the manual has more: the page of each command; and the exit codes, which its reference and `man bench` list."""

from __future__ import annotations

PAGES = {
    "bisect": "how-to/bisect",
    "ci": "how-to/ci",
    "compare": "tutorial/first-comparison",
    "completion": "reference/settings",
    "delete": "how-to/comparisons",
    "demo": "tutorial/first-comparison",
    "doctor": "how-to/quiet-machine",
    "farm": "how-to/farm",
    "flame": "how-to/probes",
    "interface": "how-to/terminal",
    "list": "how-to/comparisons",
    "mark": "how-to/terminal",
    "pin": "how-to/builds",
    "probes": "how-to/probes",
    "report": "how-to/comparisons",
    "resume": "how-to/comparisons",
    "run": "how-to/comparisons",
    "schema": "reference/results",
    "stop": "how-to/comparisons",
    "tag": "how-to/comparisons",
    "trend": "how-to/comparisons",
    "watch": "how-to/terminal",
}
EXIT_CODES = (
    ("0", "Done; with --gate: no build is worse."),
    ("1", "With --gate: a step is slower by more than tolerated, missed its SLA or did nothing, or cells failed or are "
          "missing; of bench ci also: the head does not build."),
    ("1", "Without --gate: cells of a run or blocks of a farm failed, or a check of bench doctor did."),
    ("2", "The command failed or was refused: a wrong name or value, nothing to compare, or an output that is closed "
          "or full; with --gate: there is no result for some build; of bench bisect: no commit was found."),
    ("130", "Stopped by Ctrl-C; bench resume, or the same bench bisect, continues."),
    ("141", "Nobody reads the output any more, as after bench list builds | head -1; a run continues."),
    ("143", "Stopped by SIGTERM, likewise."),
)  # fmt: skip


def ending(command: str) -> str:
    """The last line of a command's help; empty for a hidden command."""
    page = PAGES.get(command)
    return f"Manual: docs/{page}.md" if page else ""
