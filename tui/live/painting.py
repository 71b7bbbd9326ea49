"""How the Live screen shows a moment: its parts, what each gets of the rows, and what is drawn in them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from engine.view.player import Player
from engine.view.step_series import Series
from engine.view.view_state import ViewState
from tui.live import probe_words
from tui.live import text as live_text
from tui.live.charts import ROOMY, Charts, fixed_rows, place_of
from tui.live.cost import Cost
from tui.live.pointing import Pointing
from tui.live.readout import readout
from tui.live.side import schedule, side
from tui.marks import Line, folded, line
from tui.screens.base import TALL_ROWS, WIDE_COLUMNS
from tui.widgets.key_row import KeyRow
from tui.widgets.lines import Lines
from tui.widgets.rows import Rows

SIDE_COLUMNS = ((160, 60), (WIDE_COLUMNS, 44))  # of the right column, by those of the terminal
SLOW_NS = 1_500_000_000  # live, between two times that what takes long is drawn: every other second
AMPLE_ROWS = 46
BARS = 5  # rows: the tabs, the three of the head, the keys
CHART_ROWS, EVENT_ROWS = 4, 3  # of a short terminal: at least, and wished for
# What the last row leaves out: always, and on a narrow screen, where further keys hold that have no room.
LIVE_ONLY, REPLAY_ONLY, ABREAST_ONLY = ("live.mark",), ("live.back", "live.slower"), ("live.build",)
LESS_IN_REPLAY, LESS_ABREAST = ("live.zoom", "live.role"), ("live.zoom", "live.slower")
LESS, LESS_WIDE = ("live.heat",), ("live.left", "live.log")
ROOMY_ONLY = ("live.figure",)


class Painting(Pointing):
    """Lays the parts out, and fills them from a view."""

    TITLE_WORD: ClassVar[str] = "LIVE"
    DEFAULT_CSS = (
        Charts.CSS
        + """
    Painting #middle { height: 1fr; }
    Painting #main { width: 1fr; }
    Painting #side { display: none; width: 42; margin: 0 1; height: 1fr; }
    Painting.-wide #side { display: block; }
    Painting #events { height: 3; }
    Painting.-log #main > *, Painting.-log #middle { display: none; }
    """
    )

    def __init__(self) -> None:
        super().__init__()
        self._held_at: float | None = None  # clock reading at which painting was paused
        self._cost = Cost()
        self._trouble = ""  # why nothing new is shown
        self._drawn: dict[str, tuple[object, int]] = {}  # by part that takes long: what was drawn last, and when
        self._settled = False  # the first paint is over: what takes long to read may be read

    def parts(self) -> Sequence[Widget]:
        self._charts = charts = Charts(self.glyphs, self._redraw)
        self._head, self._ages = Lines(id="head"), Lines(id="ages")
        self._roles, self._side = Lines(id="roles"), Lines(id="side")
        self._events = Rows(self._event_row, id="events")
        upper = (charts.rates, charts.sides, charts.heat, charts.axis, charts.ribbon)
        lower = (charts.times, charts.closing, charts.second_head, charts.second, charts.waits)
        main = Vertical(self._head, *upper, self._ages, *lower, self._roles, id="main")
        return [Horizontal(main, self._side, id="middle"), self._events]

    def _offer(self, *, abreast: bool) -> None:
        """Lays the screen out for cells abreast, or one by itself, with the keys that matter then."""
        columns, rows = self.app.size
        roomy = columns >= ROOMY[0] and rows >= ROOMY[1]
        self.set_class(abreast, "-abreast")
        self.set_class(roomy, "-roomy")
        self.set_class(roomy and rows >= AMPLE_ROWS, "-ample")
        self.set_class(columns >= WIDE_COLUMNS, "-wide")  # as the framework does, but only after the first layout
        self.set_class(rows >= TALL_ROWS, "-tall")
        self._side.styles.width = self._side_columns - 2
        replay = self._replayed is not None
        hidden = {*(LIVE_ONLY if replay else REPLAY_ONLY), *(() if abreast else ABREAST_ONLY)}
        hidden |= set() if roomy else set(ROOMY_ONLY)
        hidden |= set(LESS_WIDE) if columns < SIDE_COLUMNS[0][0] else set()
        if columns < WIDE_COLUMNS:
            hidden |= {*LESS, *(LESS_IN_REPLAY if replay else ()), *(LESS_ABREAST if abreast else ())}
        self.query_one(KeyRow).hide(*sorted(hidden))

    @property
    def _side_columns(self) -> int:
        """Those of the right column, were it shown."""
        return next((cells for columns, cells in SIDE_COLUMNS if self.app.size.width >= columns), SIDE_COLUMNS[-1][1])

    def small(self) -> Sequence[Line]:
        if self._trouble:
            return self._error_lines()
        return (
            live_text.small(self.view, self.app.size.width, self._behind_s())
            if self.view
            else [line("No run selected")]
        )

    def _show_error(self, text: str) -> None:
        self._trouble = text
        self._head.show([line((f" {self.TITLE_WORD} ", "title")), *self._error_lines()])
        self.refresh_small()

    def _error_lines(self) -> list[Line]:
        return folded(self._trouble, self.app.size.width, "warning")

    def _show(self, view: ViewState) -> None:
        if self.has_class("-small"):
            self.refresh_small()
            return
        columns, rows = self.app.size
        wide, tall = columns >= WIDE_COLUMNS, rows >= TALL_ROWS
        main_columns = columns - self._side_columns if wide else columns
        ages = _unfolded(live_text.ages(view), main_columns) if tall else [live_text.ages(view)]
        self._ages.show(ages)
        probes = probe_words.rows(view.frames, [role.name for role in view.roles])
        table = live_text.role_table(view, main_columns)
        if view.step is None:
            self._drawn.clear()
        if view.step is None and self.player is not None:  # a cell is prepared: what is known is the plan
            table = schedule(view, self.player.schedule(), main_columns, rows - 8, self.glyphs)
        table = [*table, *(probes if tall else probes[:2]), live_text.states(view)]
        self._roles.show(table)
        self._arrange(len(ages) + len(table), len(view.roles), rows)
        self._show_log(view)
        if self.player is not None:
            hot = self.has_class("-heat")
            self._charts.show(self.player, view, self._shown_kind(view), self.sight, self._chosen_stall, hot=hot)
            if self.has_class("-roomy") and view.step is not None:
                if self._settled:
                    self._show_details(self.player, view)
                else:
                    self._charts.reserve(len(view.roles))
            elif self.sight.cross is not None and view.series is not None:
                self.player.details(view).read_waits(view.series.roles, place_of(view))
            if wide:
                self._show_side(self.player, view)
        self._show_head(view)  # after the charts, whose ghost it reads out

    def _arrange(self, lines: int, roles: int, rows: int) -> None:
        """Gives the log of a short terminal what the charts and the lines leave: those have the first claim."""
        if self.has_class("-log"):
            self._events.styles.height = "1fr"
            return
        abreast, tall, roomy, ample = (self.has_class(name) for name in ("-abreast", "-tall", "-roomy", "-ample"))
        most = (4 if roomy and not ample else 8) if tall else EVENT_ROWS
        needed = partial(fixed_rows, roles, abreast=abreast, roomy=roomy, ample=ample)
        room = rows - BARS - lines - CHART_ROWS
        crowded = tall and room - needed(tall=True) < 1
        if crowded != self.has_class("-crowded"):
            self.set_class(crowded, "-crowded")
        height = max(1, min(most, room - needed(tall=tall and not crowded)))
        known = self._events.styles.height
        if known is None or known.is_fraction or known.value != height:
            self._events.styles.height = height

    def _show_side(self, player: Player, view: ViewState) -> None:
        size = (self._side_columns - 2, self._side.size.height or self.app.size.height)
        key = (view.step.id if view.step is not None else 0, size, view.cells_done, self._settled)
        if not self._due("side", key, view):
            return
        figures: Mapping[str, Series] = {}
        if self._settled and view.step is not None:
            figures = player.details(view).read_figures(place_of(view))
        self._side.show(side(view, player.schedule(), player.manifest, figures, self.glyphs, size))

    def _show_details(self, player: Player, view: ViewState) -> None:
        charts, sight = self._charts, self.sight
        looked_at = (sight.window, sight.part, sight.cross, charts.figure)
        key = (view.step.id if view.step is not None else 0, charts.cells, charts.second.chart.size, looked_at)
        if self._due("details", key, view):
            charts.show_details(player.details(view), view, sight)

    def _due(self, part: str, key: object, view: ViewState) -> bool:
        """Whether a part is to be drawn that is a large part of what a paint costs: it shows something else now, which
        `key` tells, or it is older than a second.
        """
        before, before_ns = self._drawn.get(part, (None, 0))
        if view.speed is None and key == before and 0 <= view.at_ns - before_ns < SLOW_NS:
            return False
        self._drawn[part] = (key, view.at_ns)
        return True

    def _show_log(self, view: ViewState) -> None:
        """The log, newest first; who has scrolled it stays where that is when it grows."""
        count, before = len(view.events), self._events.virtual_size.height
        if 0 < before < count and self._events.top:
            self._events.scroll_to(y=self._events.top + count - before, animate=False, force=True)
        self._events.show(count, 0)

    def _event_row(self, place: int) -> Line:
        view = self.view
        if view is None or place >= len(view.events):
            return ()
        return live_text.event_line(view.events[-1 - place], view.at_ns, view.wall_ns)

    def _behind_s(self) -> float | None:
        """How long painting has been paused; None while it is not."""
        return None if self._held_at is None else self.context.clock.monotonic_ns() / 1e9 - self._held_at

    def _redraw_head(self, view: ViewState) -> None:
        if not self._trouble:
            self._show_head(view)
            self.refresh_small()

    def _show_head(self, view: ViewState) -> None:
        percent = self._cost.percent if self.context.show_cost else None
        columns = self._head.size.width or self.app.size.width
        progress = live_text.progress(view, self.glyphs, self._behind_s(), percent, columns)
        self._head.show([live_text.title(view, columns), progress, self._figures(view, columns)])

    def _figures(self, view: ViewState, columns: int) -> Line:
        """What is read out, else the rates of now."""
        kind = self._shown_kind(view)
        if self.sight.cross is not None and view.series is not None and self.player is not None:
            waits = self.player.details(view).waits  # what was read of them with the charts
            return readout(view, kind, self.sight, self._charts.cells, self._charts.ghost, waits)
        window = self.sight.words(view) if view.step is not None else ""
        if view.abreast is None:
            return live_text.rates(view, kind, window, glyphs=self.glyphs, columns=columns)
        legend = partial(live_text.legend, glyphs=self.glyphs, columns=columns)
        return legend(view, kind, window)

    def _shown_kind(self, view: ViewState) -> str:
        return self._kind or view.headline


def _unfolded(spans: Line, columns: int) -> list[Line]:
    """A line in as many as it takes: a cause is worth more than a row of the chart."""
    if sum(len(text) for text, _ in spans) <= columns:
        return [spans]
    mark = next((mark for _, mark in reversed(spans) if mark in ("stall", "dim")), "")
    return folded("".join(text for text, _ in spans).strip(), columns, mark)
