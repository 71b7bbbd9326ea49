"""The hooks of a feature, which the rest of the engine calls and each of which a feature may leave out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from engine.builds.nix import Progress
    from engine.core.model import Config, Manifest
    from engine.host.doctor import Need
    from engine.host.kernel_settings import Knob
    from engine.plan.prepare import Draft
    from engine.plan.request import Request
    from engine.results.comparison import Comparison
    from engine.results.section import Section
    from workloads.api.base import Step
    from workloads.client.counter_page import Page

Tables = Mapping[str, "Callable[[Comparison], Iterable[Section]]"]


class Nothing(msgspec.Struct, frozen=True):
    """Neither options nor a part of the manifest."""


@dataclass(slots=True)
class MeasuredStep:
    """A step about to be measured, with its clients connected and idle; hooks around it add to its totals."""

    step: Step
    page: Page | None  # None for a step without clients
    postmaster: int  # 0 if its processes are not visible
    monitor: int  # backend of the engine's own connection
    totals: dict[str, Any] = field(default_factory=dict)  # fields of `StepTotals`
    figures: dict[str, Any] = field(default_factory=dict)  # of features, by name
    observers: set[str] = field(default_factory=set)


class Feature:
    """A feature: its options in requests, its part of manifests, and its hooks.

    The fields of `options` are options of the command line and entries of plan files, those of `part` are keys of
    manifest.json: no two features share one. Hooks import late whatever is only needed when they act.
    """

    name: str
    options: type[msgspec.Struct] = Nothing
    part: type[msgspec.Struct] = Nothing  # whose defaults are those of a run without the feature
    needs: Sequence[Need] = ()  # checks of the machine, for `bench doctor`
    knobs: Mapping[str, Knob] = {}  # entries of a config's table [device]

    def check(self, request: Request, options: Any) -> None:
        """Raise UserError for options that make no sense; fetches and starts nothing."""

    def provide(self, options: Any, progress: Progress) -> None:
        """Fetch or install whatever is needed regardless of the builds. Raises UserError if that is impossible."""

    def prepare(self, draft: Draft, options: Any) -> Generator[str, None, Any]:
        """Yield notices on the plan; return the feature's part of the manifest. Raises UserError."""
        yield from ()
        return self.part()

    def check_resumed(self, part: Any, manifest: Manifest, run: Path, progress: Progress) -> None:
        """Raise UserError if a run cannot be continued as it began."""

    def programs(self, part: Any) -> Iterable[Path]:
        """Folders of programs that guests need."""
        return ()

    def around_cells(self, part: Any, config: Config, run: Path) -> AbstractContextManager[None]:
        """A context around cells that run together, on their servers' machine; configs of all have one `device`."""
        return nullcontext()

    def around_step(self, part: Any, measured: MeasuredStep) -> AbstractContextManager[None]:
        """A context entered before a step's clock starts and left after its clients are done, still connected.

        It is left with the exception if the step fails. Must not raise one itself.
        """
        return nullcontext()

    def conditions(self, part: Any) -> Sequence[tuple[str, str]]:
        """Names and values of the kernel's settings, which must be the same in all runs that are compared."""
        return ()

    def sections(self, comparison: Comparison) -> Iterable[Section]:
        """Sections that the feature adds to a comparison, in all its forms."""
        return ()

    def tables(self) -> Tables:
        """Functions of tables that it adds for people alone, which are made when they are shown, by their keys."""
        return {}


class TablesOnly(Feature):
    """A feature that adds tables and nothing else: `TABLES` of the module `tables` in its package."""

    def __init__(self, package: str) -> None:
        self.name, self._module = package.rpartition(".")[2], f"{package}.tables"

    def tables(self) -> Tables:
        tables: Tables = import_module(self._module).TABLES
        return tables
