"""How long `bench trend` takes over ten thousand recorded cells: without an index, and with the one it leaves.

    python -m tests.perf.trend_cells [--runs 1000]

A run of ten cells is made, and copied. Printed are CPU seconds of both, the size of the index, and their ratio.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from engine.analysis import trend
from tests.support.journal import make_run


def main() -> None:
    """Makes the runs, reads them twice, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pgbed-trend-") as folder:
        first = make_run(Path(folder, "run0"), repeats=5)
        for number in range(1, asked.runs):
            shutil.copytree(first, Path(folder, f"run{number}"))
        spent = []
        for _ in range(2):
            began = time.process_time()
            found = trend.series(trend.entries(Path(folder)).items(), "rate_per_s", None, "date", 0.02)
            spent.append(time.process_time() - began)
        cells = sum(point.cells for series in found if series.step == "qr100" for point in series.points)
        size = Path(folder, trend.INDEX).stat().st_size
        print(f"{cells} cells in {asked.runs} runs: {spent[0]:.1f} CPU s without an index, {spent[1]:.1f} with it "
              f"({spent[1] / spent[0]:.3f}); the index has {size / 1e6:.1f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
