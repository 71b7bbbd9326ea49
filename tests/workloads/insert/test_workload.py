"""The plan of steps: generations, scales, and the engine's input to the launcher."""

from __future__ import annotations

import pytest

from workloads.api.base import Maintenance, role_kind
from workloads.api.options import checked, given
from workloads.insert import maintenance
from workloads.insert.options import Options
from workloads.insert.sizes import pause_seconds
from workloads.insert.spec import places, role_list
from workloads.insert.steps import GENERATIONS, InsertStep, generation, plan_steps
from workloads.insert.workload import WORKLOAD

STEPS_2024 = ["l.i0", "l.x", "l.i1", "l.i2", "pause", "qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000"]


def by_name(*args: object, **kw: object) -> dict[str, InsertStep]:
    return {step.name: step for step in plan_steps(*args, **kw)}  # type: ignore[arg-type]


def test_steps_come_in_the_published_order() -> None:
    assert list(by_name("g24b")) == list(by_name("g24a")) == STEPS_2024
    assert list(by_name("g22")) == ["l.i0", "l.x", "l.i1", "pause", "q100.1", "q500.1", "q1000.1"]


def test_sizes_of_the_seeds() -> None:
    steps = by_name("g24b", "cached", 4)
    assert [(s.rows_per_client, s.rows_per_statement) for s in steps.values()] == [
        (50_000_000, 100), (100, 100), (40_000_000, 50), (10_000_000, 5), (0, 0),
        (180_000, 50), (180_000, 50), (900_000, 50), (900_000, 50), (1_800_000, 50), (1_800_000, 50),
    ]  # fmt: skip
    assert steps["pause"].seconds == 260  # 200M rows in all
    assert steps["l.x"].rows_indexed == 50_000_100
    old = by_name("g22", "io", 4)
    assert (old["l.i0"].rows_per_client, old["l.i1"].rows_per_client) == (500_000_000, 10_000_000)
    assert old["l.x"].rows_per_client * 4 == 100_000
    assert old["q500.1"].rows_per_client == 7200 * 500
    assert not any(step.deletes for step in old.values())
    assert [s.name for s in old.values() if s.background_vacuum] == ["q500.1", "q1000.1"]


@pytest.mark.parametrize(
    ("rows", "seconds"), [(50_000_000, 110), (200_000_000, 260), (500_000_000, 560), (10**10, 1200)]
)
def test_pause_grows_with_the_rows_loaded(rows: int, seconds: float) -> None:
    assert pause_seconds(rows) == seconds


@pytest.mark.parametrize("rows", [1, 999, 400_000, 20_000_000, 10**9])
def test_any_number_of_rows_makes_a_plan(rows: int) -> None:
    steps = by_name("g24b", rows)
    assert rows <= steps["l.i0"].rows < rows + 100
    assert all(step.rounds > 0 for step in steps.values() if step.kind != "pause")
    assert steps["l.i1"].rows_per_client + steps["l.i2"].rows_per_client <= max(1000, rows)


def test_rows_written_and_seconds_can_be_given() -> None:
    steps = by_name("g24b", 1000, rows_written=500, query_seconds=3)
    assert (steps["l.i1"].rows, steps["l.i2"].rows, steps["qr100"].rows) == (400, 100, 300)


def test_chosen_steps_bring_what_they_stand_on() -> None:
    assert list(by_name(selected=["qr100"])) == ["l.i0", "l.x", "qr100"]
    assert list(by_name(selected=["l.i0"])) == ["l.i0"]
    assert list(by_name(selected=["qp1000", "l.i1"])) == ["l.i0", "l.x", "l.i1", "qp1000"]


def test_options_may_be_given_as_text() -> None:
    texts = {"indexes": "2", "steps": "l.i0,l.x"}
    options = checked(Options, texts, texts=True)
    assert options == Options(indexes=2, steps=("l.i0", "l.x"))
    assert checked(Options, given(options)) == options


@pytest.mark.parametrize(
    ("entries", "builds"),
    [
        ({}, 3), ({"clients": "2"}, 2), ({"rows": "1000"}, 4), ({"scale": "cached"}, 1), ({"rows": 900_000}, 2),
        ({"index_builds": 3}, 3), ({"index_builds": None}, 3), ({"preset": "planner-delete"}, 1), ({"scale": "big"}, 1),
    ],
)  # fmt: skip
def test_small_tables_are_indexed_several_times_in_slices(entries: dict[str, object], builds: int) -> None:
    assert WORKLOAD.sliced_options(entries)["index_builds"] == builds


def test_writes_are_expected_to_cost_per_row_and_statement() -> None:
    """Measured for the usual comparison in slices: 2.5 s for 1,600 rounds of 50 rows, 1.5 s for 4,000 of 5 rows."""
    steps = {step.name: step.expected_s for step in WORKLOAD.steps(WORKLOAD.plan(Options(scale="quick")).record)}
    assert steps["l.i1"] == pytest.approx(2.5, rel=0.05) and steps["l.i2"] == pytest.approx(1.5, rel=0.05)


