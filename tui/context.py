"""What the screens share: the selected run and how it is shown; and what they may ask of the application."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from textual import work
from textual.app import App
from textual.screen import ModalScreen
from textual.signal import Signal
from textual.worker import Worker, WorkerState

from engine.core.clock import Clock
from engine.core.errors import UserError
from tui import bench
from tui.glyphs import Glyphs

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Context:
    """`out` holds the runs; `run` is the one that Live, Compare and Probes look at."""

    out: Path
    glyphs: Glyphs
    clock: Clock
    run: Path | None = None
    replayed: tuple[str, str | None] | None = None  # cell and step, where a recorded one is played
    compared: list[Path] = field(default_factory=list)  # runs that Compare shows instead of the selected one
    position: tuple[int, int] | None = None  # the step that Live shows, by its id, and the moment in it
    keymap: dict[str, str] = field(default_factory=dict)  # other keys of bindings, by their ids
    stopping: Path | None = None  # the run that was asked to stop here
    show_cost: bool = True  # what watching costs is shown on the Live screen


class BenchApp(App[None]):
    """The application as its screens know it. `run_selected` is published when another run, or cell, is selected."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self.run_selected: Signal[None] = Signal(self, "run selected")

    def look_at(self, run: Path, mode: str = "live") -> None:
        """Selects a run, as it is now, and opens a screen on it."""
        self.select(run)
        self.action_open(mode)

    def replay(self, run: Path, cell: str, step: str | None = None) -> None:
        """Plays a recorded cell, from a step of it on, in the Live screen."""
        together = self.context.compared if run in self.context.compared else []  # opened from their comparison
        self.select(run, (cell, step))
        self.context.compared = together
        self.action_open("live")

    def compare_runs(self, runs: list[Path]) -> None:
        """Compares several runs in one table."""
        self.select(runs[0])
        self.context.compared = runs
        self.action_open("compare")

    def select(self, run: Path, replayed: tuple[str, str | None] | None = None) -> None:
        """Selects a run, or a recorded cell of it."""
        context = self.context
        context.run, context.replayed, context.compared, context.position = run, replayed, [], None
        self.run_selected.publish(None)

    def action_open(self, mode: str) -> None:
        """Opens one of the five screens, without what lay over the one before."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.switch_mode(mode)

    def ask_user(self, over: ModalScreen[Answer], then: Callable[[Answer], object]) -> None:
        """Lays a question over the screen in front; `then` is called with the answer, unless there is none."""

        def answered(answer: Answer | None) -> None:
            if answer is not None:
                then(answer)

        self.push_screen(over, answered)

    def say(self, text: str, mark: str = "") -> None:
        """A line above the keys of the screen in front."""
        raise NotImplementedError

    def complain(self, error: UserError) -> None:
        """A user's error, as one line on the screen in front."""
        self.say(str(error), "warning")

    @work(group="bench", exit_on_error=False)
    async def ask_bench(
        self,
        arguments: tuple[str, ...],
        doing: str,
        then: Callable[[str], None] | None = None,
        refused: Callable[[], object] = lambda: None,
    ) -> None:
        """Runs a command of `bench` while the interface goes on: shows what it does, then its result."""
        self.say(doing, "dim")
        try:
            answer = await bench.ask(*arguments, console=lambda text: self.say(text, "dim"))
        except UserError as error:
            refused()
            self.complain(error)
        else:
            (then or self.say_answer)(answer)

    def say_answer(self, answer: str) -> None:
        """The last line of what `bench` printed."""
        self.say(bench.last_line(answer, "done"))

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """An error in a worker does not end the interface, but it is shown: silence looks like success."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and error is not None:
            self.say(f"internal error: {type(error).__name__}: {error}", "warning")
