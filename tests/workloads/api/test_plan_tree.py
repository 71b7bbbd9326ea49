import pytest

from workloads.api.plan_tree import shape, tree

SCAN = {"Node Type": "Seq Scan", "Relation Name": "t", "Plan Rows": 12, "Filter": "(a = 5)", "Actual Rows": 48000}


def test_a_tree_says_what_nodes_do_as_explain_writes_it() -> None:
    plan = tree({
        "Node Type": "Aggregate", "Strategy": "Hashed", "Partial Mode": "Finalize", "Plans": [
            {"Node Type": "Hash Join", "Join Type": "Left", "Plans": [
                SCAN | {"Parallel Aware": True},
                {"Node Type": "Index Scan", "Scan Direction": "Backward", "Index Name": "i", "Relation Name": "u"}]},
            {"Node Type": "ModifyTable", "Operation": "Update", "Parent Relationship": "InitPlan"}],
    })  # fmt: skip
    assert [node.label for node in plan.walk()] == [
        "Finalize HashAggregate", "Hash Left Join", "Parallel Seq Scan on t", "Index Scan Backward using i on u",
        "Update",
    ]  # fmt: skip
    assert plan.relations == ("t", "u") and plan.children[1].part == "InitPlan"
    assert plan.children[0].children[0].actual == 48000 and plan.children[0].children[0].estimated == 12


def test_shapes_differ_by_what_is_done_not_by_values_and_costs() -> None:
    assert shape(tree(SCAN)) == shape(tree(SCAN | {"Filter": "(a = $1)", "Plan Rows": 7, "Total Cost": 3}))
    others = [SCAN | {"Relation Name": "u"}, SCAN | {"Node Type": "Index Scan"}, SCAN | {"Plans": [SCAN]}]
    assert len({shape(tree(plan)) for plan in (SCAN, *others)}) == 4


def test_what_is_no_plan_is_refused() -> None:
    deep: dict[str, object] = {"Node Type": "Sort"}
    for _ in range(300):
        deep = {"Node Type": "Sort", "Plans": [deep]}
    for plan in ({}, {"Node Type": 7}, deep):
        with pytest.raises(ValueError, match="not a plan"):
            tree(plan)
