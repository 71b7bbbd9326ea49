"""The commands in groups, and the exit codes, as `bench --help`, the manual and `man bench` list them.

Each command has a module of its own, imported on demand, so that `bench watch` draws its first frame without loading
drivers and statistics.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

import click


class BenchCommand(NamedTuple):
    """A command's module and name there, its line in `bench --help`, and its page of the manual."""

    place: str
    line: str
    page: str

    def load(self) -> click.Command:
        command = loaded(self.place)
        command.short_help = self.line
        for named in (command, *(command.commands.values() if isinstance(command, click.Group) else ())):
            named.epilog = f"Manual: docs/{self.page}.md"
        return command


def loaded(place: str) -> click.Command:
    module, _, name = place.partition(":")
    command: click.Command = getattr(import_module(f"engine.cli.{module}"), name)
    return command


GROUPS = {
    "Start a run": {
        "run": BenchCommand("run:run", "Run a benchmark: build, load, measure, compare.", "how-to/comparisons"),
        "resume": BenchCommand("watch:resume", "Continue a run that was stopped or has died.", "how-to/comparisons"),
        "stop": BenchCommand("watch:stop", "Stop a run; `bench resume` continues it.", "how-to/comparisons"),
        "demo": BenchCommand(
            "demo:demo", "Show a recorded comparison, with a guide: no server needed.", "tutorial/first-comparison"
        ),
    },
    "Look at runs": {
        "watch": BenchCommand("watch:watch", "Follow a run, or replay one of its cells.", "how-to/terminal"),
        "compare": BenchCommand(
            "compare:compare", "Compare the builds or configs of a run.", "tutorial/first-comparison"
        ),
        "report": BenchCommand("report:report", "Write a comparison as a page for the browser.", "how-to/comparisons"),
        "trend": BenchCommand(
            "trend:trend", "Show a figure over many runs, and where it changed.", "how-to/comparisons"
        ),
        "list": BenchCommand("lists:list_", "List builds, configs, workloads, probes or runs.", "how-to/comparisons"),
        "tag": BenchCommand("runs:tag", "Tag a run, to find it again.", "how-to/comparisons"),
        "mark": BenchCommand("watch:mark", "Add a marker to a running run.", "how-to/terminal"),
        "delete": BenchCommand("runs:delete", "Delete runs from the disk.", "how-to/comparisons"),
    },
    "Judge a change": {
        "ci": BenchCommand("ci:ci", "Compare a head with its merge base, for a CI job.", "how-to/ci"),
        "bisect": BenchCommand("bisect:bisect", "Find the commit that made a step slower.", "how-to/bisect"),
    },
    "Find causes": {
        "flame": BenchCommand("flame:flame", "Write a flame graph of sampled stacks.", "how-to/probes"),
        "probes": BenchCommand("probes:probes", "Measure what probes cost, or switch them.", "how-to/probes"),
    },
    "Measure on more machines": {
        "farm": BenchCommand("farm:farm", "Measure a plan in blocks on Nix's remote builders.", "how-to/farm")
    },
    "Set up": {
        "doctor": BenchCommand("doctor:doctor", "Check this machine for sources of noise.", "how-to/quiet-machine"),
        "pin": BenchCommand("pin:pin", "Add a release of PostgreSQL to your own builds.", "how-to/builds"),
        "schema": BenchCommand("schema:schema", "Print the JSON Schema of a record.", "reference/results"),
    },
}
HIDDEN = {"block": "farm:block"}  # run by a derivation of a farm
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
EXIT_CODES = (
    ("0", "Done; with --gate: no build is worse."),
    ("1", "With --gate: a step is slower by more than tolerated, missed its SLA or did nothing, or cells failed or are "
          "missing; for bench ci also: the head does not build."),
    ("1", "Without --gate: cells of a run or blocks of a farm failed, or a check of bench doctor did."),
    ("2", "The command failed or was refused: a wrong name or value, nothing to compare, or an output that is closed "
          "or full; for bench bisect: no commit was found."),
    ("3", "With --gate: nothing is worse, but every step of some build is undecided or withheld."),
    ("130", "Stopped by Ctrl-C; bench resume, or the same bench bisect, continues."),
    ("141", "Nobody reads the output any more, as after bench list builds | head -1; a run continues."),
    ("143", "Stopped by SIGTERM, likewise."),
)  # fmt: skip
