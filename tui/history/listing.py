"""The rows of History: runs, one run's cells, or all cells; filtered and sorted. The cursor stays on its row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.journal.manifest import slices_of
from engine.view.run_summary import RunCache, RunSummary, StepSummary
from tui.history import row_filter

RUN_SORTS: dict[str, Callable[[RunSummary], object]] = {
    "date": lambda run: -run.when_ns,
    "build": lambda run: run.builds,
    "host": lambda run: run.host,
    "state": lambda run: run.state,
    "stalls": lambda run: -run.stalled_s,
}
CELL_SORTS: dict[str, Callable[[StepSummary], object]] = {
    "date": lambda row: -row.when_ns,
    "step": lambda row: (row.run.steps.index(row.step) if row.step in row.run.steps else -1, row.build, row.repeat),
    "build": lambda row: (row.build, row.step, row.repeat),
    "rate": lambda row: (row.time_s is not None, row.time_s or -(row.rate_per_s or 0.0)),
    "stalls": lambda row: -row.stalled_s,
}


@dataclass(slots=True)
class HistoryListing:
    """Rows as of the last `gather`: runs, the cells of `opened`, or with `all_cells` those of all filtered runs."""

    cache: RunCache
    opened: Path | None = None
    all_cells: bool = False
    filter: str = ""
    runs: list[RunSummary] = field(default_factory=list)
    cells: list[StepSummary] = field(default_factory=list)
    _words: tuple[row_filter.FilterWord, ...] = ()
    _sorts: dict[bool, str] = field(default_factory=lambda: {False: "date", True: "date"})  # key: of cells?
    _slices: dict[Path, str] = field(default_factory=dict)  # slice length of interleaved runs
    # For each list: the row at the cursor, and its index.
    _at: dict[tuple[Path | None, bool], tuple[object, int]] = field(default_factory=dict)

    @property
    def of_cells(self) -> bool:
        return self.all_cells or self.opened is not None

    @property
    def sort(self) -> str:
        return self._sorts[self.of_cells]

    @property
    def cursor(self) -> int:
        return self._at.get((self.opened, self.all_cells), (None, 0))[1]

    @property
    def rows(self) -> Sequence[RunSummary | StepSummary]:
        return self.cells if self.of_cells else self.runs

    @property
    def count(self) -> int:
        return len(self.rows)

    def read(self, folder: Path) -> None:
        self.cache.read(folder)
        if length := slices_of(folder):
            self._slices[folder] = length

    @property
    def slices(self) -> dict[Path, str]:
        """Slice length of each listed run that was interleaved."""
        return {run.folder: self._slices[run.folder] for run in self.runs if run.folder in self._slices}

    def gather(self) -> None:
        """Update the rows from the runs as read; the cursor follows its row."""
        self.runs = row_filter.runs(map(self._marked, self.cache.runs), self._words)
        self.runs.sort(key=lambda run: run.name, reverse=True)
        self.runs.sort(key=RUN_SORTS[self._sorts[False]])  # type: ignore[arg-type]
        self.cells = []
        if self.of_cells:
            folders = [self.opened] if self.opened is not None else [run.folder for run in self.runs]
            read = [self._flagged(row) for folder in folders for row in self.cache.cells(folder) or ()]
            self.cells = sorted(row_filter.cells(read, self._words), key=CELL_SORTS[self.sort])  # type: ignore[arg-type]
        wanted, place = self._at.get((self.opened, self.all_cells), (None, 0))
        if self._known(place) != wanted:
            place = next((place for place in range(self.count) if self._known(place) == wanted), place)
        self.move_to(place)

    def move_to(self, place: int) -> None:
        """Move the cursor to a row, or to the nearest one."""
        place = max(0, min(place, self.count - 1))
        self._at[self.opened, self.all_cells] = (self._known(place), place)

    def show(self, opened: Path | None, *, all_cells: bool = False) -> None:
        """List the cells of `opened`, all cells, or the runs."""
        self.opened, self.all_cells = opened, all_cells
        self.gather()

    def find(self, text: str) -> None:
        """Filter the rows. Raises UserError for invalid words."""
        self._words, self.filter = row_filter.words(text), text
        self.gather()

    def next_sort(self) -> None:
        names = list(CELL_SORTS if self.of_cells else RUN_SORTS)
        self._sorts[self.of_cells] = names[(names.index(self.sort) + 1) % len(names)]
        self.gather()

    def unread(self) -> list[Path]:
        """The runs whose cells are listed but not read yet."""
        wanted = [self.opened] if self.opened is not None else [run.folder for run in self.runs if self.all_cells]
        return [folder for folder in wanted if self.cache.cells(folder) is None]

    def current(self) -> RunSummary | StepSummary | None:
        return self.rows[self.cursor] if self.cursor < self.count else None

    def current_run(self) -> RunSummary | None:
        row = self.current()
        return run_of(row) if row is not None else None

    def _marked(self, run: RunSummary) -> RunSummary:
        """The run, its load marked if other runs of that name had another."""
        length = self._slices.get(run.folder)
        return replace(run, load=f"{run.load}, slices {length}") if length else run

    def _flagged(self, row: StepSummary) -> StepSummary:
        length = self._slices.get(row.run.folder)
        flags = (*row.flags, (f"slices {length}", "dim"))
        return replace(row, run=self._marked(row.run), flags=flags) if length else row

    def _known(self, place: int) -> object:
        """The identity of a row, stable across reads."""
        if place >= self.count:
            return None
        row = self.rows[place]
        return (row.run.folder, row.cell, row.step) if isinstance(row, StepSummary) else row.folder


def run_of(row: RunSummary | StepSummary) -> RunSummary:
    return row.run if isinstance(row, StepSummary) else row
