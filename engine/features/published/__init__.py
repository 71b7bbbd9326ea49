"""Published figures: those of a run's preset beside ours, and ours as the published program prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from engine.features.feature import Feature, Tables

if TYPE_CHECKING:
    from engine.results.comparison import Comparison
    from engine.results.section import Section


class PublishedFeature(Feature):
    name = "published"

    def sections(self, comparison: Comparison) -> Iterator[Section]:
        from engine.features.published import ratios

        return ratios.sections(comparison)

    def tables(self) -> Tables:
        from engine.features.published import figures

        return {"figures": figures.sections}


FEATURE = PublishedFeature()
