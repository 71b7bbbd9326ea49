"""The sampled stacks of a run: one file per step and role in each cell's folder `stacks/`, in the folded form.

A line is `outermost;...;leaf count`, as all flame graph tools read it. Written when a step ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.errors import UserError, unknown
from engine.journal import read_manifest
from engine.model import Subject, cell_of
from probes import folding
from workloads.insert.spec import role_kind

FOLDER = "stacks"
SUFFIX = ".folded"


def by_role(folded: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """What `probes.folding.fold` makes, `role;outermost;...;leaf`, parted by role and without it."""
    found: dict[str, dict[str, int]] = {}
    for line, count in folded.items():
        role, _, frames = line.partition(";")
        of_role = found.setdefault(role, {})
        frames = frames or folding.UNKNOWN
        of_role[frames] = of_role.get(frames, 0) + count
    return found


def write_folded(cell_dir: Path, step: str, role: str, folded: Mapping[str, int]) -> None:
    """Keeps the stacks of one role in one step: line -> samples. An earlier attempt's are replaced.

    Raises OSError when the folder cannot be written.
    """
    folder = cell_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{step}.{role}{SUFFIX}").write_text(folding.lines(folded), encoding="utf-8")


def read_folded(run: Path, subject: Subject, step: str, role: str) -> dict[str, int]:
    """The stacks of a step and role over all repeats of a subject, samples added up.

    A role is a name (`query2`) or the word for several workers (`query`). Raises UserError when there are none; says
    whether the run has none at all, or others.
    """
    there = recorded(run)
    if not there:
        raise UserError(f"{run.name}: no stacks were recorded in this run; run it with --probes stacks")
    own = {place: files for place, files in there.items() if place[0] == subject}
    if not own:
        raise UserError(f"{run.name}: no stacks of {subject.name} were recorded; its cells have not got that far")
    if step not in {name for _, name, _ in own}:
        raise unknown("step", step, (name for _, name, _ in own))
    roles = {name for _, named, name in own if named == step}
    if role not in roles and role not in map(role_kind, roles):
        raise unknown(f"role in {step}", role, roles)
    merged: dict[str, int] = {}
    for (_, named, name), files in own.items():
        if named != step or role not in (name, role_kind(name)):
            continue
        for path in files:
            for line, count in parse(path).items():
                merged[line] = merged.get(line, 0) + count
    return merged


def recorded(run: Path) -> dict[tuple[Subject, str, str], list[Path]]:
    """The files of a run, by (subject, step, role): one for each repeat. Empty ones are left out."""
    found: dict[tuple[Subject, str, str], list[Path]] = {}
    for cell in map(cell_of, read_manifest(run)["cells"]):
        for path in sorted((run / "cells" / cell.id / FOLDER).glob(f"*{SUFFIX}")):
            step, _, role = path.name.removesuffix(SUFFIX).rpartition(".")
            if step and path.stat().st_size:
                found.setdefault((cell.subject, step, role), []).append(path)
    return found


def parse(path: Path) -> dict[str, int]:
    """The lines of one file. Raises UserError when it is damaged."""
    folded: dict[str, int] = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            frames, _, count = line.rpartition(" ")
            folded[frames] = folded.get(frames, 0) + int(count)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: no folded stacks can be read from it: {error}") from error
    return folded
