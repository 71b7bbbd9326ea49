"""What is drawn again of a screen of which parts have changed."""

from itertools import pairwise

from textual._compositor import ChopsUpdate, Compositor
from textual.strip import Strip


class FrugalCompositor(Compositor):
    """The framework has every widget that touches the rectangle about all changes give all of its lines.

    Where the first and the last rows of a screen change every second these are all widgets with all of their rows, and
    the containers behind them. Here a widget gives the rows that have changed, and only where it is seen. It overrides
    what the framework does not document, so a test compares what both draw.
    """

    def render_partial_update(self) -> ChopsUpdate | None:
        """Draws what has changed; None where nothing has."""
        whole = self.size.region
        spans = list(self._regions_to_spans([region.intersection(whole) for region in self._dirty_regions]))
        self._dirty_regions.clear()
        if not spans:
            return None
        chops, ends = self._chops_of(spans)
        return ChopsUpdate(chops, spans, ends)

    def _chops_of(self, spans: list[tuple[int, int, int]]) -> tuple[list[dict[int, Strip | None]], list[list[int]]]:
        """By row what is drawn from each cut on, None where nothing has changed; and the ends of all that."""
        chops: list[dict[int, Strip | None]] = [{} for _ in self.cuts]
        ends: list[list[int]] = [[] for _ in self.cuts]
        wanted: dict[int, dict[int, int]] = {}  # by row: from where to where nothing was drawn yet
        for y, x1, x2 in spans:
            cuts = self.cuts[y]
            chops[y], ends[y] = dict.fromkeys(cuts[:-1]), cuts[1:]
            found = wanted.setdefault(y, {})
            found |= {cut: end for cut, end in pairwise(cuts) if cut < x2 and x1 < end}
        for widget, (region, clip) in self.visible_widgets.items():  # the foremost first
            x, top, width, height = region.intersection(clip)
            rows: dict[int, list[int]] = {}
            for y in range(top, top + height):
                if y in wanted and (seen := [cut for cut in wanted[y] if x <= cut < x + width]):
                    rows[y] = seen
            if not rows:
                continue
            first = min(rows)
            crop = type(region)(x - region.x, first - region.y, width, max(rows) + 1 - first)
            strips = widget.render_lines(crop)
            for y, seen in rows.items():
                for cut in seen:
                    chops[y][cut] = strips[y - first].crop(cut - x, wanted[y].pop(cut) - x)
                if not wanted[y]:
                    del wanted[y]
            if not wanted:
                break
        return chops, ends
