"""The steps of a run with a time budget: which are decided, and the intervals that the rest of its time will give."""

from collections.abc import Mapping

from engine.core.format import span
from engine.journal.outcome import State, StepPlan
from engine.view.view_state import ViewState
from tui.glyphs import Glyphs
from tui.marks import Line, fitting, line

NAME_CELLS = 10
WORDS: Mapping[State, str] = {"open": "undecided", "known": "decided", "withheld": "withheld"}


def summary(view: ViewState, columns: int, glyphs: Glyphs) -> list[Line]:
    """One line: this step, how many are decided, and the pairs to come; nothing before the first pair is over."""
    divided = view.allocation
    if divided is None or view.state != "running":
        return []
    decided = sum(step.state == "known" for step in divided.steps.values())
    pairs = f"{view.left} pair{'' if view.left == 1 else 's'} of {span(divided.pair_s)} left"
    division = divided.steps.get(view.step.name) if view.step is not None else None
    this = f"{view.step.name} {_width(division, glyphs)}; " if view.step is not None and division is not None else ""
    counts = f"decided {decided} of {len(divided.steps)}"
    forms = (f" {this}{counts}; {pairs}", f" {this}{counts}", f" {counts}")
    return [line((fitting(forms, columns), "dim"))]


def rows(view: ViewState, glyphs: Glyphs) -> list[Line]:
    """A line for each step."""
    divided = view.allocation
    if divided is None or view.state != "running":
        return []
    head = line(("steps", "strong"), ("  half the 95% interval", "dim"))
    return [
        head,
        *(line((f"{name:<{NAME_CELLS}}", "dim"), f" {_width(step, glyphs)}") for name, step in divided.steps.items()),
    ]


def _width(step: StepPlan, glyphs: Glyphs) -> str:
    if step.state != "open" or step.width is None:
        return WORDS[step.state]
    later = f", {glyphs.plus_minus}{step.by_end:.1%} by the end" if step.by_end is not None else ""
    return f"{glyphs.plus_minus}{step.width:.1%}{later}"
