"""Bindings have ids, words and actions, and no key means two things."""

from __future__ import annotations

from collections import Counter

import pytest
from textual.binding import Binding

from tui.app import Bench

pytestmark = pytest.mark.slow  # opens the interface


def bindings() -> list[tuple[type, Binding]]:
    """Every binding of ours with its class."""
    import pkgutil
    from importlib import import_module

    import tui

    modules = [import_module(module.name) for module in pkgutil.walk_packages(tui.__path__, "tui.")]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__.startswith("tui.")
    }
    return [(owner, binding) for owner in {Bench, *classes} for binding in vars(owner).get("BINDINGS", ())]


def test_every_binding_has_an_id_and_no_id_stands_for_two_things() -> None:
    pairs = bindings()
    assert len(pairs) > 30
    assert not [binding for _, binding in pairs if not binding.id]
    for screen in {screen for screen, _ in pairs}:
        ids = Counter(binding.id for owner, binding in pairs if owner is screen)
        assert not [id for id, times in ids.items() if times > 1], screen
    for id in {binding.id for _, binding in pairs}:
        assert len({binding.action for _, binding in pairs if binding.id == id}) == 1, id


def test_no_key_means_two_things_on_one_screen() -> None:
    for screen in {screen for screen, _ in bindings()}:
        if "check_action" in vars(screen):
            continue  # says itself which of two holds
        pressed = Counter(key for owner, binding in bindings() if owner is screen for key in binding.key.split(","))
        assert not [key for key, times in pressed.items() if times > 1], screen
