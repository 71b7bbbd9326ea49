"""Launch for people: plans that are ready, the newest builds first, one step alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from engine.core.errors import UserError
from engine.plan import planfile
from engine.plan.request import Request, request_of
from tests.support.screens import estimated, place_of, show_launch, typed, until
from tui.glyphs import SETS
from tui.launch import choices as launch_choices
from tui.launch import ready_plans
from tui.launch import text as launch_text
from tui.launch.choices import Choices
from tui.launch.item_panel import Panel
from tui.launch.screen import LaunchScreen
from tui.launch.text import PanelForm
from tui.screens.dialogs import LineScreen

pytestmark = pytest.mark.slow  # opens the interface

OFFER = Choices.of(json.loads((Path(__file__).parents[1] / "recordings" / "answers" / "choices.json").read_text()))


def test_builds_come_newest_first_with_their_origin() -> None:
    items = list(launch_choices.builds(Request(), OFFER))
    assert [item.name for item in items[:4]] == ["18.6", "18.6-builtin", "18.6-prebuilt", "18.6-prebuilt-builtin"]
    assert [(item.shown or item.name, item.text) for item in items[1:4]] == [
        ("18.6-builtin", "source"), ("18.6", "prebuilt"), ("18.6-builtin", "prebuilt"),
    ]  # fmt: skip
    assert list(dict.fromkeys(item.group for item in items)) == ["18", "17", "16", "15", "14", "13", "12"]
    assert len(items) == len(OFFER.builds)
    (mine, *_) = launch_choices.builds(Request(builds=("mine=/opt/pg",)), OFFER)
    assert (mine.name, mine.text, mine.group) == ("mine", "own", "own")


def test_each_column_of_builds_has_headings_of_releases() -> None:
    items = tuple(
        launch_choices.Item(f"{major}.{minor}", "[ ]", group=major) for major, minor in ("98", "97", "81", "80")
    )
    form = PanelForm("builds", columns=2, groups=True)
    rows = launch_text.panel(form, items, 0, (2, range(2)), 60, SETS["ascii"], focused=False)[1:]
    texts = ["".join(text for text, _ in row).split() for row in rows]
    assert texts == [["9", "[", "]", "9.8", "9", "[", "]", "9.7"], ["8", "[", "]", "8.1", "8", "[", "]", "8.0"]]
    lower = launch_text.panel(form, items[:1] * 4, 2, (2, range(1, 2)), 60, SETS["ascii"], focused=False)
    assert "9   [ ] 9.8" in "".join(text for text, _ in lower[1]), "also in the first row that is visible"


def test_the_newest_releases_are_built_from_source_if_possible(tmp_path: Path) -> None:
    assert ready_plans.newest(OFFER, 2) == ("17.11", "18.6")
    gone = {"path": str(tmp_path / "none.tar"), "name": "none.tar", "hash": ""}
    rows = tuple({**row, "tarball": gone} if row["label"] == "18.6" else row for row in OFFER.builds)
    assert ready_plans.newest(Choices(builds=rows), 2) == ("17.11", "18.6-prebuilt")


def test_a_major_without_a_release_is_offered_by_its_candidate() -> None:
    row = {"label": "19rc1", "version": "19rc1", "provenance": "source"}
    early = {"label": "20beta1", "version": "20beta1", "provenance": "source"}
    assert ready_plans.newest(Choices(builds=(*OFFER.builds, row, early)), 2) == ("18.6", "19rc1")
    released = row | {"label": "19.0", "version": "19.0"}
    assert ready_plans.newest(Choices(builds=(*OFFER.builds, row, released)), 2) == ("18.6", "19.0")


def test_each_ready_plan_is_one_that_can_be_run() -> None:
    for ready in ready_plans.plans(OFFER):
        plan = ready.plan_from(Request(builds=("16.3", "17.0"), configs=("cx5",), allow_concurrent=True))
        assert planfile.request(plan.entries()) == plan == request_of(plan.entries())
        assert (plan.builds, plan.configs, plan.allow_concurrent) == (("16.3", "17.0"), ("cx5",), True)
        chosen = [item.name for item in ready_plans.items(plan, OFFER) if item.box == "[x]"]
        assert chosen == [ready.title]


def test_a_patch_is_compared_with_the_newest_release() -> None:
    question = list(ready_plans.items(Request(), OFFER))[2].question
    assert question is not None
    assert question.take("mine=/opt/pg").builds == ("18.6", "mine=/opt/pg")
    for wrong in ("/opt/pg", "mine=", ""):
        with pytest.raises(UserError, match="give NAME=/path"):
            question.take(wrong)
    with pytest.raises(UserError, match="leave the password out") as error:
        question.take("mine=postgresql://me:secret@there/db")
    assert "secret" not in str(error.value)
    kept = list(ready_plans.items(Request(builds=("16.3",)), OFFER))[2].question
    assert kept is not None and kept.take("mine=/opt/pg").builds == ("16.3", "mine=/opt/pg")


def test_a_ready_plan_is_chosen_by_key_and_by_mouse(tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        ready = screen.query_one("#ready", Panel)
        await pilot.click(offset=place_of(pilot, "quick look"))
        await estimated(pilot, screen)
        assert screen.plan.minutes == 10 and len(screen.plan.builds) == 2 and screen.focused is ready
        assert "[x] quick look: 10 minutes" in pilot.app.screen_text()  # type: ignore[attr-defined]
        await pilot.press("right", "space")
        assert screen.plan.minutes == 120
        await pilot.press("right", "space")
        await typed(pilot, "nothing")
        assert isinstance(pilot.app.screen, LineScreen)
        await pilot.press("escape")
        steps = screen.query_one("#steps", Panel)
        steps.focus()
        steps.move_to(2)
        await pilot.press("x")
        assert list(screen.plan.options["steps"]) == [steps.items()[2].name]
        await pilot.press("x")
        assert "steps" not in screen.plan.options
        await until(pilot, lambda: bool(screen.estimate))

    show_launch(act, tmp_path)


def test_times_and_amounts_are_typed_as_people_write_them(tmp_path: Path) -> None:
    async def act(pilot: Pilot[Any], screen: LaunchScreen) -> None:
        async def give(panel: str, name: str, text: str) -> None:
            part = screen.query_one(f"#{panel}", Panel)
            part.focus()
            part.move_to([item.name for item in part.items()].index(name))
            await pilot.press("space")
            await typed(pilot, text)

        await give("load", "rows", "5")
        assert "5 is too small: give at least 1,000" in " ".join(pilot.app.screen_text().split())  # type: ignore[attr-defined]
        await typed(pilot, "400k")
        await give("load", "query seconds", "1h")
        await give("design", "minutes", "2h")
        await give("design", "margin", "3")
        await give("design", "margin", "1.5%")
        plan = screen.plan
        assert (plan.options["rows"], plan.options["query_seconds"], plan.minutes) == (400_000, 3600, 120)
        assert plan.margin == pytest.approx(0.015)

    show_launch(act, tmp_path)


def test_no_plan_is_changed_by_choosing_one_twice() -> None:
    """A ready plan differs from a new one in its own settings only."""
    quick = ready_plans.plans(OFFER)[0].plan_from(Request(repeats=9, options={"rows": 5000}))
    assert quick == replace(Request(), minutes=10.0)
