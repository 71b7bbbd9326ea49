"""`python -m tui [RUN]`: started by `bench`, which has checked what it hands over."""

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from tui.glyphs import NAMES
from tui.starting import MODES, gently


def _load() -> None:
    """Imports what the first paint needs."""
    gc.disable()  # nothing that is imported is garbage: looking for it takes a seventh of the time to the first paint
    _import_without("ssl", "asyncio")  # it encrypts nothing, and does without; this takes a twentieth of the time
    import tui.app
    import tui.live.screen  # noqa: F401

    gc.freeze()
    gc.enable()


def _import_without(unneeded: str, module: str) -> None:
    """Imports a module that can do without another one, which others may import later."""
    missing = unneeded not in sys.modules
    if missing:
        sys.modules[unneeded] = None  # type: ignore[assignment]  # what an import that fails leaves
    try:
        import_module(module)
    finally:
        if missing:
            del sys.modules[unneeded]


def main(words: Sequence[str] | None = None) -> int:
    """Shows the interface until the user leaves. `words` are the arguments, unless those of the process."""
    parser = argparse.ArgumentParser(prog="bench", description="The terminal interface of bench.")
    parser.add_argument("run", nargs="?", type=Path, help="run directory to show")
    parser.add_argument("--out", type=Path, required=True, help="folder that holds the runs")
    parser.add_argument("--screen", choices=MODES, default="live")
    parser.add_argument("--cell", help="replay this cell")
    parser.add_argument("--step", help="from this step on")
    parser.add_argument("--guide", choices=("demo",), help="say what there is to see, and press the keys")
    parser.add_argument("--glyphs", choices=("auto", *NAMES), default="auto")
    asked = parser.parse_args(words)
    shown = gently(asked.run, _load)
    from engine.core.errors import UserError
    from engine.core.text import visible, write
    from tui import glyphs, keys
    from tui.app import Bench
    from tui.marks import chosen_theme
    from tui.terminal import LOST, paint_where_it_is_seen

    path = keys.settings_file()
    try:
        if wanted := keys.overrides(path):
            keys.check_ids(wanted, keys.known_ids(), path)
        theme = chosen_theme(os.environ)
    except UserError as error:
        write(visible(f"bench: {error}"), sys.stderr)
        return 2
    paint_where_it_is_seen()
    app = Bench(asked.out, asked.run, glyphs.choose(asked.glyphs), asked.screen, theme=theme)
    app.context.replayed = (asked.cell, asked.step) if asked.cell else None
    if asked.guide:
        from tui.demo.guide import GuidedBench
        from tui.demo.tour import minute, stalled

        app = GuidedBench(asked.out, asked.run, glyphs.choose(asked.glyphs), asked.screen, theme=theme)
        assert asked.run is not None
        first = stalled(asked.run)
        app.guide(minute(first))
        app.context.replayed = first[:2]
    app.call_after_refresh(shown)
    app.run()
    if app.return_code == LOST:
        os._exit(LOST)  # what is left to write to the terminal cannot be, and Python would say 120 for that
    return app.return_code or 0


if __name__ == "__main__":
    sys.exit(main())
