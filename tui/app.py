"""The application: five screens over one output folder, and the keys of all screens."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, cast

from textual.actions import ActionParseResult
from textual.app import SystemCommand
from textual.binding import Binding
from textual.command import CommandPalette
from textual.dom import DOMNode
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.widget import Widget

from engine.core.clock import Clock
from engine.journal.run_lock import is_locked
from tui import MODES, keys, terminal
from tui.context import BenchApp, Context
from tui.glyphs import Glyphs
from tui.marks import THEMES
from tui.screens.bench_screen import BenchScreen, NewestSize

NOT_OWN = ("app.", "screen.copy_text")  # Textual's bindings on every screen; ctrl+c replaces the second
PALETTE_COLUMNS, PALETTE_FRAME = 64, 6
CHECK_S = 2.0  # interval of checks whether the run has ended


class _Palette(NewestSize, CommandPalette):
    pass


class _ScrollBar(ScrollBarRender):
    """Draws with colour alone: some terminals lack the characters of the finer steps."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8


ScrollBar.renderer = _ScrollBar


def _screen(mode: str) -> Screen[None]:
    """Import a mode's screen when it is first opened: the first paint does not wait for the other four."""
    screen = getattr(import_module(f"tui.{mode}.screen"), f"{mode.capitalize()}Screen")()
    return cast("Screen[None]", screen)


class Bench(BenchApp):
    """The terminal interface: five screens, of which `start` is shown first."""

    TITLE = "pgbed"
    MODES: ClassVar[dict[str, Callable[[], Screen[None]]]] = {  # type: ignore[assignment]
        mode: partial(_screen, mode) for mode in MODES
    }
    BINDINGS: ClassVar[list[Binding]] = list(keys.EVERYWHERE)  # type: ignore[assignment]
    # Textual's palette without emoji and half blocks, which some terminals lack.
    CSS = (
        f"""
    CommandPalette > Vertical {{ max-width: {PALETTE_COLUMNS}; }}
    """
        """
    BenchScreen, Lines { background: $background; }
    CommandPalette #--input, CommandPalette CommandList { border: round $primary; }
    .-ascii CommandPalette #--input, .-ascii CommandPalette CommandList, .-ascii Dialog > Vertical {
        border: ascii $primary;
    }
    .-ascii LiveScreen.-wide #main { border-right: ascii $primary; }
    CommandPalette CommandList { scrollbar-size-vertical: 0; }
    CommandPalette SearchIcon, CommandPalette LoadingIndicator { display: none; }
    """
    )

    def __init__(
        self,
        out: Path,
        run: Path | None,
        glyphs: Glyphs,
        start: str,
        clock: Clock | None = None,
        *,
        theme: str = THEMES[0].name,
    ) -> None:
        super().__init__(Context(out, glyphs, clock or Clock(), run))
        self._start = start
        self._at_work: Path | None = None  # the selected run, if its engine was running at the last check
        for available in THEMES:
            self.register_theme(available)
        self.theme = "bench-mono" if self.no_color else theme
        self.set_class(glyphs.name == "ascii", "-ascii")

    def on_mount(self) -> None:
        if not self.is_headless:
            terminal.watch(self)
        self.switch_mode(self._start)
        self.set_interval(CHECK_S, self.notice_end)

    async def run_action(
        self,
        action: "str | ActionParseResult",
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run a key's action; on a screen that is still reading, keep it until the data are there."""
        screen = self.screen
        of_screen = isinstance(default_namespace, Widget) and isinstance(action, str) and not action.startswith(NOT_OWN)
        if of_screen and isinstance(screen, BenchScreen) and screen.unready:
            screen.wait_with((action, default_namespace))  # type: ignore[arg-type]  # checked by `of_screen`
            return True
        return await super().run_action(action, default_namespace, namespaces)

    def notice_end(self) -> None:
        """Notify the user that a run has finished, except on Live, whose title says so."""
        run = self.context.run
        if run is not None and is_locked(run):
            self._at_work = run
        elif self._at_work is not None:
            ended, self._at_work = self._at_work, None
            if ended == run and self.current_mode not in ("live", "compare"):
                self.run_worker(self._say_ended(ended), exit_on_error=False)

    async def _say_ended(self, run: Path) -> None:
        from engine.view.run_summary import read_run

        summary = await asyncio.to_thread(read_run, run)
        if summary.state == "finished":
            self.say(f"{run.name} has finished: 3 compares")

    def get_key_display(self, binding: Binding) -> str:
        """Name of a key in the last row, in characters that every terminal has."""
        return binding.key_display or keys.shown(binding.key)

    def get_system_commands(self, screen: Screen[Any]) -> Any:
        """Every key of the open screen as an entry of the command palette, the key at the right."""
        cells = min(PALETTE_COLUMNS, self.size.width) - PALETTE_FRAME
        for active, pressed in keys.holding(screen).values():
            act = partial(self.run_action, active.binding.action, active.node)
            words, key = active.binding.description, " ".join(pressed)
            entry = f"{words:<{cells - len(key) - 1}} {key}".replace("[", "\\[")  # escapes markup
            yield SystemCommand(entry, "", act)

    def action_command_palette(self) -> None:
        if not CommandPalette.is_open(self):  # type: ignore[arg-type]  # it wants an app of any type
            self.push_screen(_Palette(placeholder="search commands", id="--command-palette"))

    def say(self, text: str, mark: str = "") -> None:
        for screen in self.screen_stack[-1:]:  # empty while the interface closes
            if isinstance(screen, BenchScreen):
                screen.notify_line(text, mark)

    def action_leave(self) -> None:
        """Close the dialog or screen on top, or else leave. A run continues."""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.exit()

    def action_explain_leaving(self) -> None:
        self.say("q quits, the run continues; S stops the run")

    def action_pick_theme(self) -> None:
        from tui.screens.dialogs import ThemeScreen

        def picked(chosen: tuple[str, ...] | None, before: str = self.theme) -> None:
            self.theme = chosen[0] if chosen else before
            if chosen:
                self.say(f'theme {self.theme}; theme = "{self.theme}" in config.toml keeps it')

        self.push_screen(ThemeScreen([theme.name for theme in THEMES], self.theme), picked)

    def action_help(self) -> None:
        from tui.screens.dialogs import HelpScreen

        self.push_screen(HelpScreen(self.screen, self.screen_text()))

    def action_stop_run(self) -> None:
        from tui.screens.dialogs import AskScreen

        run = self.context.run
        if run is None:
            self.say("No run selected: choose one in History (5)", "warning")
            return

        if not is_locked(run):
            self.say(f"{run.name}: no engine is running, so there is nothing to stop")
            return

        question = f"Stop {run.name}? The running cell is discarded; `r` in Launch resumes the run."
        command, doing = ("stop", str(run)), "stopping the run: finished cells are kept"

        def refused() -> None:
            self.context.stopping = None

        def stop(_: object) -> None:
            self.context.stopping = run
            self.ask_bench(command, doing, refused=refused)

        self.ask_user(AskScreen(question), stop)

    def screen_text(self) -> str:
        strips = self.screen._compositor.render_strips(self.size)  # noqa: SLF001
        return "\n".join(strip.text.rstrip() for strip in strips).rstrip() + "\n"

    def action_copy_screen(self) -> None:
        self.copy_to_clipboard(self.screen_text())
        self.say("the screen's text is in the clipboard, if the terminal allows that (OSC 52)")
