"""Keys: bindings with ids, the bindings of all screens, and how keys are shown."""

from typing import Any

from textual.binding import ActiveBinding, Binding
from textual.screen import Screen

from tui import MODES


def key(keys: str, action: str, word: str, id: str, *, show: bool = True, shown: str | None = None) -> Binding:
    """A binding of a screen; `id` is `screen.action`."""
    return Binding(keys, action, word, id=id, show=show, key_display=shown)


_SHOWN = {
    "question_mark": "?", "left_square_bracket": "[", "right_square_bracket": "]", "left_curly_bracket": "{",
    "right_curly_bracket": "}", "plus": "+", "comma": ",", "full_stop": ".", "slash": "/", "escape": "esc",
}  # fmt: skip


def shown(key: str) -> str:
    """Display name of a key: `esc`, `[`."""
    return _SHOWN.get(key, key)


def holding(screen: Screen[Any]) -> dict[str, tuple[ActiveBinding, list[str]]]:
    """The active bindings of a screen, by id, with the names of their keys."""
    bindings: dict[str, tuple[ActiveBinding, list[str]]] = {}
    for active in screen.active_bindings.values():
        if id := active.binding.id:
            bindings.setdefault(id, (active, []))[1].append(shown(active.binding.key))
    return bindings


# Keys of all screens, listed in the help but not in a screen's own row of keys.
EVERYWHERE = [
    *(key(str(number), f"open('{mode}')", mode, f"app.{mode}", show=False) for number, mode in enumerate(MODES, 1)),
    key("question_mark", "help", "help", "app.help", shown="?"),
    key("q", "leave", "quit", "app.leave"),
    key("S", "stop_run", "stop the run", "app.stop", show=False),
    key("y", "copy_screen", "copy the screen", "app.copy", show=False),
    key("t", "pick_theme", "theme", "app.theme", show=False),
    key("ctrl+c", "explain_leaving", "how to leave", "app.interrupt", show=False),
]
