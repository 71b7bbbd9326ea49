"""The route of clients to their server: its Unix socket, or TCP from this machine or another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

LOOPBACK = "127.0.0.1"
LEAST_PORT, MOST_PORT = 1024, 65535
_HOST = re.compile(r"(?!-)[\w.@:%/\[\]+-]+")


@dataclass(frozen=True, slots=True)
class Route:
    """The route of clients to their server; by default its Unix socket.

    Servers also listen on `address` (if not empty), and only `client` may connect. Interleaved servers have consecutive
    ports; `port` 0 means any free one. `host` is the machine of remote clients as ssh names it, `name` its own host
    name; both are empty for clients on this machine.
    """

    address: str = ""
    client: str = ""
    port: int = 0
    host: str = ""
    name: str = ""
    ssh_options: tuple[str, ...] = ()

    @property
    def tcp(self) -> bool:
        return bool(self.address)

    @property
    def words(self) -> str:
        """The way in which clients connect, in words; runs are comparable only if it is equal."""
        if self.host:
            return f"TCP from {self.name or self.host}"
        if self.tcp:
            return "TCP within this machine" if self.address == LOOPBACK else f"TCP to {self.address}"
        return "the Unix socket"


SOCKET = Route()


def check_route(route: Route) -> None:
    """Raise ValueError for an invalid route, which another user's record may contain."""
    for name, text in (("address", route.address), ("client", route.client)):
        if not text:
            continue
        try:
            address = ip_address(text)
        except ValueError:
            raise ValueError(f"{name} {text!r} is not an IP address") from None
        if address.is_unspecified or address.is_multicast:
            raise ValueError(f"{name} {text} is not the address of one machine")
    if bool(route.address) != bool(route.client):
        raise ValueError("address and client must be given together")
    if route.port and not LEAST_PORT <= route.port <= MOST_PORT:
        raise ValueError(f"port {route.port} is not {LEAST_PORT} to {MOST_PORT}")
    if route.host and not route.address:
        raise ValueError("clients on another host need an address to connect to")
    if route.host:
        check_host(route.host)
    if route.ssh_options and not route.host:
        raise ValueError("ssh options without a host")


def check_host(host: str) -> None:
    """Raise ValueError for a host that ssh would take for something else, such as an option."""
    if not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is not a host name: name a host as for ssh, such as user@example.org")
