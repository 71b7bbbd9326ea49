"""The command `bench pin`."""

from __future__ import annotations

import click

from engine.cli.output import echo
from engine.postgres import own_builds
from engine.postgres.builds import catalog


@click.command()
@click.argument("version")
@click.option("--sha256", default="", metavar="HEX", help="The tarball's checksum, where it cannot be fetched.")
def pin(version: str, sha256: str) -> None:
    """Add a release of PostgreSQL to your own table of builds, by its published checksum.

    The table is ~/.config/pgbed/builds.toml; `bench list builds` shows its entries, too.
    """
    if any(entry.label == version for entry in catalog()):
        echo(f"{version} is known already: bench --pg {version}")
        return
    path, known = own_builds.pin(version, sha256)
    echo(f"{version}: sha256 {known}, now in {path}")
