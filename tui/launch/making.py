"""The plan that is being made: panels of what can be chosen, and what the plan comes to."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import events, on
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.timer import Timer
from textual.widget import Widget

from engine.errors import UserError
from tui import bench
from tui.keys import key
from tui.launch import fields as launch_fields
from tui.launch import items as launch_items
from tui.launch import view as launch_view
from tui.launch.items import Item, Offer
from tui.launch.plan import Plan, name_of
from tui.launch.view import Look
from tui.marks import Line
from tui.screens.base import BenchScreen
from tui.screens.over import LineScreen
from tui.widgets.lines import Lines
from tui.widgets.panel import Panel

SETTLED_S = 0.3  # after the last change before it is counted what the plan comes to
LOOKS: dict[str, Look] = {
    "builds": Look("builds", "b base + own / find"),
    "configs": Look("configs", "+ file"),
    "kernels": Look("kernels"),
    "probes": Look("probes"),
    "load": Look("workload", fields=True),
    "steps": Look("steps", columns=2, wide_columns=2),
    "design": Look("design", fields=True),
    "checks": Look("preflight", "c looks again", columns=3, wide_columns=5),
}


class PlanScreen(BenchScreen):
    """A plan in the making; `LaunchScreen` does something with it."""

    JUMPS: ClassVar[dict[str, str]] = {
        "builds": "b", "configs": "c", "kernels": "k", "probes": "p", "load": "w", "steps": "s", "design": "d",
        "checks": "f",
    }  # fmt: skip
    DEFAULT_CSS = """
    PlanScreen #head { height: 2; }
    PlanScreen #subjects { height: 1fr; min-height: 7; }
    PlanScreen #plan { height: 7; }
    PlanScreen #checks { height: 5; }
    PlanScreen.-tall #checks { height: 7; }
    PlanScreen.-tall #plan { height: 10; }
    PlanScreen #detail { height: 2; }
    PlanScreen #builds { width: 29fr; height: 1fr; }
    PlanScreen #configs { width: 22fr; height: 1fr; }
    PlanScreen #beside { width: 29fr; height: 1fr; }
    PlanScreen #kernels { height: 2; }
    PlanScreen #probes { height: 1fr; }
    PlanScreen #load { width: 28fr; height: 1fr; }
    PlanScreen #steps { width: 27fr; height: 1fr; }
    PlanScreen #design { width: 25fr; height: 1fr; }
    """
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("space", "choose", "pick", "launch.choose"),
        key("up,k", "move(-1)", "up", "launch.up", show=False),
        key("down,j", "move(1)", "down", "launch.down", show=False),
        key("pageup", "page(-1)", "page up", "launch.page_up", show=False),
        key("pagedown", "page(1)", "page down", "launch.page_down", show=False),
        key("home", "page(-1000)", "first", "launch.first", show=False),
        key("end", "page(1000)", "last", "launch.last", show=False),
        key("left,h", "change(-1)", "to the left, or less", "launch.less", show=False),
        key("right,l", "change(1)", "to the right, or more", "launch.more", show=False),
        key("b", "base", "make it the base", "launch.base", show=False),
        key("plus", "add", "an install or a config file of your own", "launch.add", show=False),
        key("slash", "find", "find builds", "launch.find", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.plan = Plan()
        self.offer = Offer()
        self.estimate: dict[str, Any] | None = None
        self.checks: tuple[dict[str, Any], ...] = ()
        self.trouble = ""  # why the plan cannot be
        self.doing = ""
        self.file = ""  # that holds the plan, as it was `kept`
        self.kept = self.plan
        self._find = ""
        self._stood_on: Panel | None = None
        self._settling: Timer | None = None

    def parts(self) -> Sequence[Widget]:
        """Head, subjects, plan, preflight, and what is said of the item under the cursor."""
        return [
            Lines(id="head"),
            Horizontal(
                Panel(id="builds"), Panel(id="configs"), Vertical(Panel(id="kernels"), Panel(id="probes"), id="beside"),
                id="subjects",
            ),
            Horizontal(Panel(id="load"), Panel(id="steps"), Panel(id="design"), id="plan"),
            Panel(id="checks"),
            Lines(id="detail"),
        ]  # fmt: skip

    def small(self) -> Sequence[Line]:
        """The plan in a few lines."""
        return launch_view.small(self.plan, self.estimate, self.trouble, self.check_items(), self.offer)

    def on_mount(self) -> None:
        """Asks what there is, then how the machine is."""
        self._draw_head()
        self.ask_choices()

    # -- what there is

    def ask_choices(self, look: bool = True) -> None:
        """Asks `bench` what there is to choose from, and how fit the machine is, one after the other: the second
        looks how busy it is."""

        async def ask() -> None:
            try:
                self.offer = Offer.of(await bench.ask_json("list", "choices", "--out", str(self.bench.out)))
            except UserError as error:
                self.trouble = str(error)
            self.draw_all()
            if look:
                await self._look()

        self.run_worker(ask(), group="choices", exclusive=True, exit_on_error=False)

    def progress(self, text: str) -> None:
        """Says what is being done; nothing when it is over."""
        self.doing = text
        self._draw_head()

    async def _look(self) -> None:
        """The preflight: `bench doctor` fails where a check does, and says the same on its standard output."""
        code, answer, complaint = await bench.run("doctor", "--out", str(self.bench.out), "--json")
        try:
            self.checks = tuple(json.loads(answer))
        except ValueError:
            lines = complaint.strip().splitlines() or [f"bench doctor ended with code {code}"]
            self.bench.complain(UserError(lines[-1].removeprefix("bench: ")))
        self.draw_all()

    def change(self, plan: Plan, estimate: dict[str, Any] | None = None) -> None:
        """Takes a plan and shows it; a moment later it is counted what it comes to, unless that is known."""
        if plan == self.plan and estimate is None:
            return
        self.plan = plan
        self.trouble = ""
        self.notify_line("")
        if self._settling is not None:
            self._settling.stop()
        self.estimate = estimate
        if plan.builds and estimate is None:
            self._settling = self.set_timer(SETTLED_S, self._count)
        self.draw_all()

    def _count(self) -> None:
        self.run_worker(self._ask_estimate(self.plan), group="estimate", exclusive=True, exit_on_error=False)

    async def _ask_estimate(self, plan: Plan) -> None:
        try:
            found = await bench.ask_json("run", *plan.arguments(), "--out", str(self.bench.out), "--estimate")
        except UserError as error:
            if plan == self.plan:
                self.trouble = str(error)
        else:
            if plan == self.plan:
                self.estimate = found
        self.draw_all()

    # -- drawing

    def items(self, panel: str) -> tuple[Item, ...]:
        """What is in a panel now."""
        of: dict[str, Callable[[], tuple[Item, ...]]] = {
            "builds": lambda: launch_items.builds(self.plan, self.offer, self._find),
            "configs": lambda: launch_items.configs(self.plan, self.offer),
            "kernels": lambda: launch_items.kernels(self.plan, self.offer),
            "probes": lambda: launch_items.probes(self.plan, self.offer),
            "load": lambda: launch_fields.load(self.plan, self.offer),
            "steps": lambda: launch_items.steps(self.plan, self.offer, (self.estimate or {}).get("steps", ())),
            "design": lambda: launch_fields.design(self.plan, self.offer),
            "checks": self.check_items,
        }
        return of[panel]()

    def check_items(self) -> tuple[Item, ...]:
        """What the machine was found to be, and what the plan itself needs."""
        needed, free = ((self.estimate or {}).get(name, 0) for name in ("needed_bytes", "free_bytes"))
        own = launch_items.own_checks(self.plan, self.offer, needed, free)
        told = {check["name"] for check in own}
        return launch_items.checks((*own, *(check for check in self.checks if check["name"] not in told)))

    @on(Panel.Stale)
    def _stale(self, message: Panel.Stale) -> None:
        if message.panel.has_focus:
            self._stood_on = message.panel
        self._draw(message.panel)

    @on(events.Resize)
    def _come_back(self) -> None:
        """The small page hides what had the focus, which then nothing has."""

        def focus() -> None:
            if self.focused is None and self._stood_on is not None:
                self._stood_on.focus()

        self.call_after_refresh(focus)

    def draw_all(self) -> None:
        """Draws everything from what is known now."""
        for panel in self.query(Panel):
            self._draw(panel)
        self._draw_head()
        self.refresh_small()

    def show_base(self) -> None:
        """Takes the cursor of the builds to the base."""
        self._find = ""
        names = [item.name for item in self.items("builds")]
        base = name_of(self.plan.base_build or "")
        self.query_one("#builds", Panel).cursor = names.index(base) if base in names else 0

    def _draw(self, panel: Panel) -> None:
        assert panel.id is not None
        items = self.items(panel.id)
        panel.cursor = max(0, min(panel.cursor, len(items) - 1))
        said = {
            "builds": f"{len(self.plan.builds)} chosen" + (f" /{self._find}" if self._find else ""),
            "checks": launch_view.counted(items) if self.checks else "looking",
        }.get(panel.id, "")
        look, (cells, rows) = LOOKS[panel.id], panel.size
        panel.show(
            launch_view.panel(look, items, panel.cursor, cells, rows, self.glyphs, focused=panel.has_focus, said=said)
        )
        if panel.has_focus:
            item = items[panel.cursor] if items else None
            self.query_one("#detail", Lines).show(launch_view.detail(item, self.size.width))

    def _draw_head(self) -> None:
        file = f"{Path(self.file).name}{'' if self.kept == self.plan else '*'}" if self.file else ""
        shown = launch_view.head(self.plan, file, self.estimate, self.trouble, self.doing)
        self.query_one("#head", Lines).show(shown)

    # -- keys

    def _at(self) -> tuple[Panel, tuple[Item, ...], Item] | None:
        panel = self.focused
        if not isinstance(panel, Panel) or panel.id is None:
            return None
        items = self.items(panel.id)
        return (panel, items, items[min(panel.cursor, len(items) - 1)]) if items else None

    def _take(self, change: Callable[[], Plan]) -> None:
        try:
            self.change(change())
        except UserError as error:
            self.bench.complain(error)

    def action_move(self, by: int) -> None:
        """The item above or below."""
        at = self._at()
        if at is not None:
            panel, items, _ = at
            assert panel.id is not None
            columns = launch_view.columns_of(LOOKS[panel.id], panel.size.width)
            place = panel.cursor + by * columns
            if 0 <= place < len(items):
                panel.cursor = place
            self._draw(panel)

    def action_page(self, by: int) -> None:
        """A panel's height up or down; to the first or last item where there is no more."""
        at = self._at()
        if at is not None:
            panel, items, _ = at
            assert panel.id is not None
            rows = max(1, panel.size.height - 2)  # its title, and a row that stays in sight
            columns = launch_view.columns_of(LOOKS[panel.id], panel.size.width)
            panel.cursor = max(0, min(panel.cursor + by * rows * columns, len(items) - 1))
            self._draw(panel)

    def action_change(self, by: int) -> None:
        """A field's value less or more; in a grid the item beside."""
        at = self._at()
        if at is None:
            return
        panel, items, item = at
        assert panel.id is not None
        change = item.lesser if by < 0 else item.greater
        if change is not None:
            self._take(change)
        elif LOOKS[panel.id].columns > 1:
            panel.cursor = max(0, min(panel.cursor + by, len(items) - 1))
            self._draw(panel)

    def action_choose(self) -> None:
        """Chooses the item, or asks for the field's value."""
        at = self._at()
        if at is None:
            return
        item = at[2]
        if item.toggle is not None:
            self._take(item.toggle)
        elif item.question is not None:
            question = item.question

            def take(typed: str | None) -> None:
                if typed is not None:
                    self._take(lambda: question.take(typed))

            self.bench.push_screen(LineScreen(question.text, question.value), take)
        else:
            self.bench.say(item.detail, "dim")

    def action_base(self) -> None:
        """Makes the build the base."""
        at = self._at()
        if at is not None and at[2].base is not None:
            self._take(at[2].base)
        else:
            self.bench.say("b makes the build under the cursor the base: go to the builds first (tab)", "dim")

    def action_add(self) -> None:
        """An install of the user's own as a build, or a file as a config."""
        panel = self.focused.id if self.focused is not None else ""

        def build(typed: str | None) -> None:
            if typed and "=" not in typed:
                self.bench.say(f"{typed}: give NAME=/path of an install that has bin/postgres", "warning")
            elif typed:
                self._take(lambda: self.plan.with_build(typed, self.offer.labels))

        def config(typed: str | None) -> None:
            if typed:
                names = tuple(str(row["name"]) for row in self.offer.configs)
                self._take(lambda: self.plan.with_config(typed, names))

        if panel == "configs":
            self.bench.push_screen(LineScreen("a config of your own: a .conf or .toml file", ""), config)
        else:
            self.bench.push_screen(LineScreen("an install of your own: NAME=/path", ""), build)

    def action_find(self) -> None:
        """Shows only the builds with some letters in their label."""

        def find(typed: str | None) -> None:
            self._find = typed or ""
            self.query_one("#builds", Panel).focus()
            self.draw_all()

        self.bench.push_screen(LineScreen("show builds with this in their label (empty: all)", self._find), find)
