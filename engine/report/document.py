"""A comparison as one file: a page for the browser, or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.analysis.compare import compare
from engine.core.errors import UserError
from engine.core.text import Visible, visible, visible_lines
from engine.report import render
from engine.report.journals import Recorded, opened
from engine.report.origins import Origins, comparability, origins
from engine.report.tables.counters import statistics
from engine.report.tables.response_times import percentiles
from engine.report.tables.section import Notes
from engine.results.comparison import Comparison


def report(folders: Sequence[Path], form: str, base: str | None = None) -> Visible:
    """Return the file's text. Raises UserError as `compare` does, and when no cell has finished."""
    comparison = compare(folders, base)
    if not comparison.cells:
        why = comparison.left_out[0].text if comparison.left_out else "none was begun"
        raise UserError(f"{', '.join(comparison.runs)}: no cell has finished, so there is nothing to report ({why})")
    with opened(comparison) as recorded:
        manifests = [reader.manifest for reader in recorded.readers.values()]
        known = origins(comparison, manifests, recorded)
        if form == "md":
            return _markdown(comparison, known, recorded)
        from engine.report.html.page import page

        return page(comparison, known, recorded)


def _markdown(comparison: Comparison, known: Origins, recorded: Recorded) -> Visible:
    sections = (*percentiles(comparison, Notes()), comparability(comparison), *known.sections)
    further = [*(section for section in sections if section.rows), *statistics(comparison, recorded)]
    lines = "\n".join(f"    {visible(line)}" for line in known.commands)
    return visible_lines(f"{render.to_markdown(comparison, further=further)}\n### The command again\n\n{lines}\n")
