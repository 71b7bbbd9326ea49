"""`python -m tui [RUN]`: started by `bench`, which has checked what it hands over."""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path


def main() -> int:
    """Shows the interface until the user leaves."""
    gc.disable()  # nothing that is imported is garbage: looking for it takes a seventh of the time to the first picture
    from engine.errors import UserError
    from tui import glyphs, keys
    from tui.app import Bench

    gc.freeze()
    gc.enable()
    parser = argparse.ArgumentParser(prog="bench", description="The terminal interface of bench.")
    parser.add_argument("run", nargs="?", type=Path, help="the run directory to look at")
    parser.add_argument("--out", type=Path, required=True, help="the folder that holds the runs")
    parser.add_argument("--screen", choices=tuple(Bench.MODES), default="live")
    parser.add_argument("--cell", help="play this cell, as it was recorded")
    parser.add_argument("--step", help="from this step on")
    parser.add_argument("--glyphs", choices=("auto", *glyphs.NAMES), default="auto")
    asked = parser.parse_args()
    path = keys.settings_file()
    try:
        if wanted := keys.overrides(path):
            keys.check_ids(wanted, keys.known_ids(), path)
    except UserError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    app = Bench(asked.out, asked.run, glyphs.choose(asked.glyphs), asked.screen)
    app.replayed = (asked.cell, asked.step) if asked.cell else None
    app.run()
    return app.return_code or 0


if __name__ == "__main__":
    sys.exit(main())
