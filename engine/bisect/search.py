"""A search for the commit that made a step slower: what to measure next, and the conclusion.

The search has its own folder below --out, with a run for each measured commit and the results in `bisect.json`, which
suffices to resume.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from engine.analysis.answer.compare import compare
from engine.analysis.series import bisection
from engine.analysis.series.bisection import CommitJudgement, Ends
from engine.bisect import ends, measurements, state
from engine.bisect.culprit import Culprit
from engine.bisect.ends import BAD, GOOD, TRIED
from engine.bisect.measurements import SearchContext, Start
from engine.bisect.state import FORMAT, MeasuredCommit, PendingRun, SearchState
from engine.builds import commit_log
from engine.builds.commit_log import Commit
from engine.builds.nix import BuildFailed
from engine.builds.source_tree import SHOWN_HEX
from engine.core.errors import UserError, unknown
from engine.core.text import visible
from engine.host import disk
from engine.plan import planfile
from engine.plan.request import Request
from engine.plan.workload_plans import load_of
from engine.results.comparison import Comparison
from workloads import workload
from workloads.api.names import UnknownName
from workloads.api.options import options_of

STATE = "bisect.json"
JUDGED_AGAIN = 3  # times at most, if the machine changed within pairs
PATIENCE = 8  # judgements per halving before the search gives up


@dataclass(frozen=True, slots=True)
class Search:
    repository: Path
    good: str
    bad: str
    asked: Request
    step: str | None
    error: float
    pairs: int
    out: Path
    say: Callable[[str], None]
    start: Start


def run(search: Search, *, again: bool) -> Culprit:
    """Begin or continue a search. Raises UserError if there is nothing to find, or it cannot be found."""
    commits = commit_log.commits_between(search.repository, search.good, search.bad)
    steps = _step_names(search.asked)
    if search.step is not None and search.step not in steps:
        raise unknown("step", search.step, steps)
    folder = search.out / f"bisect-{commits[0].hash[:SHOWN_HEX]}-{commits[-1].hash[:SHOWN_HEX]}"
    folder.mkdir(parents=True, exist_ok=True)
    with measurements.placed(search.repository, folder, search.say, search.start) as place:
        try:
            return _Bisection(search, commits, place, again=again).run()
        except KeyboardInterrupt:
            place.say(measurements.STOPPED_TEXT)
            raise


class _Bisection:
    def __init__(self, search: Search, commits: Sequence[Commit], place: SearchContext, *, again: bool) -> None:
        self.search, self.commits, self.place, self.folder = search, commits, place, place.folder
        self.count = len(commits) - 1
        self.places = {commit.hash: place for place, commit in enumerate(commits)}
        asked = (search.asked.entries(), search.step, search.pairs)
        digest = hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()
        known = set(self.places)
        self.state = SearchState(FORMAT, digest) if again else state.read(self.folder / STATE, digest, known)

    def run(self) -> Culprit:
        say, state, commits = self.place.say, self.state, self.commits
        say(f"{self.count} commits from {commits[0].text} (good)")
        say(f"to {commits[-1].text} (bad)")
        log = measurements.LOG
        say(f"in {self.folder}; the output of runs is in {log} there, and bench watch {self.folder}/RUN shows one")
        if state.step and state.step not in _step_names(self.search.asked):
            raise UserError(f"{self.folder / STATE}: names an unknown step; --again starts over")
        if state.step or state.measured or state.under_way:
            say(f"resuming the search: {len(state.judged)} commits measured so far")
        if not state.step:
            self._measure_ends()
        say(state.ends_text)
        span = self._search()
        return self._conclude(span)

    def _search(self) -> range:
        state, say = self.state, self.place.say
        most = PATIENCE * (2 + math.ceil(math.log2(self.count + 1))) + len(state.judged)
        while True:
            after = self.places.get(state.after, 0)
            weighed, broken = self._weighed(), {self.places[commit] for commit in state.broken}
            now = bisection.belief(self.count, weighed, after)
            parts = bisection.groups(self.count, broken, after)
            span = bisection.found_in(now, parts, self.search.error)
            if span is None:
                place = bisection.next_commit(now, parts)
            else:
                later = bisection.to_look_back(span, self.count, broken, bisection.weights(weighed))
                if later is None:
                    return span
                place = later
                say(f"found with {now.of(span):.1%}: {self.commits[span[-1]].text}; is a later one good again?")
            if len(state.judged) >= most:
                raise UserError(
                    f"undecided after measuring {len(state.judged)} commits: the difference is too small for "
                    f"{self.search.pairs} pairs each; give more --pairs, or longer steps"
                )
            self._judge(place, span)

    def _judge(self, place: int, span: range | None) -> None:
        state, commit, say = self.state, self.commits[place], self.place.say
        say(f"commit {place} of {self.count}: {commit.text}")
        for name, end in ((GOOD, self.commits[0]), (BAD, self.commits[-1])):
            measurements.build(self.place, name, end)  # a failure here is not the commit's
        try:
            measurements.build(self.place, TRIED, commit)
        except BuildFailed as error:
            self._pass_over(commit, f"does not build: {error}")
            return
        if (judged := self._measured(commit)) is None:
            return
        state.judged.append(judged)
        weighed = self._weighed()
        weight = weighed[-1][1]
        like, sure = ("bad", weight) if weight > 0 else ("good", -weight)
        mean = math.exp(math.fsum(ratio for ratio, _ in judged.pairs) / len(judged.pairs))
        say(f"  {mean - 1:+.1%} to good, like the {like} end with odds of {math.exp(min(sure, 9.3)):,.1f} to 1")
        normalised = bisection.weights(weighed)[place]
        if span is not None and -normalised > math.log(bisection.LOOKS_BACK / self.search.error):
            state.mended.append(self.commits[span[-1]].text)
            state.after = commit.hash
            say("  good: the regression was fixed by then; searching the commits after it")
        self._write()
        now = bisection.belief(self.count, weighed, self.places.get(state.after, 0))
        if bisection.is_between(place, Ends(state.ends), self._judgements()):
            good, bad, middle = (end.hash[:SHOWN_HEX] for end in (self.commits[0], self.commits[-1], commit))
            raise UserError(
                f"{commit.text} is midway between both ends, so more than one commit made it slower: continue "
                f"with --good {good} --bad {middle}, and with --good {middle} --bad {bad}"
            )
        left = sum(likelihood > self.search.error / self.count for likelihood in now.first)
        say(f"  {left} commit{'s' if left != 1 else ''} left")

    def _measured(self, commit: Commit) -> MeasuredCommit | None:
        for left in reversed(range(JUDGED_AGAIN + 1)):
            run, comparison = self._measure({GOOD: self.commits[0], BAD: self.commits[-1], TRIED: commit})
            if why := ends.unlike_both(comparison, self.state.step):
                self._pass_over(commit, why)
                return None
            pairs = tuple(_pairs(self.folder / run, comparison, self.state.step))
            if len(pairs) > 1:
                return MeasuredCommit(commit.hash, pairs, run)
            if left:
                self.place.say(
                    "  too few pairs can be compared, because the machine changed meanwhile; measuring them again"
                )
        raise UserError(
            f"{self.folder / run}: fewer than two pairs of {self.state.step} can be compared; see bench compare"
        )

    def _pass_over(self, commit: Commit, why: str) -> None:
        """Skip a commit: it cannot be distinguished from the next one that can be judged."""
        self.place.say(f"  {why}")
        self.state.broken[commit.hash] = visible(why)  # it may name a file that JSON cannot name
        self._write()

    def _measure_ends(self) -> None:
        """Measure both ends until they are distinguished, in interim analyses of all pairs that together keep 5%."""
        state, end_commits = self.state, {GOOD: self.commits[0], BAD: self.commits[-1]}
        while True:
            if not state.measured:
                state.measured.append(self._measure(end_commits)[0])
                self._write()
            runs = [self.folder / run for run in state.measured]
            level, last = ends.LEVELS[len(runs) - 1], len(runs) == len(ends.LEVELS)
            comparison = compare(runs, GOOD, level)
            where = f"see bench compare {' '.join(map(str, runs))}; --again measures again"
            slowest = ends.slowest(comparison, self.search.step, last=last, where=where)
            if slowest is not None:
                break
            self.place.say("  not sure yet that the ends differ; measuring them again")
            state.measured.append(self._measure(end_commits)[0])
            self._write()
        state.step, state.ends_text = slowest.step, f"the ends differ in {ends.with_effect(slowest)}"
        state.ends = tuple(ratio for run in runs for ratio in _log_ratios(run, comparison, BAD, slowest.step).values())
        self._write()

    def _conclude(self, span: range) -> Culprit:
        state, search = self.state, self.search
        commit, parent = self.commits[span[-1]], self.commits[span[0] - 1]
        self.place.say(f"against its parent: {commit.text}")
        run, comparison = self._measure({"parent": parent, "found": commit}, probes=True)
        now = bisection.belief(self.count, self._weighed(), self.places.get(state.after, 0))
        return Culprit(
            commits=tuple(self.commits[place] for place in span),
            parent=parent,
            step=state.step,
            sure=now.of(span),
            message=commit_log.message_of(search.repository, commit),
            ends=state.ends_text,
            ratio=comparison.ratio("found", state.step, comparison.primary_metric(state.step)),
            judgements=len(state.judged),
            run=run,
            flame=self._flame(run, comparison),
            mended=tuple(state.mended),
            unjudged={self.commits[self.places[hash]].text: why for hash, why in state.broken.items()},
            folder=self.folder,
        )

    def _flame(self, run: str, comparison: Comparison) -> str:
        """Write a page of the primary role's stacks, coloured by change; "" if there are none."""
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
        """Run these builds, or continue their run; return its name and comparison."""
        state, hashes = self.state, {name: commit.hash for name, commit in commits.items()}
        begun, state.under_way = state.under_way, None  # the next write records its outcome
        if begun is not None and begun.commits == hashes and measurements.ended(self.place, begun.run):
            return begun.run, compare([self.folder / begun.run], next(iter(commits)))

        def note(run: str) -> None:
            state.under_way = PendingRun(run, hashes)
            self._write()
            state.under_way = None

        options = self.search.asked.entries()
        entries = {**options, "repeats": self.search.pairs, **({"steps": steps} if (steps := self._steps()) else {})}
        try:
            stacks = {"probes": ["stacks"]} if probes and not options.get("probes") else {}
            run = measurements.measured(self.place, entries | stacks, commits, note)
        except UserError:
            if not probes:
                raise
            run = measurements.measured(self.place, entries, commits, note)
        return run, compare([self.folder / run], next(iter(commits)))

    def _steps(self) -> list[str]:
        """The steps up to the one that decides, once known; none if the workload cannot choose steps."""
        last, names = self.state.step or self.search.step, _step_names(self.search.asked)
        options = {option.name for option in options_of(workload(self.search.asked.workload).options)}
        return names[: names.index(last) + 1] if last and "steps" in options else []

    def _weighed(self) -> list[tuple[int, float]]:
        """The commit's place in each judgement, and the weight of evidence for the bad end."""
        return bisection.weighed(Ends(self.state.ends), self._judgements())

    def _judgements(self) -> list[CommitJudgement]:
        return [CommitJudgement(self.places[result.commit], result.pairs) for result in self.state.judged]

    def _write(self) -> None:
        state.write(self.folder / STATE, self.state)


