"""The seconds of a step, reduced to some hundred columns of a chart.

A step of two hours has 7,200 seconds for each connection, and a report has a hundred such steps, so this is done on
arrays. Each column keeps its least, mean and greatest rate, as a mean alone would hide a stall. The clock stands still
while the server is paused, as between slices: times are working time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.core.errors import UserError
from engine.journal.reader import JournalReader
from engine.journal.rows import EventRow, StepRow
from engine.journal.totals import LUMPED_ROLES, role_place
from engine.view.events import event_words, until_ns
from engine.view.step_details import band
from engine.view.step_series import is_sliver
from workloads.api.base import COUNTED_IN_ROWS
from workloads.client.histogram import BUCKETS

COLUMNS = 240
HEAT_COLUMNS = 96
MOST_EVENTS = 200  # in a cell's step; more could not be distinguished
MARKED = ("stall", "checkpoint", "autovacuum", "autovacuum_cancelled", "lock_wait", "mark", "suspended", "drift")
FAR_NS = 2**62

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_BAND_OF = np.array([band(bucket) for bucket in range(BUCKETS)])
BANDS = int(_BAND_OF[-1]) + 1


@dataclass(frozen=True, slots=True)
class Ticks:
    """The intervals of a step: when each ended by the clock, and how long the server had worked by then, in ns."""

    started_ns: int
    ends: Ints
    worked: Ints

    def at_s(self, t_ns: Sequence[int]) -> Floats:
        """Moments as seconds of work since the step began."""
        known, worked = np.concatenate(([self.started_ns], self.ends)), np.concatenate(([0], self.worked))
        return np.interp(np.array(t_ns, np.float64), known, worked) / 1e9


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a step per second, by columns: `t` is when each ended, in seconds of work."""

    t: Floats
    least: Floats
    mean: Floats
    greatest: Floats

    def record(self) -> dict[str, list[float]]:
        """The JSON form, to four digits, more than can be seen."""
        named = (("t", self.t), ("min", self.least), ("mean", self.mean), ("max", self.greatest))
        return {name: [float(f"{value:.4g}") for value in values] for name, values in named}


def read_rates(reader: JournalReader, step: StepRow) -> tuple[Ticks, Rates | None]:
    """The intervals of a step, and the rate of its primary metric, or None."""
    primary, roles = step.primary_metric, reader.roles(step.id)
    of_role = [role for role in roles if primary is not None and primary.live and role.kind == primary.role]
    counted = "rows" if primary is not None and primary.role in COUNTED_IN_ROWS else "statements"
    read = [row for role in of_role or roles[:1] for row in reader.numbers(role.id, ("t_ns", "dt_ns", counted))]
    ends_of, lengths_of, done_of = np.array(read, np.int64).reshape(-1, 3).T
    ends, tick = np.unique(ends_of, return_inverse=True)  # intervals of all connections are read in one go
    lengths = np.zeros(len(ends), np.int64)
    np.maximum.at(lengths, tick, lengths_of)
    ticks = Ticks(step.started_ns, ends, np.cumsum(lengths))
    if not of_role or not len(ends):
        return ticks, None
    return ticks, _columns(np.bincount(tick, weights=done_of).astype(np.int64), lengths)


def _columns(done: Ints, lengths: Ints) -> Rates:
    """Join neighbouring intervals into at most COLUMNS columns."""
    if len(lengths) > 1 and is_sliver(lengths[-1], lengths[-2]):
        done = np.append(done[:-2], done[-2] + done[-1])
        lengths = np.append(lengths[:-2], lengths[-2] + lengths[-1])
    edges = np.unique(np.linspace(0, len(done), min(COLUMNS, len(done)) + 1).astype(int))[:-1]
    rates = done * 1e9 / np.maximum(lengths, 1)
    ends = np.append(edges[1:], len(done)) - 1
    return Rates(
        t=np.cumsum(lengths)[ends] / 1e9,
        least=np.minimum.reduceat(rates, edges),
        mean=np.add.reduceat(done, edges) * 1e9 / np.maximum(np.add.reduceat(lengths, edges), 1),
        greatest=np.maximum.reduceat(rates, edges),
    )


