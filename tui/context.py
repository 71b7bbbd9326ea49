"""State that the screens share (the selected run and how it is shown), and the application's services for them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from textual import work
from textual.app import App
from textual.message_pump import MessagePump
from textual.screen import ModalScreen
from textual.signal import Signal
from textual.timer import Timer
from textual.worker import Worker, WorkerState

from engine.core.clock import Clock
from engine.core.errors import UserError
from tui import bench
from tui.glyphs import Glyphs

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Context:
    """`out` is the folder of runs; `run` is the one that Live, Compare and Probes show."""

    out: Path
    glyphs: Glyphs
    clock: Clock
    run: Path | None = None
    replayed: tuple[str, str | None] | None = None  # cell and step of a replay
    compared: list[Path] = field(default_factory=list)  # runs that Compare shows instead of the selected one
    position: tuple[int, int] | None = None  # id of the step that Live shows, and the moment in it
    stopping: Path | None = None  # the run that the user has stopped


class LateTimers(MessagePump):
    """Lets a timer that begins late still expire; a base that comes before `App` and `Screen`.

    Textual skips all times of a timer that are past when it begins. If the kernel runs another process meanwhile, that
    is the only one of `set_timer`: without the one of a resize, an application ignores this and all later resizes.
    To be proposed upstream (https://github.com/Textualize/textual/issues).
    """

    def set_timer(self, *args: Any, **options: Any) -> Timer:
        timer = super().set_timer(*args, **options)
        timer._skip = False  # noqa: SLF001
        return timer


class BenchApp(LateTimers, App[None]):
    """The application as its screens see it; `run_selected` is published when another run or cell is selected."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self.run_selected: Signal[None] = Signal(self, "run selected")

    def look_at(self, run: Path) -> None:
        """Select a run in its current state, and open the Live screen on it."""
        self.select(run)
        self.action_open("live")

    def replay(self, run: Path, cell: str, step: str | None = None) -> None:
        """Replay a recorded cell, from `step` on, on the Live screen."""
        compared = self.context.compared if run in self.context.compared else []  # where the cell was opened
        self.select(run, (cell, step))
        self.context.compared = compared
        self.action_open("live")

    def compare_runs(self, runs: list[Path]) -> None:
        self.select(runs[0])
        self.context.compared = runs
        self.action_open("compare")

    def select(self, run: Path, replayed: tuple[str, str | None] | None = None) -> None:
        context = self.context
        context.run, context.replayed, context.compared, context.position = run, replayed, [], None
        self.run_selected.publish(None)

    def action_open(self, mode: str) -> None:
        """Open one of the five screens, closing all dialogs."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.switch_mode(mode)

    def ask_user(self, dialog: ModalScreen[Answer], then: Callable[[Answer], object]) -> None:
        """Show a dialog; `then` is called with its answer unless that is None."""

        def answered(answer: Answer | None) -> None:
            if answer is not None:
                then(answer)

        self.push_screen(dialog, answered)

    def say(self, text: str, mark: str = "") -> None:
        raise NotImplementedError

    def complain(self, error: UserError) -> None:
        self.say(str(error), "warning")

    @work(group="bench", exit_on_error=False)
    async def ask_bench(
        self,
        arguments: tuple[str, ...],
        doing: str,
        then: Callable[[str], None] | None = None,
        refused: Callable[[], object] = lambda: None,
    ) -> None:
        """Run a command of `bench` in the background: show its progress, then its result."""
        self.say(doing, "dim")
        try:
            answer = await bench.ask(*arguments, console=lambda text: self.say(text, "dim"))
        except UserError as error:
            refused()
            self.complain(error)
        else:
            (then or self.say_answer)(answer)

    def say_answer(self, answer: str) -> None:
        self.say(bench.last_line(answer, "done"))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show a worker's error. It does not end the interface, but silence would look like success."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and error is not None:
            self.say(f"internal error: {type(error).__name__}: {error}", "warning")
