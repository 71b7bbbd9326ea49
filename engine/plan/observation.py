"""The plan of an observation: servers that others use, each with one cell whose only step is to be watched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime

from psycopg.conninfo import conninfo_to_dict

from engine.builds.label import is_external
from engine.core.errors import UserError
from engine.core.model import OBSERVED, Cell, ExternalServers, Manifest, Subject, config_key
from engine.core.text import NAME
from engine.core.version import version
from engine.host import environment
from engine.observe.stalls import StallRule
from engine.postgres import external_server
from engine.postgres.external_server import Found
from engine.postgres.statement_counts import By

MOST_SERVERS = 2
# More cautious than for a workload of pgbed's: nobody knows what rate is wanted.
RULE = StallRule(enter_fraction=0.2, enter_s=3.0, warm_up_s=10.0)
LOCAL = "local"


def named(texts: Sequence[str]) -> dict[str, str]:
    """Connection strings by name: that of NAME=DSN, or else the host. Raises UserError; quotes no string."""
    if not 1 <= len(texts) <= MOST_SERVERS:
        raise UserError(f"{len(texts)} servers: one can be watched, or two side by side")
    found: dict[str, str] = {}
    for text in texts:
        name, _, conninfo = text.partition("=") if is_external(text) else ("", "", text)
        name = name or _host(conninfo)
        if not NAME.fullmatch(name):
            raise UserError("a server's name has letters, digits, dots and dashes: NAME=postgresql://…")
        if name in found:
            raise UserError(f"two servers would be called {name}: name them, as in a=postgresql://… b=postgresql://…")
        found[name] = conninfo
    return found


def _host(conninfo: str) -> str:
    """What to call a server: its host, with the port if that is not the usual one."""
    external_server.check_string("the server", conninfo)
    given = conninfo_to_dict(conninfo)
    host = str(given.get("host") or given.get("service") or LOCAL).split(",")[0]
    port = str(given.get("port") or "").split(",")[0]
    name = "".join(char if char.isascii() and (char.isalnum() or char in ".-") else "-" for char in host)
    name = LOCAL if host.startswith(("/", "@")) else name.strip(".-") or LOCAL
    return f"{name}-{port}"[:60] if port not in ("", "5432") else name[:60]


def looked_up(servers: dict[str, str]) -> list[Found]:
    """Connect to all and identify them. Raises UserError for one that cannot be watched."""
    found = [external_server.look(name, conninfo, only_watched=True) for name, conninfo in servers.items()]
    first, *others = found
    if any((other.identifier, other.started) == (first.identifier, first.started) for other in others):
        raise UserError(f"{' and '.join(servers)} are the same server ({first.address}): watch it once")
    return found


def manifest(found: Iterable[Found], by: By, seconds: float | None) -> Manifest:
    servers, created = tuple(found), datetime.now().astimezone()
    subjects = [Subject(server.name, external_server.CONFIG) for server in servers]
    names = "-".join(server.name for server in servers)
    return Manifest(
        run=f"{created:%Y%m%d-%H%M%S}-{names[:60]}",
        created=created.isoformat(timespec="seconds"),
        engine=version(),
        seed=0,
        base=servers[0].name,
        repeats=1,
        aa=False,
        margin=0.02,
        builds=tuple(server.build for server in servers),
        configs={config_key(external_server.CONFIG, server.name): server.config for server in servers},
        workload={
            "name": OBSERVED,
            "title": f"by {by}",
            "clients": 0,
            "identity": {},
            "non_default": [],
            "steps": [{"name": OBSERVED, "by": by} | ({"seconds": seconds} if seconds else {})],
        },
        cells=tuple(Cell(f"{place + 1}-{one.build}", place, one, 1) for place, one in enumerate(subjects)),
        stall_rule=asdict(RULE),
        environment=environment.description(),
        allow_concurrent=True,
        external=ExternalServers(),
    )
