"""A search for the commit that made a step slower: builds, runs, and what is known after each.

The search has a folder of its own below --out, with a run for each judgement and what they came to in `bisect.json`,
which is all that is needed to go on. Nothing in that file is a path, or is executed.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from engine.analysis import bisection
from engine.analysis.bisection import Ends, Judgement
from engine.analysis.comparison import compare
from engine.cli import start
from engine.cli.output import PlainConsole
from engine.core.comparison import Comparison, Ratio
from engine.core.errors import UserError, unknown
from engine.core.request import Request
from engine.core.text import visible
from engine.host import disk
from engine.host.files import read_plain
from engine.plan import planfile
from engine.plan.loads import loads
from engine.postgres import builds, history
from engine.postgres.history import Commit
from engine.postgres.nix import BuildFailed
from engine.postgres.source import SHOWN_HEX
from engine.report.bisection import Found, effect
from workloads import workload
from workloads.names import UnknownName
from workloads.options import options_of

STATE, LOG = "bisect.json", "runs.log"
FORMAT = 1
MAX_BYTES = 1 << 24
GOOD, BAD, TRIED = "good", "bad", "tried"
END_RUNS = 5  # of the ends, at most, until they are known to differ
JUDGED_AGAIN = 3  # times at most, where the machine changed within pairs
PATIENCE = 8  # judgements for each halving, after which the search is given up


@dataclass(frozen=True, slots=True)
class Search:
    """What is asked for; `say` prints a line."""

    repository: Path
    good: str
    bad: str
    asked: Request
    step: str | None
    error: float
    pairs: int
    out: Path
    say: Callable[[str], None]


class Judged(msgspec.Struct, frozen=True):
    """A commit that was measured: pairs of log ratios, see `engine.analysis.bisection.Judgement`."""

    commit: str
    pairs: tuple[tuple[float, float], ...]
    run: str


class State(msgspec.Struct):
    """What is known so far. `asked` is a digest of all that results depend on; `after` the last commit known good."""

    format: int
    asked: str
    step: str = ""
    ends: tuple[float, ...] = ()
    ends_text: str = ""
    judged: list[Judged] = []
    broken: list[str] = []
    after: str = ""
    mended: list[str] = []


def run(search: Search, *, again: bool) -> Found:
    """Searches, or goes on with a search. Raises UserError when there is nothing to be found, or it cannot be."""
    commits = history.commits_between(search.repository, search.good, search.bad)
    steps = _step_names(search.asked)
    if search.step is not None and search.step not in steps:
        raise unknown("step", search.step, steps)
    folder = search.out / f"bisect-{commits[0].hash[:SHOWN_HEX]}-{commits[-1].hash[:SHOWN_HEX]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOG).open("a") as log:
        return _Bisection(search, commits, folder, PlainConsole(force_terminal=False, file=log), again=again).run()


class _Bisection:
    def __init__(
        self, search: Search, commits: Sequence[Commit], folder: Path, console: PlainConsole, *, again: bool
    ) -> None:
        self.search, self.commits, self.folder, self.console = search, commits, folder, console
        self.count = len(commits) - 1
        self.places = {commit.hash: place for place, commit in enumerate(commits)}
        asked = (search.asked.entries(), search.step, search.pairs)
        digest = hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()
        self.state = State(FORMAT, digest) if again else _read(folder / STATE, digest, set(self.places))

    def run(self) -> Found:
        say, state, commits = self.search.say, self.state, self.commits
        say(f"{self.count} commits from {commits[0].text} (good)")
        say(f"to {commits[-1].text} (bad)")
        say(f"in {self.folder}; what runs print is in {LOG} there, and bench watch {self.folder}/RUN shows one")
        if state.step and state.step not in _step_names(self.search.asked):
            raise UserError(f"{self.folder / STATE}: judges by a step that there is not; --again begins anew")
        if state.ends:
            say(f"going on with a search that was begun: {len(state.judged)} judgements so far")
        else:
            self._measure_ends()
        say(state.ends_text)
        found = self._search()
        return self._conclude(found)

    def _search(self) -> range:
        state, say = self.state, self.search.say
        most = PATIENCE * (2 + math.ceil(math.log2(self.count + 1))) + len(state.judged)
        while True:
            after = self.places.get(state.after, 0)
            judgements, broken = self._judgements(), {self.places[commit] for commit in state.broken}
            now = bisection.belief(self.count, Ends(state.ends), judgements, after)
            parts = bisection.groups(self.count, broken, after)
            found = bisection.found_in(now, parts, self.search.error)
            if found is None:
                place = bisection.next_commit(now, parts)
            else:
                look = bisection.to_look_back(
                    found, self.count, broken, bisection.weights(Ends(state.ends), judgements)
                )
                if look is None:
                    return found
                place = look
                say(f"found with {now.of(found):.1%}: {self.commits[found[-1]].text}; is a later one fast again?")
            if len(state.judged) >= most:
                raise UserError(
                    f"not decided after {len(state.judged)} judgements: the difference is too small for "
                    f"{self.search.pairs} pairs each; give more --pairs, or longer steps"
                )
            self._judge(place, found)

    def _judge(self, place: int, found: range | None) -> None:
        state, commit, say = self.state, self.commits[place], self.search.say
        say(f"commit {place} of {self.count}: {commit.text}")
        for name, end in ((GOOD, self.commits[0]), (BAD, self.commits[-1])):
            self._build(name, end)  # a failure here says nothing of the commit
        try:
            self._build(TRIED, commit)
        except BuildFailed as error:
            self._pass_over(commit, f"does not build: {error}")
            return
        for left in reversed(range(JUDGED_AGAIN + 1)):
            run, comparison = self._measure({GOOD: self.commits[0], BAD: self.commits[-1], TRIED: commit})
            failed = [cell.text for cell in comparison.left_out if cell.name == TRIED and cell.state == "failed"]
            if failed:
                self._pass_over(commit, f"does not run: {failed[0]}")
                return
            ratio = comparison.ratio(TRIED, state.step, comparison.judged_by(state.step))
            if ratio is not None and ratio.verdict == "withheld":
                self._pass_over(commit, f"cannot be judged: {'; '.join(ratio.remarks)}")
                return
            pairs = tuple(_pairs(self.folder / run, comparison, state.step))
            if len(pairs) >= 2:
                break
            if not left:
                raise UserError(
                    f"{self.folder / run}: fewer than two pairs of {state.step} can be compared; see bench compare"
                )
            say("  too few pairs can be compared, for the machine changed meanwhile; measuring them again")
        state.judged.append(Judged(commit.hash, pairs, run))
        judgements = self._judgements()
        weight = bisection.weight(judgements[-1], Ends(state.ends), judgements)
        like, sure = ("bad", weight) if weight > 0 else ("good", -weight)
        mean = math.exp(math.fsum(ratio for ratio, _ in pairs) / len(pairs))
        say(f"  {mean - 1:+.1%} to good, like the {like} end with odds of {math.exp(min(sure, 9.3)):,.1f} to 1")
        whole = bisection.weights(Ends(state.ends), judgements)[place]
        if found is not None and -whole > math.log(bisection.LOOKS_BACK / self.search.error):
            state.mended.append(self.commits[found[-1]].text)
            state.after = commit.hash
            say("  fast: what was found is mended by then, and another commit is looked for behind it")
        self._write()
        now = bisection.belief(self.count, Ends(state.ends), judgements, self.places.get(state.after, 0))
        if bisection.is_between(place, Ends(state.ends), judgements):
            good, bad, middle = (each.hash[:SHOWN_HEX] for each in (self.commits[0], self.commits[-1], commit))
            raise UserError(
                f"{commit.text} is midway between both ends, so that more than one commit made it slower: search on "
                f"with --good {good} --bad {middle}, and with --good {middle} --bad {bad}"
            )
        left = sum(each > self.search.error / self.count for each in now.first)
        say(f"  {left} commit{'s' if left != 1 else ''} left")

    def _pass_over(self, commit: Commit, why: str) -> None:
        """The commit is not told apart from the next one that can be judged."""
        self.search.say(f"  {why}")
        self.state.broken.append(commit.hash)
        self._write()

    def _measure_ends(self) -> None:
        """Both ends beside each other, again while it is not sure whether and in what they differ."""
        state, runs = self.state, list[Path]()
        while True:
            run, _ = self._measure({GOOD: self.commits[0], BAD: self.commits[-1]})
            runs.append(self.folder / run)
            comparison = compare(runs, GOOD)
            chosen = self._slowest(comparison, last=len(runs) == END_RUNS)
            if chosen is not None:
                break
            self.search.say("  not sure yet that the ends differ; measuring them again")
        state.step, state.ends_text = chosen.step, f"the ends differ in {_named(chosen)}"
        state.ends = tuple(ratio for run in runs for ratio in _ends(run, comparison, chosen.step))
        self._write()

    def _slowest(self, comparison: Comparison, *, last: bool) -> Ratio | None:
        """The step to judge by; None where it may be found yet. Raises UserError where there is none."""
        search = self.search
        rates = [comparison.ratio(BAD, step, comparison.judged_by(step)) for step in comparison.steps]
        known = [ratio for ratio in rates if ratio is not None and ratio.ratio is not None]
        if search.step:
            known = [ratio for ratio in known if ratio.step == search.step]
        if slower := [ratio for ratio in known if ratio.verdict == "slower"]:
            return max(slower, key=lambda ratio: abs(math.log(ratio.ratio or 1)))
        where = f"see bench compare {' '.join(str(self.folder / run) for run in comparison.runs)}"
        if faster := [ratio for ratio in known if ratio.verdict == "faster"]:
            raise UserError(f"the bad end is faster: {', '.join(map(_named, faster))}; swap --good and --bad; {where}")
        if not last and any(ratio.verdict == "inconclusive" or ratio.low is None for ratio in known):
            return None  # without an interval there are too few pairs, as where the machine changed meanwhile
        if search.step and known:
            told = ", ".join(filter(None, (_named(known[0]), known[0].verdict_text)))
            raise UserError(f"no difference between the ends is known: {told}; {where}")
        raise UserError(f"no step of the bad end is slower; give --step, more --pairs or longer steps; {where}")

    def _conclude(self, found: range) -> Found:
        state, search = self.state, self.search
        commit, parent = self.commits[found[-1]], self.commits[found[0] - 1]
        search.say(f"beside its parent: {commit.text}")
        run, comparison = self._measure({"parent": parent, "found": commit}, probes=True)
        now = bisection.belief(self.count, Ends(state.ends), self._judgements(), self.places.get(state.after, 0))
        return Found(
            commits=tuple(self.commits[place] for place in found),
            parent=parent,
            step=state.step,
            sure=now.of(found),
            message=visible_message(search.repository, commit),
            ends=state.ends_text,
            ratio=comparison.ratio("found", state.step, comparison.judged_by(state.step)),
            judgements=len(state.judged),
            run=run,
            flame=self._flame(run, comparison),
            mended=tuple(state.mended),
            folder=self.folder,
        )

    def _flame(self, run: str, comparison: Comparison) -> str:
        """The page of the headline role's stacks, coloured by what changed; empty where there are none."""
        from engine.report import flame

        step, folder = self.state.step, self.folder / run
        for role in dict.fromkeys(role for cell in comparison.cells if cell.step == step for role in cell.roles):
            try:
                base, new = (
                    flame.profile(folder, flame.subject_of(folder, name), step, role) for name in ("parent", "found")
                )
                page = self.folder / f"{step}-{role}.html".replace("/", "_")
                disk.write_text(page, flame.page(step, role, new, base))
            except (UserError, OSError):
                continue
            return str(page)
        return ""

    def _measure(self, commits: dict[str, Commit], *, probes: bool = False) -> tuple[str, Comparison]:
        """A run of these builds; its name, and what it came to."""
        specs = [self._build(name, commit) for name, commit in commits.items()]
        asked = self.search.asked.entries()
        entries = {**asked, "builds": specs, "repeats": self.search.pairs, **self._steps()}
        request = planfile.request(entries | ({"probes": ["stacks"]} if probes and not asked.get("probes") else {}))
        try:
            prospect = start.prepare_shown(request, self.folder, self.console)
        except UserError:
            if not probes:
                raise
            prospect = start.prepare_shown(planfile.request(entries), self.folder, self.console)
        code = start.start(prospect, self.folder, self.console, detach=False)
        if code == start.STOPPED:
            self.search.say("stopped; the same command continues the search")
            sys.exit(code)
        run = prospect.manifest.run
        return run, compare([self.folder / run], next(iter(commits)))

    def _build(self, name: str, commit: Commit) -> str:
        """Builds it where it is not there yet; what --pg calls it."""
        spec = f"{name}=git:{self.search.repository}@{commit.hash}"
        builds.resolve([spec], self._built, self.folder / ".builds")
        return spec

    def _steps(self) -> dict[str, Any]:
        """The steps up to the one that is judged, once it is known."""
        asked = self.search.asked
        if not self.state.step or "steps" not in {
            option.name for option in options_of(workload(asked.workload).options)
        }:
            return {}
        names = _step_names(asked)
        return {"steps": names[: names.index(self.state.step) + 1]}

    def _built(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)

    def _judgements(self) -> list[Judgement]:
        return [Judgement(self.places[each.commit], each.pairs) for each in self.state.judged]

    def _write(self) -> None:
        whole = self.folder / f"{STATE}.new"
        whole.write_bytes(msgspec.json.format(msgspec.json.encode(self.state)))
        whole.replace(self.folder / STATE)