def marks(events: Sequence[EventRow], ticks: Ticks) -> list[dict[str, Any]]:
    """Stalls, checkpoints, vacuums and marks of a step: kind, start, end, words."""
    shown = [event for event in events if event.kind in MARKED]
    shown.sort(key=lambda event: (event.kind != "stall", event.started_ns))  # stalls are kept when others are left out
    bounds = ticks.at_s([t for event in shown for t in (event.started_ns, event.ended_ns or event.started_ns)])
    return [
        {
            "kind": event.kind.removesuffix("_cancelled"),
            "from": round(float(bounds[2 * place]), 3),
            "to": round(float(bounds[2 * place + 1]), 3),
            "text": event_words(event, until_ns(event, event.started_ns) if event.ended_ns is None else FAR_NS),
        }
        for place, event in enumerate(shown[:MOST_EVENTS])
    ]


class Heat:
    """Statement times over time: counts by column and band of `engine.view.step_details`, cells added up."""

    def __init__(self, end_s: float, columns: int) -> None:
        self.end_s = end_s
        self.columns = columns
        self.counts: dict[tuple[str, str], Ints] = {}  # by kind of role, subject

    def add(self, reader: JournalReader, step: StepRow, ticks: Ticks, subject: str) -> None:
        size = self.columns * BANDS
        for role in sorted(reader.roles(step.id), key=lambda role: role_place(role.name)):
            read = reader.packed_services(role.id) if role.kind not in LUMPED_ROLES else []
            if not read or self.end_s <= 0:
                continue
            ends, services = zip(*read, strict=True)
            lengths = np.fromiter(map(len, services), np.int64)
            pairs = np.frombuffer(b"".join(services), dtype="<u4")[: lengths.sum() // 8 * 2].reshape(-1, 2)
            if (lengths % 8).any() or pairs[:, 0].max(initial=0) >= BUCKETS:
                raise UserError(f"{reader.run / 'journal.db'}: table role_second: damaged histogram")
            # In the middle of the interval, so that the end of a column belongs to that column.
            places = (ticks.at_s(ends) / self.end_s - 0.5 / self.columns) * self.columns
            columns = np.clip(np.rint(places), 0, self.columns - 1).astype(np.int64)
            where = np.repeat(columns, lengths // 8) * BANDS + _BAND_OF[pairs[:, 0]]
            known = self.counts.setdefault((role.kind, subject), np.zeros(size, np.int64))
            # A statement that ends in another bucket than it was counted in is taken out of the first: minus one.
            weights = np.ascontiguousarray(pairs[:, 1]).view("<i4")
            known += np.rint(np.bincount(where, weights=weights, minlength=size)).astype(np.int64)

    def record(self) -> dict[str, dict[str, list[list[int]]]]:
        """The JSON form: {kind of role: {subject: [column, band, count]}}, without empty bands."""
        field_columns: dict[str, dict[str, list[list[int]]]] = {}
        for (kind, subject), counts in self.counts.items():
            (places,) = np.nonzero(counts > 0)
            columns, bands = np.divmod(places, BANDS)
            cells = np.stack((columns, bands, counts[places]), axis=1).tolist()
            field_columns.setdefault(kind, {})[subject] = cells
        return field_columns


def heat_of(steps: Collection[Ticks]) -> Heat:
    """A map as long as the longest of these steps, with columns no shorter than their intervals."""
    worked_of = [ticks.worked for ticks in steps if len(ticks.worked)]
    intervals = min((len(worked) for worked in worked_of), default=1)
    return Heat(max((float(worked[-1]) / 1e9 for worked in worked_of), default=0.0), min(HEAT_COLUMNS, intervals))
