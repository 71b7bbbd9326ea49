"""The application: five screens over one output folder, and the keys that hold everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.command import CommandPalette
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from engine.errors import UserError
from engine.journal import is_locked
from tui import bench, keys
from tui.clock import Clock
from tui.glyphs import Glyphs
from tui.marks import THEMES
from tui.screens.base import KEY_WORDS, BenchScreen

if TYPE_CHECKING:
    from tui.live.screen import LiveScreen


def _screen(room: str) -> Callable[[], Screen[None]]:
    """The screen of a room, imported when it is first opened: the first picture does not wait for the other four."""

    def make() -> Screen[None]:
        made = getattr(import_module(f"tui.{room}.screen"), f"{room.capitalize()}Screen")()
        return cast("Screen[None]", made)

    return make


class Bench(App[None]):
    """The terminal interface. `out` holds the runs; `run` is the one that Live, Compare and Probes look at."""

    TITLE = "pgbed"
    MODES: ClassVar[dict[str, Callable[[], Screen[None]]]] = {  # type: ignore[assignment]
        room: _screen(room) for room in ("launch", "live", "compare", "probes", "history")
    }
    BINDINGS: ClassVar[list[Binding]] = list(keys.EVERYWHERE)  # type: ignore[assignment]
    # The palette of the framework without what is not on every terminal: its emoji, its half blocks.
    CSS = """
    BenchScreen, Lines { background: $background; }
    CommandPalette #--input, CommandPalette CommandList { border: ascii $primary; }
    CommandPalette CommandList { scrollbar-size-vertical: 0; }
    CommandPalette SearchIcon, CommandPalette LoadingIndicator { display: none; }
    """

    def __init__(self, out: Path, run: Path | None, glyphs: Glyphs, start: str, clock: Clock | None = None) -> None:
        super().__init__()
        self.out = out
        self.run_folder = run
        self.replayed: tuple[str, str | None] | None = None  # cell and step, where a recorded one is played
        self.compared: list[Path] = []  # runs that Compare looks at together, instead of the one
        self.show_cost = True  # what watching costs is shown on the Live screen
        self.glyphs = glyphs
        self.clock = clock or Clock()
        self._start = start
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = "bench-mono" if self.no_color else "bench-dark"

    def on_mount(self) -> None:
        """Takes the user's keys, and opens the first screen."""
        path = keys.settings_file()
        self.set_keymap(keys.overrides(path))
        self.switch_mode(self._start)

    def get_system_commands(self, screen: Screen[Any]) -> Any:
        """What the command palette offers: every key of the screen in front, by its words."""
        found: dict[str, tuple[Binding, Any, list[str]]] = {}
        for active in screen.active_bindings.values():
            if id := active.binding.id:
                pressed = KEY_WORDS.get(active.binding.key, active.binding.key)
                found.setdefault(id, (active.binding, active.node, []))[2].append(pressed)
        for binding, node, pressed_all in found.values():

            async def act(action: str = binding.action, node: Any = node) -> None:
                await self.run_action(action, node)

            yield SystemCommand(binding.description, f"key {' '.join(pressed_all)}", act)

    def action_command_palette(self) -> None:
        """Every key by its words."""
        if not CommandPalette.is_open(self):  # type: ignore[arg-type]  # it wants an app of any type
            self.push_screen(CommandPalette(placeholder="what is to be done", id="--command-palette"))

    def look_at(self, run: Path, mode: str = "live") -> None:
        """Makes a run the one that is looked at, as it is now, and opens a screen on it."""
        self._choose(run, None)
        self.action_open(mode)

    def replay(self, run: Path, cell: str, step: str | None = None) -> None:
        """Plays a recorded cell, from a step of it on, in the Live screen."""
        together = self.compared if run in self.compared else []  # a cell was opened from their comparison
        self._choose(run, (cell, step))
        self.compared = together
        self.action_open("live")

    def compare_runs(self, runs: list[Path]) -> None:
        """Compares several runs in one table."""
        self._choose(runs[0], None)
        self.compared = runs
        self.action_open("compare")

    def position(self) -> tuple[int, int] | None:
        """The step that the Live screen shows, and the moment in it; None while it shows none."""
        live = self._live_screen()
        picture = live.picture if live is not None else None
        return (picture.step.id, picture.at_ns) if picture is not None and picture.step is not None else None

    def _choose(self, run: Path, replayed: tuple[str, str | None] | None) -> None:
        self.run_folder, self.replayed, self.compared = run, replayed, []
        if (live := self._live_screen()) is not None:
            live.watch_run()

    def _live_screen(self) -> LiveScreen | None:
        stack = self._screen_stacks.get("live")
        return cast("LiveScreen", stack[0]) if stack else None

    def say(self, text: str, mark: str = "") -> None:
        """A line above the keys of the screen in front."""
        if isinstance(self.screen, BenchScreen):
            self.screen.notify_line(text, mark)

    def complain(self, error: UserError) -> None:
        """A user's error, as one line on the screen in front."""
        self.say(str(error), "warning")

    def action_open(self, mode: str) -> None:
        """One of the five screens."""
        while isinstance(self.screen, Screen) and len(self.screen_stack) > 1:
            self.pop_screen()
        self.switch_mode(mode)

    def action_leave(self) -> None:
        """Closes what lies over the screen; on the screen itself leaves. A run goes on."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.exit()

    def action_explain_leaving(self) -> None:
        """Ctrl-C neither leaves nor stops: both have a key of their own."""
        self.say("q leaves, the run goes on; S stops the run")

    def action_next_theme(self) -> None:
        """The next of the themes."""
        names = [theme.name for theme in THEMES]
        self.theme = names[(names.index(self.theme) + 1) % len(names)] if self.theme in names else names[0]

    def action_help(self) -> None:
        """All keys of the screen in front."""
        from tui.screens.over import KeysScreen

        self.push_screen(KeysScreen(self.screen))

    def action_jump(self) -> None:
        """Letters on the parts of the screen, or on its rows; one of them leads there."""
        from tui.screens.over import JumpScreen

        jumps = self.screen.jumps() if isinstance(self.screen, BenchScreen) else []
        if jumps:
            self.push_screen(JumpScreen(jumps))
        else:
            self.say("there is nothing here to jump to")

    def action_stop_run(self) -> None:
        """Asks whether to stop the run that is looked at."""
        from tui.screens.over import AskScreen

        run = self.run_folder
        if run is None:
            self.say("no run is looked at: choose one in History (5)", "warning")
            return

        if not is_locked(run):
            self.say(f"{run.name}: no engine is running it, so there is nothing to stop")
            return

        def stop(sure: bool | None) -> None:
            if sure:
                self.ask_bench(("stop", str(run)), "stopping the run: its cell is given up, finished ones stay")

        self.push_screen(AskScreen(f"Stop {run.name}? Its running cell is given up; `r` in Launch resumes it."), stop)

    def ask_bench(self, arguments: tuple[str, ...], doing: str, then: Callable[[str], None] | None = None) -> None:
        """Runs a command of `bench` beside the interface: says what it does, then what came of it."""
        self.say(doing, "dim")

        async def work() -> None:
            try:
                answer = await bench.ask(*arguments, told=lambda text: self.say(text, "dim"))
            except UserError as error:
                self.complain(error)
                return
            if then is not None:
                then(answer)
            else:
                self.say(answer.strip().splitlines()[-1] if answer.strip() else "done")

        self.run_worker(work(), group="bench", exit_on_error=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """What goes wrong beside the picture does not end the interface, but it is said: silence looks like success."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and error is not None:
            self.say(f"this went wrong within bench: {type(error).__name__}: {error}", "warning")

    def screen_text(self) -> str:
        """The screen in front as plain text, without trailing blanks."""
        strips = self.screen._compositor.render_strips(self.size)
        return "\n".join(strip.text.rstrip() for strip in strips).rstrip() + "\n"

    def action_copy_screen(self) -> None:
        """The screen's text to the terminal's clipboard (OSC 52)."""
        self.copy_to_clipboard(self.screen_text())
        self.say("the screen's text is in the clipboard, if the terminal allows that (OSC 52)")

    def action_export_screen(self) -> None:
        """The screen's text into a file in the current folder."""
        stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(self.clock.wall_ns() / 1e9))
        name = f"bench-{self.current_mode}-{stamp}.txt"
        try:
            path = Path.cwd() / name
            path.write_text(self.screen_text())
        except OSError as error:
            self.say(f"{name}: cannot be written into this folder: {error.strerror}", "warning")
            return
        self.say(f"written: {path}")
