"""A comparison as one file: a page for the browser, Markdown, or text that fits into a mail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.analysis.comparison import compare
from engine.core.comparison import Comparison
from engine.core.errors import UserError
from engine.journal.manifest import read_manifest
from engine.report import mail, render
from engine.report.origins import Origins, origins


def report(folders: Sequence[Path], form: str, base: str | None = None) -> str:
    """The text of the file. Raises UserError as `compare` does, and where no cell has finished."""
    comparison = compare(folders, base)
    if not comparison.cells:
        why = comparison.left_out[0].text if comparison.left_out else "none was begun"
        raise UserError(f"{', '.join(comparison.runs)}: no cell has finished, so there is nothing to report ({why})")
    known = origins(comparison, [read_manifest(Path(folder)) for folder in comparison.folders.values()])
    if form == "md":
        return _markdown(comparison, known)
    if form == "text":
        return mail.text(comparison, known)
    from engine.report.html.page import page

    return page(comparison, known)


def _markdown(comparison: Comparison, known: Origins) -> str:
    """The tables of `bench compare --md`, and where the figures come from."""
    lines = "\n".join(f"    {line}" for line in known.commands)
    return (
        f"{render.to_markdown(comparison, further=mail.further(comparison, known))}\n### The command again\n\n{lines}\n"
    )
