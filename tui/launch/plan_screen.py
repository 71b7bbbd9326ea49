"""The plan that is being edited: panels of choices, and the size of the plan."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from textual import events, on, work
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.timer import Timer
from textual.widget import Widget

from engine.core.errors import UserError
from engine.journal import runs
from engine.plan.command_line import arguments
from engine.plan.request import Request
from tui import bench
from tui.keys import key
from tui.launch import choices as launch_choices
from tui.launch import plan_fields, ready_plans
from tui.launch import text as launch_text
from tui.launch.choices import Choices, Item
from tui.launch.item_panel import Panel
from tui.launch.plan_edits import with_build, with_config
from tui.launch.text import PanelForm
from tui.marks import Line
from tui.screens.bench_screen import BenchScreen
from tui.screens.dialogs import LineScreen
from tui.widgets.find_line import FindLine
from tui.widgets.text_lines import Lines

WIDEST_COLUMNS = 170
SETTLED_S = 0.3  # pause after the last change before the plan is estimated
FORMS: dict[str, PanelForm] = {
    "ready": PanelForm("ready", columns=3, inline=True),
    "builds": PanelForm("builds", "b base + own / find", wide_columns=2, wide_at=80, name_cells=13, groups=True),
    "configs": PanelForm("configs", "+ file", aside_at=20),
    "kernels": PanelForm("kernels"),
    "probes": PanelForm("probes"),
    "load": PanelForm("workload", fields=True),
    "steps": PanelForm("steps", "x only this", columns=2, wide_columns=2),
    "design": PanelForm("design", fields=True),
    "checks": PanelForm("preflight", "c checks again", columns=3, wide_columns=5),
}


class PlanScreen(BenchScreen):
    """A plan that is being edited; `LaunchScreen` acts on it."""

    LOOK_S: ClassVar[float] = 2.0
    HORIZONTAL_BREAKPOINTS = [*BenchScreen.HORIZONTAL_BREAKPOINTS, (WIDEST_COLUMNS, "-widest")]  # noqa: RUF012
    DEFAULT_CSS = """
    PlanScreen #head { height: 2; }
    PlanScreen #ready { height: 1; }
    PlanScreen #subjects { height: 1fr; min-height: 7; }
    PlanScreen #plan { height: 6; }
    PlanScreen #checks { height: 4; }
    PlanScreen #find { display: none; height: 1; background: $background; }
    PlanScreen.-finding #find { display: block; }
    PlanScreen.-finding #detail { display: none; }
    PlanScreen.-tall #checks { height: 7; }
    PlanScreen.-tall #plan { height: 10; }
    PlanScreen #detail { height: 2; }
    PlanScreen #builds { width: 34fr; height: 1fr; }
    PlanScreen #configs { width: 20fr; height: 1fr; }
    PlanScreen #beside { width: 26fr; height: 1fr; }
    PlanScreen.-wide #builds { width: 49; }
    PlanScreen.-widest #builds { width: 84; }
    PlanScreen.-wide #configs, PlanScreen.-widest #configs { width: 1fr; }
    PlanScreen.-wide #beside, PlanScreen.-widest #beside { width: 1fr; }
    PlanScreen #kernels { height: 2; }
    PlanScreen #probes { height: 1fr; }
    PlanScreen #load { width: 28fr; height: 1fr; }
    PlanScreen #steps { width: 27fr; height: 1fr; }
    PlanScreen #design { width: 25fr; height: 1fr; }
    """
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        key("space,enter", "choose", "pick", "launch.choose"),
        key("escape", "all_builds", "all builds again", "launch.all_builds"),
        key("left,h", "change(-1)", "to the left, or less", "launch.less", show=False),
        key("right,l", "change(1)", "to the right, or more", "launch.more", show=False),
        key("b", "base", "make it the base", "launch.base", show=False),
        key("plus", "add", "add an install or a config", "launch.add", show=False),
        key("slash", "find", "find builds", "launch.find", show=False),
        key("x", "only", "only this step", "launch.only", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.plan = Request()
        self.offer = Choices()
        self.estimate: dict[str, Any] | None = None
        self.checks: tuple[dict[str, Any], ...] = ()
        self.trouble = ""  # the plan's error, in words
        self.refused = ""  # why it was not started
        self.measuring = ""  # the run that is measuring, if any
        self.doing = ""
        self.file = ""  # the plan's file, holding the `kept` plan
        self.kept = self.plan
        self._find = ""
        self._asked = False  # choices have been requested
        self._stood_on: Panel | None = None
        self._settling: Timer | None = None

    def parts(self) -> Sequence[Widget]:
        def panel(id: str, items: Callable[[], Iterable[Item]]) -> Panel:
            return Panel(FORMS[id], lambda: tuple(items()), self._draw, id=id)

        return [
            Lines(id="head"),
            panel("ready", lambda: ready_plans.items(self.plan, self.offer)),
            Horizontal(
                panel("builds", lambda: launch_choices.builds(self.plan, self.offer, self._find)),
                panel("configs", lambda: launch_choices.configs(self.plan, self.offer)),
                Vertical(
                    panel("kernels", lambda: launch_choices.kernels(self.plan, self.offer)),
                    panel("probes", lambda: launch_choices.probes(self.plan, self.offer)),
                    id="beside",
                ),
                id="subjects",
            ),
            Horizontal(
                panel("load", lambda: plan_fields.load(self.plan, self.offer)),
                panel("steps", self._steps),
                panel("design", lambda: plan_fields.design(self.plan, self.offer, self.estimate)),
                id="plan",
            ),
            panel("checks", self.check_items),
            Lines(id="detail"),
            FindLine(),
        ]

    def small(self) -> Sequence[Line]:
        return launch_text.small(self.plan, self.estimate, self.trouble, self.check_items(), self.offer)

    def on_mount(self) -> None:
        """Ask for choices, then for the state of the machine; meanwhile show the results so far."""
        self.offer = Choices(builds=ready_plans.recent(self.context.out))
        self.ask_choices()

    def look(self) -> None:
        measuring = runs.measuring(self.context.out)
        if measuring != self.measuring:
            self.measuring, self.refused = measuring, ""
            self.draw()

    # -- choices

    @property
    def unready(self) -> bool:
        return not self._asked

    @work(group="choices", exclusive=True, exit_on_error=False)
    async def ask_choices(self, look: bool = True) -> None:
        """Ask `bench` for choices, probes and the machine's state in sequence: the last one measures how busy it is."""
        out = ("--out", str(self.context.out))
        try:
            self.offer = replace(Choices.of(await bench.ask_json("list", "choices", *out)), probes=self.offer.probes)
        except UserError as error:
            self.trouble, self.offer = str(error), Choices()
        self._asked = True
        self.draw()
        self.catch_up()
        if not look:
            return
        try:
            self.offer = replace(self.offer, probes=tuple(await bench.ask_json("list", "probes", *out)))
        except UserError as error:
            self.bench.complain(error)
        self.draw()
        await self._look()

    def progress(self, text: str) -> None:
        """Show a notice while something is under way; an empty text removes it."""
        self.doing = text
        self._draw_head()

    async def _look(self) -> None:
        """Run the preflight: `bench doctor` exits with an error if a check fails, but prints the same JSON."""
        code, answer, complaint = await bench.run("doctor", "--out", str(self.context.out), "--json")
        try:
            self.checks = tuple(json.loads(answer))
        except ValueError:
            self.bench.complain(bench.refusal(complaint, f"bench doctor ended with code {code}"))
        self.draw()

    def change(self, plan: Request, estimate: dict[str, Any] | None = None) -> None:
        """Take a plan and show it; its estimate follows a moment later, unless given."""
        if plan == self.plan and estimate is None:
            return
        self.plan = plan
        self.trouble = self.refused = ""
        self.notify_line("")
        if self._settling is not None:
            self._settling.stop()
        self.estimate = estimate
        if plan.builds and estimate is None:
            self._settling = self.set_timer(SETTLED_S, self._count)
        self.draw()

    @work(group="estimate", exclusive=True, exit_on_error=False)
    async def _count(self) -> None:
        plan = self.plan
        try:
            estimate_record = await bench.ask_json(
                "run", *arguments(plan), "--out", str(self.context.out), "--estimate"
            )
        except UserError as error:
            if plan == self.plan:
                self.trouble = str(error)
        else:
            if plan == self.plan:
                self.estimate = estimate_record
        self.draw()

    # -- drawing

    def _steps(self) -> Iterable[Item]:
        return launch_choices.steps(self.plan, self.offer, (self.estimate or {}).get("steps", ()))

    def check_items(self) -> tuple[Item, ...]:
        """The state of the machine, and the plan's own requirements."""
        needed, free = ((self.estimate or {}).get(name, 0) for name in ("needed_bytes", "free_bytes"))
        checks = launch_choices.own_checks(self.plan, needed, free, self.measuring)
        named = {check["name"] for check in checks}
        return launch_choices.checks((*checks, *(check for check in self.checks if check["name"] not in named)))

    @on(events.Resize)
    def _come_back(self) -> None:
        """Restore the focus that the small page took away."""

        def focus() -> None:
            if self.focused is None and self._stood_on is not None:
                self._stood_on.focus()

        self.call_after_refresh(focus)

    def draw(self) -> None:
        for panel in self.query(Panel):
            self._draw(panel)
        self._draw_head()
        self.refresh_small()

    def show_build(self, name: str) -> None:
        """Show all builds, with the cursor on this one."""
        self._find = ""
        builds = self.query_one("#builds", Panel)
        names = [item.name for item in builds.items()]
        builds.cursor = names.index(name) if name in names else 0

    def _draw(self, panel: Panel) -> None:
        items = panel.items()
        panel.cursor = max(0, min(panel.cursor, len(items) - 1))
        note = {
            "builds": f"{len(self.plan.builds)} chosen" + (f" /{self._find}" if self._find else ""),
            "checks": launch_text.counted(items) if self.checks else "",
        }.get(str(panel.id), "")
        focused = panel.has_focus or (panel.id == "builds" and self.has_class("-finding"))
        known = bool(self.checks) if panel.id in ("probes", "checks") else self._asked
        grid, cells = panel.grid, panel.size.width
        panel.top = grid[1].start
        panel.show(
            launch_text.panel(
                panel.form, items, panel.cursor, grid, cells, self.glyphs, focused=focused, note=note,
                instead="" if known else "looking",
            )
        )  # fmt: skip
        if focused:
            self._stood_on = panel
            self.fill(detail=launch_text.detail(panel.item, self.size.width))

    def _draw_head(self) -> None:
        file = f"{Path(self.file).name}{'' if self.kept == self.plan else '*'}" if self.file else ""
        self.fill(head=launch_text.head(self.plan, file, self.estimate, self.trouble, self.doing, self.refused))

    # -- keys

    @property
    def _panel(self) -> Panel | None:
        return self.focused if isinstance(self.focused, Panel) else None

    @property
    def _item(self) -> Item | None:
        return self._panel.item if self._panel is not None else None

    def _take(self, change: Callable[[], Request]) -> None:
        try:
            self.change(change())
        except UserError as error:
            self.bench.complain(error)

    def action_change(self, by: int) -> None:
        """Decrease or increase a field's value; in a grid, move left or right."""
        panel = self._panel
        if panel is None or panel.item is None:
            return
        change = panel.item.lesser if by < 0 else panel.item.greater
        if change is not None:
            self._take(change)
        elif panel.grid[0] > 1:
            panel.move_to(panel.cursor + by)

    def action_choose(self) -> None:
        item = self._item
        if item is None:
            return
        if item.toggle is not None:
            self._take(item.toggle)
        elif item.question is not None:
            question = item.question
            check = question.check or question.take
            typing = LineScreen(question.text, question.value, empty=True, check=check, forms=question.forms)
            self.bench.ask_user(typing, lambda typed: self._take(lambda: question.take(typed)))
        else:
            self.bench.say(item.detail, "dim")

    def action_base(self) -> None:
        item = self._item
        if item is not None and item.base is not None:
            self._take(item.base)
        else:
            self.bench.say("b makes the build under the cursor the base: go to the builds first (tab)", "dim")

    def action_only(self) -> None:
        """Choose only the step at the cursor; once more: all steps."""
        item = self._item
        if item is not None and item.only is not None:
            self._take(item.only)
        else:
            self.bench.say("x leaves only the step under the cursor: go to the steps first (tab)", "dim")

    def action_add(self) -> None:
        def build(typed: str) -> None:
            self._take(lambda: with_build(self.plan, ready_plans.own_build(typed), self.offer.labels))

        def config(typed: str) -> None:
            names = tuple(str(row["name"]) for row in self.offer.configs)
            self._take(lambda: with_config(self.plan, typed, names))

        if self._panel is not None and self._panel.id == "configs":
            self.bench.ask_user(LineScreen("a config of your own: a .conf or .toml file"), config)
        else:
            question = "your own: NAME=/path of an install or a source tree, or NAME=postgresql://USER@HOST/DB"
            self.bench.ask_user(LineScreen(question, check=ready_plans.named), build)

    def action_find(self) -> None:
        self.add_class("-finding")
        self.query_one(FindLine).begin(self._find)

    def on_find_line_typed(self, event: FindLine.Typed) -> None:
        builds = self.query_one("#builds", Panel)
        self._find = event.text
        if event.ended:
            self.remove_class("-finding")
            builds.focus()
        else:
            builds.cursor = 0
        self.draw()
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return bool(self._find) if action == "all_builds" else True

    def action_all_builds(self) -> None:
        at = self.query_one("#builds", Panel).item
        self.show_build(at.name if at is not None else "")
        self.draw()
        self.refresh_bindings()

    def on_find_line_moved(self, event: FindLine.Moved) -> None:
        self.query_one("#builds", Panel).action_move(event.by)
