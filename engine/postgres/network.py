"""Clients over TCP: one address that a server listens on, one host that may connect, one generated password.

The superuser connects over the private socket as before. The password is in a file only: the server is given its SCRAM
verifier, so that no statement contains it.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from engine.core.route import Route
from engine.postgres.cluster import PASSFILE
from engine.system.account import Account
from engine.system.addresses import free_port

METHOD = "scram-sha-256"
OLD_ITERATIONS = 4096  # fixed before 16


@dataclass(frozen=True, slots=True)
class Network:
    address: str
    client: str
    port: int
    password: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def settings(self) -> dict[str, str]:
        """The server's settings; password_encryption because its default differed before 14."""
        return {"listen_addresses": self.address, "password_encryption": METHOD}

    def hba(self, database: str, user: str) -> str:
        """The text of pg_hba.conf: the socket, which only its owner can reach, and this one client."""
        one = f"{self.client}/{ip_address(self.client).max_prefixlen}"
        return f"local all all trust\nhost {database} {user} {one} {METHOD}\n"

    def dsn(self, database: str, user: str, passfile: str) -> str:
        return make_conninfo(
            host=self.address,
            port=self.port,
            user=user,
            dbname=database,
            passfile=passfile,
            sslmode="disable",  # else its cost would depend on how the client was built
            gssencmode="disable",
        )

    def pass_line(self, database: str, user: str) -> str:
        host = self.address.replace(":", "\\:")
        return f"{host}:{self.port}:{database}:{user}:{self.password}\n"

    def write_passfile(self, folder: Path, database: str, user: str, account: Account) -> Path:
        path = folder / PASSFILE
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.pass_line(database, user))
        account.chown(path)
        return path

    def set_password(self, connection: psycopg.Connection[Any], user: str) -> dict[str, Any]:
        """Set the role's password; returns the record for the journal."""
        shown = connection.execute("SELECT current_setting('scram_iterations', true)").fetchone()
        iterations = int(shown[0]) if shown and shown[0] else OLD_ITERATIONS
        verifier = connection.pgconn.encrypt_password(self.password.encode(), user.encode(), METHOD.encode())
        for quiet in ("SET log_statement = 'none'", "SET log_min_duration_statement = -1"):
            connection.execute(quiet)  # a config may log all statements
        connection.execute(
            sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(user), sql.Literal(verifier.decode()))
        )
        return {
            "address": self.address,
            "port": self.port,
            "client": self.client,
            "method": METHOD,
            "scram_iterations": iterations,
        }


def network_of(route: Route, place: int = 0) -> Network | None:
    """The network of the `place`-th server side by side, or None without TCP. Raises OSError if no port is free."""
    if not route.tcp:
        return None
    return Network(route.address, route.client, route.port + place if route.port else free_port(route.address))
