"""A comparison as one file: a page for the browser."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.analysis.answer.compare import compare
from engine.core.errors import UserError
from engine.core.text import Visible
from engine.report.html.page import page
from engine.report.journals import opened
from engine.report.origins import origins


def report(folders: Sequence[Path], base: str | None = None) -> Visible:
    """Return the page's text. Raises UserError as `compare` does, and when no cell has finished."""
    comparison = compare(folders, base)
    if not comparison.cells:
        why = comparison.remarks.left_out[0].text if comparison.remarks.left_out else "none was begun"
        raise UserError(f"{', '.join(comparison.runs)}: no cell has finished, so there is nothing to report ({why})")
    with opened(comparison) as recorded:
        manifests = [reader.manifest for reader in recorded.readers.values()]
        return page(comparison, origins(comparison, manifests, recorded), recorded)
