"""The open journals of a comparison: which of their rows belong to which of its cells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.rows import StepRow
from engine.results.cell_step import CellStep
from engine.results.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Recorded:
    """`steps` are those of the attempts that count: by run, cell and name."""

    readers: dict[str, JournalReader]
    steps: dict[tuple[str, str, str], StepRow]

    def step(self, cell: CellStep) -> StepRow | None:
        return self.steps.get((cell.run, cell.cell, cell.step))

    def reader(self, cell: CellStep) -> JournalReader:
        return self.readers[cell.run]


@contextmanager
def opened(comparison: Comparison) -> Iterator[Recorded]:
    with ExitStack() as stack:
        folders = comparison.measured.folders.items()
        readers = {run: stack.enter_context(JournalReader(Path(folder))) for run, folder in folders}
        rows = {
            (run, cell, step.name): step for run, reader in readers.items() for cell, step in steps_of(reader)
        }  # fmt: skip
        yield Recorded(readers, rows)


def steps_of(reader: JournalReader) -> Iterator[tuple[str, StepRow]]:
    """A run's steps, of the attempts that count, each with its cell's id."""
    chosen = outcome.chosen(reader.manifest, reader.attempts(origins=False))
    return ((cell, step) for cell, attempt in chosen.items() for step in reader.steps(attempt.id))
