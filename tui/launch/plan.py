"""A plan as it is being made on the Launch screen: what `bench run --plan FILE` takes, and as a command line."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from engine.errors import UserError

GENERATION = "g24b"


@dataclass(frozen=True, slots=True)
class Plan:
    """The entries of a plan's file, by the same names and with the same defaults. `knobs` are name and value."""

    builds: tuple[str, ...] = ()
    workload: str = "insert"
    generation: str = GENERATION
    scale: str | None = None
    rows: int | None = None
    rows_written: int | None = None
    query_seconds: int | None = None
    steps: tuple[str, ...] = ()
    preset: str | None = None
    clients: int = 1
    configs: tuple[str, ...] = ("auto",)
    overrides: tuple[str, ...] = ()
    repeats: int = 3
    base: str | None = None
    aa: bool = False
    seed: int = 1
    margin: float = 0.02
    keep: bool = False
    beside: bool = False
    probes: tuple[str, ...] = ()
    probe_budget: float = 5.0
    allow_slow_probes: bool = False
    knobs: tuple[tuple[str, Any], ...] = ()

    @property
    def base_build(self) -> str | None:
        """The build that others are compared with, as it is named among the builds."""
        named = {name_of(build): build for build in self.builds} | {build: build for build in self.builds}
        return named.get(self.base or "", self.builds[0] if self.builds else None)

    @property
    def subjects(self) -> int:
        """How many subjects are compared: builds under configs, and the base's doubles."""
        return (len(self.builds) + self.aa) * len(self.configs)

    @classmethod
    def of(cls, entries: dict[str, Any]) -> Plan:
        """From what `bench` says of a plan that it has checked."""
        known = {field.name for field in dataclasses.fields(cls)}
        values: dict[str, Any] = {name: _frozen(value) for name, value in entries.items() if name in known}
        knobs = tuple((name, _frozen(value)) for name, value in entries.get("knobs", {}).items())
        return cls(**{**values, "knobs": knobs})

    def record(self) -> dict[str, Any]:
        """What its file says: its builds, and all that is not as usual."""
        entries: dict[str, Any] = {"builds": list(self.builds)}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "knobs" and value:
                entries["knobs"] = {name: list(part) if isinstance(part, tuple) else part for name, part in value}
            elif value != field.default:
                entries[field.name] = list(value) if isinstance(value, tuple) else value
        return entries

    def arguments(self) -> tuple[str, ...]:
        """The options of `bench run` that say the same."""
        words: list[str] = []
        for name, option in OPTIONS:
            value = getattr(self, name)
            if name != "builds" and value == getattr(PLAIN, name):
                continue
            if isinstance(value, bool):
                words += [option]
            else:
                words += [option, ",".join(value) if isinstance(value, tuple) else str(value)]
        for text in self.overrides:
            words += ["--set", text]
        for name, value in self.knobs:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else value
            words += ["--knob", f"{name}={text}"]
        return tuple(words)

    def command(self) -> str:
        """What one would type for the same run."""
        return shlex.join(("bench", *self.arguments()))

    def with_build(self, build: str, order: Sequence[str]) -> Plan:
        """With a build, or without it where it was there; in the order of the list, the user's own installs last."""
        if build in self.builds:
            left = tuple(other for other in self.builds if other != build)
            return replace(self, builds=left)._based(None if build == self.base_build else self.base_build)
        wanted = {*self.builds, build}
        own = [other for other in (*self.builds, build) if other not in order]
        ordered = (*(other for other in order if other in wanted), *own)
        return replace(self, builds=ordered)._based(self.base_build)

    def with_base(self, build: str, order: Sequence[str]) -> Plan:
        """With a build as the base, which it is then among."""
        chosen = self if build in self.builds else self.with_build(build, order)
        return chosen._based(build)

    def _based(self, base: str | None) -> Plan:
        """With a base, which goes without saying where it is the first."""
        return replace(self, base=None if base in self.builds[:1] else base)

    def with_config(self, config: str, order: Sequence[str]) -> Plan:
        """With a config, or without it; one is always there."""
        return replace(self, configs=_toggled(self.configs, config, order) or self.configs)

    def with_step(self, step: str, all_steps: Sequence[str]) -> Plan:
        """With a step, or without it; all of them is the same as naming none."""
        left = _toggled(self.steps or all_steps, step, all_steps)
        if not left:
            raise UserError("a run has at least one step")
        return replace(self, steps=() if len(left) == len(all_steps) else left)

    def with_probe(self, probe: str, modes: Sequence[str]) -> Plan:
        """With the next of a probe's modes (`""` is all the time), and after the last without it."""
        names = [f"{probe}:{mode}" if mode else probe for mode in modes]
        others = tuple(name for name in self.probes if name not in names and name != "none")
        place = next((names.index(name) for name in self.probes if name in names), -1)
        return replace(self, probes=(*others, *names[place + 1 : place + 2]))

    def with_preset(self, preset: str | None) -> Plan:
        """With a named plan's steps and sizes instead of its own."""
        return replace(
            self, preset=preset, scale=None, rows=None, rows_written=None, query_seconds=None, steps=(),
            generation=GENERATION,
        )  # fmt: skip


PLAIN = Plan()
# Each entry and its option, in the order in which a person would write them; `overrides` and `knobs` are repeated.
OPTIONS: tuple[tuple[str, str], ...] = (
    ("builds", "--pg"), ("base", "--base"), ("configs", "--config"), ("workload", "--workload"),
    ("preset", "--preset"), ("generation", "--generation"), ("scale", "--scale"), ("rows", "--rows"),
    ("rows_written", "--rows-written"), ("query_seconds", "--query-seconds"), ("steps", "--steps"),
    ("clients", "--clients"), ("repeats", "--repeats"), ("aa", "--aa"), ("margin", "--margin"), ("seed", "--seed"),
    ("probes", "--probes"), ("probe_budget", "--probe-budget"), ("allow_slow_probes", "--allow-slow-probes"),
    ("keep", "--keep"), ("beside", "--beside"),
)  # fmt: skip


def keep(plan: Plan, path: Path) -> None:
    """Writes a plan's file. Raises UserError when it cannot be written."""
    try:
        path.write_text(tomli_w.dumps(plan.record()), "utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def name_of(build: str) -> str:
    """How a build is called: its label, or the name of an install of the user's own."""
    return build.partition("=")[0]


def _toggled(chosen: Sequence[str], one: str, order: Sequence[str]) -> tuple[str, ...]:
    wanted = set(chosen) ^ {one}
    return (
        *(name for name in order if name in wanted),
        *(name for name in (*chosen, one) if name in wanted - set(order)),
    )


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
