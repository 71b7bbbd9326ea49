"""The commit that a search found, as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.analysis.failure_counts import Count, Counts, p_value
from engine.analysis.faults import Fault
from engine.builds.commit_log import Commit
from engine.builds.source_tree import SHOWN_HEX
from engine.core.model import LEVEL
from engine.results.comparison import Ratio


@dataclass(frozen=True, slots=True)
class Culprit:
    """The answer: the candidate commits, of which only the last could be judged.

    `fault`: its cells `failed`, missed their `sla`, or are `slower`; for the first two, `counts` are the cells of its
    parent and its own. `unjudged` are commits with the reason why they could not be judged.
    """

    commits: tuple[Commit, ...]
    parent: Commit
    fault: Fault
    step: str
    sure: float
    message: str
    ends: str
    ratio: Ratio | None
    counts: Counts | None
    judgements: int
    run: str
    flame: str
    mended: tuple[str, ...]
    unjudged: Mapping[str, str]
    folder: Path = field(repr=False)

    @property
    def confirmed(self) -> bool:
        """Whether a direct comparison shows the commit to be worse than its parent."""
        if self.counts is not None:
            return p_value(self.counts.good, self.counts.bad) <= LEVEL
        return self.ratio is not None and self.ratio.verdict == "slower"

    def record(self) -> dict[str, Any]:
        ratio = self.ratio
        return {
            "commit": self.commits[-1].hash,
            "candidates": [commit.hash for commit in self.commits],
            "parent": self.parent.hash,
            "message": self.message,
            "fault": self.fault,
            "step": self.step,
            "probability": self.sure,
            "ratio": ratio and {name: getattr(ratio, name) for name in ("ratio", "low", "high", "pairs", "verdict")},
            "cells": self.counts and {"parent": _record(self.counts.good), "commit": _record(self.counts.bad)},
            "confirmed": self.confirmed,
            "judgements": self.judgements,
            "mended": list(self.mended),
            "unjudged": dict(self.unjudged),
            "run": self.run,
            "flame": self.flame,
            "folder": str(self.folder),
        }

    def lines(self) -> Iterable[str]:
        yield ""
        what = {"slower": f"{self.step} became slower", "sla": f"{self.step} misses its SLA", "failed": "cells fail"}
        since = "with" if self.fault == "slower" else "since"
        if len(self.commits) > 1:
            yield f"{what[self.fault]} {since} one of these; those before the last could not be judged:"
            for commit in self.commits:
                why = self.unjudged.get(commit.text, "")
                yield f"  {commit.text}{f' ({why})' if why else ''}"
        else:
            yield f"{what[self.fault]} {since} commit {self.commits[0].hash}"
        yield f"({self.sure:.1%} sure after {self.judgements} judgements; {self.ends})"
        yield ""
        yield from (f"    {line}".rstrip() for line in self.message.splitlines())
        yield ""
        if self.counts is not None:
            did, parent = "failed" if self.fault == "failed" else "missed", self.parent.hash[:SHOWN_HEX]
            yield f"{did} in {self.counts.bad.text}, with its parent {parent} in {self.counts.good.text}"
        elif self.ratio is not None:
            yield f"against its parent {self.parent.hash[:SHOWN_HEX]}: {effect(self.ratio)}, {self.ratio.verdict_text}"
        if not self.confirmed:
            yield "the comparison with its parent does not confirm it; search again with more --pairs"
        yield from (f"as bad, but fixed by a later commit: {text}" for text in self.mended)
        yield f"compare the two: bench compare {shlex.quote(str(self.folder / self.run))}"
        if self.flame:
            yield f"where the time goes: {self.flame}"


def _record(count: Count) -> dict[str, int]:
    return {"seen": count.seen, "cells": count.cells}


def effect(ratio: Ratio) -> str:
    """The change such as `-5.1 % [-5.9, -4.3]`, with its pairs."""
    if ratio.ratio is None or ratio.low is None or ratio.high is None:
        return "no interval"
    low, high = (f"{100 * (bound - 1):+.1f}" for bound in (ratio.low, ratio.high))
    return f"{100 * (ratio.ratio - 1):+.1f} % [{low}, {high}] ({ratio.pairs} pairs)"
