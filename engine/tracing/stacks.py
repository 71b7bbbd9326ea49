"""The stacks of a run: one file per step and role in each cell's folders `stacks/` and `offcpu/`.

Lines are in the folded format of all flame graph tools, `outermost;...;leaf count`. The probe `stacks` counts samples
on CPU, `offcpu` us off CPU. Written at the end of a step.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.core.errors import UserError, unknown
from engine.core.model import Subject
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.runs import planned
from engine.system.files import read_plain
from probes import folding
from workloads.api.base import role_kind

FOLDERS = ("stacks", "offcpu")  # named like their probes
SUFFIX = ".folded"
MAX_BYTES = 256 << 20


def by_role(folded: Mapping[str, int]) -> dict[str, Counter[str]]:
    """Split lines of `probes.folding.fold`, `role;outermost;...;leaf`, by role."""
    stacks: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line, count in folded.items():
        role, _, frames = line.partition(";")
        stacks[role][frames or folding.UNKNOWN] += count
    return dict(stacks)


def write_folded(cell_dir: Path, step: str, role: str, folded: Mapping[str, int], probe: str = FOLDERS[0]) -> None:
    """Replace the stacks of an earlier attempt. Raises OSError if the folder cannot be written."""
    folder = cell_dir / probe
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{step}.{role}{SUFFIX}").write_text(folding.lines(folded), encoding="utf-8")


def read_by_cell(
    run: Path, subject: Subject, step: str, role: str, cell: str | None = None, probe: str = FOLDERS[0]
) -> dict[str, Counter[str]]:
    """Stacks by cell of a role (`query2`) or kind of role (`query`). Raises UserError if there are none."""
    there = recorded(run, probe)
    if not there:
        raise UserError(f"{run.name}: no stacks were recorded in this run; run it with --probes {probe}")
    files_of = {place: files for place, files in there.items() if place[0] == subject}
    if not files_of:
        raise UserError(f"{run.name}: {_why_none(run, subject, there, probe)}")
    if step not in {name for _, name, _ in files_of}:
        raise unknown("step", step, (name for _, name, _ in files_of))
    roles = {name for _, named, name in files_of if named == step}
    if role not in roles and role not in map(role_kind, roles):
        raise unknown(f"role in {step}", role, roles)
    stacks: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (_, named, name), files in files_of.items():
        if named == step and role in (name, role_kind(name)):
            for path in files:
                if cell in (None, path.parents[1].name):
                    stacks[path.parents[1].name].update(parse(path))
    if not any(stacks.values()):
        raise UserError(f"{run.name}: no stacks of {role} were sampled in {step} of cell {cell}")
    return dict(stacks)


def _why_none(run: Path, subject: Subject, there: Iterable[tuple[Subject, str, str]], probe: str) -> str:
    with JournalReader(run) as reader:
        names = reader.manifest.names
        finished = outcome.finished(reader.manifest, reader.attempts(origins=False))
        cell_ids = {cell.id for cell in reader.manifest.cells if cell.subject == subject}
    if cell_ids <= finished:
        why = f"its cells are finished, and the probe `{probe}` was not on in them"
    else:
        why = f"none of its cells has finished a step with the probe `{probe}` on"
    others = ", ".join(sorted({names.get(other, other.name) for other, _, _ in there}))
    return f"no stacks of {names.get(subject, subject.name)} were sampled: {why} (there are some of {others})"


def recorded(run: Path, probe: str = FOLDERS[0]) -> dict[tuple[Subject, str, str], list[Path]]:
    """Non-empty files of a run, by (subject, step, role): one per repeat."""
    recordings: dict[tuple[Subject, str, str], list[Path]] = {}
    for cell in planned(run).cells:
        for path in sorted((run / "cells" / cell.id / probe).glob(f"*{SUFFIX}")):
            step, _, role = path.name.removesuffix(SUFFIX).rpartition(".")
            if step and path.lstat().st_size:
                recordings.setdefault((cell.subject, step, role), []).append(path)
    return recordings


def parse(path: Path) -> dict[str, int]:
    """Raises UserError if the file is damaged, or not a plain file."""
    folded = Counter[str]()
    try:
        for line in read_plain(path, MAX_BYTES).decode().splitlines():
            frames, _, count = line.rpartition(" ")
            folded[frames] += int(count)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: no folded stacks can be read from it: {error}") from error
    return folded
