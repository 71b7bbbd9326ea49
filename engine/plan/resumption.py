"""Conditions for resuming a run: nothing that it measures has changed since it began."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from engine.builds import client_programs, resolve
from engine.builds.label import name_of
from engine.builds.source_tree import Source
from engine.core.errors import UserError
from engine.core.model import Build, Manifest, config_key
from engine.core.record import converted
from engine.features import with_parts
from engine.guest import kernels as known_kernels
from engine.journal import outcome
from engine.journal.reader import JournalReader
from engine.journal.runs import CONTROL
from engine.plan import allocation, external_servers, interleaving
from engine.plan.request import Request, request_of
from engine.plan.workload_plans import load_of
from engine.postgres import configs, setting_kinds
from engine.postgres.cluster import CLUSTERS, DATA, FILES
from engine.postgres.external_cell import left_in
from engine.system.files import strange_file
from workloads import workload
from workloads.api.names import UnknownName


def check(run: Path, manifest: Manifest, progress: Callable[[str], None]) -> dict[str, str]:
    """Check that a run of the user's own can be continued; return connection strings to servers that run already.

    Raises UserError if a build, kernel, program, script or settings file has changed since the run began, or if its
    folder holds anything but files. Servers of finished cells are not started, so they may have changed.
    """
    strange = strange_file(run, _made_by_an_engine)
    if strange is not None:
        raise UserError(f"{strange}: not a regular file, so not written by the engine; remove it")
    _check_lengths(run, manifest)
    if _finished(run, manifest) and not left_in(run):
        return {}
    request = _request(manifest)
    _check_scripts(manifest, request)
    connections = external_servers.connect_again(manifest)
    if not connections:
        texts = {name_of(text): text for text in request.builds}
        for build in manifest.builds:
            _check_build(build, texts.get(build.label, build.label), run.parent, progress)
        check_configs(manifest, request)
    _check_programs(manifest, run.parent, progress)
    for feature, part in with_parts(manifest.parts):
        feature.check_resumed(part, manifest, run, progress)
    _check_kernels(manifest, request, run.parent, progress)
    return connections


def _request(manifest: Manifest) -> Request:
    try:
        return request_of(manifest.request)
    except (UnknownName, ValueError) as error:
        raise UserError(f"manifest.json: request: {error}") from None


def complete(run: Path, manifest: Manifest) -> bool:
    """Whether a run has finished, so that another engine would find nothing to do."""
    if not _finished(run, manifest):
        return False
    with JournalReader(run) as journal:
        return all(attempt.state != "running" for attempt in journal.attempts(origins=False))


def _finished(run: Path, manifest: Manifest) -> bool:
    if not (run / "journal.db").exists():  # its engine ended before creating it
        return False
    with JournalReader(run) as journal:
        done = outcome.finished(manifest, journal.attempts(origins=False))
        return done.issuperset(cell.id for cell in outcome.wanted(manifest, journal.decisions()))


def _check_lengths(run: Path, manifest: Manifest) -> None:
    """The engine divides the time left by these. It runs in another process: its error would be one of engine.log."""
    if not manifest.design.adaptive or not (run / "journal.db").exists():
        return
    planned = allocation.planned_lengths(manifest)
    with JournalReader(run) as journal:
        decided = outcome.allocation(manifest, journal.decisions())
        allocation.check(decided.seconds if decided is not None else {}, planned)
        for attempt in journal.attempts(origins=False):
            steps = [step for step in journal.steps(attempt.id) if step.name in planned]
            allocation.check({step.name: step.planned_s for step in steps}, planned, "step")


def _check_build(build: Build, text: str, out: Path, progress: Callable[[str], None]) -> None:
    """A server that was compiled here is kept: changes of its source are only reported."""
    if resolve.made_here(build, out / ".builds"):
        with suppress(UserError):  # the source may be gone
            (label,) = resolve.check([text])
            if isinstance(label.origin, Source) and label.origin.commit and label.origin.title != build.source:
                progress(f"? build '{build.label}': its source has changed; the run keeps {build.source}")
        return
    (resolved,) = resolve.resolve([text], progress, out / ".builds", exact=True)
    for name in ("prefix", "version", "digest", "initdb_args"):
        here, recorded = getattr(resolved, name), getattr(build, name)
        if here != recorded:
            raise UserError(
                f"build '{build.label}' has changed since the run began: its {name} is {here}, "
                f"was {recorded}; start a new run"
            )


def check_configs(manifest: Manifest, request: Request) -> None:
    """Raise UserError if a setting of the run is not taken any more, or the file of a config has changed since.

    Files that can no longer be read are passed over: their settings are recorded.
    """
    for config in manifest.configs.values():
        for name, value in config.settings:
            if why := setting_kinds.refusal(name, value):
                raise UserError(
                    f"config '{config.name}' of the run sets {name}: settings {why} are not taken; start a new run"
                )
    overridden = {name for name, _ in configs.overrides(request.overrides)}
    if request.set_each is not None:
        overridden.add(request.set_each.partition("=")[0].strip().lower())
    if manifest.design.sliced:  # then servers have longer ones
        overridden |= interleaving.INTERVALS.keys()
    for text in (text for text in request.configs if configs.is_file(text, Path())):
        try:
            (spec,) = configs.resolve([text])
        except UserError:
            continue
        for build in manifest.builds:
            now = spec.of(build.major)
            for name, recorded in _recorded(manifest, request, spec.name, build.label):
                if name not in overridden and now.get(name, recorded) not in (recorded, configs.SCALED):
                    raise UserError(
                        f"config '{spec.name}' has changed since the run began: {name} is {now[name]}, was {recorded}; "
                        "start a new run"
                    )


def _recorded(manifest: Manifest, request: Request, config: str, build: str) -> Iterator[tuple[str, str]]:
    """Settings of a build under a config, or under each that --set-each made of it."""
    names = [config]
    if request.set_each is not None:
        before = f"{config} " if len(request.configs) > 1 else ""
        names = [
            config_names.name for config_names in manifest.configs.values() if config_names.name.startswith(before)
        ]
    for name in dict.fromkeys(names):
        recorded = manifest.configs.get(config_key(name, build))
        yield from recorded.settings if recorded is not None else ()


def _check_kernels(manifest: Manifest, request: Request, out: Path, progress: Callable[[str], None]) -> None:
    texts = {known_kernels.label_of(text): text for text in request.kernels}
    for kernel in manifest.boot.kernels:
        kernels = known_kernels.resolve(texts.get(kernel.label, kernel.label), progress, out / ".builds")
        if kernels != kernel:
            raise UserError(
                f"kernel '{kernel.label}' has changed since the run began: it is {kernels.release}, was "
                f"{kernel.release}, or another image; start a new run"
            )


def _check_scripts(manifest: Manifest, request: Request) -> None:
    """Scripts whose files are gone run as they were recorded."""
    try:
        record, load = manifest.workload, load_of(request, request.options)
        written = workload(str(record["name"])).written(record)
        now = load.workload.written(load.plan.record)
    except (UnknownName, ValueError, LookupError, TypeError, AttributeError, UserError):
        return
    for name, text in now.items():
        if written.get(name, text) != text:
            raise UserError(f"script '{name}' has changed since the run began; start a new run")


def _check_programs(manifest: Manifest, out: Path, progress: Callable[[str], None]) -> None:
    where = "manifest.json: workload: programs"
    record = manifest.workload
    for name, recorded in converted(record.get("programs", {}), dict[str, dict[str, str]], where).items():
        program = client_programs.find((name,), manifest.builds, progress, out / ".builds")[name]
        if program != recorded:
            raise UserError(
                f"{name} is {program.get('path')}, and was {recorded.get('path')} when the run began; name that in "
                f"PGBED_{name.upper()}, or start a new run"
            )
    try:
        workload(str(record["name"])).check(record)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"manifest.json: workload: {error}") from None


def _made_by_an_engine(path: str) -> bool:
    """Clusters belong to their server; the socket folder's symlink and the control socket are never followed."""
    parts = path.split("/")
    names = (DATA, FILES, CLUSTERS, "socket")
    return parts == [CONTROL] or (len(parts) == 3 and parts[0] == "cells" and parts[2] in names)
