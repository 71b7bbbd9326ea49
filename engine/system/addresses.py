"""Addresses and ports of this machine, and which of them are free."""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
from ipaddress import ip_address

from engine.core.errors import UserError

SIOCGIFADDR = 0x8915  # netdevice(7)
IFNAMSIZ = 16


def own_address(text: str) -> str:
    """An address of this machine, from the address or its interface's name. Raises UserError for any other."""
    address = text
    try:
        if ip_address(text).is_unspecified:
            raise UserError(f"--listen {text} means every interface: name one, so that nobody else can connect")
    except ValueError:
        address = _address_of(text)
    try:
        free_port(address)
    except OSError as error:
        raise UserError(f"--listen {text}: not an address of this machine ({error.strerror})") from None
    return address


def free_port(address: str, wanted: int = 0) -> int:
    """A free port: `wanted`, or any. Raises OSError if none is free."""
    with _bound(address, wanted) as bound:
        return int(bound.getsockname()[1])


def check_free(address: str, port: int, count: int) -> None:
    """Raise UserError if one of `count` consecutive ports is taken."""
    for candidate in range(port, port + count):
        try:
            free_port(address, candidate)
        except OverflowError:
            raise UserError(f"--port {port}: {count} servers side by side need as many consecutive ports") from None
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else str(error.strerror)
            raise UserError(
                f"--port {port}: {address}:{candidate} {why}; choose another, or leave out --port"
            ) from None


def listening(address: str, port: int = 0) -> socket.socket:
    """A listening socket for the caller to close. Raises OSError."""
    bound = _bound(address, port)
    bound.listen()
    return bound


def _bound(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like the server, ignore old connections
        listener.bind((address, port))
    except BaseException:
        listener.close()
        raise
    return listener


def _address_of(interface: str) -> str:
    names = [name for _, name in socket.if_nameindex()]
    if interface not in names:
        raise UserError(
            f"--listen {interface}: neither an IP address nor a network interface of this machine "
            f"(there are {', '.join(names)})"
        )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking, SIOCGIFADDR, struct.pack("256s", interface.encode()[: IFNAMSIZ - 1]))
        except OSError as error:
            raise UserError(f"--listen {interface}: it has no IPv4 address ({error.strerror}); name one") from None
    return socket.inet_ntoa(answer[20:24])
