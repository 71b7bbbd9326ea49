"""Probes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tui.marks import line
from tui.screens.base import BenchScreen
from tui.widgets.lines import Lines


class ProbesScreen(BenchScreen):
    """Probes."""

    TITLE_WORD: ClassVar[str] = "PROBES"

    def parts(self) -> Sequence[Lines]:
        """The title."""
        return [Lines([line((f" {self.TITLE_WORD}", "title"))])]
