import pytest

from engine.analysis.causes.plan_change import change, mistake, section, sentence, times
from workloads.api.plan_tree import PlanNode


def scan(relation: str, estimated: float = 10, actual: float | None = None, kind: str = "Seq Scan") -> PlanNode:
    return PlanNode(kind, relation, estimated=estimated, actual=actual)


def join(kind: str, *children: PlanNode, estimated: float = 10, actual: float | None = None) -> PlanNode:
    return PlanNode(kind, estimated=estimated, actual=actual, children=children)


HASHED = join("Hash Join", scan("orders"), join("Hash", scan("order_lines")))
INDEXED = PlanNode("Index Scan", "order_lines", "lines_pkey", estimated=4, actual=4, loops=48000)
NESTED = join("Nested Loop", scan("orders", 12, 48000), INDEXED, estimated=48, actual=192000)


def test_a_changed_join_shows_its_relation_and_estimate() -> None:
    assert sentence("orders_by_customer", HASHED, NESTED, "3.2x slower") == (
        "orders_by_customer: 3.2x slower; Hash Join became Nested Loop on order_lines; "
        "rows estimated 12, were 48,000"
    )  # fmt: skip
    assert sentence("a", HASHED, NESTED).startswith("a: Hash Join became")
    assert sentence("a", NESTED, HASHED, times(0.5)) == "a: 2.0x faster; Nested Loop became Hash Join on order_lines"


@pytest.mark.parametrize(
    ("factor", "text"),
    [(3.24, "3.2x slower"), (1.042, "1.04x slower"), (1.004, "1.004x slower"), (0.96, "1.04x faster")],
)
def test_a_factor_has_the_digits_that_tell_it_from_1(factor: float, text: str) -> None:
    assert times(factor) == text


def test_a_pruned_partition_is_not_another_join_order() -> None:
    parts = join("Append", scan("p1"), scan("p2"))
    assert change(parts, join("Append", scan("p1"))) == "Seq Scan on p2 has gone"


def test_a_change_of_order_alone_is_said() -> None:
    first, second = (PlanNode("Bitmap Index Scan", index=name) for name in ("i", "j"))
    assert change(join("BitmapOr", first, second), join("BitmapOr", second, first)) == "the same nodes in another order"


def test_other_changes_in_words() -> None:
    assert change(scan("t"), INDEXED) == "Seq Scan on t became Index Scan using lines_pkey on order_lines"
    assert change(scan("order_lines"), INDEXED) == "Seq Scan became Index Scan using lines_pkey on order_lines"
    assert change(NESTED, join("Nested Loop", scan("orders"), join("Memoize", INDEXED))) == (
        "Memoize over order_lines is new"
    )
    assert change(join("Sort", scan("t")), scan("t")) == "Sort over t has gone"
    turned = join("Hash Join", scan("order_lines"), join("Hash", scan("orders")))
    assert change(HASHED, turned) == "tables are joined in another order: order_lines, orders"
    swapped = join("Nested Loop", INDEXED, scan("orders"))
    assert change(NESTED, swapped) == "tables are joined in another order: order_lines, orders"
    assert change(NESTED, NESTED) == ""


def test_rows_below_a_limit_say_nothing_of_the_estimate() -> None:
    many = scan("t", 100000, 20)
    assert mistake(many) == "rows estimated 100,000, were 20"
    assert mistake(join("Limit", many, estimated=20, actual=20)) == ""
    assert mistake(scan("t", 100000)) == "" and mistake(scan("t", 30, 20)) == ""


def test_plans_side_by_side_mark_differences() -> None:
    assert [(row.name, *row.values) for row in section("s", "s", {"a": HASHED, "b": NESTED}, "").rows] == [
        ("≠", "Hash Join (10)", "Nested Loop (48→192,000)"),
        ("", "· Seq Scan on orders (10)", "· Seq Scan on orders (12→48,000)"),
        ("+", "· Hash (10)", ""),
        ("≠", "· · Seq Scan on order_lines (10)", "· · Index Scan using lines_pkey on order_lines (4→4)"),
    ]
