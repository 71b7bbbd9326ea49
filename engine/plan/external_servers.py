"""External servers in a plan: the options that they exclude, and the features that they must provide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.builds.label import Label, is_external, shown
from engine.core.errors import UserError
from engine.core.model import Build, Config, ExternalServers, config_key
from engine.plan.request import Request
from engine.postgres import external_server
from workloads.api.base import Plan, Step

DEFAULT = Request()


@dataclass(frozen=True, slots=True)
class Servers:
    builds: tuple[Build, ...]
    configs: dict[str, Config]
    connections: dict[str, str] = field(repr=False)
    use: ExternalServers
    notices: tuple[str, ...]


def check(request: Request) -> None:
    """Raise UserError for options that need servers of pgbed, or external ones."""
    if not request.external:
        for flag, given in (
            ("--accept-foreign-load", request.servers.accept_foreign_load),
            ("--scratch-database", request.servers.scratch_database is not None),
        ):
            if given:
                raise UserError(f"{flag} is for external servers: --pg NAME=postgresql://USER@HOST/DB")
        return
    started = [spec for spec in request.builds if not is_external(spec)]
    other = next(spec for spec in request.builds if is_external(spec))
    if started:
        raise UserError(
            f"{shown(other)} is an external server and {started[0]} would be started by pgbed: they cannot be "
            "compared, because machine, settings and other load differ; start it yourself and name it "
            "NAME=postgresql://… too"
        )
    excluded = (
        ("--config", request.configs != DEFAULT.configs, "it is compared with the settings that it has"),
        ("--set", bool(request.overrides), "it is compared with the settings that it has"),
        ("--set-each", request.set_each is not None, "it is compared with the settings that it has"),
        ("--keep", request.keep, "each cell's database is dropped"),
        ("--tcp", request.route.tcp, "the connection string decides how clients reach it"),
        ("--client-host", request.route.client_host is not None, "run bench on that host"),
        ("--kernel", request.in_guests, "its kernel is the one that it runs under"),
        ("--probes", request.probes not in ((), ("none",)), "probes see only servers of this machine, of pgbed's own"),
    )
    for flag, given, why in excluded:
        if given:
            raise UserError(f"{flag} cannot be used with {shown(other)}, an external server: {why}")
    if request.servers.scratch_database == "":
        raise UserError("--scratch-database: give a database's name")


def check_plan(plan: Plan) -> None:
    why = plan.own_server
    if plan.settings:
        why = f"it sets {', '.join(plan.settings)}"
    if why:
        raise UserError(f"this workload cannot run on an external server: {why}")


def look_up(request: Request, labels: Sequence[Label], steps: Sequence[Step]) -> Servers:
    """Connect to all of them. Raises UserError if one does not suit the plan."""
    servers = [external_server.look(label.name, label.place) for label in labels]
    external_server.refuse_doubles(servers)
    use = ExternalServers(
        accept_foreign_load=request.servers.accept_foreign_load,
        scratch_database=request.servers.scratch_database or "",
        checkpoint=all(server.may_checkpoint for server in servers),
        connections={server.name: external_server.without_password(server.conninfo) for server in servers},
    )
    for server in servers:
        server.check(use, max((step.connections for step in steps), default=0))
    return Servers(
        builds=tuple(server.build for server in servers),
        configs={config_key(external_server.CONFIG, server.name): server.config for server in servers},
        connections={server.name: server.conninfo for server in servers},
        use=use,
        notices=tuple(_notices(servers, use)),
    )


def _notices(servers: Sequence[external_server.ExternalServer], use: ExternalServers) -> list[str]:
    lines = [f"{server.name}: PostgreSQL {server.version}, external server at {server.address}" for server in servers]
    database = "database " + use.scratch_database if use.scratch_database else "a database of its own"
    lines.append(
        f"each cell works in {database}, and drops it at its end; not visible from outside: CPU and memory of the "
        "servers' processes, their machines, their logs; WAL and statistics include other clients"
    )
    if not use.checkpoint:
        who = ", ".join(server.name for server in servers if not server.may_checkpoint)
        lines.append(f"no CHECKPOINT is done before steps, on none of the servers: the role may not on {who}")
    if blind := [server.name for server in servers if not server.may_see_all]:
        lines.append(f"{', '.join(blind)}: the role is no member of pg_monitor: some settings and vacuums are not seen")
    if not use.accept_foreign_load:
        lines.append("ratios and intervals without verdicts: others may use these servers (--accept-foreign-load)")
    return lines
