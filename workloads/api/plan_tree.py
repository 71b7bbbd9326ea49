"""Plans of statements, from EXPLAIN's JSON to a tree that servers of all versions share.

Its shape is the work of a plan: kinds of nodes, relations, indexes, joins. Costs, row counts, conditions and the values
in them are not part of it, so that equal plans of two servers have equal shapes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

MOST_DEPTH, MOST_NODES = 200, 5000
MOST_CONDITION = 400  # characters
STRATEGIES = {"Hashed": "HashAggregate", "Sorted": "GroupAggregate", "Mixed": "MixedAggregate", "Plain": "Aggregate"}
CONDITIONS = ("Index Cond", "Recheck Cond", "Hash Cond", "Merge Cond", "Join Filter", "Filter", "Sort Key", "Group Key",
              "Cache Key", "One-Time Filter")  # fmt: skip


class PlanNode(msgspec.Struct, frozen=True):
    """A node: `kind` as EXPLAIN's text has it, `relation` and `index` that it reads. `estimated` and `actual` rows are
    those of one loop; `actual` is None for a plan that did not run. `part` is set for InitPlans and SubPlans.
    """

    kind: str
    relation: str = ""
    index: str = ""
    part: str = ""
    estimated: float = 0.0
    actual: float | None = None
    loops: float = 1.0
    workers: int = 0
    conditions: tuple[str, ...] = ()
    children: tuple[PlanNode, ...] = ()

    @property
    def label(self) -> str:
        """The node's line without numbers: `Index Scan using orders_pkey on orders`."""
        using = f" using {self.index}" if self.index else ""
        return f"{self.kind}{using}" + (f" on {self.relation}" if self.relation else "")

    @property
    def joins(self) -> bool:
        return self.kind.endswith("Join") or self.kind.startswith("Nested Loop")

    def walk(self) -> Iterator[PlanNode]:
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def relations(self) -> tuple[str, ...]:
        """Relations that it and the nodes below read, in order, each once."""
        return tuple(dict.fromkeys(node.relation for node in self.walk() if node.relation))


class StatementPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A statement's plan on one server, and the costs of one execution: an entry of `plans` in a step's report.

    `chosen` is custom or generic, empty without parameters or if unknown. Buffers (`hit`, `read`) are pages of 8 kB.
    """

    statement: str
    shape: str
    tree: PlanNode
    chosen: str = ""
    planning_ms: float | None = None
    execution_ms: float | None = None
    rows: float | None = None
    hit: int | None = None
    read: int | None = None
    wal_bytes: int | None = None


class StatementResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a statement for its first sets of values, or its failure: an entry of `results` in a report.

    A slow one is executed for fewer of them: `first_rows` and `first_digest` are those of the first set alone.
    """

    statement: str
    executions: int = 0
    rows: int = 0
    digest: str = ""
    first_rows: int | None = None
    first_digest: str = ""
    values: str = ""
    error: str = ""


def tree(plan: Mapping[str, Any]) -> PlanNode:
    """The tree of EXPLAIN's object "Plan" (FORMAT JSON). Raises ValueError for anything else, or a plan too deep."""
    counted = [0]
    return _node(plan, 0, counted)


def shape(node: PlanNode) -> str:
    """A digest of a plan's shape."""
    return hashlib.sha256(_outline(node).encode()).hexdigest()[:16]


def _node(plan: Mapping[str, Any], depth: int, counted: list[int]) -> PlanNode:
    counted[0] += 1
    if depth > MOST_DEPTH or counted[0] > MOST_NODES or not isinstance(plan.get("Node Type"), str):
        raise ValueError("not a plan, or one of too many nodes")
    actual, part = plan.get("Actual Rows"), str(plan.get("Parent Relationship", ""))
    children = tuple(_node(child, depth + 1, counted) for child in plan.get("Plans", ()))
    relation = next((str(plan[key]) for key in ("Relation Name", "Function Name", "CTE Name") if key in plan), "")
    return PlanNode(
        kind=_kind(plan),
        relation=relation,
        index=str(plan.get("Index Name", "")),
        part=part if part in ("InitPlan", "SubPlan") else "",
        estimated=float(plan.get("Plan Rows", 0)),
        actual=None if actual is None else float(actual),
        loops=float(plan.get("Actual Loops", 1)),
        workers=int(plan.get("Workers Planned", 0)),
        conditions=tuple(f"{key}: {_text(plan[key])}" for key in CONDITIONS if key in plan),
        children=children,
    )


def _kind(plan: Mapping[str, Any]) -> str:
    kind, join = str(plan["Node Type"]), str(plan.get("Join Type", "Inner"))
    if kind == "Aggregate":
        kind = STRATEGIES.get(str(plan.get("Strategy", "")), kind)
        partial = str(plan.get("Partial Mode", "Simple"))
        kind = kind if partial == "Simple" else f"{partial} {kind}"
    elif kind == "ModifyTable":
        kind = str(plan.get("Operation", kind))
    elif kind == "SetOp":
        kind = f"{kind} {plan.get('Command', '')}".strip()
    elif join != "Inner":
        kind = f"{kind.removesuffix(' Join')} {join} Join"
    if plan.get("Scan Direction") == "Backward":
        kind = f"{kind} Backward"
    return f"Parallel {kind}" if plan.get("Parallel Aware") else kind


def _text(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= MOST_CONDITION else text[: MOST_CONDITION - 1] + "…"


def _outline(node: PlanNode) -> str:
    return f"({node.part} {node.label} {''.join(map(_outline, node.children))})"
