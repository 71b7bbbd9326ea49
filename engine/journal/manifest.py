"""A run's manifest: its plan as written when the run began."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.core.errors import UserError
from engine.core.kernel import HOST
from engine.core.model import GROUPS, LEVEL, MOST_MINUTES, SLICE_MS, Manifest, RunDesign, config_key
from engine.core.record import converted, grouped, parsed
from engine.core.route import check_route
from engine.features import features
from engine.journal import signature
from engine.journal.database import refuse_schema
from engine.system.files import read_plain

MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _PlannedStep:
    name: str


@dataclass(frozen=True, slots=True)
class _Workload:
    name: str
    steps: tuple[_PlannedStep, ...]
    clients: int = 1


def read_manifest(run: Path, *, signed: bool = False) -> Manifest:
    """Raises UserError if the manifest is damaged or missing, and with `signed` if this user did not sign it."""
    return manifest_of(read_record(run, signed=signed), run)


def slices_of(run: Path) -> str:
    """Slice length such as `20 ms`; empty for a run in whole cells, or an unreadable one."""
    try:
        manifest = read_manifest(run)
    except UserError:
        return ""
    return f"{manifest.design.slice_ms:g} ms" if manifest.design.sliced else ""


def read_record(run: Path, *, signed: bool = False) -> dict[str, Any]:
    """The manifest's JSON object. Raises UserError if it is missing, damaged or of another schema."""
    path = run / "manifest.json"
    try:
        text = read_plain(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{run}: not a run's folder (no manifest.json); `bench list runs` shows those there are"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if signed:
        signature.check(run, text)
    record = converted(parsed(text, str(path)), dict[str, Any], str(path))
    refuse_schema(run, str(record.get("schema", "none")))
    return record


def manifest_of(record: dict[str, Any], run: Path) -> Manifest:
    path = run / "manifest.json"
    manifest = grouped(record, Manifest, GROUPS, str(path))
    parts = {feature.name: converted(record, feature.part, str(path)) for feature in features()}
    manifest = replace(manifest, parts=parts)
    converted(manifest.workload, _Workload, f"{path}: workload")
    converted(manifest.environment, dict[str, dict[str, Any] | None], f"{path}: environment")
    _check_design(manifest.design, path)
    if manifest.boot.kernels and manifest.boot.guest is None:
        raise UserError(f"{path}: kernels: there is no guest that boots them")
    try:
        check_route(manifest.route)
    except ValueError as error:
        raise UserError(f"{path}: route: {error}") from None
    if any(build.external != (manifest.external is not None) for build in manifest.builds):
        raise UserError(f"{path}: builds: external servers cannot be mixed with builds")
    if manifest.external is not None and manifest.design.sliced:
        raise UserError(f"{path}: external servers cannot be interleaved in slices")
    labels = {build.label for build in manifest.builds}
    if manifest.design.base not in labels:
        raise UserError(f"{path}: base {manifest.design.base!r} is not one of its builds")
    for cell in manifest.cells:
        subject = cell.subject
        if subject.build not in labels or config_key(subject.config, subject.build) not in manifest.configs:
            raise UserError(f"{path}: cell {cell.id!r} names a build or config that is not in it")
        if subject.kernel != HOST and manifest.kernel(subject.kernel) is None:
            raise UserError(f"{path}: cell {cell.id!r} names a kernel that is not in it")
    return manifest


def _check_design(design: RunDesign, path: Path) -> None:
    for look in design.interim_analyses:
        if not (look.pairs > 0 and 0 < look.level <= LEVEL):
            raise UserError(f"{path}: interim_analyses: {look.pairs} pairs at level {look.level} make no sense")
    if sum(look.level for look in design.interim_analyses if look.pairs < design.repeats) > 0.75 * LEVEL:
        raise UserError(f"{path}: interim_analyses: they leave less than a quarter of {LEVEL:.0%} to the last one")
    pairs = [look.pairs for look in design.interim_analyses]
    if pairs != sorted(set(pairs)):
        raise UserError(f"{path}: interim_analyses: after {', '.join(map(str, pairs))} pairs are in no order")
    if design.adaptive and not design.sliced:
        raise UserError(f"{path}: interim_analyses: only a run in slices can have any")
    if design.minutes is not None and not 0 < design.minutes <= MOST_MINUTES:
        raise UserError(f"{path}: minutes: {design.minutes:g} is not above 0 and at most {MOST_MINUTES:g}")
    if not SLICE_MS[0] <= design.slice_ms <= SLICE_MS[1]:
        raise UserError(f"{path}: slice_ms: {design.slice_ms:g} is not {SLICE_MS[0]:g} to {SLICE_MS[1]:g}")
