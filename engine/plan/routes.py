"""The route between clients and servers: addresses and the clients' host, tried before all else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.core.errors import UserError
from engine.core.route import LOOPBACK, SOCKET, Route, check_host
from engine.plan.request import Request
from engine.plan.request_groups import RouteOptions
from engine.remote import client_host as hosts
from engine.remote.launchers import launchers
from engine.system.addresses import check_free, own_address
from workloads.api.base import Record, Workload


def check(request: Request) -> None:
    asked = request.route
    if not (asked.tcp or asked.client_host):
        for flag, value in (("--listen", asked.listen), ("--port", asked.port)):
            if value is not None:
                raise UserError(f"{flag} {value} is for clients over TCP: add --tcp or --client-host")
    if asked.ssh_options and not asked.client_host:
        raise UserError("--ssh-option: add --client-host, the host for ssh")
    if asked.client_host is not None:
        try:
            check_host(asked.client_host)
        except ValueError as error:
            raise UserError(f"--client-host {error}") from None


def check_reachable(request: Request) -> None:
    """Raise UserError if the clients' host cannot be reached: early, before servers are built."""
    if request.route.client_host:
        with hosts.shell(_ssh_route(request.route)):
            pass


def decide(
    request: Request, workload: Workload, record: Record, progress: Callable[[str], None]
) -> tuple[Route, dict[str, Any] | None]:
    """Decide the route of a run and, if clients run on another host, read that host's environment. Raises UserError.

    Copies everything that the clients need to their host once and tries it, but starts no clients.
    """
    asked = request.route
    if not (asked.tcp or asked.client_host):
        return SOCKET, None
    listen = own_address(asked.listen) if asked.listen else ""  # first: it takes no time
    servers = request.subjects if request.sliced else 1
    if not asked.client_host:
        address = listen or LOOPBACK
        if asked.port:
            check_free(address, asked.port, servers)
        return Route(address, address, asked.port or 0), None
    ssh_route = _ssh_route(asked)
    with hosts.connected(ssh_route, launchers(workload, record), record.get("programs", {}), progress) as host:
        address = listen or _reached_from(host)
        if asked.port:
            check_free(address, asked.port, servers)
        client = host.reaches(address, asked.port or 0)
        route = Route(address, client, asked.port or 0, ssh_route.host, host.name, ssh_route.ssh_options)
        return route, host.environment()


def _ssh_route(asked: RouteOptions) -> Route:
    return Route(host=str(asked.client_host), ssh_options=asked.ssh_options)


def _reached_from(host: hosts.ClientHost) -> str:
    """This machine's address as seen by the host when ssh connects from here."""
    name = host.route.host
    if not host.ssh_connection:
        raise UserError(
            f"--client-host {name}: ssh does not report the address that it connects from; give one with --listen"
        )
    address = host.ssh_connection[0].partition("%")[0]
    try:
        return own_address(address)
    except UserError:
        raise UserError(
            f"--client-host {name}: ssh connects from {address}, which is not an address of this machine "
            f"(through a router or another host?); give one with --listen"
        ) from None
