"""`python -m tui [RUN]`: started by `bench`, which has checked the arguments."""

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from engine.journal.run_lock import is_locked
from tui import MODES
from tui.glyphs import NAMES

NICENESS = 10  # while loading: on a busy CPU, a tenth of the time that others get


def load(run: Path | None) -> None:
    """Import the modules of the first paint, which is nearly the whole cost of starting, at low priority during a run.

    This happens in a thread: on Linux niceness is per thread, so whatever is started later keeps the usual one.
    """
    if run is None or not is_locked(run):
        _import()
    else:
        loading = threading.Thread(target=_import_behind, daemon=True)
        loading.start()
        loading.join()


def _import_behind() -> None:
    usual = os.getpriority(os.PRIO_PROCESS, 0)  # a process cannot undo a lower priority
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(usual, NICENESS))
    _import()


def _import() -> None:
    import tui.app
    import tui.live.screen  # noqa: F401


def main(words: Sequence[str] | None = None) -> int:
    """Show the interface until the user leaves; `words` replace the process's arguments."""
    parser = argparse.ArgumentParser(prog="bench", description="The terminal interface of bench.")
    parser.add_argument("run", nargs="?", type=Path, help="folder of the run to show")
    parser.add_argument("--out", type=Path, required=True, help="folder that holds the runs")
    parser.add_argument("--screen", choices=MODES, default="live")
    parser.add_argument("--cell", help="replay this cell")
    parser.add_argument("--step", help="from this step on")
    parser.add_argument("--guide", choices=("demo",), help="explain the screens, and press the keys")
    parser.add_argument("--glyphs", choices=("auto", *NAMES), default="auto")
    options = parser.parse_args(words)
    load(options.run)
    from engine.core.errors import UserError
    from engine.core.text import visible, write
    from tui import glyphs
    from tui.app import Bench
    from tui.marks import chosen_theme
    from tui.terminal import LOST, paint_on_terminal

    try:
        theme = chosen_theme(os.environ)
    except UserError as error:
        write(visible(f"bench: {error}"), sys.stderr)
        return 2
    paint_on_terminal()
    app = Bench(options.out, options.run, glyphs.choose(options.glyphs), options.screen, theme=theme)
    app.context.replayed = (options.cell, options.step) if options.cell else None
    if options.guide:
        from tui.demo.guide import GuidedBench
        from tui.demo.tour import stalled, stops_of

        app = GuidedBench(options.out, options.run, glyphs.choose(options.glyphs), options.screen, theme=theme)
        assert options.run is not None
        first = stalled(options.run)
        app.guide(stops_of(first))
        app.context.replayed = first[:2]
    app.run()
    if app.return_code == LOST:
        os._exit(LOST)  # Python would fail to flush its output to the lost terminal and exit with 120
    return app.return_code or 0


if __name__ == "__main__":
    sys.exit(main())