def visible_message(repository: Path, commit: Commit) -> str:
    """The commit's message as it can be printed."""
    return "\n".join(visible(line) for line in history.message_of(repository, commit).splitlines())


def _named(ratio: Ratio) -> str:
    return f"{ratio.step} {effect(ratio)}"


def _step_names(asked: Request) -> list[str]:
    try:
        return [step.name for load in loads(asked, asked.options) for step in load.steps]
    except (UnknownName, ValueError) as error:
        raise planfile.refused(error) from None


def _pairs(run: Path, comparison: Comparison, step: str) -> Iterable[tuple[float, float]]:
    """Of each repeat the log ratios to the good end: of the commit that was tried, and of the bad end."""
    tried, bad = (_log_ratios(run, comparison, name, step) for name in (TRIED, BAD))
    return [(tried[repeat], bad[repeat]) for repeat in tried if repeat in bad]


def _ends(run: Path, comparison: Comparison, step: str) -> Iterable[float]:
    return _log_ratios(run, comparison, BAD, step).values()


def _log_ratios(run: Path, comparison: Comparison, name: str, step: str) -> dict[int, float]:
    """By repeat; none of pairs between whose cells the machine changed. Of what turns took, by slices."""
    from engine.analysis import sliced
    from engine.analysis.comparability import steady
    from engine.analysis.comparison import compared_cells

    metric = comparison.judged_by(step)
    cells = compared_cells([run], comparison.base)
    (subject,) = [subject for subject, called in cells.names.items() if called == name]
    found = {}
    for pair in steady(cells.pairs(subject, step), step):
        values = [cell.steps[step].figure(metric) for cell in pair]
        if ratios := sliced.log_ratios([pair], step, metric):
            found[pair[0].cell.repeat] = ratios[0].theta
        elif values[0] and values[1]:
            found[pair[0].cell.repeat] = math.log(values[1] / values[0])
    return found


def _read(path: Path, digest: str, known: set[str]) -> State:
    """What is known so far; nothing where there is no such file. Raises UserError for one of another search."""
    try:
        state = msgspec.json.decode(read_plain(path, MAX_BYTES), type=State)
    except FileNotFoundError:
        return State(FORMAT, digest)
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(f"{path}: cannot be read: {visible(str(error))}; --again begins anew") from None
    if state.format != FORMAT or state.asked != digest:
        raise UserError(f"{path}: this search was begun with other options; --again begins anew, --out elsewhere")
    named = {each.commit for each in state.judged} | set(state.broken) | ({state.after} if state.after else set())
    values = [value for each in state.judged for pair in each.pairs for value in pair] + list(state.ends)
    whole = all(len(each.pairs) > 1 for each in state.judged) and bool(state.step) == (len(state.ends) > 1)
    if named - known or not whole or not all(map(math.isfinite, values)):
        raise UserError(f"{path}: names what is no commit of this search; --again begins anew")
    return state
