"""The command `bench pin`."""

from __future__ import annotations

import click

from engine.builds import user_builds
from engine.builds.catalog import catalog
from engine.report.console import echo


@click.command()
@click.argument("version")
@click.option("--sha256", default="", metavar="HEX", help="The tarball's checksum, if it cannot be fetched.")
def pin(version: str, sha256: str) -> None:
    """Add a release of PostgreSQL to your table of builds, by its published checksum.

    The table is ~/.config/pgbed/builds.toml; `bench list builds` shows its entries too.
    """
    if any(entry.label == version for entry in catalog()):
        echo(f"{version} is known already: bench --pg {version}")
        return
    path, known = user_builds.pin(version, sha256)
    echo(f"{version}: sha256 {known}, now in {path}")
