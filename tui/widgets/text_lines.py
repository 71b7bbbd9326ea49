"""Lines of text that are replaced whole: the cheapest widget, and most of every screen."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from rich.color import Color, blend_rgb
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.color import Color as Colour
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from engine.core.text import Visible, visible
from tui.marks import STYLES, Line, fit


class Plain(Widget):
    """Renders whole lines itself: Textual would look up some fifty style rules for each (borders, outlines, tints)."""

    _colours: tuple[Style, Colour] | None = None  # text style and background, until the styles change

    @property
    def colours(self) -> tuple[Style, Colour]:
        if self._colours is None:
            self._colours = self.rich_style, self.background_colors[1]
        return self._colours

    def notify_style_update(self) -> None:
        self._colours = None
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        if self.size != self.outer_size:
            return super().render_lines(crop)
        strips = [self.render_line(y) for y in crop.line_range]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, self.colours[1]) for strip in strips]
        return [strip.crop(*crop.column_span) for strip in strips]

    def strip(self, spans: Line) -> Strip:
        """A line as wide as the widget, without control characters, which must not reach the terminal from a record."""
        cells, (base, _) = self.size.width, self.colours
        styles = STYLES.get(self.app.theme, STYLES["bench-mono"])
        few = self.app.console.color_system not in ("256", "truecolor")
        segments = [_segment(visible(text), base + _style(styles, mark, base, few)) for text, mark in fit(spans, cells)]
        return Strip(segments).adjust_cell_length(cells, base)


class Lines(Plain):
    """Lines cut to the width; the same lines are not drawn again. `turned` is called with 1 or -1 for the wheel."""

    DEFAULT_CSS = "Lines { height: auto; }"

    def __init__(
        self,
        lines: Sequence[Line] = (),
        *,
        id: str | None = None,
        resized: Callable[[], object] = lambda: None,
        clicked: Callable[[int], object] = lambda _: None,
        turned: Callable[[int], object] = lambda _: None,
    ) -> None:
        super().__init__(id=id)
        self.lines: tuple[Line, ...] = tuple(lines)
        self._resized, self._clicked, self._turned = resized, clicked, turned

    def on_resize(self) -> None:
        self._resized()

    async def on_click(self, event: events.Click) -> None:
        self._clicked(event.y)

    def on_mouse_scroll_down(self) -> None:
        self._turned(1)

    def on_mouse_scroll_up(self) -> None:
        self._turned(-1)

    def show(self, lines: Sequence[Line]) -> None:
        new = tuple(lines)
        if new != self.lines:
            before, self.lines = self.lines, new
            if len(new) != len(before):
                self.refresh(layout=self.styles.is_auto_height)
            else:
                regions = changed(before, new, self.size)
                if regions:  # changes beyond the edge are not visible
                    self.refresh(*regions)

    def get_content_height(self, *_: object) -> int:
        return len(self.lines)

    def render_line(self, y: int) -> Strip:
        return self.strip(self.lines[y] if y < len(self.lines) else ())


def changed(before: Sequence[Line], after: Sequence[Line], size: Size) -> list[Region]:
    """Regions of the lines that differ, neighbours together; both have the same length."""
    regions: list[Region] = []
    for y, (old, new) in enumerate(zip(before[: size.height], after, strict=False)):
        if old == new:
            continue
        if regions and regions[-1].bottom == y:
            regions[-1] = Region(0, regions[-1].y, size.width, y + 1 - regions[-1].y)
        else:
            regions.append(Region(0, y, size.width, 1))
    return regions


def _segment(text: Visible, style: Style) -> Segment:
    return Segment(text, style)


def _style(styles: Mapping[str, Style], mark: str, base: Style, few: bool) -> Style:
    """Style of a mark; `rate.3` is `rate`, three tenths fainter if the terminal has enough colours."""
    if mark in styles:
        return styles[mark]
    name, _, tenths = mark.partition(".")
    return styles[name] if few else _faded(styles[name], base.bgcolor, int(tenths))


@cache
def _faded(style: Style, background: Color | None, tenths: int) -> Style:
    if style.color is None or background is None or style.color.triplet is None or background.triplet is None:
        return style
    return style + Style(color=Color.from_triplet(blend_rgb(style.color.triplet, background.triplet, tenths / 10)))
