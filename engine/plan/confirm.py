"""Confirmation of what a record would execute: a run that was copied or mailed starts nothing by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.core.errors import UserError
from engine.core.model import Build, Manifest
from engine.core.record import converted
from engine.core.text import visible
from engine.host.files import strange_file
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.runs import CONTROL
from engine.postgres import builds, configs, programs
from engine.postgres.cluster import DATA, FILES
from workloads import workload
from workloads.base import Written


def confirm(
    run: Path,
    manifest: Manifest,
    specs: Sequence[str],
    settings: Sequence[str],
    progress: Callable[[str], None],
    *,
    scripts: Sequence[str] = (),
    variables: Sequence[str] = (),
) -> None:
    """Checks that an existing run may be continued.

    Its builds are those of the catalog, or installs that `specs` name again as NAME=PATH; settings that start a program
    are named again in `settings`. Scripts that are no part of the workload and their variables, which can do what a
    superuser of the server can, are those of the files `scripts` and of `variables` (NAME=VALUE). Its folder holds
    regular files only. Raises UserError, saying what to do, otherwise.
    The builds of a run that is finished are never started, so they may be anything.
    """
    strange = strange_file(run, _made_by_an_engine)
    if strange is not None:
        raise UserError(f"{visible(str(strange))}: not a regular file, so not written by the engine; remove it")
    confirmed = configs.overrides(settings)
    for config in manifest.configs.values():
        configs.check_recorded(config, confirmed)
    given = {spec.partition("=")[0]: spec for spec in specs}
    for name in given.keys() - {build.label for build in manifest.builds}:
        raise UserError(f"--pg {visible(given[name])}: this run has no build of that name")
    if _finished(run, manifest):
        return
    _confirm_written(manifest, scripts, variables)
    known = {entry.label for entry in builds.catalog()}
    for build in manifest.builds:
        _confirm_build(build, known, given.get(build.label), run.parent, progress)
    _confirm_workload(manifest, run.parent, progress)


def _finished(run: Path, manifest: Manifest) -> bool:
    if not (run / "journal.db").exists():  # its engine ended before it had made one
        return False
    with JournalReader(run) as journal:
        done = outcome.finished(manifest, journal.attempts(origins=False))
        return done.issuperset(cell.id for cell in outcome.wanted(manifest, journal.decisions()))


def _confirm_build(build: Build, known: set[str], spec: str | None, out: Path, progress: Callable[[str], None]) -> None:
    if build.label not in known and spec is None:
        raise UserError(
            f"build '{build.label}' of this run is not in the catalog; "
            f"if you trust this install, confirm it with --pg {build.label}={visible(build.prefix)}"
        )
    (found,) = builds.resolve([spec or build.label], progress, out / ".builds", exact=True)
    for what in ("prefix", "version", "digest", "initdb_args"):
        here, recorded = getattr(found, what), getattr(build, what)
        if here != recorded:
            raise UserError(
                f"build '{build.label}' has changed since the run began: its {what} is {visible(str(here))}, "
                f"was {visible(str(recorded))}; start a new run"
            )


def _confirm_written(manifest: Manifest, scripts: Sequence[str], variables: Sequence[str]) -> None:
    try:
        written = _written(manifest)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"manifest.json: workload: {visible(str(error))}") from None
    given = {Path(file).name: Path(file) for file in scripts}
    for name in given.keys() - written.scripts.keys():
        raise UserError(f"--script {visible(str(given[name]))}: this run has no script of that name")
    for name, text in written.scripts.items():
        if name not in given:
            raise UserError(
                f"script '{visible(name)}' of this run does what a superuser can; if you trust it, confirm it with "
                f"--script and its file"
            )
        try:
            same = given[name].read_text() == text
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file (UTF-8)"
            raise UserError(f"--script {visible(str(given[name]))}: {reason}") from None
        if not same:
            raise UserError(f"--script {visible(str(given[name]))}: not the text that this run has; start a new run")
    for each in variables:
        if each not in written.variables:
            raise UserError(f"-D {visible(each)}: this run has no such variable")
    for each in written.variables:
        if each not in variables:
            raise UserError(
                f"-D {visible(each)} of this run becomes part of its SQL; if you trust it, confirm it with the same -D"
            )


def _written(manifest: Manifest) -> Written:
    """What is executed by any of its workloads."""
    found = [workload(str(record["name"])).written(record) for record in manifest.workloads]
    scripts: dict[str, str] = {}
    for each in found:
        for name, text in each.scripts.items():
            if scripts.setdefault(name, text) != text:
                raise ValueError(f"two different scripts are called {name}")
    return Written(scripts, tuple(dict.fromkeys(variable for each in found for variable in each.variables)))


def _confirm_workload(manifest: Manifest, out: Path, progress: Callable[[str], None]) -> None:
    """Its programs are those that a new run would find here, and they can do what is planned."""
    where = "manifest.json: workload: programs"
    recorded = [
        each
        for own in manifest.workloads
        for each in converted(own.get("programs", {}), dict[str, dict[str, str]], where).items()
    ]
    for name, record in recorded:
        found = programs.find((name,), manifest.builds, progress, out / ".builds")[name]
        if found != record:
            here, there = (visible(str(each.get("path"))) for each in (found, record))
            raise UserError(
                f"{visible(name)} of this run is {there}, and not the one that is found here, {here}; if you trust it, "
                f"name it in PGBED_{visible(name.upper())}"
            )
    try:
        for own in manifest.workloads:
            workload(str(own["name"])).check(own)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"manifest.json: workload: {visible(str(error))}") from None


def _made_by_an_engine(path: str) -> bool:
    """Clusters are their server's; the socket folder's symlink and the control socket are never followed."""
    parts = path.split("/")
    return parts == [CONTROL] or (len(parts) == 3 and parts[0] == "cells" and parts[2] in (DATA, FILES, "socket"))
