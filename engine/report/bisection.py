"""What a search for a commit found, as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.core.comparison import Ratio
from engine.postgres.history import Commit
from engine.postgres.source import SHOWN_HEX


@dataclass(frozen=True, slots=True)
class Found:
    """The answer: the commits that may be it, the last one first if all but it do not build."""

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
    folder: Path = field(repr=False)

    @property
    def confirmed(self) -> bool:
        """Whether the commit is slower than its parent where both were measured beside each other."""
        return self.ratio is not None and self.ratio.verdict == "slower"

    def record(self) -> dict[str, Any]:
        """The JSON form."""
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
            "run": self.run,
            "flame": self.flame,
            "folder": str(self.folder),
        }

    def lines(self) -> Iterable[str]:
        """The answer as text."""
        yield ""
        if len(self.commits) > 1:
            yield f"{self.step} became slower in one of these; those before the last do not build:"
            yield from (f"  {commit.text}" for commit in self.commits)
        else:
            yield f"{self.step} became slower with commit {self.commits[0].hash}"
        yield f"({self.sure:.1%} sure after {self.judgements} judgements; {self.ends})"
        yield ""
        yield from (f"    {line}".rstrip() for line in self.message.splitlines())
        yield ""
        if self.ratio is not None:
            yield f"against its parent {self.parent.hash[:SHOWN_HEX]}: {effect(self.ratio)}, {self.ratio.verdict_text}"
        if not self.confirmed:
            yield "the comparison with its parent does not confirm it; search again with more --pairs"
        yield from (f"slower, too, but mended by a later commit: {text}" for text in self.mended)
        yield f"both beside each other: bench compare {shlex.quote(str(self.folder / self.run))}"
        if self.flame:
            yield f"where the time goes: {self.flame}"


def effect(ratio: Ratio) -> str:
    """`-5.1 % [-5.9, -4.3]`, with its pairs."""
    if ratio.ratio is None or ratio.low is None or ratio.high is None:
        return "no interval"
    low, high = (f"{100 * (bound - 1):+.1f}" for bound in (ratio.low, ratio.high))
    return f"{100 * (ratio.ratio - 1):+.1f} % [{low}, {high}] ({ratio.pairs} pairs)"
