"""Filter of runs and cells by words: `step=l.i1 build=16.3 !tag=noisy nvme`.

A word with `=` must match one fact of a row, a bare word any of them; `!` in front negates it. A row passes if all
words match. Steps, repeats and states match exactly, all else in part; `*` and `?` are wildcards.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from engine.core.errors import unknown
from engine.view.run_summary import RunSummary, StepSummary

EXACT = ("step", "rep", "state")
NAMES = ("build", "cell", "flag", "host", "kernel", "load", "probe", "rep", "run", "state", "step", "tag")

Facts = Mapping[str, Sequence[str]]  # a row's values for each of the names above


@dataclass(frozen=True, slots=True)
class FilterWord:
    """`name` is empty for a bare word; `wanted` is in lower case."""

    name: str
    wanted: str
    not_: bool

    def holds(self, facts: Facts) -> bool:
        """Whether a row matches. A row that lacks `name`, such as a run for `rep`, matches."""
        if self.name and self.name not in facts:
            return True
        asked = (self.name,) if self.name else facts
        return self.not_ != any(_fits(name, value.lower(), self.wanted) for name in asked for value in facts[name])


def words(text: str) -> tuple[FilterWord, ...]:
    """Parse a filter. Raises UserError for an unknown name."""
    parsed = []
    for typed in text.split():
        bare = typed.removeprefix("!")
        name, sign, wanted = bare.partition("=")
        if not sign:
            name, wanted = "", bare
        elif name not in NAMES:
            raise unknown("word of a filter", f"{name}=", (f"{known}=" for known in NAMES))
        if wanted:
            parsed.append(FilterWord(name, wanted.lower(), bare != typed))
    return tuple(parsed)


def _fits(name: str, value: str, wanted: str) -> bool:
    if any(sign in wanted for sign in "*?"):
        return fnmatchcase(value, wanted)
    return value == wanted if name in EXACT else wanted in value


def _run_facts(run: RunSummary) -> dict[str, Sequence[str]]:
    return {
        "run": (run.name,),
        "host": (run.host,),
        "load": (run.load,),
        "tag": run.tags,
        "probe": run.probes,
        "state": (run.state,),
    }


def of_run(run: RunSummary) -> Facts:
    """The facts of a run, with the steps and builds of all its cells."""
    return {**_run_facts(run), "kernel": (run.kernel,), "build": run.builds, "step": run.steps}


def of_cell(row: StepSummary) -> Facts:
    return {
        **_run_facts(row.run),
        "cell": (row.cell,),
        "kernel": (row.kernel,),
        "build": (row.build,),
        "step": (row.step,),
        "rep": (str(row.repeat),),
        "flag": tuple(text for text, _ in row.flags) + (("stall",) if row.stalls else ()),
    }


def runs(rows: Iterable[RunSummary], wanted: Sequence[FilterWord]) -> list[RunSummary]:
    return [row for row in rows if all(word.holds(facts) for facts in (of_run(row),) for word in wanted)]


def cells(rows: Iterable[StepSummary], wanted: Sequence[FilterWord]) -> list[StepSummary]:
    return [row for row in rows if all(word.holds(facts) for facts in (of_cell(row),) for word in wanted)]
