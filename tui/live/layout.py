"""The division of a terminal by Live: which parts are shown, how large they are, and which keys have room."""

from dataclasses import dataclass
from functools import partial

from tui.live.charts import ROOMY, fixed_rows
from tui.screens.bench_screen import TALL_ROWS, WIDE_COLUMNS

SIDE_COLUMNS = ((160, 60), (WIDE_COLUMNS, 44))  # of the right column, by the width of the terminal
AMPLE_ROWS = 46
BARS = 5  # rows: the tabs, the three of the head, the keys
CHART_ROWS, EVENT_ROWS = 4, 3  # in a short terminal: minimum, and preferred
# Keys omitted from the last row: always, and on a narrow screen. They work all the same.
LIVE_ONLY, REPLAY_ONLY, INTERLEAVED_ONLY = ("live.mark",), ("live.back", "live.slower"), ("live.build",)
LESS_IN_REPLAY, LESS_INTERLEAVED = ("live.zoom", "live.role"), ("live.zoom", "live.slower")
LESS, LESS_WIDE = ("live.heat",), ("live.left", "live.log")
ROOMY_ONLY = ("live.figure",)


@dataclass(frozen=True, slots=True)
class LiveLayout:
    """The layout for a terminal of `columns` x `rows`; `log` shows the log alone, `heat` the heat map for the rates."""

    columns: int
    rows: int
    interleaved: bool
    log: bool
    heat: bool

    @property
    def wide(self) -> bool:
        return self.columns >= WIDE_COLUMNS

    @property
    def tall(self) -> bool:
        return self.rows >= TALL_ROWS

    @property
    def roomy(self) -> bool:
        return self.columns >= ROOMY[0] and self.rows >= ROOMY[1]

    @property
    def ample(self) -> bool:
        return self.roomy and self.rows >= AMPLE_ROWS

    @property
    def side_columns(self) -> int:
        """Width of the right column, whether or not it is shown."""
        return next((cells for columns, cells in SIDE_COLUMNS if self.columns >= columns), SIDE_COLUMNS[-1][1])

    @property
    def main_columns(self) -> int:
        return self.columns - self.side_columns if self.wide else self.columns

    @property
    def classes(self) -> dict[str, bool]:
        """The classes of the screen. The framework sets some of them too, but only after the first layout."""
        return {
            "-interleaved": self.interleaved,
            "-roomy": self.roomy,
            "-ample": self.ample,
            "-wide": self.wide,
            "-tall": self.tall,
        }

    def hidden_keys(self, *, replay: bool) -> list[str]:
        """Ids of the bindings that the row of keys leaves out."""
        hidden = {*(LIVE_ONLY if replay else REPLAY_ONLY), *(() if self.interleaved else INTERLEAVED_ONLY)}
        hidden |= set() if self.roomy else set(ROOMY_ONLY)
        hidden |= set(LESS_WIDE) if self.columns < SIDE_COLUMNS[0][0] else set()
        if not self.wide:
            hidden |= {*LESS, *(LESS_IN_REPLAY if replay else ()), *(LESS_INTERLEAVED if self.interleaved else ())}
        return sorted(hidden)

    def log_rows(self, lines: int, roles: int) -> tuple[int, bool]:
        """Rows of the log, and whether the charts are crowded; charts, `lines` and rows of `roles` have precedence."""
        most = (4 if self.roomy and not self.ample else 8) if self.tall else EVENT_ROWS
        needed = partial(fixed_rows, roles, interleaved=self.interleaved, roomy=self.roomy, ample=self.ample)
        room = self.rows - BARS - lines - CHART_ROWS
        crowded = self.tall and room - needed(tall=True) < 1
        return max(1, min(most, room - needed(tall=self.tall and not crowded))), crowded
