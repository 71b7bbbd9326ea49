"""The difference in time per operation between two sides: parts of the time, and the share of each.

`analysis.causes.attribution` finds it; every output shows it in the words defined here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from engine.results.section import Column, Figure, Row, Section, columns, row

# The parts in the order in which they are listed; server CPU by phase takes the place of its total.
TITLES = {
    "server_cpu": "server CPU",
    "server_running": "server running or waiting for a CPU",
    "server_runq": "server waiting for a CPU (run queue)",
    "wait.lock": "lock waits",
    "wait.latch": "LWLock waits",
    "wait.buffer": "buffer lock waits",
    "wait.wal": "WAL waits",
    "wait.io": "I/O waits",
    "wait.other": "other waits",
    "wait.unknown": "waits unknown to pgbed",
    "client_cpu": "client CPU",
    "client_runq": "client waiting for a CPU (run queue)",
    "limiter": "rate limiter",
    "partner": "waits for its partner",
    "client_wait": "between client and server",
    "rest": "not accounted for",
}
PHASE = "server_cpu."  # begins the name of a phase's part


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a connection's time per operation, in us on either side (means of the cells).

    `share` is its share of the difference, negative if it works against it. `low` and `high` bound that with 95%
    confidence, given enough pairs. `known`: the interval is narrow enough, and excludes 0. `event` is the wait event
    that grew (or shrank) most.
    """

    name: str
    base_us: float
    us: float
    share: float | None = None
    low: float | None = None
    high: float | None = None
    known: bool = False
    event: str = ""

    @property
    def title(self) -> str:
        if self.name.startswith(PHASE):
            return f"{TITLES['server_cpu']} in {self.name.removeprefix(PHASE)}"
        event = self.event.partition(":")[2]
        return f"{TITLES.get(self.name, self.name)}{f' ({event})' if event else ''}"


@dataclass(frozen=True, slots=True)
class Attribution:
    """The reason why an operation of a step takes longer or shorter than with the base.

    `base_us` and `us` are the time of one connection of `role` for an operation, means of the cells of `pairs`; their
    ratio lies between `low` and `high` with 95% confidence, unless there is one pair. `parts` add up to either time.
    `causes` names the known parts, at most two, that make most of the difference, `further` all other known ones;
    `unexplained` is the share that no known part makes. It includes `undecided`, parts that may matter, but whose share
    scatters too much to say. `reason` says why nothing is named.
    """

    step: str
    subject: str
    role: str
    base_us: float
    us: float
    low: float | None
    high: float | None
    pairs: int
    parts: tuple[Part, ...]
    causes: tuple[str, ...] = ()
    unexplained: float | None = None
    reason: str = ""
    further: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()

    def of(self, names: tuple[str, ...]) -> list[Part]:
        return [part for name in names for part in self.parts if part.name == name]

    @property
    def named(self) -> list[Part]:
        return self.of(self.causes)

    @property
    def further_share(self) -> float:
        return sum(part.share or 0.0 for part in self.of(self.further))


def section(attributions: Iterable[Attribution], steps: Sequence[str]) -> Section:
    """Shares of the difference in time per operation, where a rate or time differs in several pairs."""
    attributed = sorted(
        (attribution for attribution in attributions if attribution.pairs > 1),
        key=lambda attribution: steps.index(attribution.step),
    )
    title = "Causes of the difference in time per operation (of one connection)"
    headings = columns("step, build and cause", Column("us", "change"), Column("share", "percent", bounds="95%"))
    return Section("causes", title, headings, tuple(line for attribution in attributed for line in _rows(attribution)))


def _rows(attribution: Attribution) -> Iterable[Row]:
    line = partial(row, step=attribution.step, subject=attribution.subject)
    yield line(attribution.subject, Figure(attribution.us, base=attribution.base_us, unit="range"), "")
    if attribution.reason:
        yield line(attribution.reason, "", "undecided", mark="dim", depth=1)
        return
    for part in attribution.named:
        us, share = Figure(part.us, base=part.base_us), Figure(part.share, part.low, part.high)
        yield line(part.title, us, share, depth=1)
    if count := len(attribution.further):
        yield line(f"{count} further known part{'s' * (count > 1)}", "", attribution.further_share, depth=1)
    yield line("unexplained", "", attribution.unexplained, mark="dim", depth=1)
    for part in attribution.of(attribution.undecided):
        share = Figure("undecided", part.low, part.high)
        yield line(part.title, Figure(part.us, base=part.base_us), share, mark="dim", depth=2)
