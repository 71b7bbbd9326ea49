"""External servers in a plan: the options that they exclude, and the features that they must provide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.builds.label import Label, is_external, shown
from engine.core.errors import UserError
from engine.core.model import ExternalServers, Manifest, config_key
from engine.plan.request import Request, request_options
from engine.plan.request_groups import ExternalOptions
from workloads.api.base import Plan
from workloads.api.options import options_of

if TYPE_CHECKING:
    from engine.plan.prepare import Draft
    from engine.postgres.external_server import ExternalServer

SETTINGS = "it is compared with the settings that it has"
REFUSED = {  # options, and why
    "configs": SETTINGS,
    "overrides": SETTINGS,
    "set_each": SETTINGS,
    "keep": "each cell's database is dropped",
    "tcp": "the connection string decides how clients reach it",
    "client_host": "run bench on that host",
    "kernels": "its kernel is the one that it runs under",
    "probes": "probes see only servers of this machine, of pgbed's own",
    "counters": "its processes are not visible; use auto",
    "sched": "nothing is set on its machine",
}
ALLOWED = (("probes", ["none"]), ("counters", "auto"))


def check(request: Request) -> None:
    """Raise UserError for options that need servers of pgbed, or external ones."""
    entries = request.entries()
    if not request.external:
        for option in options_of(ExternalOptions):
            if option.name in entries:
                raise UserError(f"{option.flag} is for external servers: --pg NAME=postgresql://USER@HOST/DB")
        return
    started = [spec for spec in request.builds if not is_external(spec)]
    other = next(spec for spec in request.builds if is_external(spec))
    if started:
        raise UserError(
            f"{shown(other)} is an external server and {started[0]} would be started by pgbed: they cannot be "
            "compared, because machine, settings and other load differ; start it yourself and name it "
            "NAME=postgresql://… too"
        )
    for option in request_options():
        why, value = REFUSED.get(option.name), entries.get(option.name)
        if why and value is not None and (option.name, value) not in ALLOWED:
            raise UserError(f"{option.flag} cannot be used with {shown(other)}, an external server: {why}")
    if request.servers.scratch_database == "":
        raise UserError("--scratch-database: give a database's name")


def allowed(entries: Mapping[str, Any], builds: Iterable[object]) -> dict[str, Any]:
    """A preset's entries for these builds."""
    refused = (*REFUSED, "interleave") if any(is_external(str(build)) for build in builds) else ()
    return {name: value for name, value in entries.items() if name not in refused}


def check_plan(plan: Plan) -> None:
    why = plan.own_server
    if plan.settings:
        why = f"it sets {', '.join(plan.settings)}"
    if why:
        raise UserError(f"this workload cannot run on an external server: {why}")


def look_up(draft: Draft, labels: Sequence[Label]) -> list[str]:
    """Connect to all of them, and set what they decide; return notices. Raises UserError if one does not suit."""
    from engine.postgres import external_server  # loads a driver

    options = draft.request.servers
    servers = [external_server.look(label.name, label.place) for label in labels]
    external_server.refuse_doubles(servers)
    use = ExternalServers(
        accept_foreign_load=options.accept_foreign_load,
        scratch_database=options.scratch_database or "",
        checkpoint=all(server.facts.may_checkpoint for server in servers),
        connections={server.name: external_server.without_password(server.conninfo) for server in servers},
    )
    for server in servers:
        server.check(use, max((step.connections for step in draft.design.steps), default=0))
    draft.builds, draft.parts["external"] = tuple(server.build for server in servers), use
    draft.configs = {config_key(server.config.name, server.name): server.config for server in servers}
    draft.connections = {server.name: server.conninfo for server in servers}
    return _notices(servers, use)


def connect_again(manifest: Manifest) -> dict[str, str]:
    """The connection strings of a run's external servers, by build. Raises UserError if one is not the same."""
    from engine.postgres import external_server  # loads a driver

    recorded, connections = manifest.external.connections if manifest.external is not None else {}, {}
    for build in manifest.builds if recorded else ():
        server = external_server.look(build.label, recorded.get(build.label, ""))
        if server.build.digest != build.digest:
            raise UserError(
                f"{build.label}: {server.address} is not the server, or not the version, that the run began with "
                f"({build.server}, {build.version}); start a new run"
            )
        connections[build.label] = server.conninfo
    return connections


def _notices(servers: Sequence[ExternalServer], use: ExternalServers) -> list[str]:
    lines = [f"{server.name}: PostgreSQL {server.version}, external server at {server.address}" for server in servers]
    database = "database " + use.scratch_database if use.scratch_database else "a database of its own"
    lines.append(
        f"each cell works in {database}, and drops it at its end; not visible from outside: CPU and memory of the "
        "servers' processes, their machines, their logs; WAL and statistics include other clients"
    )
    if not use.checkpoint:
        who = ", ".join(server.name for server in servers if not server.facts.may_checkpoint)
        lines.append(f"no CHECKPOINT is done before steps, on none of the servers: the role may not on {who}")
    if blind := [server.name for server in servers if not server.facts.may_see_all]:
        lines.append(f"{', '.join(blind)}: the role is no member of pg_monitor: some settings and vacuums are not seen")
    if not use.accept_foreign_load:
        lines.append("ratios and intervals without verdicts: others may use these servers (--accept-foreign-load)")
    return lines
