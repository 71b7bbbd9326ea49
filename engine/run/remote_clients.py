"""The connection of a run to the host that its clients run on: opened with the first cell, and anew after a failure."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Self

from engine.core.errors import UserError
from engine.core.lines import LineError
from engine.core.model import Manifest
from engine.core.text import visible, write
from engine.remote.client_host import ClientHost, connected
from engine.remote.launchers import launchers
from workloads import workload


def _say(text: str) -> None:
    write(visible(text), sys.stderr)


class RemoteClients:
    """A context manager that leaves nothing on the host. Does nothing if clients run on this machine."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._opened = ExitStack()
        self._host: ClientHost | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()

    def host(self) -> ClientHost | None:
        """The connected host, or None for this machine. Raises UserError if it is unreachable or has changed."""
        route = self._manifest.route
        if not route.host:
            return None
        if self._host is not None:
            try:
                self._host.channel.ask({"do": "clock"})
                return self._host
            except LineError:
                self.drop()
        record = self._manifest.workload
        needed = launchers(workload(record["name"]), record)
        host = self._opened.enter_context(connected(route, needed, record.get("programs", {}), _say))
        try:
            client = host.reaches(route.address, route.port)
            if (host.name, client) != (route.name, route.client):
                raise UserError(
                    f"--client-host {route.host} is {host.name} at {client} now, was {route.name} at {route.client} as "
                    f"the run was planned; start a new run"
                )
        except BaseException:
            self.drop()
            raise
        self._host = host
        return host

    def drop(self) -> None:
        """Close the connection: after a failure, what still runs there is unknown."""
        self._host = None
        self._opened.close()
