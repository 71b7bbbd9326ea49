"""An interleaved step, block by block: the values of `bench compare --slices STEP --json`.

`bench schema slices` prints its JSON Schema. Null stands for a missing value. Times are
seconds of the machine's clock since the step began, its servers' pauses included.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlicedSide:
    """The work of one server in its slices of a block. Rates are per second of their counted parts.

    `spill_over_share` is the CPU time it used in slices of other servers, as a share of the CPU time in its own.
    """

    rate_per_s: float | None
    server_cpu_us_per_op: float | None
    runq_us_per_op: float | None
    spill_over_share: float | None


@dataclass(frozen=True, slots=True)
class SlicedBlock:
    """One block of a pair. `order` has a letter for each turn, A for the base, B for the other: `ABBA`.

    `ratio` is of the rates, other / base; `running` is of the totals of all blocks so far. `others_cpus` is the number
    of CPUs busy with work not of this run (see `MachineSecond`), `stolen_cpus` the number that the hypervisor gave to
    others.
    """

    block: int
    at_s: float
    length_s: float
    order: str
    base: SlicedSide
    other: SlicedSide
    ratio: float | None
    running: float | None
    others_cpus: float | None
    stolen_cpus: float | None


@dataclass(frozen=True, slots=True)
class MachineSecond:
    """CPUs busy, foreign (neither server, client nor engine; launchers count) and stolen over about one second."""

    at_s: float
    length_s: float
    busy_cpus: float
    others_cpus: float
    stolen_cpus: float


@dataclass(frozen=True, slots=True)
class SlicedPair:
    """A subject and its base in one repeat: their blocks, and the ratio over these.

    `low` and `high` bound `ratio` with 95% confidence, for these two clusters only; `typical` is the trimmed mean of
    the blocks. All are null if blocks are too few. Where statements last longer than blocks, as index builds do, blocks
    have no rates, and `ratio` is of the statements' times and has no bounds. `left_out` is the reason if a pair is not
    part of the comparison.
    """

    run: str
    repeat: int
    subject: str
    base: str
    base_cell: str
    other_cell: str
    ratio: float | None
    low: float | None
    high: float | None
    typical: float | None
    base_spill_over_share: float | None
    other_spill_over_share: float | None
    left_out: str
    cpus: int | None  # of the machine
    blocks: tuple[SlicedBlock, ...]
    machine: tuple[MachineSecond, ...]


@dataclass(frozen=True, slots=True)
class SlicedCheck:
    """Self-check of the slices of a subject and its base over all steps, from `ratios` ratios whose truth is 1.

    `f` is how many times larger their errors are than promised; above 1, intervals are widened by it. `suspect`: so
    much larger that readers must know.
    """

    subject: str
    f: float
    ratios: int
    suspect: bool


@dataclass(frozen=True, slots=True)
class SlicedStep:
    """All pairs of an interleaved step. `unit` is the unit of the rates; `design` is as in a comparison."""

    step: str
    unit: str
    design: str
    base: str
    checks: tuple[SlicedCheck, ...]
    pairs: tuple[SlicedPair, ...]

    def of(self, subject: str) -> tuple[SlicedPair, ...]:
        return tuple(pair for pair in self.pairs if pair.subject == subject)

    def check(self, subject: str) -> SlicedCheck | None:
        return next((check for check in self.checks if check.subject == subject), None)
