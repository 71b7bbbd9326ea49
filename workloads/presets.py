"""Presets: plans that answer a known question, as TOML files in the folder `presets` beside the workload that they use.

A file's name is the preset's. Its tables are `Preset`'s fields: entries of a plan file, and those of a publication,
which are shown beside the local results.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from workloads.api.names import pick

Figure = Annotated[float, Meta(gt=0)]
Name = Annotated[str, Meta(min_length=1, max_length=60, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, Meta(max_length=600, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")]
Scale = Literal["quick", "cached", "io", "slow"]
ELSEWHERE = ("preset", "scale", "builds", "base", "workload")  # no entries of `plan`: they are fields
FIXED = ("overrides", "probes")  # the same at each scale
FOLDER = "presets"


class PresetLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of a published table: a figure of a step, a value for each of the table's subjects."""

    step: Name
    values: tuple[Figure, ...]
    figure: Name | None = None  # the table's, where it has one for all


class PresetTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published table. Only ratios of its values are used, since it is from another machine.

    `figure` is one of a cell's step (`engine.results.comparison.CellStep`), with dots as in `roles.insert.cpu_s`.
    By "subject" values are relative to the first subject's, by "line" to the first line's. Subjects are of one kind;
    kernels and configs may have other names than ours.
    """

    title: Text
    subjects: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=12)]
    lines: Annotated[tuple[PresetLine, ...], Meta(min_length=1, max_length=64)]
    figure: Name = "rate_per_s"
    against: tuple[Literal["subject", "line"], ...] = ("subject",)
    among: Literal["build", "config", "kernel"] = "build"
    size: Text = ""  # of the measured data
    remark: Text = ""

    def __post_init__(self) -> None:
        for line in self.lines:
            if len(line.values) != len(self.subjects):
                raise ValueError(f"{self.title}: {line.step}: {len(line.values)} values of {len(self.subjects)}")


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A preset. `builds` are the publication's, the base first; `instead` replaces those that are not available.

    `plan` are entries as in a plan file, and those of a `scale` are added to them. A preset with `steps` of its own has
    no scales. With `newest` releases in place of builds, and a `title`, it is one of the Launch screen's ready plans:
    `place` is its position, from 1, and `time` its length; `own_build` requests an install of the user's.
    """

    question: Text
    workload: Name
    publication: Text = ""
    date: Text = ""
    machine: Text = ""
    title: Text = ""
    time: Text = ""
    builds: tuple[Name, ...] = ()
    newest: Annotated[int, Meta(ge=0, le=4)] = 0
    own_build: bool = False
    place: int = 0
    instead: Mapping[Name, tuple[Name, ...]] = {}
    plan: Mapping[str, Any] = {}
    scales: Mapping[Scale, Mapping[str, Any]] = {}
    steps: tuple[Mapping[str, Any], ...] = ()
    published: tuple[PresetTable, ...] = ()
    remarks: tuple[Text, ...] = ()
    name: str = ""  # the file's
    folder: str = ""

    def __post_init__(self) -> None:
        for entries, refused in (
            (self.plan, ELSEWHERE),
            *((scale, (*ELSEWHERE, *FIXED)) for scale in self.scales.values()),
        ):
            for entry in entries:
                if entry in refused:
                    raise ValueError(f"{entry} is no entry of a preset's plan")

    @property
    def source(self) -> str:
        return ", ".join(filter(None, (self.publication, self.date)))

    @property
    def settings(self) -> tuple[str, ...]:
        """NAME=VALUE each, on top of every config."""
        return tuple(map(str, self.plan.get("overrides", ())))

    @property
    def probes(self) -> tuple[str, ...]:
        return tuple(map(str, self.plan.get("probes", ())))

    def entries(self, scale: str) -> dict[str, Any]:
        """Entries of a plan file at this scale, without settings and probes. Raises UnknownName."""
        sizes: dict[str, Mapping[str, Any]] = dict(self.scales.items())
        plan = {name: value for name, value in self.plan.items() if name not in FIXED}
        if "script" in plan:  # files beside it
            plan["script"] = [str(Path(self.folder, name)) for name in plan["script"]]
        if "setup" in plan:
            plan["setup"] = str(Path(self.folder, plan["setup"]))
        return {**plan, **(pick("scale", scale, sizes) if sizes else {})}


def parsed(name: str, text: str, folder: str = "") -> Preset:
    """Parse a preset file. Raises ValueError with name and place."""
    try:
        converted = msgspec.convert({**tomllib.loads(text), "name": name, "folder": folder}, Preset)
    except (ValueError, RecursionError) as error:  # the errors of tomllib and msgspec are ValueErrors
        raise ValueError(f"preset {name}: {error}") from None
    return converted


def presets() -> dict[str, Preset]:
    """All presets by name. Raises ValueError for an invalid file."""
    from workloads import modules  # late, because `workloads` needs this module for `of_preset`

    return _read(tuple(dict.fromkeys(_folders(modules().values()))))


def preset(name: str) -> Preset:
    """Raises UnknownName."""
    return pick("preset", name, presets())


@cache
def _read(folders: tuple[Path, ...]) -> dict[str, Preset]:
    files = [file for folder in folders for file in sorted(folder.glob("*.toml"))]
    return {file.stem: parsed(file.stem, file.read_text("utf-8"), str(file.parent)) for file in files}


def shipped_scripts() -> frozenset[str]:
    """Texts of the scripts that come with presets, which need no consent."""
    folders = dict.fromkeys(known.folder for known in presets().values())
    return frozenset(file.read_text("utf-8") for folder in folders for file in Path(folder).glob("*.sql"))


def _folders(modules: Iterable[str]) -> Iterable[Path]:
    """Folders beside the modules; a missing module is reported when its workload is requested."""
    for module in modules:
        try:
            spec = find_spec(module.partition(":")[0])
        except (ImportError, ValueError):
            continue
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin).parent / FOLDER
