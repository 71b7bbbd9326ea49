"""The parts of the Live screen, and how a moment is drawn in them."""

from collections.abc import Callable, Mapping, Sequence

from textual.containers import Horizontal, Vertical
from textual.geometry import Offset
from textual.widget import Widget

from engine.view.player import Player
from engine.view.step_series import Series
from engine.view.view_state import ViewState
from tui.glyphs import Glyphs
from tui.live import budget, probe_words
from tui.live import text as live_text
from tui.live.charts import Charts, place_of
from tui.live.layout import LiveLayout
from tui.live.playback import Playback
from tui.live.pointer import Pointer
from tui.live.readout import readout
from tui.live.side import LEAST_PLAN, schedule, side
from tui.marks import Line, folded
from tui.widgets.row_list import Rows
from tui.widgets.text_lines import Lines

SLOW_NS = 1_500_000_000  # between two live paints of the costly parts: every other second


class Painter:
    """The widgets, from top to bottom. It reads `playback` and `pointer`, and changes neither."""

    CSS = (
        Charts.CSS
        + """
    LiveScreen #middle { height: 1fr; }
    LiveScreen #main { width: 1fr; }
    LiveScreen #side { display: none; width: 42; margin: 0 1 0 0; height: 1fr; }
    LiveScreen.-wide #side { display: block; }
    LiveScreen.-wide #main { border-right: solid $primary 40%; }
    LiveScreen #events { height: 3; }
    LiveScreen.-log #main > *, LiveScreen.-log #middle { display: none; }
    """
    )

    def __init__(self, glyphs: Glyphs, playback: Playback, pointer: Pointer, redraw: Callable[[], None]) -> None:
        self._glyphs, self._playback, self._pointer = glyphs, playback, pointer
        self.charts = Charts(glyphs, redraw)
        self._head, self._ages = Lines(id="head"), Lines(id="ages")
        self._roles, self._side = Lines(id="roles"), Lines(id="side")
        self.log = Rows(self._event_row, id="events")
        self._main = Vertical(self._head, *self.charts.upper, self._ages, *self.charts.lower, self._roles, id="main")
        self._slow: dict[str, tuple[object, int]] = {}  # for each costly part: its last drawing, and when
        self.settled = False  # after the first paint, costly reads are allowed

    def parts(self) -> Sequence[Widget]:
        return [Horizontal(self._main, self._side, id="middle"), self.log]

    def clear(self) -> None:
        self._slow.clear()
        self.charts.clear()
        for part in (self._head, self._ages, self._roles, self._side):
            part.show([])
        self.log.show(0, 0)

    def role_at(self, view: ViewState, offset: Offset) -> str | None:
        """Name of the role whose row of the table is at a place of the screen."""
        region = self._roles.region
        place = offset.y - region.y - 1
        inside = region.contains(*offset) and 0 <= place < len(view.roles)
        return view.roles[place].name if inside else None

    def show_head(self, lines: Sequence[Line]) -> None:
        """Replace the head with an error."""
        self._head.show(lines)

    def lay_out(self, layout: LiveLayout) -> None:
        self._side.styles.width = layout.side_columns - 2

    def paint(self, player: Player, view: ViewState, layout: LiveLayout) -> None:
        text = live_text.ages(view)
        ages = _unfolded(text, layout.main_columns) if layout.tall else [text]
        self._ages.show(ages)
        probes = probe_words.rows(view.frames, [role.name for role in view.roles])
        table = live_text.role_table(view, layout.main_columns)
        if view.step is None:  # a cell is being prepared: only the plan is known
            self._slow.clear()
            steps = budget.rows(view, self._glyphs)
            rows = max(LEAST_PLAN, layout.rows - 8 - len(steps))
            table = [*schedule(view, player.schedule(), layout.main_columns, rows, self._glyphs), *steps]
        states = live_text.states(view)
        budgeted = budget.summary(view, layout.main_columns, self._glyphs)
        table = [*table, *(probes if layout.tall else probes[:2]), states, *budgeted]
        self._roles.show(table)
        self._arrange(layout, len(ages) + len(table), len(view.roles))
        self._paint_log(view)
        kind, pointer = self._playback.kind_of(view), self._pointer
        self.charts.show(player, view, kind, pointer, self._playback.stall, hot=layout.heat)
        if layout.roomy and view.step is not None:
            if self.settled:
                self._paint_details(player, view)
            else:
                self.charts.reserve(len(view.roles))
        elif pointer.cross is not None and view.series is not None:
            player.details(view).read_waits(view.series.roles, place_of(view))
        if layout.wide:
            self._paint_side(player, view, layout)
        self.paint_head(player, view, layout.columns)  # after the charts, since it reads out their ghost

    def paint_head(self, player: Player, view: ViewState, columns: int) -> None:
        """Draw the title, the progress and the figures; `columns` is the width of the terminal."""
        columns = self._head.size.width or columns
        progress = live_text.progress(view, self._glyphs, self._playback.behind_s, columns)
        self._head.show([live_text.title(view, columns), progress, self._figures(player, view, columns)])

    def _arrange(self, layout: LiveLayout, lines: int, roles: int) -> None:
        if layout.log:
            self.log.styles.height = "1fr"
            return
        height, crowded = layout.log_rows(lines, roles)
        self._main.set_class(crowded, "-crowded")
        before = self.log.styles.height
        if before is None or before.is_fraction or before.value != height:
            self.log.styles.height = height

    def _paint_side(self, player: Player, view: ViewState, layout: LiveLayout) -> None:
        size = (layout.side_columns - 2, self._side.size.height or layout.rows)
        key = (view.step.id if view.step is not None else 0, size, view.cells_done, view.state, self.settled)
        if not self._due("side", key, view):
            return
        figures: Mapping[str, Series] = {}
        if self.settled and view.step is not None:
            figures = player.details(view).read_figures(place_of(view))
        self._side.show(side(view, player.schedule(), player.manifest, figures, self._glyphs, size))

    def _paint_details(self, player: Player, view: ViewState) -> None:
        charts, pointer = self.charts, self._pointer
        shown = (pointer.window, pointer.part, pointer.cross, charts.figure)
        key = (view.step.id if view.step is not None else 0, charts.cells, charts.second.chart.size, shown)
        if self._due("details", key, view):
            charts.show_details(player.details(view), view, pointer)

    def _due(self, part: str, key: object, view: ViewState) -> bool:
        """Whether to redraw a costly part: `key` has changed, or the part is old."""
        before, before_ns = self._slow.get(part, (None, 0))
        if view.speed is None and key == before and 0 <= view.at_ns - before_ns < SLOW_NS:
            return False
        self._slow[part] = (key, view.at_ns)
        return True

    def _paint_log(self, view: ViewState) -> None:
        """The log, newest first; a log that was scrolled keeps its place when it grows."""
        count, before = len(view.events), self.log.virtual_size.height
        if 0 < before < count and self.log.top:
            self.log.scroll_to(y=self.log.top + count - before, animate=False, force=True)
        self.log.show(count, 0)

    def _event_row(self, place: int) -> Line:
        view = self._playback.view
        if view is None or place >= len(view.events):
            return ()
        return live_text.event_line(view.events[-1 - place], view.at_ns, view.wall_ns)

    def _figures(self, player: Player, view: ViewState, columns: int) -> Line:
        """The column that is read out, or else the current rates."""
        kind, pointer = self._playback.kind_of(view), self._pointer
        if pointer.cross is not None and view.series is not None:
            waits = player.details(view).waits  # already read with the charts
            return readout(view, kind, pointer, self.charts.cells, self.charts.ghost, waits)
        window = pointer.words(view) if view.step is not None else ""
        write = live_text.rates if view.interleaved is None else live_text.legend
        return write(view, kind, window, glyphs=self._glyphs, columns=columns)


def _unfolded(spans: Line, columns: int) -> list[Line]:
    """Wrap a line: a cause is worth more than a row of the chart."""
    if sum(len(text) for text, _ in spans) <= columns:
        return [spans]
    mark = next((mark for _, mark in reversed(spans) if mark in ("stall", "dim")), "")
    return folded("".join(text for text, _ in spans).strip(), columns, mark)
