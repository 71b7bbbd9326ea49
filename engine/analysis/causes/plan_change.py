"""Plans of a statement on two servers side by side: which nodes differ, and the change in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.results.section import WORDS, Column, Section, row
from workloads.api.plan_tree import PlanNode, shape

# Nodes that only hand on, order or keep rows: one server may have one where the other has none.
PASSING = frozenset(
    {"Hash", "Materialize", "Memoize", "Sort", "Incremental Sort", "Gather", "Gather Merge", "Result", "Parallel Hash",
     "Subquery Scan", "Unique"}
)  # fmt: skip
MISTAKEN = 10.0  # factor from which a wrong estimate is reported
DIFFERS, ONLY_HERE = "≠", "+"


@dataclass(frozen=True, slots=True)
class NodePair:
    """Two nodes that do the same part of a statement's work; one of them is None if only one plan has it."""

    depth: int
    left: PlanNode | None
    right: PlanNode | None

    @property
    def differs(self) -> bool:
        return self.left is None or self.right is None or self.left.label != self.right.label


def pairs(left: PlanNode, right: PlanNode, depth: int = 0) -> Iterator[NodePair]:
    """Two plans' nodes in order, those that read the same relations beside each other."""
    if left.label != right.label:
        if left.kind in PASSING and len(left.children) == 1:
            yield NodePair(depth, left, None)
            yield from pairs(left.children[0], right, depth + 1)
            return
        if right.kind in PASSING and len(right.children) == 1:
            yield NodePair(depth, None, right)
            yield from pairs(left, right.children[0], depth + 1)
            return
    yield NodePair(depth, left, right)
    rest = list(right.children)
    for child in left.children:
        if (same := _partner(child, rest)) is not None:
            rest.remove(same)
            yield from pairs(child, same, depth + 1)
        else:
            yield from (NodePair(level, node, None) for level, node in _nodes(child, depth + 1))
    for child in rest:
        yield from (NodePair(level, None, node) for level, node in _nodes(child, depth + 1))


def section(statement: str, step: str, plans: Mapping[str, PlanNode], finding: str) -> Section:
    """Two plans by subject, the base's first: nodes with estimated and actual rows; those that differ are marked."""
    base, subject = plans
    title = f"Plans of {statement} (rows estimated→actual; {DIFFERS} differs, {ONLY_HERE} only there)"
    lines = []
    for pair in pairs(plans[base], plans[subject]):
        alone = pair.left is None or pair.right is None
        mark = ONLY_HERE if alone else DIFFERS if pair.differs else ""
        nodes = (_line(node, pair.depth) for node in (pair.left, pair.right))
        lines.append(row(mark, *nodes, step=step, subject=subject, mark="strong" if mark else ""))
    headings = tuple(Column(name, WORDS) for name in ("", base, subject))
    return Section("plans", title, headings, tuple(lines), (finding,), flat=True)


def change(left: PlanNode, right: PlanNode) -> str:
    """The most telling difference: `Hash Join became Nested Loop on order_lines`; empty for equal plans."""
    every = list(pairs(left, right))
    both = [(pair.left, pair.right) for pair in every if pair.left and pair.right and pair.differs]
    if both:
        before, after = max(both, key=lambda pair: (pair[0].joins and pair[1].joins, pair[1].joins or pair[0].joins,
                                                    _rows(pair[1])))  # fmt: skip
        if before.joins and after.joins:
            where = _inner(after)
            return f"{before.kind} became {after.kind}" + (f" on {where}" if where else "")
        if before.relation == after.relation and before.relation:
            using = f" using {after.index}" if after.index != before.index and after.index else ""
            old = f" using {before.index}" if after.index != before.index and before.index else ""
            return f"{before.kind}{old} became {after.kind}{using} on {after.relation}"
        if not _reordered(left, right):
            return f"{before.label} became {after.label}"
    if _reordered(left, right):
        return f"tables are joined in another order: {', '.join(right.relations)}"
    for pair in every:
        if pair.differs:
            node = pair.left or pair.right
            assert node is not None
            over = f" over {node.relations[0]}" if not node.relation and node.relations else ""
            return f"{node.label}{over} {'is new' if pair.left is None else 'has gone'}"
    return "" if shape(left) == shape(right) else "the same nodes in another order"


def _reordered(left: PlanNode, right: PlanNode) -> bool:
    return left.relations != right.relations and set(left.relations) == set(right.relations)


def mistake(node: PlanNode) -> str:
    """The estimate that was most wrong: `rows estimated 12, were 48,000`; empty if all were right or unknown.

    Of nodes above each other the lowest counts, whose estimate makes those above it wrong.
    """
    mistakes = list(_mistakes(node))
    if not mistakes:
        return ""
    worst = max(mistakes, key=_wrong)
    return f"rows estimated {worst.estimated:,.0f}, were {worst.actual:,.0f}"


def sentence(statement: str, left: PlanNode, right: PlanNode, effect: str = "") -> str:
    """`effect` is the certain difference, such as `3.2x slower`."""
    parts = (effect, change(left, right), mistake(right))
    return f"{statement}: {'; '.join(part for part in parts if part)}"


def times(factor: float) -> str:
    return f"{multiple(factor)} slower" if factor > 1 else f"{multiple(1 / factor)} faster"


def multiple(factor: float) -> str:
    """`3.2x`, with as many digits as tell it from 1."""
    return f"{factor:.{1 if factor >= 1.1 else 3 if abs(factor - 1) < 0.01 else 2}f}x"


def _partner(child: PlanNode, rest: Sequence[PlanNode]) -> PlanNode | None:
    """The child of the other plan that reads the same relations, or else is the same, or of the same kind."""
    relations = set(child.relations)
    return max(
        (other for other in rest if other.part == child.part),
        key=lambda other: (set(other.relations) == relations, other.label == child.label, other.kind == child.kind),
        default=None,
    )


def _nodes(node: PlanNode, depth: int) -> Iterator[tuple[int, PlanNode]]:
    yield depth, node
    for child in node.children:
        yield from _nodes(child, depth + 1)


def _inner(join: PlanNode) -> str:
    """The relation that a join reads for each row of the other, or keeps in its hash table."""
    inner = join.children[1].relations if len(join.children) > 1 else ()
    return inner[0] if inner else ""


def _rows(node: PlanNode) -> float:
    return (node.actual if node.actual is not None else node.estimated) * node.loops


def _mistakes(node: PlanNode) -> Iterator[PlanNode]:
    """Below a Limit a node may end early, so that its number of rows means nothing."""
    below = [mistake_of for child in node.children for mistake_of in _mistakes(child)] if node.kind != "Limit" else []
    yield from below or ([node] if _wrong(node) >= MISTAKEN else [])


def _wrong(node: PlanNode) -> float:
    """Factor by which a node's estimate was wrong; 0 if it was not executed."""
    if node.actual is None or not node.loops:
        return 0.0
    estimated, actual = max(node.estimated, 1.0), max(node.actual, 1.0)
    return max(estimated / actual, actual / estimated)


def _line(node: PlanNode | None, depth: int) -> str:
    if node is None:
        return ""
    rows = f"{node.estimated:,.0f}" + (f"→{node.actual:,.0f}" if node.actual is not None else "")
    part = f"{node.part}: " if node.part else ""
    return f"{'· ' * depth}{part}{node.label} ({rows})"
