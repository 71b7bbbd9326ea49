"""What History lists: runs, one run's cells, or those of all; filtered, sorted, the cursor staying on its row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tui.history import finding
from tui.history.past import CellStep, Past, Shelf

RUN_SORTS: dict[str, Callable[[Past], object]] = {
    "date": lambda run: -run.when_ns,
    "build": lambda run: run.builds,
    "host": lambda run: run.host,
    "state": lambda run: run.state,
    "stalls": lambda run: -run.stalled_s,
}
CELL_SORTS: dict[str, Callable[[CellStep], object]] = {
    "date": lambda row: -row.when_ns,
    "step": lambda row: (row.run.steps.index(row.step) if row.step in row.run.steps else -1, row.build, row.repeat),
    "build": lambda row: (row.build, row.step, row.repeat),
    "rate": lambda row: -(row.rate_per_s or 0.0),
    "stalls": lambda row: -row.stalled_s,
}


@dataclass(slots=True)
class Listing:
    """The rows of the view, either `runs` or `cells`, as of the last `gather`.

    `opened` is the run whose cells are listed; with `all_cells` those of all runs that the filter leaves are.
    """

    shelf: Shelf
    opened: Path | None = None
    all_cells: bool = False
    filter: str = ""
    runs: list[Past] = field(default_factory=list)
    cells: list[CellStep] = field(default_factory=list)
    _words: tuple[finding.Word, ...] = ()
    _sorts: dict[bool, str] = field(default_factory=lambda: {False: "date", True: "date"})  # of cells?
    _at: dict[tuple[Path | None, bool], tuple[object, int]] = field(
        default_factory=dict
    )  # what the cursor is on, where

    @property
    def of_cells(self) -> bool:
        """Whether cells are listed, not runs."""
        return self.all_cells or self.opened is not None

    @property
    def sort(self) -> str:
        """The name of the order."""
        return self._sorts[self.of_cells]

    @property
    def cursor(self) -> int:
        """The place of the row that is meant."""
        return self._at.get((self.opened, self.all_cells), (None, 0))[1]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.cells if self.of_cells else self.runs)

    def gather(self) -> None:
        """Takes what has been read into the rows; the cursor stays on what it was on, wherever that has gone."""
        self.runs = finding.runs(self.shelf.runs, self._words)
        self.runs.sort(key=lambda run: run.name, reverse=True)
        self.runs.sort(key=RUN_SORTS[self._sorts[False]])  # type: ignore[arg-type]
        self.cells = []
        if self.of_cells:
            folders = [self.opened] if self.opened is not None else [run.folder for run in self.runs]
            read = [row for folder in folders for row in self.shelf.cells(folder) or ()]
            self.cells = sorted(finding.cells(read, self._words), key=CELL_SORTS[self.sort])  # type: ignore[arg-type]
        wanted, place = self._at.get((self.opened, self.all_cells), (None, 0))
        if wanted is not None and self._known(place) != wanted:
            place = next((place for place in range(self.count) if self._known(place) == wanted), place)
        self.move_to(place)

    def move_to(self, place: int) -> None:
        """Puts the cursor on a row, or on the nearest there is."""
        place = max(0, min(place, self.count - 1))
        self._at[self.opened, self.all_cells] = (self._known(place), place)

    def show(self, opened: Path | None, *, all_cells: bool = False) -> None:
        """Lists something else: a run's cells, all cells, or the runs."""
        self.opened, self.all_cells = opened, all_cells
        self.gather()

    def find(self, text: str) -> None:
        """Filters. Raises UserError for words that are none."""
        self._words, self.filter = finding.words(text), text
        self.gather()

    def next_sort(self) -> None:
        """The next order."""
        names = list(CELL_SORTS if self.of_cells else RUN_SORTS)
        self._sorts[self.of_cells] = names[(names.index(self.sort) + 1) % len(names)]
        self.gather()

    def unread(self) -> list[Path]:
        """The runs whose cells are listed and have not been read."""
        wanted = [self.opened] if self.opened is not None else [run.folder for run in self.runs if self.all_cells]
        return [folder for folder in wanted if self.shelf.cells(folder) is None]

    def current(self) -> Past | CellStep | None:
        """The row that is meant."""
        if self.cursor >= self.count:
            return None
        return self.cells[self.cursor] if self.of_cells else self.runs[self.cursor]

    def current_run(self) -> Past | None:
        """Its run."""
        row = self.current()
        return row.run if isinstance(row, CellStep) else row

    def _known(self, place: int) -> object:
        """What a row is known by when it is read again."""
        if place >= self.count:
            return None
        if self.of_cells:
            row = self.cells[place]
            return (row.run.folder, row.cell, row.step)
        return self.runs[place].folder
