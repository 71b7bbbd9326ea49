"""A feature for tests, which greets each step. PGBED_FEATURES=tests.support.toy_feature registers it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Annotated

import msgspec

from engine.features.feature import Feature, MeasuredStep
from engine.plan.prepare import Draft
from engine.results.comparison import Comparison
from engine.results.section import Column, Section, columns, row
from workloads.api.options import CAUSES, about


class Options(msgspec.Struct, frozen=True, kw_only=True):
    greeting: Annotated[
        str | None, about("Greet each step.", metavar="WORD", unset="no greeting", group=CAUSES, brief="A greeting.")
    ] = None


class Part(msgspec.Struct, frozen=True):
    greeting: str | None = None


class Toy(Feature):
    name, options, part = "toy", Options, Part

    def prepare(self, draft: Draft, options: Options) -> Generator[str, None, Part]:
        if options.greeting is not None:
            yield f"each step is greeted: {options.greeting}"
        return Part(options.greeting)

    @contextmanager
    def around_step(self, part: Part, measured: MeasuredStep) -> Iterator[None]:
        entered_ns = time.monotonic_ns()
        yield
        if part.greeting is not None:
            letters = len(part.greeting)
            measured.figures[self.name] = {"letters": letters, "around_ns": [entered_ns, time.monotonic_ns()]}

    def sections(self, comparison: Comparison) -> Iterator[Section]:
        rows = (
            row(cell.subject, cell.features[self.name]["letters"], step=cell.step, subject=cell.subject)
            for cell in comparison.cells
            if self.name in cell.features
        )
        yield Section("toy", "Greetings", columns("step and build", Column("letters", "count")), tuple(rows))


FEATURE = Toy()