def _step_names(request: Request) -> list[str]:
    try:
        return [step.name for step in load_of(request, request.options).steps]
    except (UnknownName, ValueError) as error:
        raise planfile.refused(error) from None


def _pairs(run: Path, comparison: Comparison, step: str) -> Iterable[tuple[float, float]]:
    """The log ratios of each repeat to the good end: of the commit under test, and of the bad end."""
    tried, bad = (_log_ratios(run, comparison, name, step) for name in (TRIED, BAD))
    return [(tried[repeat], bad[repeat]) for repeat in tried if repeat in bad]


def _log_ratios(run: Path, comparison: Comparison, name: str, step: str) -> dict[int, float]:
    """Log ratios by repeat, without pairs between whose cells the machine changed."""
    from engine.analysis.answer.compare import compared_cells
    from engine.analysis.checks.comparability import steady
    from engine.analysis.ratios import slice_verdicts

    metric = comparison.primary_metric(step)
    cells = compared_cells([run], comparison.base)
    (subject,) = [subject for subject, called in cells.names.items() if called == name]
    by_repeat = {}
    for pair in steady(cells.pairs(subject, step), step):
        values = [cell.steps[step].figure(metric) for cell in pair]
        if ratios := slice_verdicts.log_ratios([pair], step, metric):
            by_repeat[pair[0].cell.repeat] = ratios[0].theta
        elif values[0] and values[1]:
            by_repeat[pair[0].cell.repeat] = math.log(values[1] / values[0])
    return by_repeat
