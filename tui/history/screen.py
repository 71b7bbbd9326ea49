"""History: every run below the output folder, their cells, and what can be done with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.binding import Binding

from engine.errors import UserError
from engine.journal import is_locked
from tui.history import text as history_text
from tui.history.listing import Listing
from tui.history.past import CellStep, Past, Shelf
from tui.history.text import Seen, counted
from tui.keys import key
from tui.marks import Line, line
from tui.screens.base import BenchScreen, Jump
from tui.screens.over import AskScreen, LineScreen
from tui.widgets.lines import Lines

LOOK_S = 2.0  # between two looks for what has changed
AT_ONCE = 12  # runs read before the next painting
DETAIL_ROWS = 2


class HistoryScreen(BenchScreen):
    """The runs; one run's cells and steps; those of all runs."""

    TITLE_WORD: ClassVar[str] = "HISTORY"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("enter", "open", "open", "history.open"),
        key("enter", "replay", "replay", "history.replay"),
        key("escape", "back", "back", "history.back"),
        key("c", "all_cells", "cells", "history.cells"),
        key("w", "watch", "live", "history.live"),
        key("v", "pick", "pick", "history.pick"),
        key("slash", "filter", "find", "history.filter"),
        key("s", "sort", "sort", "history.sort"),
        key("T", "tag", "tag the run", "history.tag", show=False),
        key("D", "delete", "delete", "history.delete"),
        key("E", "export", "export as CSV files", "history.export", show=False),
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
        self.listing = Listing(Shelf(self.bench.out))
        self._picked: list[Path] = []
        self._seen = Seen(0, 0, 1)
        self._reading = False
        self._left_to_read = 0

    # -- reading

    def on_mount(self) -> None:
        """Begins to look."""
        self.set_interval(LOOK_S, self.look)
        self.look()

    def on_screen_resume(self) -> None:
        """Comes back to the front."""
        super().on_screen_resume()
        self.look()

    def look(self) -> None:
        """Reads what has changed, away from the picture; nothing while another screen is in front."""
        if not self._reading and self.bench.current_mode == "history":
            self._reading = True
            self.run_worker(self._read(), group="history", exit_on_error=False)

    async def _read(self) -> None:
        shelf = self.listing.shelf
        try:
            await self._read_each(await asyncio.to_thread(shelf.changed), shelf.read)
            await self._read_each(self.listing.unread(), shelf.read_cells)
        finally:
            self._reading = False
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
        """Takes in what was read, and draws it."""
        self.listing.gather()
        self.paint()

    # -- painting

    def parts(self) -> Sequence[Lines]:
        """The title, the list, and what there is to say of its row."""
        return [Lines(id="title"), Lines(id="rows"), Lines(id="detail")]

    def notify_line(self, text: str, mark: str = "") -> None:
        """Shows a line above the keys, for which the list makes room."""
        super().notify_line(text, mark)
        self.paint()

    def on_resize(self, event: events.Resize) -> None:
        """Draws again, for what there is room for now."""
        super().on_resize(event)
        self.paint()

    def paint(self) -> None:
        """Draws all of it."""
        columns, height = self.size
        if not self.is_mounted or not columns:
            return
        listing = self.listing
        room = max(1, height - 4 - DETAIL_ROWS - len(self.query_one("#notice", Lines).lines))
        self._seen = history_text.scrolled(listing.cursor, self._seen.top, room, listing.count)
        year = history_text.year_of(self.bench.clock.wall_ns())
        detail: list[Line] = []
        if listing.of_cells:
            body = history_text.table(
                listing.cells,
                history_text.cell_columns(columns, one_run=listing.opened is not None),
                self._seen, columns, year, lambda row: row.run.folder in self._picked, self.glyphs,
            )  # fmt: skip
            if listing.cells:
                detail = history_text.of_cell(listing.cells[listing.cursor], columns, self.glyphs)
        else:
            body = history_text.table(
                listing.runs, history_text.run_columns(columns),
                self._seen, columns, year, lambda run: run.folder in self._picked, self.glyphs,
            )  # fmt: skip
            if listing.runs:
                detail = history_text.of_run(listing.runs[listing.cursor], columns, self.glyphs)
        if not listing.count:
            body.append(line((f"  {self._nothing()}", "dim")))
        self.query_one("#title", Lines).show([self._title(columns)])
        self.query_one("#rows", Lines).show([*body, *[()] * (room + 1 - len(body))])
        self.query_one("#detail", Lines).show([line((self.glyphs.rule * columns, "dim")), *detail])
        self.refresh_small()

    def _title(self, columns: int) -> Line:
        listing = self.listing
        if listing.opened is not None:
            what = f"cells of {listing.opened.name}"
        elif listing.all_cells:
            what = f"{counted(listing.count, 'step')} of {counted(len(listing.runs), 'run')}"
        else:
            there = counted(len(listing.shelf.runs), "run")
            what = f"{listing.count} of {there}" if listing.filter else there
        note = f"reading, {self._left_to_read} to go" if self._left_to_read else ""
        if self._picked:
            note = f"{note}  1 picked".strip()
        return history_text.title(what, listing.filter, listing.sort, note, columns)

    def _nothing(self) -> str:
        listing = self.listing
        if self._reading:
            return "reading"
        if listing.opened is not None:
            run = next((run for run in listing.shelf.runs if run.folder == listing.opened), None)
            if run is None or run.trouble:
                return run.trouble if run is not None else "this run is gone; esc goes back"
        if listing.filter:
            return "nothing is like that; / and an empty line find all again"
        return (
            "no cell has begun yet"
            if listing.of_cells
            else f"no runs yet, 1 (Launch) makes one; looked in {self.bench.out}"
        )

    def small(self) -> Sequence[Line]:
        """How many runs there are, and the newest."""
        year = history_text.year_of(self.bench.clock.wall_ns())
        newest = (
            line(
                f"{history_text.when(run.when_ns, year)}  {run.done}/{run.planned} {run.state}  {' '.join(run.builds)}"
            )
            for run in self.listing.runs[:10]
        )
        return [line((self.TITLE_WORD, "strong"), f"  {counted(len(self.listing.runs), 'run')}"), *newest]

    # -- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enter opens a run, and replays a cell; runs are removed where runs are seen."""
        if action in ("open", "all_cells", "delete"):
            return not self.listing.of_cells
        return self.listing.of_cells if action in ("replay", "back") else True

    def jumps(self) -> list[Jump]:
        """Every row that is seen."""
        top = self._seen.top
        return self.row_jumps("rows", self.listing.count - top, lambda row: self._go_to(top + row))

    def _go_to(self, place: int) -> None:
        self.listing.move_to(place)
        self.paint()

    def action_move(self, by: int) -> None:
        """The cursor goes up or down."""
        self._go_to(self.listing.cursor + by)

    def action_page(self, by: int) -> None:
        """A page up or down."""
        self.action_move(by * max(1, self._seen.rows - 1))

    def action_open(self) -> None:
        """The cells of the run at the cursor."""
        run = self._run()
        if run is not None:
            self._show(run.folder)

    def action_all_cells(self) -> None:
        """The cells of all runs that the filter leaves."""
        self._show(None, all_cells=True)

    def action_back(self) -> None:
        """The runs again."""
        self._show(None)

    def _show(self, opened: Path | None, *, all_cells: bool = False) -> None:
        self.listing.show(opened, all_cells=all_cells)
        self._seen = Seen(0, 0, 1)
        self.notify_line("")
        self.show_keys()
        self.look()

    def _run(self) -> Past | None:
        """The run of the row at the cursor; says so where there is none."""
        run = self.listing.current_run()
        if run is None:
            self.bench.say("there is no run to choose", "warning")
        return run

    def action_replay(self) -> None:
        """Plays the cell at the cursor, from that step on, on the Live screen."""
        row = self.listing.current()
        if not isinstance(row, CellStep):
            self.bench.say("there is no cell to choose", "warning")
        elif not row.step:
            self.bench.say(f"{row.cell} came to no step: nothing was recorded to replay", "warning")
        else:
            self.bench.replay(row.run.folder, row.cell, row.step)

    def action_watch(self) -> None:
        """Looks at the run on the Live screen."""
        run = self._run()
        if run is not None:
            self.bench.look_at(run.folder)

    def action_pick(self) -> None:
        """Picks a run, or no more; the second one is compared with the first."""
        run = self._run()
        if run is None:
            return
        if run.folder in self._picked:
            self._picked.remove(run.folder)
        else:
            self._picked.append(run.folder)
        if len(self._picked) == 2:
            pair, self._picked = self._picked, []
            self.bench.compare_runs(pair)
        elif self._picked:
            self.bench.say("picked: v on a second run compares it with this one, v here again lets it go")
        else:
            self.bench.say("")
        self.paint()

    def action_filter(self) -> None:
        """Asks for the words of the filter."""

        def take(text: str | None) -> None:
            if text is None:
                return
            try:
                self.listing.find(text)
            except UserError as error:
                self.bench.complain(error)
                return
            self.bench.say("")
            self.look()

        question = "find: step=l.i1 build=16.3 !tag=noisy vm; an empty line finds all"
        self.app.push_screen(LineScreen(question, self.listing.filter), take)

    def action_sort(self) -> None:
        """The next order."""
        self.listing.next_sort()
        self.paint()

    def action_tag(self) -> None:
        """Asks for the run's tags."""
        run = self._run()
        if run is None:
            return

        def take(text: str | None) -> None:
            wanted = (text or "").split()
            if not wanted:
                return
            keep = [] if wanted == ["-"] else wanted
            gone = tuple(tag for tag in run.tags if tag not in keep)
            new = tuple(tag for tag in keep if tag not in run.tags)
            add = ("tag", "--", str(run.folder), *new)

            def added(answer: str) -> None:
                if new:
                    self.bench.ask_bench(add, "tagging", self._told)
                else:
                    self._told(answer)

            if gone:  # one after the other: both write the same file
                self.bench.ask_bench(("tag", "--remove", "--", str(run.folder), *gone), "removing tags", added)
            else:
                added("")

        self.app.push_screen(LineScreen(f"tags of {run.name}; - for none", " ".join(run.tags)), take)

    def action_delete(self) -> None:
        """Asks whether to remove the run."""
        run = self._run()
        if run is None:
            return
        if is_locked(run.folder):
            self.bench.say(f"{run.name}: its engine is at work; w and S stop it first", "warning")
            return

        def take(sure: bool | None) -> None:
            if sure:
                command = ("delete", str(run.folder), "--yes", "--out", str(self.bench.out))
                self.bench.ask_bench(command, f"removing {run.name}", self._told)

        question = f"Remove {run.name} for good? Its journal, logs and kept clusters go; there is no way back."
        self.app.push_screen(AskScreen(question), take)

    def _told(self, answer: str) -> None:
        self.bench.say(answer.strip().splitlines()[-1] if answer.strip() else "done")
        if self.listing.opened is not None and not self.listing.opened.exists():
            self.listing.show(None)
        self._picked = [folder for folder in self._picked if folder.exists()]
        self.look()

    def action_export(self) -> None:
        """Writes the run as CSV files into the current folder."""
        run = self._run()
        if run is not None:
            to = Path.cwd() / f"{run.name}-export"
            self.bench.ask_bench(("export", str(run.folder), "--to", str(to)), f"exporting {run.name}")

    def action_folder(self) -> None:
        """Says where the run is kept, and puts that into the clipboard."""
        run = self._run()
        if run is not None:
            self.bench.copy_to_clipboard(str(run.folder))
            self.bench.say(f"{run.folder}  (in the clipboard, if the terminal allows that)")
