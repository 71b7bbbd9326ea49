"""The route between clients and servers: addresses and the clients' host, tried before all else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.core.errors import UserError
from engine.core.route import LOOPBACK, SOCKET, Route, check_host
from engine.plan.request import Request
from engine.remote import client_host as hosts
from engine.remote.launchers import launchers
from engine.system.addresses import check_free, own_address
from workloads.api.base import Record, Workload


def check(request: Request) -> None:
    if not (request.tcp or request.client_host):
        for flag, value in (("--listen", request.listen), ("--port", request.port)):
            if value is not None:
                raise UserError(f"{flag} {value} is for clients over TCP: add --tcp or --client-host")
    if request.ssh_options and not request.client_host:
        raise UserError("--ssh-option: add --client-host, the host for ssh")
    if request.client_host is not None:
        try:
            check_host(request.client_host)
        except ValueError as error:
            raise UserError(f"--client-host {error}") from None


def check_reachable(request: Request) -> None:
    """Raise UserError if the clients' host cannot be reached: early, before servers are built."""
    if request.client_host:
        with hosts.shell(_ssh_route(request)):
            pass


def decide(
    request: Request, workload: Workload, record: Record, progress: Callable[[str], None]
) -> tuple[Route, dict[str, Any] | None]:
    """Decide the route of a run and, if clients run on another host, read that host's environment. Raises UserError.

    Copies everything that the clients need to their host once and tries it, but starts no clients.
    """
    if not (request.tcp or request.client_host):
        return SOCKET, None
    listen = own_address(request.listen) if request.listen else ""  # first: it takes no time
    servers = request.subjects if request.sliced else 1
    if not request.client_host:
        address = listen or LOOPBACK
        if request.port:
            check_free(address, request.port, servers)
        return Route(address, address, request.port or 0), None
    ssh_route = _ssh_route(request)
    with hosts.connected(ssh_route, launchers(workload, record), record.get("programs", {}), progress) as host:
        address = listen or _reached_from(host)
        if request.port:
            check_free(address, request.port, servers)
        client = host.reaches(address, request.port or 0)
        route = Route(address, client, request.port or 0, ssh_route.host, host.name, ssh_route.ssh_options)
        return route, host.environment()


def _ssh_route(request: Request) -> Route:
    return Route(host=str(request.client_host), ssh_options=request.ssh_options)


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
