"""The difference in time per operation between two sides: parts of the time, and the share of each.

`analysis.causes.attribution` finds it; tables, the terminal and reports show it in the words defined here.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def share_text(self) -> str:
        """`82%`; `undecided` if the interval is too wide."""
        return f"{self.share:.0%}" if self.known and self.share is not None else "undecided"

    @property
    def bounds_text(self) -> str:
        """`75% to 89%`; empty without an interval."""
        return "" if self.low is None or self.high is None else f"{self.low:.0%} to {self.high:.0%}"


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

    @property
    def further_text(self) -> str:
        """`2 further known parts`; empty without any."""
        count = len(self.further)
        return f"{count} further known part{'s' if count > 1 else ''}" if count else ""

    @property
    def unexplained_text(self) -> str:
        """`9%`; negative if parts work against the difference."""
        return "" if self.unexplained is None else f"{self.unexplained:.0%}"

    @property
    def text(self) -> str:
        more = self.us - self.base_us
        head = f"{abs(more):,.1f} us {'more' if more > 0 else 'less'} per {self.role} operation"
        if self.reason:
            return f"{head}: causes not known ({self.reason})"
        found = [f"{part.title} {part.share_text} [{part.bounds_text}]" for part in self.named]
        found += [f"{self.further_text} {self.further_share:.0%}"] if self.further else []
        unclear = ", ".join(f"{part.title} {part.bounds_text}" for part in self.of(self.undecided))
        in_it = f" (in it, perhaps: {unclear})" if unclear else ""
        return f"{head}: {'; '.join([*found, f'unexplained: {self.unexplained_text}{in_it}'])}"
