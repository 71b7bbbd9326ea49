"""How clients reach their server: over its Unix socket, or over TCP from this machine or another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address

LOOPBACK = "127.0.0.1"
LEAST_PORT, MOST_PORT = 1024, 65535
_HOST = re.compile(r"(?!-)[\w.@:%/\[\]+-]+")


@dataclass(frozen=True, slots=True)
class Route:
    """`address` is the one that servers listen on besides their socket; empty: on none. `client` is the one that
    clients come from; no other may connect. Servers side by side have ports one after another; `port` 0: any free one.

    `host` is what ssh calls the machine on which the clients run, `name` what that calls itself; empty: this machine.
    """

    address: str = ""
    client: str = ""
    port: int = 0
    host: str = ""
    name: str = ""
    ssh_options: tuple[str, ...] = ()

    @property
    def tcp(self) -> bool:
        """Whether clients connect over TCP."""
        return bool(self.address)

    @property
    def words(self) -> str:
        """How clients connect, in words; what must be the same for runs to be compared."""
        if self.host:
            return f"TCP from {self.name or self.host}"
        if self.tcp:
            return "TCP within this machine" if self.address == LOOPBACK else f"TCP to {self.address}"
        return "the Unix socket"


SOCKET = Route()


def check_route(route: Route) -> None:
    """Raises ValueError for a route that cannot be meant: a record of somebody else's could hold any."""
    for name, text in (("address", route.address), ("client", route.client)):
        if not text:
            continue
        try:
            address = ip_address(text)
        except ValueError:
            raise ValueError(f"{name} {text!r} is no IP address") from None
        if address.is_unspecified or address.is_multicast:
            raise ValueError(f"{name} {text} is not the address of one machine")
    if bool(route.address) != bool(route.client):
        raise ValueError("address and client go together")
    if route.port and not LEAST_PORT <= route.port <= MOST_PORT:
        raise ValueError(f"port {route.port} is not {LEAST_PORT} to {MOST_PORT}")
    if route.host and not route.address:
        raise ValueError("clients on another host need an address to connect to")
    if route.host:
        check_host(route.host)
    if route.ssh_options and not route.host:
        raise ValueError("ssh options without a host")


def check_host(host: str) -> None:
    """Raises ValueError for what ssh would not take for a host: an option, say."""
    if not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is no name of a host: give one as for ssh, such as user@example.org")
