"""The commit that a search found, as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.builds.commit_log import Commit
from engine.builds.source_tree import SHOWN_HEX
from engine.results.ratio import Ratio


@dataclass(frozen=True, slots=True)
class Culprit:
    """The answer: the candidate commits, of which only the last could be judged.

    `unjudged` are commits with the reason why they could not be judged.
    """

    commits: tuple[Commit, ...]
    parent: Commit
    step: str
    sure: float
    message: str
    ends: str
    ratio: Ratio | None
    judgements: int
    run: str
    flame: str
    mended: tuple[str, ...]
    unjudged: Mapping[str, str]
    folder: Path = field(repr=False)

    @property
    def confirmed(self) -> bool:
        """Whether a direct comparison shows the commit to be slower than its parent."""
        return self.ratio is not None and self.ratio.verdict == "slower"

    def record(self) -> dict[str, Any]:
        ratio = self.ratio
        return {
            "commit": self.commits[-1].hash,
            "candidates": [commit.hash for commit in self.commits],
            "parent": self.parent.hash,
            "message": self.message,
            "step": self.step,
            "probability": self.sure,
            "ratio": ratio and {name: getattr(ratio, name) for name in ("ratio", "low", "high", "pairs", "verdict")},
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
        if len(self.commits) > 1:
            yield f"{self.step} became slower with one of these; those before the last could not be measured:"
            for commit in self.commits:
                why = self.unjudged.get(commit.text, "")
                yield f"  {commit.text}{f' ({why})' if why else ''}"
        else:
            yield f"{self.step} became slower with commit {self.commits[0].hash}"
        yield f"({self.sure:.1%} sure after {self.judgements} measurements; {self.ends})"
        yield ""
        yield from (f"    {line}".rstrip() for line in self.message.splitlines())
        yield ""
        if self.ratio is not None:
            yield f"against its parent {self.parent.hash[:SHOWN_HEX]}: {effect(self.ratio)}, {self.ratio.verdict_text}"
        if not self.confirmed:
            yield "the comparison with its parent does not confirm it; search again with more --pairs"
        yield from (f"as slow, but fixed by a later commit: {text}" for text in self.mended)
        yield f"compare the two: bench compare {shlex.quote(str(self.folder / self.run))}"
        if self.flame:
            yield f"where the time goes: {self.flame}"


def effect(ratio: Ratio) -> str:
    """The change such as `-5.1% [-5.9, -4.3]`, with its pairs."""
    return f"{ratio.effect} ({ratio.pairs} pairs)" if ratio.bounds else "no interval"
