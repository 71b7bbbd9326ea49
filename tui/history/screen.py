"""History: every run in the output folder, the cells of each, and actions on them."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding
from textual.widget import Widget

from engine.journal.run_lock import is_locked
from engine.view.run_summary import RunCache, RunSummary, StepSummary
from tui.history import text as history_text
from tui.history.listing import HistoryListing, run_of
from tui.history.row_filter import words
from tui.history.text import HistoryColumn, counted
from tui.keys import key
from tui.marks import Line, line
from tui.screens.bench_screen import DEMO, LEAST, BenchScreen
from tui.screens.dialogs import AskScreen, LineScreen
from tui.widgets.row_list import Rows
from tui.widgets.text_lines import Lines

AT_ONCE = 12  # runs read before the next paint


class HistoryScreen(BenchScreen):
    """The list of runs, of one run's cells and steps, or of the cells of all runs."""

    TITLE_WORD: ClassVar[str] = "HISTORY"
    WHOLE: ClassVar[tuple[int, int]] = LEAST  # its columns adapt to less room
    LOOK_S: ClassVar[float] = 2.0
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("enter", "open", "open", "history.open"),
        key("enter", "replay", "replay", "history.replay"),
        key("escape", "back", "back", "history.back"),
        key("c", "all_cells", "cells", "history.cells"),
        key("w", "watch", "live", "history.live"),
        key("3", "compare", "compare the run", "history.compare", show=False),
        key("v", "pick", "pick", "history.pick"),
        key("slash", "filter", "find", "history.filter"),
        key("s", "sort", "sort", "history.sort"),
        key("T", "tag", "tag the run", "history.tag", show=False),
        key("D", "delete", "delete", "history.delete"),
        key("o", "folder", "the folder's path", "history.folder", show=False),
        key("up,k", "move(-1)", "up", "history.up", show=False),
        key("down,j", "move(1)", "down", "history.down", show=False),
        key("pageup", "page(-1)", "page up", "history.page_up", show=False),
        key("pagedown", "page(1)", "page down", "history.page_down", show=False),
        key("home", "move(-1000000)", "first", "history.first", show=False),
        key("end", "move(1000000)", "last", "history.last", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.listing = HistoryListing(RunCache(self.context.out))
        self._picked: Path | None = None
        self.reading = False
        self._unread = True  # nothing has been read yet
        self._left_to_read = 0

    # -- reading

    @property
    def unready(self) -> bool:
        return self._unread

    def look(self) -> None:
        """Read changes, in a thread; do nothing while another screen is in front."""
        if not self.reading and self.bench.current_mode == "history":
            self.reading = True
            self.run_worker(self._read(), group="history", exit_on_error=False)

    async def _read(self) -> None:
        cache = self.listing.cache
        try:
            await self._read_each(await asyncio.to_thread(cache.changed), self.listing.read)
            await self._read_each(self.listing.unread(), cache.read_cells)
        finally:
            self.reading = False
        self.gather()

    async def _read_each(self, folders: Sequence[Path], read: Callable[[Path], object]) -> None:
        def read_some(some: Sequence[Path]) -> None:
            for folder in some:
                read(folder)

        for start in range(0, len(folders), AT_ONCE):
            self._left_to_read = len(folders) - start
            await asyncio.to_thread(read_some, folders[start : start + AT_ONCE])
            self._left_to_read = 0
            self.gather()

    def gather(self) -> None:
        self._unread = False
        self.listing.gather()
        self.draw()
        self.catch_up()

    # -- painting

    def parts(self) -> Sequence[Widget]:
        return [Lines(id="title"), Lines(id="heading"), Rows(self._row, id="rows"), Lines(id="detail")]

    def draw(self) -> None:
        columns = self.size.width
        if not self.is_mounted or not columns:
            return
        listing = self.listing
        row = listing.current()
        detail = history_text.about(row, columns, self.glyphs) if row is not None else [(), ()]
        nothing = [] if listing.count else [line((f"  {self._nothing()}", "dim"))]
        self.fill(
            title=[self._title(columns)],
            heading=[history_text.heading(self._columns, columns, self.glyphs), *nothing],
            detail=[line((self.glyphs.rule * columns, "dim")), *detail],
        )
        self.query_one(Rows).show(listing.count, listing.cursor)
        self.refresh_small()

    @property
    def _columns(self) -> Sequence[HistoryColumn]:
        if self.listing.of_cells:
            return history_text.cell_columns(self.size.width, one_run=self.listing.opened is not None)
        tagged = any(run.tags for run in self.listing.runs)
        return history_text.run_columns(self.size.width, self.listing.slices, tagged=tagged)

    def _row(self, place: int) -> Line:
        listing, columns, year = self.listing, self.size.width, history_text.year_of(self.context.clock.wall_ns())
        if place >= listing.count:  # the list has changed since it was drawn
            return ()
        row, at = listing.rows[place], place == listing.cursor
        picked = run_of(row).folder == self._picked
        return history_text.row_line(row, self._columns, columns, year, self.glyphs, at=at, picked=picked)

    def _title(self, columns: int) -> Line:
        listing = self.listing
        if listing.opened is not None:
            what = f"cells of {listing.opened.name}"
        elif listing.all_cells:
            what = f"{counted(listing.count, 'step')} of {counted(len(listing.runs), 'run')}"
        else:
            there = counted(len(listing.cache.runs), "run")
            what = f"{listing.count} of {there}" if listing.filter else there
        note = f"reading, {self._left_to_read} to go" if self._left_to_read else ""
        if self._picked:
            note = f"{note}  1 picked".strip()
        return history_text.title(what, listing.filter, listing.sort, note, columns)

    def _nothing(self) -> str:
        listing = self.listing
        if self.reading:
            return "reading"
        if listing.opened is not None:
            run = next((run for run in listing.cache.runs if run.folder == listing.opened), None)
            if run is None or run.trouble:
                return run.trouble if run is not None else "this run was deleted; esc goes back"
        if listing.filter:
            return "no match; / with an empty line shows all again"
        return (
            "no cell has started yet"
            if listing.of_cells
            else f"no runs yet, 1 (Launch) makes one{DEMO}; looked in {self.context.out}"
        )

    def small(self) -> Sequence[Line]:
        year = history_text.year_of(self.context.clock.wall_ns())
        newest = (
            line(
                f"{history_text.when(run.when_ns, year)}  {run.done}/{run.planned} {run.state}  {' '.join(run.builds)}"
            )
            for run in self.listing.runs[:10]
        )
        return [line((self.TITLE_WORD, "strong"), f"  {counted(len(self.listing.runs), 'run')}"), *newest]

    # -- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer actions by row: enter opens a run or replays a cell; only runs can be deleted."""
        if action in ("open", "all_cells", "delete"):
            return not self.listing.of_cells
        return self.listing.of_cells if action in ("replay", "back") else True

    def on_rows_clicked(self, event: Rows.Clicked) -> None:
        """Move the cursor; a second click opens the run, or replays the cell."""
        self._go_to(event.place)
        if event.twice and self.listing.of_cells:
            self.action_replay()
        elif event.twice:
            self.action_open()

    def _go_to(self, place: int) -> None:
        self.listing.move_to(place)
        self.draw()

    def action_move(self, by: int) -> None:
        self._go_to(self.listing.cursor + by)

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.query_one(Rows).size.height - 1))

    def action_open(self) -> None:
        if run := self._run():
            self._show(run.folder)

    def action_all_cells(self) -> None:
        self._show(None, all_cells=True)

    def action_back(self) -> None:
        self._show(None)

    def _show(self, opened: Path | None, *, all_cells: bool = False) -> None:
        self.listing.show(opened, all_cells=all_cells)
        self.notify_line("")
        self.refresh_bindings()
        self.draw()
        self.look()

    def _run(self) -> RunSummary | None:
        """The run of the row at the cursor; show a notice without a row."""
        run = self.listing.current_run()
        if run is None:
            self.bench.say("there is no run to choose", "warning")
        return run

    def action_replay(self) -> None:
        row = self.listing.current()
        if not isinstance(row, StepSummary):
            self.bench.say("there is no cell to choose", "warning")
        elif not row.step:
            self.bench.say(f"{row.cell} has no step: nothing was recorded to replay", "warning")
        else:
            self.bench.replay(row.run.folder, row.cell, row.step)

    def action_watch(self) -> None:
        if run := self._run():
            self.bench.look_at(run.folder)

    def action_compare(self) -> None:
        """Compare the run at the cursor; without one, compare the same runs as before."""
        run = self.listing.current_run()
        if run is None or run.folder in (self.context.run, *self.context.compared):
            self.bench.action_open("compare")
        else:
            self.bench.compare_runs([run.folder])

    def action_pick(self) -> None:
        """Pick a run, or drop it; the second one is compared with the first."""
        run = self._run()
        if run is None:
            return
        first, self._picked = self._picked, None
        if first is None:
            self._picked = run.folder
            self.bench.say("picked: v on another run compares the two, v here again takes this one back")
        elif first == run.folder:
            self.bench.say("")
        else:
            self.bench.compare_runs([first, run.folder])
        self.draw()

    def action_filter(self) -> None:
        def take(text: str) -> None:
            self.listing.find(text)
            self.bench.say("")
            self.look()

        question = "find: step=l.i1 build=16.3 !tag=noisy vm; an empty line finds all"
        self.bench.ask_user(LineScreen(question, self.listing.filter, empty=True, check=words), take)

    def action_sort(self) -> None:
        self.listing.next_sort()
        self.draw()

    def action_tag(self) -> None:
        run = self._run()
        if run is None:
            return

        def take(text: str) -> None:
            keep = [] if text == "-" else text.split()
            gone = tuple(tag for tag in run.tags if tag not in keep)
            new = tuple(tag for tag in keep if tag not in run.tags)
            add = ("tag", "--", ",".join(new), str(run.folder))

            def added(answer: str) -> None:
                if new:
                    self.bench.ask_bench(add, "tagging", self._answered)
                else:
                    self._answered(answer)

            if gone:  # sequentially: both write the same file
                self.bench.ask_bench(("tag", "--remove", "--", ",".join(gone), str(run.folder)), "removing tags", added)
            else:
                added("")

        self.bench.ask_user(LineScreen(f"tags of {run.name}; - for none", " ".join(run.tags)), take)

    def action_delete(self) -> None:
        run = self._run()
        if run is None:
            return
        if is_locked(run.folder):
            self.bench.say(f"{run.name}: still running; stop it first (w, then S)", "warning")
            return

        question = f"Delete {run.name}? Its journal, logs and kept clusters are removed for good."
        command = ("delete", str(run.folder), "--yes", "--out", str(self.context.out))
        delete = partial(self.bench.ask_bench, command, f"removing {run.name}", self._answered)
        self.bench.ask_user(AskScreen(question), lambda _: delete())

    def _answered(self, answer: str) -> None:
        self.bench.say_answer(answer)
        if self.listing.opened is not None and not self.listing.opened.exists():
            self.listing.show(None)
        if self._picked is not None and not self._picked.exists():
            self._picked = None
        self.look()

    def action_folder(self) -> None:
        if run := self._run():
            self.bench.copy_to_clipboard(str(run.folder))
            self.bench.say(f"{run.folder}  (in the clipboard, if the terminal allows that)")
