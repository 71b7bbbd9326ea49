"""Sampled stacks as a tree of frames, laid out in rows of character cells; and by function. Pure values.

A row is a depth, the outermost function first. A frame is as wide as its share of the samples; one narrower than half a
cell is not drawn. The baseline's counts are scaled to be comparable with the other build's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engine.results.flame import FlameGraph

Side = Literal["base", "other"]
MOST_FRAMES = 400  # per stack; deeper ones are cut


@dataclass(slots=True, eq=False)
class CallFrame:
    """A function in one call chain: samples with and without callees; `certain`: the former changed beyond chance."""

    name: str
    parent: CallFrame | None = None
    base: float = 0.0
    other: float = 0.0
    own_base: float = 0.0
    own_other: float = 0.0
    certain: bool = False
    children: dict[str, CallFrame] = field(default_factory=dict)

    def samples(self, side: Side) -> float:
        return self.other if side == "other" else self.base

    @property
    def change(self) -> float:
        """Samples of the other side in excess of the baseline's."""
        return self.other - self.base

    def path(self) -> list[CallFrame]:
        """The chain from the outermost frame to this one."""
        frames = [self]
        while (parent := frames[-1].parent) is not None:
            frames.append(parent)
        return frames[::-1]

    def below(self) -> Iterator[CallFrame]:
        """This frame and its descendants, callers first."""
        waiting = [self]
        while waiting:
            frame = waiting.pop()
            yield frame
            waiting += reversed(frame.children.values())


def tree(graph: FlameGraph) -> CallFrame:
    root = CallFrame("all")
    for text, base, other in graph.stacks:
        scaled, at = base * graph.scale, root
        root.base += scaled
        root.other += other
        for name in text.split(";")[:MOST_FRAMES]:
            if name not in at.children:
                at.children[name] = CallFrame(name, at)
            at = at.children[name]
            at.base += scaled
            at.other += other
        at.own_base += scaled
        at.own_other += other
    for path in graph.certain:
        frame: CallFrame | None = root
        for name in path.split(";")[:MOST_FRAMES]:
            frame = frame.children.get(name) if frame is not None else None
        if frame is not None:
            frame.certain = True
    return root


@dataclass(frozen=True, slots=True)
class Box:
    start: int
    end: int
    frame: CallFrame


def layout(zoomed: CallFrame, cells: int, side: Side) -> list[list[Box]]:
    """Rows of boxes, the first one the frame that fills the screen; larger frames further left."""
    rows: list[list[Box]] = []
    level: list[tuple[float, CallFrame]] = [(0.0, zoomed)]
    scale = cells / zoomed.samples(side) if zoomed.samples(side) > 0 else 0.0
    while level:
        boxes, following = [], []
        for at, frame in level:
            start, end = round(at), round(at + frame.samples(side) * scale)
            if end > start:
                boxes.append(Box(start, end, frame))
                inner = at
                for child in sorted(frame.children.values(), key=lambda child: (-child.samples(side), child.name)):
                    following.append((inner, child))
                    inner += child.samples(side) * scale
        if not boxes:
            break
        rows.append(boxes)
        level = following
    return rows


def place_of(rows: Sequence[Sequence[Box]], frame: CallFrame) -> tuple[int, int] | None:
    for y, boxes in enumerate(rows):
        for x, box in enumerate(boxes):
            if box.frame is frame:
                return y, x
    return None


def matching(root: CallFrame, wanted: str) -> list[CallFrame]:
    text = wanted.lower()
    return [frame for frame in root.below() if frame.parent is not None and text in frame.name.lower()] if text else []


def named(root: CallFrame, name: str) -> list[CallFrame]:
    return [frame for frame in root.below() if frame.parent is not None and frame.name == name]


def share(root: CallFrame, matches: Sequence[CallFrame], side: Side) -> float:
    """Share of all samples in any of these frames; nested frames count once."""
    known, total = {id(frame) for frame in matches}, 0.0
    for frame in matches:
        if not any(id(above) in known for above in frame.path()[:-1]):
            total += frame.samples(side)
    return total / root.samples(side) if root.samples(side) else 0.0


@dataclass(frozen=True, slots=True)
class Function:
    """A function over all call chains: own samples (`certain`: changed by more than chance), and with callees."""

    name: str
    own_base: float
    own_other: float
    base: float
    other: float
    certain: bool = False

    @property
    def change(self) -> float:
        return self.own_other - self.own_base


def functions(root: CallFrame, certain: Collection[str] = (), *, differential: bool) -> list[Function]:
    """All functions: certain changes first, by size; for a single side, the busiest first."""
    sums: dict[str, list[float]] = {}
    waiting: list[tuple[CallFrame, frozenset[str]]] = [(child, frozenset()) for child in root.children.values()]
    while waiting:
        frame, above = waiting.pop()
        counts = sums.setdefault(frame.name, [0.0] * 4)
        counts[0] += frame.own_base
        counts[1] += frame.own_other
        if frame.name not in above:  # recursion counts once
            counts[2] += frame.base
            counts[3] += frame.other
        inside = above | {frame.name}
        waiting += [(child, inside) for child in frame.children.values()]
    every = [
        Function(name, counts[0], counts[1], counts[2], counts[3], name in certain) for name, counts in sums.items()
    ]
    if differential:
        return sorted(
            every,
            key=lambda function: (not function.certain, -abs(function.change), -function.own_other, function.name),
        )
    return sorted(every, key=lambda function: (-function.own_base, -function.base, function.name))
