"""A flame graph in the terminal: frames as boxes, the outermost function on top; or a list of functions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.binding import Binding

from engine.core.errors import UserError
from engine.core.record import converted
from engine.results.flame import FlameGraph
from tui import bench
from tui.flame import text, tree
from tui.flame.tree import Box, CallFrame, Function, Side
from tui.keys import key
from tui.marks import Line, folded, line
from tui.screens.bench_screen import BenchScreen
from tui.screens.dialogs import LineScreen
from tui.widgets.text_lines import Lines


@dataclass(frozen=True, slots=True)
class Asked:
    """The stacks to show: of a step in a run, of a build (`base`) against another (`other`), or of one cell."""

    run: Path
    step: str
    roles: tuple[str, ...]
    base: str | None = None
    other: str | None = None
    cell: str | None = None
    offcpu: bool = False

    def arguments(self, role: str) -> tuple[str, ...]:
        options = (("--pg", self.base), ("--diff", self.other), ("--cell", self.cell))
        named = [part for name, value in options if value is not None for part in (name, value)]
        of = ("--offcpu",) if self.offcpu else ()
        return ("flame", str(self.run), "--step", self.step, "--role", role, *named, *of)


class FlameScreen(BenchScreen):
    TITLE_WORD: ClassVar[str] = "FLAME"
    DEFAULT_CSS = "FlameScreen #graph { height: 1fr; }"
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("enter", "zoom", "zoom", "flame.zoom"),
        key("backspace,u", "out", "out", "flame.out", shown="u"),
        key("slash", "find", "find", "flame.find"),
        key("n", "match(1)", "next match", "flame.next", show=False),
        key("N", "match(-1)", "match before", "flame.before", show=False),
        key("v", "view", "list", "flame.view"),
        key("w", "width", "as wide as", "flame.width", show=False),
        key("d", "role", "role", "flame.role"),
        key("o", "offcpu", "on or off the CPU", "flame.offcpu", show=False),
        key("p", "page", "page", "flame.page"),
        key("up,k", "move('up')", "caller", "flame.up", show=False),
        key("down,j", "move('down')", "called", "flame.down", show=False),
        key("left,h", "move('left')", "frame before", "flame.left", show=False),
        key("right,l", "move('right')", "next frame", "flame.right", show=False),
        key("pageup", "move('page_up')", "page up", "flame.page_up", show=False),
        key("pagedown", "move('page_down')", "page down", "flame.page_down", show=False),
        key("escape", "back", "back", "flame.back"),
    ]

    def __init__(self, asked: Asked, role: str = "") -> None:
        super().__init__()
        self.asked = self._answered = asked
        self.role = role or next(iter(asked.roles), "")
        self.side: Side = "other"
        self.by_function = False
        self._wanted = ""
        self._forget()

    def _forget(self) -> None:
        self.graph: FlameGraph | None = None
        self.root = self.zoomed = self.chosen = CallFrame("all")
        self.functions: list[Function] = []
        self.boxes: list[list[Box]] = []
        self._laid: tuple[object, ...] = ()  # inputs of the current layout
        self.matches: list[CallFrame] = []
        self._top = self.cursor = 0
        self._match = 0  # index of the current search result
        self.problem = self._missing = ""

    def parts(self) -> Sequence[Lines]:
        return [Lines(id="title"), Lines(id="of"), Lines(id="graph", resized=self.draw), Lines(id="told")]

    def on_mount(self) -> None:
        self._read()

    def small(self) -> Sequence[Line]:
        head = line((self.TITLE_WORD, "strong"), f" {self.role} in {self.asked.step}{self._where}")
        if self.graph is None:
            return [head, line(self.problem or "reading...")]
        return [head, *text.functions(self.graph, self.root, self.functions, -1, 0, 8, self.size.width, self.glyphs)]

    @property
    def _where(self) -> str:
        return ", off the CPU" if self.asked.offcpu else ""

    def _read(self) -> None:
        self._forget()
        self.run_worker(self._ask(self.role), group="flame", exclusive=True, exit_on_error=False)
        self.draw()

    async def _ask(self, role: str) -> None:
        """Ask for both builds; if one has no samples, for the other alone."""
        asked = self.asked
        ways = [asked]
        if asked.other is not None:
            ways += [replace(asked, base=name, other=None) for name in (asked.other, asked.base)]
        for way in ways:
            try:
                answer = await bench.ask_json(*way.arguments(role))
                self._take(converted(answer, FlameGraph, "bench flame --json"))
                self._answered = way
                break
            except UserError as error:
                self._missing = self._missing or str(error)
        else:
            self.problem = self._missing
        self.draw()

    def _take(self, graph: FlameGraph) -> None:
        self.graph, self.root = graph, tree.tree(graph)
        self.zoomed, differential = self.root, graph.other is not None
        self.side = "other" if differential else "base"
        self.functions = tree.functions(self.root, set(graph.certain_functions), differential=differential)
        self.by_function = self.by_function or graph.innermost_only
        self.chosen = self.root
        self.matches, self._match = tree.matching(self.root, self._wanted), 0

    # -- keys

    def action_move(self, where: str) -> None:
        if self.graph is None:
            return
        page = max(1, self.query_one("#graph").size.height - 2)
        if self.by_function:
            by = {"up": -1, "down": 1, "page_up": -page, "page_down": page}.get(where, 0)
            self.cursor = max(0, min(self.cursor + by, len(self.functions) - 1))
        else:
            for _ in range(page if where.startswith("page") else 1):
                self._step(where.removeprefix("page_"))
        self.draw()

    def _step(self, where: str) -> None:
        """Move to the caller, to its widest callee, or to a neighbour."""
        place = tree.place_of(self.boxes, self.chosen)
        if place is None:
            self.chosen = self.zoomed
            return
        y, x = place
        if where == "up" and y:
            self.chosen = self.chosen.parent or self.chosen
        elif where == "down" and y + 1 < len(self.boxes):
            self.chosen = next((box.frame for box in self.boxes[y + 1] if box.frame.parent is self.chosen), self.chosen)
        elif where in ("left", "right"):
            by = 1 if where == "right" else -1
            self.chosen = self.boxes[y][max(0, min(x + by, len(self.boxes[y]) - 1))].frame

    def action_zoom(self) -> None:
        if self.graph is None:
            return
        if self.by_function:
            if self.functions:
                self.by_function = False
                name = self.functions[self.cursor].name
                self._show_found(name, tree.named(self.root, name))
            return
        self.zoomed, self._top = self.chosen, 0
        self.draw()

    def action_out(self) -> None:
        if self._is_list():
            return
        if self.zoomed.parent is not None:
            self.zoomed, self._top = self.zoomed.parent, 0
            self.draw()

    def action_back(self) -> None:
        """Zoom out; from the whole graph, return to the previous screen."""
        if self.zoomed is not self.root and not self.by_function:
            self.zoomed, self._top = self.root, 0
            self.draw()
        else:
            self.app.pop_screen()

    def action_find(self) -> None:
        self.bench.ask_user(
            LineScreen("find functions whose name holds; nothing: none", self._wanted, empty=True), self._look_for
        )

    def _look_for(self, wanted: str) -> None:
        if self.by_function and wanted:
            names = [function.name.lower() for function in self.functions]
            self.cursor = next((place for place, name in enumerate(names) if wanted.lower() in name), self.cursor)
        self._show_found(wanted, tree.matching(self.root, wanted))

    def _show_found(self, wanted: str, matches: list[CallFrame]) -> None:
        self._wanted, self.matches = wanted, matches
        if not wanted:
            self.draw()
        elif not self.matches:
            self.bench.say(f"no function has {wanted} in its name", "warning")
            self.draw()
        else:
            part = text.percent(tree.share(self.root, self.matches, self.side))
            self.bench.say(f"{wanted}: {len(self.matches)} frames, {part} of all samples; n goes to the next")
            self._match = max(range(len(matches)), key=lambda place: matches[place].samples(self.side))
            self._go_to(matches[self._match])

    def action_match(self, by: int) -> None:
        if not self.matches:
            self.bench.say("nothing was looked for: / finds functions by their names")
            return
        if self.by_function:
            places = [
                place for place, function in enumerate(self.functions) if self._wanted.lower() in function.name.lower()
            ]
            further = [place for place in places if (place - self.cursor) * by > 0] or places
            self.cursor = further[0 if by > 0 else -1] if further else self.cursor
            self.draw()
            return
        self._match = (self._match + by) % len(self.matches)
        self._go_to(self.matches[self._match])

    def _go_to(self, frame: CallFrame) -> None:
        """Choose a frame, zooming out as far as needed to see it."""
        self.chosen = frame
        while frame not in self.zoomed.path() and self.zoomed not in frame.path():
            self.zoomed = self.zoomed.parent or self.root
        self._lay_out()
        if tree.place_of(self.boxes, frame) is None:  # too narrow to be drawn: zoom to its caller
            self.zoomed = frame.parent or self.root
        self.draw()

    def action_view(self) -> None:
        self.by_function = not self.by_function
        self.draw()

    def _is_list(self) -> bool:
        """Whether functions are listed; if so, say that a key applies to the graph only."""
        if self.by_function:
            self.bench.say("that is a key of the graph: v shows it")
        return self.by_function

    def action_width(self) -> None:
        if self._is_list():
            return
        if self.graph is None or self.graph.other is None:
            self.bench.say("there is one build: a frame is as wide as its share of the samples")
            return
        self.side = "base" if self.side == "other" else "other"
        self.draw()

    def action_role(self) -> None:
        roles = self.asked.roles
        if len(roles) < 2:
            self.bench.say(f"there is one role: {self.role}")
            return
        self.role = roles[(roles.index(self.role) + 1) % len(roles)] if self.role in roles else roles[0]
        self._read()

    def action_offcpu(self) -> None:
        self.asked = self._answered = replace(self.asked, offcpu=not self.asked.offcpu)
        self._read()

    def action_page(self) -> None:
        """Open the graph as a page in a browser."""
        self.bench.ask_bench(self._answered.arguments(self.role), "drawing the page")

    def on_click(self, event: events.Click) -> None:
        """Choose a frame; a second click zooms into it."""
        region = self.query_one("#graph").region
        x, y = event.screen_x - region.x, event.screen_y - region.y
        if self.graph is None or not 0 <= y < region.height:
            return
        if self.by_function:
            self.cursor = max(0, min(self._function_top(region.height) + y - 1, len(self.functions) - 1))
        elif self._top + y < len(self.boxes):
            hit = next((box.frame for box in self.boxes[self._top + y] if box.start <= x < box.end), None)
            if hit is None:
                return
            self.chosen = hit
        self.draw()
        if event.chain == 2:
            self.action_zoom()

    # -- painting

    def _lay_out(self) -> None:
        """Lay out the frames unless nothing has changed: arrow keys move over thousands of them."""
        of = (self.zoomed, self.size.width, self.side)
        if of != self._laid:
            self._laid, self.boxes = of, tree.layout(*of)

    def _function_top(self, height: int) -> int:
        room = max(1, height - 1)
        return max(0, min(self.cursor - room // 2, len(self.functions) - room))

    def draw(self) -> None:
        columns, glyphs, graph = self.size.width, self.glyphs, self.graph
        if not self.is_mounted or not columns:
            return
        head: Line = (
            (f" {self.TITLE_WORD} ", "title"),
            (f" {self.role} in {self.asked.step}{self._where}", "strong"),
        )
        if graph is None:
            message = folded(self.problem or "reading...", columns, "warning" if self.problem else "dim")
            self.fill(title=[head], of=[], graph=message, told=[])
            self.refresh_small()
            return
        names = graph.base.name if graph.other is None else f"{graph.base.name} {glyphs.arrow} {graph.other.name}"
        of = text.compared(graph, self.root, self.side, columns, glyphs)
        if self._missing:
            of += folded(f"shown alone: {self._missing}", columns, "warning")
        if graph.innermost_only:
            of += folded("innermost functions only: these binaries keep no frame pointers", columns, "warning")
        height = self.query_one("#graph").size.height
        if self.by_function:
            top = self._function_top(height)
            shown = text.functions(graph, self.root, self.functions, self.cursor, top, height, columns, glyphs)
            below = len(self.functions) - top - max(0, height - 1)
            lines = [line((f" {below} more functions" if below > 0 else "", "dim"))]
        else:
            shown, lines = self._frames(graph, height)
        self.fill(title=[(*head, (f"  {names}", ""))], of=of, graph=shown, told=lines)
        self.refresh_small()

    def _frames(self, graph: FlameGraph, height: int) -> tuple[list[Line], list[Line]]:
        self._lay_out()
        place = tree.place_of(self.boxes, self.chosen)
        if place is None:
            self.chosen, place = self.zoomed, (0, 0)
        self._top = max(place[0] - height + 1, min(self._top, place[0]), 0)
        total = self.root.samples("other" if graph.other is not None else "base")
        hits = {id(frame) for frame in self.matches}
        shown = [
            text.row(
                boxes, self.size.width, total, self.chosen, hits, self.glyphs, differential=graph.other is not None
            )
            for boxes in self.boxes[self._top : self._top + height]
        ]
        lines = text.details(graph, self.chosen, self.root, self.side, self.glyphs)
        below = len(self.boxes) - self._top - height
        if below > 0:
            lines[-1] = (*lines[-1], (f"  {below} rows further down", "dim"))
        return shown, lines
