"""The plan of steps: what each generation and scale comes to, and what the engine hands to the launcher."""

from __future__ import annotations

import pytest

from workloads.insert import maintenance
from workloads.insert.knobs import Knobs
from workloads.insert.sizes import SCALES, pause_seconds
from workloads.insert.spec import Role, StepSpec, place_of, role_kind, role_list
from workloads.insert.steps import GENERATIONS, Step, generation, plan_steps
from workloads.names import UnknownName

STEPS_2024 = ["l.i0", "l.x", "l.i1", "l.i2", "pause", "qr100", "qp100", "qr500", "qp500", "qr1000", "qp1000"]


def by_name(*args: object, **kw: object) -> dict[str, Step]:
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


@pytest.mark.parametrize(
    ("kind", "kw"),
    [
        ("generation", {"generation_name": "g23"}),
        ("scale", {"scale": "quik"}),
        ("scale", {"scale": 0}),
        ("step", {"selected": ["q100.1"]}),
    ],
)
def test_unknown_names_tell_their_kind_and_the_choices(kind: str, kw: dict[str, object]) -> None:
    with pytest.raises(UnknownName) as caught:
        plan_steps(**kw)  # type: ignore[arg-type]
    assert caught.value.kind == kind
    assert caught.value.choices
    assert caught.value.name


def test_unknown_knobs_are_refused() -> None:
    with pytest.raises(UnknownName):
        Knobs(limiter="none")


def test_a_spec_survives_json() -> None:
    for form in GENERATIONS:
        for step in plan_steps(form, "io", 2):
            spec = StepSpec(7, "host=/tmp", step, form, 2, 2**63, 3, Knobs(partitions=(4, 1000), limiter="catch-up"))
            assert StepSpec.of(spec.to_json()) == spec


def test_connections_per_client() -> None:
    counts = {step.name: [role.name for role in role_list(step, generation("g24b"), 1)] for step in plan_steps("g24b")}
    assert counts["l.i0"] == ["insert"]
    assert counts["l.x"] == ["insert", "index"]
    assert counts["l.i1"] == counts["l.i2"] == ["insert", "delete"]
    assert counts["qr100"] == counts["qp1000"] == ["insert", "delete", "query"]
    assert counts["pause"] == []
    old = {step.name: role_list(step, generation("g22"), 2) for step in plan_steps("g22")}
    assert old["q100.1"] == (Role(1, "insert"), Role(1, "query"), Role(2, "insert"), Role(2, "query"))
    assert old["l.i1"] == (Role(1, "insert"), Role(2, "insert"))


def test_query_roles_get_places_of_their_own_first() -> None:
    (step,) = plan_steps("g24b", selected=["qr100"])[-1:]
    roles = role_list(step, generation("g24b"), 2, Knobs(query_workers=2))
    places = {role: place_of(role, roles) for role in roles}
    assert sorted(places.values()) == list(range(8))
    assert sorted(places[role] for role in roles if role.name.startswith("query")) == [0, 1, 2, 3]


def test_a_rate_below_the_rows_of_a_statement_lowers_them() -> None:
    step = Step("slow", "query", 100, 50, 10)
    assert Knobs().rows_per_statement_of(step) == 10


def test_vacuum_of_the_pause() -> None:
    assert maintenance.pause_statements("g24b", 2) == (
        ("VACUUM (VERBOSE, ANALYZE, INDEX_CLEANUP ON) pi1", "VACUUM (VERBOSE, ANALYZE, INDEX_CLEANUP ON) pi2"),
        ("CHECKPOINT",),
    )
    assert maintenance.pause_statements("g24b", 1, 11) == (("VACUUM (VERBOSE, ANALYZE) pi1",), ("CHECKPOINT",))
    assert maintenance.pause_statements("g24a", 1) == (("VACUUM (VERBOSE, ANALYZE) pi1",), ("CHECKPOINT",))
    assert maintenance.pause_statements("g22", 1) == (("VACUUM (VERBOSE) pi1",),)


def test_every_scale_knows_every_generation() -> None:
    assert all(set(sizes) == set(GENERATIONS) for sizes in SCALES.values())


def test_departures_are_what_the_generation_does_not_do_by_itself() -> None:
    form = generation("g24b")
    assert Knobs().departures(form) == ()
    assert Knobs(delete_form="subselect", lookup_connection="kept", resync_rounds=1000).departures(form) == ()
    changed = Knobs(placement="paired", lookup_connection="new", query_workers=2)
    assert changed.departures(form) == ("lookup connection new", "query workers 2", "placement paired")
    assert Knobs(delete_form="subselect").departures(generation("g24a")) == ("delete form subselect",)


@pytest.mark.parametrize("name", GENERATIONS)
def test_no_knob_turned_is_no_departure(name: str) -> None:
    """Also where the generation has what no knob can ask for: g22 deletes nothing."""
    assert Knobs().departures(generation(name)) == ()
    assert Knobs().resolved(generation(name))["delete_form"] == generation(name).delete_form


@pytest.mark.parametrize(
    ("name", "kind"), [("query", "query"), ("query2", "query"), ("query12", "query"), ("index", "index")]
)
def test_further_workers_are_of_the_same_kind(name: str, kind: str) -> None:
    assert role_kind(name) == kind
