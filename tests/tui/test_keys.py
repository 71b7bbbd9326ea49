"""Bindings have ids, and a file gives them other keys."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from textual.binding import Binding
from textual.pilot import Pilot

from engine.core.errors import UserError
from tests.support.screens import drive
from tui import keys
from tui.app import Bench

pytestmark = pytest.mark.slow  # opens the interface

ROOT = Path(__file__).parents[2]


def bindings() -> list[tuple[type, Binding]]:
    """Every binding of ours with its class."""
    import pkgutil
    from importlib import import_module

    import tui

    modules = [import_module(found.name) for found in pkgutil.walk_packages(tui.__path__, "tui.")]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__.startswith("tui.")
    }
    return [(each, binding) for each in {Bench, *classes} for binding in vars(each).get("BINDINGS", ())]


def test_every_binding_has_an_id_and_no_id_stands_for_two_things() -> None:
    found = bindings()
    assert len(found) > 30
    assert not [binding for _, binding in found if not binding.id]
    for each in {each for each, _ in found}:
        ids = Counter(binding.id for owner, binding in found if owner is each)
        assert not [id for id, times in ids.items() if times > 1], each
    for id in {binding.id for _, binding in found}:
        assert len({binding.action for _, binding in found if binding.id == id}) == 1, id
    assert {binding.id for _, binding in found} == keys.known_ids()


def test_every_binding_has_words_and_an_action_that_is_there() -> None:
    for each, binding in bindings():
        assert binding.description, binding
        name = binding.action.partition("(")[0]
        owner = Bench if name.startswith("app.") else each
        assert callable(getattr(owner, f"action_{name.removeprefix('app.')}", None)), (each, binding)


def test_no_key_means_two_things_on_one_screen() -> None:
    for each in {each for each, _ in bindings()}:
        if "check_action" in vars(each):
            continue  # says itself which of two holds
        pressed = Counter(key for owner, binding in bindings() if owner is each for key in binding.key.split(","))
        assert not [key for key, times in pressed.items() if times > 1], each


def test_without_a_file_there_are_no_other_keys(tmp_path: Path) -> None:
    assert keys.overrides(tmp_path / "none.toml") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("live.zoom", "cannot be read as keys"),
        ('"live.zoom" = 3', "live.zoom: give the keys as text"),
        ('"live.zoom" = ""', "live.zoom: give the keys as text"),
        ('[live]\nzoom = "x"', "live: give the keys as text"),
        ("\x00\xff", "cannot be read as keys"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError) as error:
        keys.overrides(path)
    assert said in str(error.value) and str(path) in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_id_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no binding has the id live\.zoon"):
        keys.check_ids({"live.zoon": "x", "live.zoom": "z"}, keys.known_ids(), tmp_path)
    keys.check_ids({"live.zoom": "x", "app.leave": "Q"}, keys.known_ids(), tmp_path)


@pytest.mark.parametrize("text", ['"live.zoom" = 3', '"live.zoon" = "x"', "="])
def test_the_interface_does_not_start_with_a_wrong_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pgbed" / "keys.toml"
    path.parent.mkdir()
    path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "tui", "--out", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"XDG_CONFIG_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"bench: {path}: ") and done.stderr.count("\n") == 1


def test_the_file_is_looked_for_where_settings_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/settings")
    assert keys.settings_file() == Path("/settings/pgbed/keys.toml")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/her")
    assert keys.settings_file() == Path("/home/her/.config/pgbed/keys.toml")


def test_other_keys_hold_are_shown_and_the_old_ones_are_free(recording: Path) -> None:
    keys.settings_file().parent.mkdir(parents=True)
    keys.settings_file().write_text('"live.zoom" = "x,f5"\n"live.next_stall" = "down"\n"app.leave" = "Q"\n')

    async def script(pilot: Pilot[Any]) -> None:
        def text() -> str:
            shown: str = pilot.app.screen_text()  # type: ignore[attr-defined]
            return shown

        last = text().splitlines()[-1]
        assert "x zoom" in last and "z zoom" not in last and "Q quit" in last and "n/N" not in last
        await pilot.press("z", "q")
        assert "no longer than" not in text() and not pilot.app._exit
        for key in ("x", "f5"):
            await pilot.press("down", key)
            assert "the whole step is no longer than 60 s" in text(), key
        await pilot.press("down")
        assert "no stall in this step" in text()
        await pilot.press("question_mark")
        await pilot.pause()
        for _ in range(4):
            if "live.zoom" not in text():
                await pilot.press("pagedown")
        assert "live.zoom" in text() and "x f5" in text()
        await pilot.press("escape", "Q")
        assert pilot.app._exit

    drive(script, recording, recording.parent)
