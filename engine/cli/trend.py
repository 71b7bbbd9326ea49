"""The command `bench trend`: figures of many runs over time, and where they changed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

import click
import msgspec

from engine.cli.options import FILE, FOLDER, JSON, Fraction
from engine.core.errors import UserError, unknown
from engine.host import disk
from engine.journal.runs import default_out
from engine.report.console import echo, echo_json


@click.command(short_help="Show a figure over many runs, and where it changed.")
@click.argument("folders", nargs=-1, type=FOLDER, metavar="[OUT]…")
@click.option("--step", metavar="STEP", help="This step only, with a chart [default: all steps].")
@click.option(
    "--metric", default="rate_per_s", show_default=True, metavar="NAME",
    help="Metric, by its key in bench compare --json.",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice(["date", "version"]), default="date", show_default=True, help="Order of the runs."
)
@click.option(
    "--against-base", is_flag=True, help="Show ratios to each run's base, which do not depend on the machine's speed."
)
@click.option(
    "--margin",
    type=Fraction(0, 1),
    default=0.02,
    show_default=True,
    metavar="FRACTION",
    help="Smallest change to report.",
)
@click.option(
    "-o", "--to", type=FILE, metavar="FILE", help="Write a page for the browser, with a chart of each series."
)
@JSON
def trend(
    folders: tuple[Path, ...],
    step: str | None,
    metric: str,
    by: str,
    against_base: bool,
    margin: float,
    to: Path | None,
    as_json: bool,
) -> None:
    """Show a metric of all runs below the folders OUT over time or versions, and where it changed for good.

    OUT is a folder that holds runs [default: as for --out]. Runs with the same conditions form one series: workload and
    its options, settings, probes, design, config, kernel and machine. Values are medians of a run's cells, even where
    bench compare withholds a verdict. A change is reported with the builds before and after it; if it is for the worse
    and git knows both, also with the command bench bisect that finds the commit. At most one in twenty folders without
    a change shows one, over all series, as long as the correlation of neighbouring points is at most 0.5. A level has
    three points or more. Figures are cached in the file .pgbed-trend of each folder.
    """
    from engine.analysis.cells.compared_cells import METRICS
    from engine.analysis.series import trend as trends
    from engine.report.trend import lines

    if metric not in (known.name for known in METRICS):
        raise unknown("metric", metric, [known.name for known in METRICS])
    if to is not None:
        disk.check_writable(to)  # before the work
    order = cast(Literal["date", "version"], by)
    entries: list[tuple[str, trends.IndexedRun]] = []
    for folder in dict.fromkeys(folder.resolve() for folder in folders or (default_out(),)):
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder; name one that holds runs")

        def heard(done: int, of: int, folder: Path = folder) -> None:
            if of >= 20 and done % 20 == 0:
                echo(f"{folder}: reading run {done + 1} of {of}", err=True)

        entries += trends.entries(folder, heard).items()
    series = trends.series(entries, metric, step, order, margin, against_base=against_base)
    if not series:
        steps = sorted({figure.step for _, entry in entries for figure in entry.found})
        if step is not None and steps and step not in steps:
            raise unknown("step", step, steps)
        where = ", ".join(map(str, folders or (default_out(),)))
        raise UserError(f"{where}: no finished run has {metric}{f' in {step}' if step else ''}")
    if to is not None:
        from engine.report.html.page import trend_page

        page = trend_page(series, by)
        try:
            size = disk.replace_text(to, page)
        except OSError as error:
            raise UserError(f"{to}: cannot be written: {error.strerror}; name another file") from error
        echo(f"{to.absolute()}: {size / 1e6:.1f} MB; open it in a browser", err=as_json)
    if as_json:
        echo_json(msgspec.to_builtins(series))
        return
    for line in lines(series, by, charts=step is not None):
        echo(line)
