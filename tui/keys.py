"""Keys: every binding has an id, by which a file can change its keys.

The file `keys.toml` in the settings folder has one line per binding:

    "live.next_stall" = "n,right_square_bracket"
"""

import os
import pkgutil
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

from textual.binding import ActiveBinding, Binding
from textual.screen import Screen

from engine.core.errors import UserError
from tui import MODES
from workloads.files import read_plain


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
    key("e", "export_screen", "export the screen as text", "app.export", show=False),
    key("t", "next_theme", "theme", "app.theme", show=False),
    key("ctrl+c", "explain_leaving", "how to leave", "app.interrupt", show=False),
]


def settings_file() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pgbed" / "keys.toml"


def overrides(path: Path) -> dict[str, str]:
    """Read keys by binding id, empty if there is no file. Raises UserError if it is not a key file."""
    try:
        keymap = tomllib.loads(read_plain(path, follow=True).decode())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as keys: {error}") from None
    for name, keys in keymap.items():
        if not isinstance(keys, str) or not keys:
            raise UserError(f'{path}: {name}: give the keys as text, e.g. "live.next_stall" = "n"')
    return keymap


def known_ids() -> set[str]:
    """Ids of all bindings. Imports the whole interface."""
    import tui

    names = [module.name for module in pkgutil.walk_packages(tui.__path__, "tui.") if module.name != "tui.__main__"]
    modules = [import_module(name) for name in names]
    classes = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    bindings = [*EVERYWHERE, *(binding for owner in classes for binding in vars(owner).get("BINDINGS", ()))]
    return {binding.id for binding in bindings if isinstance(binding, Binding) and binding.id}


def check_ids(wanted: dict[str, str], known: set[str], path: Path) -> None:
    """Raise UserError for an id that no binding has."""
    unknown = sorted(set(wanted) - known)
    if unknown:
        raise UserError(f"{path}: no binding has the id {unknown[0]}; `?` on a screen shows the ids")