def test_each_further_build_takes_time_and_space() -> None:
    def planned(builds: int) -> tuple[float, int, int]:
        record = WORKLOAD.plan(Options(steps=("l.x",), index_builds=builds)).record
        *_, step = WORKLOAD.steps(record)
        return step.expected_s, step.rows_indexed, WORKLOAD.expected_bytes(record, 10**12)

    (one_s, one_rows, one_bytes), (four_s, four_rows, four_bytes) = planned(1), planned(4)
    assert (four_s, four_rows) == (4 * one_s, 4 * one_rows) and one_bytes < four_bytes < 2 * one_bytes


def test_point_and_range_queries_are_groups_of_their_own() -> None:
    steps = WORKLOAD.steps(WORKLOAD.plan(Options(scale="quick")).record)
    assert [step.group for step in steps] == ["load", "index", "write", "write", "pause", *["range", "point"] * 3]


def test_query_roles_get_places_of_their_own_first() -> None:
    (step,) = plan_steps("g24b", selected=["qr100"])[-1:]
    roles = role_list(step, Options(clients=2))
    of_role = places(roles)
    assert sorted(of_role.values()) == list(range(6))
    assert sorted(of_role[role] for role in roles if role.name == "query") == [0, 1]


def test_a_rate_below_the_rows_of_a_statement_lowers_them() -> None:
    step = InsertStep("slow", "query", 100, 50, 10)
    assert Options().rows_per_statement_of(step) == 10


def sql(form: str, clients: int, step: InsertStep, major: int = 12) -> Maintenance:
    return maintenance.maintenance(Options(generation=form, clients=clients), step, major)  # type: ignore[arg-type]


def test_vacuum_of_the_pause() -> None:
    pause = InsertStep("pause", "pause", seconds=7)
    vacuums = sql("g24b", 2, pause)
    assert vacuums.least_s == 7 and not vacuums.background
    assert vacuums.groups == (
        ("VACUUM (VERBOSE, ANALYZE, INDEX_CLEANUP ON) pi1", "VACUUM (VERBOSE, ANALYZE, INDEX_CLEANUP ON) pi2"),
        ("CHECKPOINT",),
    )
    assert sql("g24b", 1, pause, 11).groups == (("VACUUM (VERBOSE, ANALYZE) pi1",), ("CHECKPOINT",))
    assert sql("g24a", 1, pause).groups == (("VACUUM (VERBOSE, ANALYZE) pi1",), ("CHECKPOINT",))
    assert sql("g22", 1, pause).groups == (("VACUUM (VERBOSE) pi1",),)


def test_writes_begin_on_vacuumed_tables_where_that_is_chosen() -> None:
    for step in plan_steps("g22", "quick"):
        chosen = maintenance.maintenance(Options(generation="g22", before_writes="vacuum"), step, 16)
        assert chosen.before == (
            (("VACUUM (VERBOSE, ANALYZE, INDEX_CLEANUP ON) pi1",),) if step.kind == "write" else ()
        )
        assert not maintenance.maintenance(Options(generation="g22"), step, 16).before
    assert WORKLOAD.sliced_options({})["before_writes"] == "vacuum"
    assert WORKLOAD.sliced_options({"before_writes": "nothing"})["before_writes"] == "nothing"


def test_vacuums_beside_the_query_steps_of_g22() -> None:
    steps = by_name("g22")
    assert sql("g22", 1, steps["q100.1"]) == Maintenance()
    assert sql("g22", 1, steps["q500.1"]) == Maintenance(background=(("VACUUM (VERBOSE) pi1",),) * 2, gap_s=5.0)


def test_connections_are_counted_with_lookups_and_vacuums() -> None:
    """g24b's query steps: insert, its lookup, delete, query, and for point queries another lookup."""
    count = {step.name: step.connections for step in WORKLOAD.steps(WORKLOAD.plan(Options(clients=25)).record)}
    assert (count["l.i0"], count["l.i1"], count["pause"], count["qr100"], count["qp100"]) == (50, 75, 25, 100, 125)
    old = WORKLOAD.steps(WORKLOAD.plan(Options(generation="g22", clients=10)).record)
    assert [step.connections for step in old if step.name == "q500.1"] == [40]


def test_non_default_options_differ_from_the_generations() -> None:
    assert Options().non_default() == ()
    assert Options(delete_form="subselect", lookup_connection="kept", resync_rounds=1000).non_default() == ()
    changed = Options(placement="paired", lookup_connection="new", indexes=2)
    assert set(changed.non_default()) == {"lookup connection new", "indexes 2", "placement paired"}
    assert Options(generation="g24a", delete_form="subselect").non_default() == ("delete form subselect",)


@pytest.mark.parametrize("name", GENERATIONS)
def test_no_option_given_is_none_that_is_not_as_usual(name: str) -> None:
    """Steps of a generation that no option can ask for: g22 deletes nothing."""
    usual = checked(Options, {"generation": name})
    assert usual.non_default() == ()
    assert usual.effective()["delete_form"] == generation(name).delete_form


@pytest.mark.parametrize(
    ("name", "kind"), [("query", "query"), ("query2", "query"), ("query12", "query"), ("index", "index")]
)
def test_further_workers_are_of_the_same_kind(name: str, kind: str) -> None:
    assert role_kind(name) == kind
