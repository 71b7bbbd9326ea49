"""A plan in the making: the same entries as a request has, and the effect of each choice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.builds.label import refuse_password
from engine.cli.run import run, take
from engine.core.errors import UserError
from engine.plan import planfile
from engine.plan.command_line import arguments, command
from engine.plan.request import Request, request_of
from tui.glyphs import SETS
from tui.launch import choices as launch_choices
from tui.launch import plan_fields
from tui.launch import text as launch_text
from tui.launch.choices import Choices, Item
from tui.launch.plan_edits import keep, with_base, with_build, with_config, with_probe, with_step, with_workload
from tui.launch.text import PanelForm
from tui.marks import Line, width

ANSWERS = Path(__file__).parents[1] / "recordings" / "answers"
OFFER = Choices.of(json.loads((ANSWERS / "choices.json").read_text()))
CHECKS = tuple(json.loads((ANSWERS / "doctor.json").read_text()))
NONE = Request()
TWO = Request(builds=("14.10", "16.3"))
LABELS = st.sampled_from(OFFER.labels)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "scale": st.sampled_from(("cached", "io")),
        "rows_written": st.integers(1000, 10**6),
        "steps": st.sampled_from((["l.i0"], ["l.i1", "qr100"])),
        "placement": st.just("paired"),
        "resync_rounds": st.integers(2, 4),
    },
)
PLANS = st.builds(
    Request,
    builds=st.lists(LABELS, min_size=1, max_size=4, unique=True).map(tuple),
    options=OPTIONS,
    configs=st.sampled_from((("auto",), ("cx5", "cx7"))),
    set_each=st.sampled_from((None, "shared_buffers=1GB,4GB")),
    overrides=st.sampled_from(((), ("work_mem=8MB", "fsync=off"))),
    repeats=st.integers(1, 9),
    aa=st.booleans(),
    margin=st.sampled_from((0.02, 0.05)),
    probes=st.sampled_from(((), ("sched", "planner:window"))),
    keep=st.booleans(),
    allow_concurrent=st.booleans(),
)


def with_options(plan: Request, **options: Any) -> Request:
    return replace(plan, options={**plan.options, **options})


def text(line: Line) -> str:
    return "".join(part for part, _ in line)


def by_name(items: Iterable[Item]) -> dict[str, Item]:
    return {item.name: item for item in items}


@given(PLANS)
def test_a_kept_plan_is_read_by_bench_and_comes_back(tmp_path_factory: pytest.TempPathFactory, plan: Request) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    keep(plan, path)
    assert planfile.read(path) == plan
    assert request_of(json.loads(json.dumps(plan.entries()))) == plan


@given(PLANS)
def test_its_command_line_says_the_same(plan: Request) -> None:
    """The plan as the command `bench run` understands it."""
    context = run.make_context("run", list(arguments(plan)))
    assert take(dict(context.params)) == plan


def test_a_config_file_is_kept_by_its_place_beside_the_plan(tmp_path: Path) -> None:
    path, file = tmp_path / "plan.toml", tmp_path / "below" / "own.conf"
    keep(replace(TWO, configs=("cx7", str(file))), path)
    assert '"below/own.conf"' in path.read_text() and planfile.read(path).configs == ("cx7", str(file))
    with pytest.raises(UserError, match=r"other\.conf is not below .*: a plan reads configs from its own folder only"):
        keep(replace(TWO, configs=(str(tmp_path.parent / "other.conf"),)), path)


@given(st.lists(LABELS, min_size=1, max_size=12))
def test_builds_stay_in_the_lists_order_and_the_base_among_them(pressed: list[str]) -> None:
    plan = NONE
    for label in pressed:
        base = plan.base_build
        plan = with_build(plan, label, OFFER.labels)
        assert list(plan.builds) == sorted(plan.builds, key=OFFER.labels.index)
        assert (plan.base_build in plan.builds) if plan.builds else plan.base_build is None
        assert plan.base_build == base or base is None or base == label  # another one's coming moves no base
    assert set(plan.builds) == {label for label in pressed if pressed.count(label) % 2}


def test_the_base_survives_older_builds_and_falls_to_the_first() -> None:
    plan = with_build(TWO, "12.11", OFFER.labels)
    assert plan.builds == ("12.11", "14.10", "16.3") and plan.base_build == "14.10"
    assert with_build(plan, "14.10", OFFER.labels).base_build == "12.11"
    assert with_base(plan, "17.0", OFFER.labels).base_build == "17.0"
    added = with_build(TWO, "mine=/opt/pg", OFFER.labels)
    assert added.builds[-1] == "mine=/opt/pg"
    assert replace(added, base="mine").base_build == "mine=/opt/pg"


def test_steps_probes_and_configs_are_toggled() -> None:
    every = OFFER.steps(TWO)
    without = with_step(TWO, "qr100", every)
    assert "qr100" not in without.options["steps"] and with_step(without, "qr100", every) == TWO
    with pytest.raises(UserError, match="at least one step"):
        with_step(with_options(TWO, steps=["l.i0"]), "l.i0", every)
    assert with_config(TWO, "auto", ("auto", "cx5")).configs == ("auto",)  # the last one stays
    assert with_config(TWO, "cx5", ("auto", "cx5")).configs == ("auto", "cx5")
    modes = ("", "window")
    seen = [TWO]
    for _ in range(3):
        seen.append(with_probe(seen[-1], "planner", modes))
    assert [plan.probes for plan in seen] == [(), ("planner",), ("planner:window",), ()]


def test_configs_are_chosen_for_each_build() -> None:
    plan = TWO
    for name in ("cx5", "auto"):
        chosen = by_name(launch_choices.configs(plan, OFFER))[name]
        assert chosen.toggle is not None
        plan = chosen.toggle()
    chosen = by_name(launch_choices.configs(plan, OFFER))["cx7"]
    assert chosen.toggle is not None
    plan = chosen.toggle()
    assert (plan.builds, plan.configs, plan.subjects) == (("14.10", "16.3"), ("cx5", "cx7"), 4)
    assert command(plan) == "bench --pg 14.10,16.3 --config cx5,cx7"
    field = next(item for item in plan_fields.design(plan, OFFER) if item.name == "each value")
    assert field.question is not None
    more = field.question.take("work_mem=1MB,2MB,4MB")
    assert more.subjects == 12 and command(more).endswith("--config cx5,cx7 --set-each work_mem=1MB,2MB,4MB")
    assert field.question.take("").set_each is None
    small = "\n".join(map(text, launch_text.small(more, None, "", (), OFFER)))
    assert "configs  cx5, cx7, each with work_mem=1MB,2MB,4MB" in small


def test_kernels_can_be_chosen_and_the_only_one_not_left_out() -> None:
    (kernel,) = launch_choices.kernels(TWO, OFFER)
    assert (kernel.name, kernel.box, kernel.text) == ("host", "[x]", "6.12.58")
    two = changed(OFFER, kernels=(*OFFER.kernels, {"kernel": "6.1", "release": "6.1.170", "state": "nixpkgs"}))
    older = by_name(launch_choices.kernels(TWO, two))["6.1"]
    assert older.box == "[ ]" and older.toggle is not None and older.toggle().kernels == ("host", "6.1")
    (_, _, mine) = launch_choices.kernels(replace(TWO, kernels=("host", "mine=/boot/vmlinuz")), two)
    assert (mine.name, mine.box) == ("mine", "[x]")


def test_a_probe_that_is_always_there_cannot_be_left_out() -> None:
    procsched = by_name(launch_choices.probes(TWO, OFFER))["procsched"]
    assert procsched.toggle is None and procsched.box == "[x]"


def test_slices_are_chosen_in_place_of_what_is_left_open() -> None:
    interleave = by_name(plan_fields.design(TWO, OFFER))["interleave"]
    assert interleave.text == "auto" and interleave.toggle is not None
    assert interleave.toggle().interleave == "slices"
    margin = by_name(plan_fields.design(TWO, OFFER))["margin"].question
    assert margin is not None and margin.take("5%").margin == 0.05


def test_repeats_or_minutes_replace_until_known_and_back() -> None:
    """Both together are refused."""
    design = by_name(plan_fields.design(replace(TWO, until_known=True), OFFER))
    repeats, minutes = design["repeats"], design["minutes"].question
    assert repeats.text == "8" and repeats.lesser is not None and repeats.question is not None
    for plan in (repeats.lesser(), repeats.question.take("7")):
        assert (plan.repeats, plan.until_known) == (7, False)
    assert minutes is not None
    timed = minutes.take("2.5")
    assert (timed.minutes, timed.until_known) == (2.5, False)
    known = by_name(plan_fields.design(timed, OFFER))["until known"].toggle
    assert known is not None and (known().minutes, known().until_known) == (None, True)


def test_repeats_that_are_left_open_are_those_of_the_estimate() -> None:
    cells = {"cell_count": 8, "interleave": "cells"}  # of auto, where slices are not possible
    repeats = by_name(plan_fields.design(TWO, OFFER, cells))["repeats"]
    assert repeats.text == "4" and repeats.greater is not None and repeats.greater().repeats == 6
    assert by_name(plan_fields.design(replace(TWO, repeats=3), OFFER, cells))["repeats"].text == "3"


def test_rows_of_ones_own_take_the_scales_place_and_back() -> None:
    rows = by_name(plan_fields.load(with_options(TWO, scale="io"), OFFER))["rows"]
    assert rows.text == "800,000,000" and rows.question is not None
    edited = rows.question.take("5000")
    assert edited.options == {"rows": 5000}
    fields = by_name(plan_fields.load(edited, OFFER))
    assert fields["scale"].text == "-" and fields["rows written"].text == "(the scale's)"
    again = fields["rows"].question
    assert again is not None and again.take("").options == {}
    with pytest.raises(UserError, match="rows: 'many' is not a number, such as 400k or 20M"):
        again.take("many")


def test_a_preset_brings_its_own_steps_and_sizes() -> None:
    kind = plan_fields.load(with_options(TWO, scale="io", steps=["l.i1"], clients=4), OFFER)[0]
    assert kind.greater is not None
    assert kind.greater().options["preset"] not in ("quick-look", "believable"), "which are ready plans"
    plan = with_workload(kind.greater(), "insert", "planner-delete")
    assert plan.options == {"clients": 4, "preset": "planner-delete"}
    assert [item.name for item in launch_choices.steps(plan, OFFER)] == ["l.i0", "l.x", "grow", "vacuum", "after"]
    assert all(item.toggle is None for item in launch_choices.steps(plan, OFFER))
    back = plan_fields.load(kind.greater(), OFFER)[0].lesser
    assert back is not None and back().options == {"clients": 4}
    sized = by_name(plan_fields.load(with_workload(plan, "insert", "insert-2022"), OFFER))["scale"]
    assert sized.text == "quick" and sized.greater is not None
    assert sized.greater().options == {"clients": 4, "preset": "insert-2022", "scale": "cached"}
    other = with_workload(plan, "pgbench-select", "select-scaling")
    assert other.options == {"preset": "select-scaling"}, "which has numbers of clients of its own"


def test_a_generation_keeps_the_steps_that_it_has() -> None:
    field = by_name(plan_fields.load(with_options(TWO, steps=["l.i1", "qr100"]), OFFER))["generation"]
    assert field.lesser is not None
    older = field.lesser()
    assert older.options == {"generation": "g24a", "steps": ["l.i1", "qr100"]}
    oldest = by_name(plan_fields.load(older, OFFER))["generation"].lesser
    assert oldest is not None and oldest().options == {"generation": "g22", "steps": ["l.i1"]}


def test_steps_that_others_stand_on_are_marked() -> None:
    items = by_name(launch_choices.steps(with_options(TWO, steps=["l.i1"]), OFFER, ("l.i0", "l.x", "l.i1")))
    assert (items["l.i0"].box, items["l.i1"].box, items["qr100"].box) == ("[+]", "[x]", "[ ]")


def test_a_probe_that_cannot_be_had_says_why() -> None:
    rows = tuple({**row, "state": "bpftrace is missing"} for row in OFFER.probes if row["probe"] == "sched")
    (probe,) = launch_choices.probes(TWO, changed(OFFER, probes=rows))
    assert probe.text == "?" and "Not here: bpftrace is missing" in probe.detail


def test_checks_are_shown_with_the_worst_first_and_the_plans_own() -> None:
    plan_checks = launch_choices.own_checks(TWO, 2 << 30, 1 << 30, "20261120-1")
    items = launch_choices.checks((*plan_checks, *CHECKS))
    assert [item.name for item in items[:2]] == ["free space", "another run"]
    assert [item.box for item in items] == sorted((item.box for item in items), key=("x", "?", "ok").index)
    assert "1 GB free, 2 GB needed" in items[0].text and "do: free some" in items[0].detail
    alongside = replace(TWO, allow_concurrent=True)
    assert launch_choices.own_checks(alongside, 0, 0, "20261120-1")[0]["status"] == "warn"


def test_unfinished_runs_are_those_that_can_be_gone_on_with() -> None:
    states = ("running", "finished", "unfinished", "2 failed", "not started", "/x: damaged: it failed")
    runs = tuple({"run": state, "state": state, "cells": "" if "damaged" in state else "1/2"} for state in states)
    assert [row["run"] for row in launch_choices.unfinished(changed(OFFER, runs=runs))] == [
        "unfinished", "2 failed", "not started",
    ]  # fmt: skip


def estimate(**values: Any) -> dict[str, Any]:
    known: dict[str, Any] = {"cell_count": 6, "total_s": 583, "needed_bytes": 988_859_083, "free_bytes": 79_000_000_000}
    return {**known, "noise": None, **values}


def said(plan: Request, estimate: dict[str, Any] | None, trouble: str = "", doing: str = "") -> list[str]:
    return [text(line) for line in launch_text.head(plan, "", estimate, trouble, doing)]


def test_the_head_says_what_the_plan_comes_to() -> None:
    noise = {"run": "20261119-aa", "steps": {"l.i0": 0.012, "l.x": 0.06}}
    first, second = said(TWO, estimate(noise=noise))
    assert all(part in first for part in ("base 14.10", "6 cells", "about 9m43s", "943 MB"))
    assert second == " smallest visible effect ~1.2% (l.i0) to 6.0% (l.x), by A/A 20261119-aa"
    assert "unknown: no A/A run on this machine" in said(TWO, estimate())[1]
    assert "2 repeats bear no verdict" in said(replace(TWO, repeats=2), estimate())[1]
    assert "nothing to compare it with" in said(Request(builds=("16.3",)), estimate())[1]
    assert "a plan that is ready" in said(NONE, None)[1]
    assert said(TWO, None, "unknown config 'cx8'")[1] == " ? unknown config 'cx8'"
    assert said(TWO, None, "", "16.3: building")[1] == " 16.3: building"


@given(
    st.integers(0, 40), st.integers(0, 39), st.integers(12, 120), st.integers(2, 12), st.integers(1, 4),
    st.integers(0, 39), st.sampled_from(sorted(SETS)), st.booleans(),
)  # fmt: skip
def test_a_panel_keeps_to_its_room_and_shows_its_cursor(
    count: int, cursor: int, cells: int, rows: int, columns: int, top: int, glyphs: str, focused: bool
) -> None:
    assume(cells >= 6 * columns)
    items = tuple(Item(f"item{number}", "[x]", "text " * (number % 5), "aside") for number in range(count))
    cursor = min(cursor, max(0, count - 1))
    look = PanelForm("things", "b base", columns=columns, wide_columns=columns)
    grid = launch_text.grid(look, count, cursor, cells, rows, top)
    lines = launch_text.panel(look, items, cursor, grid, cells, SETS[glyphs], focused=focused, note="some")
    assert len(lines) <= rows and all(width(line) <= cells for line in lines)
    pointed = [line for line in lines[1:] if any(">" in part for part, _ in line)]
    assert len(pointed) == (1 if focused and count else 0)


def test_a_long_list_says_which_part_of_it_is_shown() -> None:
    items = list(launch_choices.builds(NONE, OFFER))
    look = PanelForm("builds")
    grid = launch_text.grid(look, len(items), 20, 30, 7)
    lines = launch_text.panel(look, items, 20, grid, 30, SETS["ascii"], focused=True)
    assert text(lines[0]).startswith(f">builds 18-23/{len(items)} ---")
    named = items[20].shown or items[20].name
    assert [line for line in lines if text(line).startswith(f">[ ] {named}  {items[20].text}")]


def test_only_builds_that_are_looked_for_or_chosen_are_listed() -> None:
    names = [item.name for item in launch_choices.builds(TWO, OFFER, "17.0")]
    assert names == ["17.0", "17.0-builtin", "17.0-prebuilt", "17.0-prebuilt-builtin", "16.3", "14.10"]


def test_a_running_server_is_shown_by_name_with_its_facts() -> None:
    plan = request_of({"builds": ["prod=postgresql://bench@db1/postgres"]})
    (item,) = (item for item in launch_choices.builds(plan, OFFER) if item.box == "[b]")
    assert (item.name, item.aside) == ("prod", "external server") and "db1" not in item.detail
    items = {item.name: item for item in plan_fields.design(plan, OFFER)}
    accept, scratch = items["accept load"].toggle, items["scratch db"].question
    assert accept is not None and accept().servers.accept_foreign_load
    assert scratch is not None and scratch.take("room").servers.scratch_database == "room"
    assert scratch.take("").servers.scratch_database is None
    assert "scratch db" not in {item.name for item in plan_fields.design(TWO, OFFER)}
    assert not launch_choices.own_checks(plan, 1 << 30, None, "")  # nobody knows how much room there is


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("postgresql://bench@db1/postgres", True),
        ("postgresql://bench@[::1]:5432/postgres?sslmode=require", True),
        ("host=db1 user=bench passfile=/etc/pass", True),
        ("postgresql://bench:x@db1/postgres", False),
        ("postgresql://bench:a/b?c@db1/postgres", False),
        ("postgresql://db1/postgres?user=bench&password=x", False),
        ("host=db1 password = 'x'", False),
        ("host=db1 sslpassword=x", False),
    ],
)
def test_a_password_is_found_in_a_connection_string(text: str, is_open: bool) -> None:
    if is_open:
        refuse_password(f"prod={text}")
    else:
        with pytest.raises(UserError, match="prod: leave the password out") as refused:
            refuse_password(f"prod={text}")
        assert "x" not in str(refused.value)
        with pytest.raises(UserError, match=r"needs a name before it: NAME=postgresql://…") as refused:
            refuse_password(text)
        assert "bench" not in str(refused.value)
