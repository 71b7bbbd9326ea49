"""Confirmation of what a record would execute: a run that was copied or mailed starts nothing by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.builds import client_programs, resolve
from engine.builds.catalog import catalog
from engine.builds.label import is_external, name_of, shown
from engine.core.errors import UserError
from engine.core.model import Build, Manifest
from engine.core.record import converted
from engine.core.route import Route
from engine.guest import host_kernels
from engine.guest import kernels as known_kernels
from engine.host import perf, scheduler
from engine.host.files import strange_file
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.runs import CONTROL
from engine.plan import counter_check
from engine.postgres import configs
from engine.postgres.cluster import CLUSTERS, DATA, FILES
from engine.postgres.external_cell import left_in
from engine.postgres.external_server import look
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
    kernels: Sequence[str] = (),
) -> dict[str, str]:
    """Checks that an existing run may be continued; returns the connection strings of servers that it is attached to.

    Its builds are those of the catalog, or installs that `specs` name again as NAME=PATH, and so are its kernels;
    settings that start a program
    are named again in `settings`. Scripts that are no part of the workload and their variables, which can do what a
    superuser of the server can, are those of the files `scripts` and of `variables` (NAME=VALUE). Its folder holds
    regular files only. Raises UserError, saying what to do, otherwise.
    The builds of a run that is finished are never started, so they may be anything. Servers that were running already
    are named again, too: no password is in the record, and no server of somebody else's record is connected to.
    """
    strange = strange_file(run, _made_by_an_engine)
    if strange is not None:
        raise UserError(f"{strange}: not a regular file, so not written by the engine; remove it")
    confirmed = configs.overrides(settings)
    for config in manifest.configs.values() if manifest.external is None else ():  # else nobody sets them
        configs.check_recorded(config, confirmed)
    given = {name_of(spec): spec for spec in specs}
    for name in given.keys() - {build.label for build in manifest.builds}:
        raise UserError(f"--pg {shown(given[name])}: this run has no build of that name")
    if _finished(run, manifest) and not (manifest.external and left_in(run)):
        return {}
    _confirm_written(manifest, scripts, variables)
    known = {entry.label for entry in catalog()}
    connections = {}
    for build in manifest.builds:
        if build.external:
            connections[build.label] = _connection(build, given.get(build.label), run)
        else:
            _confirm_build(build, known, given.get(build.label), run.parent, progress)
    _confirm_workload(manifest, run.parent, progress)
    _confirm_perf(manifest, run.parent, progress)
    _confirm_kernels(manifest, kernels, run.parent, progress)
    return connections


def confirm_route(route: Route, host: str | None, ssh_options: Sequence[str]) -> None:
    """Checks that clients go to no other host than the user names, and ssh does nothing but what he says.

    Raises UserError. ssh's options can start programs.
    """
    if (host or "") != route.host:
        if not route.host:
            raise UserError(f"--client-host {host}: the clients of this run are on the servers' machine")
        raise UserError(
            f"the clients of this run are started on {route.host} by ssh; if you trust it, confirm it with "
            f"--client-host {route.host}"
        )
    _confirm_each("--ssh-option", ssh_options, route.ssh_options, "option", "may start programs")


def _confirm_each(flag: str, given: Sequence[str], recorded: Sequence[str], noun: str, risk: str) -> None:
    """Each recorded value has to be given again, word for word, and no other."""
    for each in given:
        if each not in recorded:
            raise UserError(f"{flag} {each}: this run has no such {noun}")
    for each in recorded:
        if each not in given:
            raise UserError(f"{flag} {each} of this run {risk}; if you trust it, confirm it with the same {flag}")


def _confirm_perf(manifest: Manifest, out: Path, progress: Callable[[str], None]) -> None:
    """It is started with the rights of whoever resumes: only that of this machine is."""
    recorded = manifest.perf.get("path")
    if recorded is not None and recorded != counter_check.find(progress, out / ".builds"):
        raise UserError(
            f"this run counts events by {recorded}, which is not the perf of this machine; name it in "
            f"{perf.VARIABLE} if you trust it, or start a new run"
        )


def _finished(run: Path, manifest: Manifest) -> bool:
    if not (run / "journal.db").exists():  # its engine ended before it had made one
        return False
    with JournalReader(run) as journal:
        done = outcome.finished(manifest, journal.attempts(origins=False))
        return done.issuperset(cell.id for cell in outcome.wanted(manifest, journal.decisions()))


def _connection(build: Build, spec: str | None, run: Path) -> str:
    """The connection string of a server that was running already, given again; it must be the same server."""
    if spec is None or not is_external(spec):
        left = [made for made in left_in(run).values() if made.build == build.label]
        there = f" (database {left[0].database} was left there)" if left else ""
        raise UserError(
            f"build '{build.label}' of this run is a server that was running already{there}; to go on, confirm it "
            f"with --pg {build.label}=postgresql://… ({build.server})"
        )
    found = look(build.label, spec.partition("=")[2])
    if found.build.digest != build.digest:
        raise UserError(
            f"{build.label}: {found.address} is not the server, or not the version, that the run began with "
            f"({build.server}, {build.version}); start a new run"
        )
    return found.conninfo


def _confirm_build(build: Build, known: set[str], spec: str | None, out: Path, progress: Callable[[str], None]) -> None:
    if build.label not in known and spec is None:
        if resolve.made_here(build, out / ".builds"):
            return
        place = "SOURCE" if build.source else build.prefix
        raise UserError(
            f"build '{build.label}' of this run is not in the catalog; "
            f"if you trust this {'source' if build.source else 'install'}, confirm it with --pg {build.label}={place}"
        )
    (found,) = resolve.resolve([spec or build.label], progress, out / ".builds", exact=True)
    for what in ("prefix", "version", "digest", "initdb_args"):
        here, recorded = getattr(found, what), getattr(build, what)
        if here != recorded:
            raise UserError(
                f"build '{build.label}' has changed since the run began: its {what} is {here}, "
                f"was {recorded}; start a new run"
            )


def _confirm_kernels(manifest: Manifest, specs: Sequence[str], out: Path, progress: Callable[[str], None]) -> None:
    """The images are those that a new run would boot here. A guest may read what the account of servers may."""
    given = {known_kernels.label_of(spec): spec for spec in specs}
    for name in given.keys() - {kernel.label for kernel in manifest.kernels}:
        raise UserError(f"--kernel {given[name]}: this run has no kernel of that name")
    known = {entry.label for entry in known_kernels.catalog()}
    for kernel in manifest.kernels:
        label = kernel.label
        if not manifest.rebooting and kernel.label not in known and kernel.label not in given:
            raise UserError(
                f"kernel '{label}' of this run is not known here; if you trust this image, confirm it with "
                f"--kernel {label}={kernel.image}"
            )
        if manifest.rebooting:
            found = host_kernels.resolve(kernel.label)
        else:
            found = known_kernels.resolve(given.get(kernel.label, kernel.label), progress, out / ".builds")
        if found != kernel:
            raise UserError(
                f"kernel '{label}' has changed since the run began: it is {found.release}, was "
                f"{kernel.release}, or another image; start a new run"
            )
    scheduler.check_recorded(manifest.tunables)


def _confirm_written(manifest: Manifest, scripts: Sequence[str], variables: Sequence[str]) -> None:
    try:
        written = _written(manifest)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"manifest.json: workload: {error}") from None
    given = {Path(file).name: Path(file) for file in scripts}
    for name in given.keys() - written.scripts.keys():
        raise UserError(f"--script {given[name]}: this run has no script of that name")
    for name, text in written.scripts.items():
        if name not in given:
            raise UserError(
                f"script '{name}' of this run does what a superuser can; if you trust it, confirm it with "
                f"--script and its file"
            )
        try:
            same = given[name].read_text() == text
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text file (UTF-8)"
            raise UserError(f"--script {given[name]}: {reason}") from None
        if not same:
            raise UserError(f"--script {given[name]}: not the text that this run has; start a new run")
    _confirm_each("-D", variables, written.variables, "variable", "becomes part of its SQL")


def _written(manifest: Manifest) -> Written:
    """What is executed by any of its workloads."""
    return Written.together(workload(str(record["name"])).written(record) for record in manifest.workloads)


def _confirm_workload(manifest: Manifest, out: Path, progress: Callable[[str], None]) -> None:
    """Its programs are those that a new run would find here, and they can do what is planned."""
    where = "manifest.json: workload: programs"
    recorded = [
        each
        for own in manifest.workloads
        for each in converted(own.get("programs", {}), dict[str, dict[str, str]], where).items()
    ]
    for name, record in recorded:
        found = client_programs.find((name,), manifest.builds, progress, out / ".builds")[name]
        if found != record:
            here, there = (str(each.get("path")) for each in (found, record))
            raise UserError(
                f"{name} of this run is {there}, and not the one that is found here, {here}; if you trust it, "
                f"name it in PGBED_{name.upper()}"
            )
    try:
        for own in manifest.workloads:
            workload(str(own["name"])).check(own)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"manifest.json: workload: {error}") from None


def _made_by_an_engine(path: str) -> bool:
    """Clusters are their server's; the socket folder's symlink and the control socket are never followed."""
    parts = path.split("/")
    names = (DATA, FILES, CLUSTERS, "socket")
    return parts == [CONTROL] or (len(parts) == 3 and parts[0] == "cells" and parts[2] in names)
