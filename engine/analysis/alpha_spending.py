"""The level of verdicts where the same pairs are judged more than once: interim analyses share the allowed error.

Someone who reads "not known: 4 more pairs", measures these and judges all pairs together has analysed twice. At an
unchanged level, two equal servers would be called different in more than 5 % of such comparisons (Armitage, McPherson
and Rowe 1969). So each analysis spends a part of the 5 %: the first run FIRST of it, and each later one half of what is
left. A run that may end early (`--until-known`) divides its part among its own analyses.

The distribution of the sum of log ratios turns what an analysis spends into a level. The sum is a random walk whose
time is the number of pairs, stopped where an earlier analysis would have named a difference (Lan and DeMets, Biometrika
70, 1983; the recursion is that of Armitage and others, Journal of the Royal Statistical Society A 132).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.analysis import statistics
from engine.analysis.run_results import RunResult
from engine.core.model import LEVEL, InterimAnalysis, Manifest

FIRST = 0.8 * LEVEL  # spent by the first run; its level if nobody adds to it

Analysis = tuple[int, float]  # the pairs so far, and the error that it spends


def level(runs: Sequence[RunResult]) -> float:
    """Level of verdicts on the pairs of these runs together.

    Runs that overlap in time, as a farm's blocks, were planned without each other's results: they are one analysis.
    """
    return statistics.spent_level(*_spent(runs)[0])


def shrink(runs: Sequence[RunResult]) -> Callable[[int], float]:
    """The factor by which these runs' level shrinks once another run adds pairs."""
    done, left = _spent(runs)
    now = statistics.spent_level(*done)
    return lambda more: statistics.spent_level(*done, (done[-1][0] + more, left / 2)) / now


def _spent(runs: Sequence[RunResult]) -> tuple[list[Analysis], float]:
    done: list[Analysis] = []
    left, pairs = LEVEL, 0
    for together in _batches(runs):
        part = left / 2 if done else FIRST
        left -= part
        count = sum(run.whole_repeats for run in together)
        done += [(pairs + own, share) for own, share in planned(together[0].manifest, count, part)]
        pairs += count
    return done, left


def planned(manifest: Manifest, pairs: int, part: float = FIRST) -> list[Analysis]:
    """Analyses that together spend `part`: all but the last at planned numbers of pairs, the last at `pairs`.

    In an adaptive run those on the way spend what is planned for them, and the last one all that is left.
    """
    if manifest.adaptive:
        return until_the_end(manifest.interim_analyses, pairs, part)
    parts = sum(look.level for look in manifest.interim_analyses)
    done: list[Analysis] = []
    for look in manifest.interim_analyses:
        done.append((min(pairs, look.pairs), part * look.level / parts))
        if pairs <= look.pairs:
            return done
    return [*done[:-1], (pairs, done[-1][1])] if done else [(pairs, part)]


def until_the_end(on_the_way: Sequence[InterimAnalysis], pairs: int, part: float = FIRST) -> list[Analysis]:
    """The analyses of an adaptive run that time ended after a number of pairs."""
    done = [(look.pairs, look.level * part / FIRST) for look in on_the_way if look.pairs < pairs]
    return [*done, (pairs, part - sum(spent for _, spent in done))]


def level_on_the_way(on_the_way: Sequence[InterimAnalysis], pairs: int) -> float:
    """The level of an interim analysis of an adaptive run after a number of pairs."""
    return statistics.spent_level(*((look.pairs, look.level) for look in on_the_way if look.pairs <= pairs))


def _batches(runs: Sequence[RunResult]) -> list[list[RunResult]]:
    """Runs in the order in which they began, grouped where nobody could look at results in between."""
    found: list[list[RunResult]] = []
    for run in sorted(runs, key=lambda run: run.span_ns):
        overlaps = found and (
            run.span_ns[0] <= max(other.span_ns[1] for other in found[-1])
            or (run.sandboxed and all(other.sandboxed for other in found[-1]))
        )
        if overlaps:
            found[-1].append(run)
        else:
            found.append([run])
    return found
