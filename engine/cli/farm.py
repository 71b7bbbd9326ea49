"""The command `bench farm`: the blocks of a plan on Nix's remote builders."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from engine.builds import nix
from engine.cli.grouped_options import GroupedCommand, option
from engine.cli.options import FILE
from engine.core.errors import UserError
from engine.report.console import echo, echo_json
from workloads.api.options import SURENESS, WHERE

MOST_BLOCKS = 1000


@click.command(cls=GroupedCommand)
@click.argument("plan", type=FILE)
@option(
    "--blocks", type=click.IntRange(1, MOST_BLOCKS), default=4, show_default=True, metavar="N", group=SURENESS,
    help="Number of blocks to measure.", brief="Number of blocks to measure [4].",
)  # fmt: skip
@option(
    "--again", is_flag=True, group=SURENESS, help="Measure blocks again that are in the Nix store.",
    brief="Measure finished blocks again.",
)  # fmt: skip
@option(
    "--builders", metavar="SPEC", group=WHERE, help="Builders, as in nix.conf [default: those that Nix knows].",
    brief="Builders, as in nix.conf [Nix's own].",
)  # fmt: skip
@option(
    "--to", "-o", type=click.Path(path_type=Path, file_okay=False), default=Path(), metavar="DIR",
    help="Folder for the links result-1, result-2, … [default: the current one]",
    brief="Folder for the links result-N [.].",
)  # fmt: skip
@option(
    "--json", "as_json", is_flag=True, help="Print the blocks as JSON, and progress to stderr.",
    brief="Print the blocks as JSON.",
)  # fmt: skip
def farm(plan: Path, blocks: int, again: bool, to: Path, builders: str | None, as_json: bool) -> None:
    """Measure a plan in blocks on Nix's remote builders; `bench compare result-*` pools them.

    A block is a run of all the plan's subjects on one machine, so that no pair spans two. Builders that offer the
    feature `benchmark` take them; give each 1 job at a time. A builder's machine is identified by the file
    /etc/pgbed-machine, else /etc/machine-id, that its sandbox shows (extra-sandbox-paths in its nix.conf), else by the
    id of its boot. An earlier measurement is in the Nix store and not measured again without --again.
    """
    from engine.farm.block_plan import block_plan
    from engine.farm.blocks import derive, link, realise
    from engine.farm.nix_builders import Builders

    def progress(line: str) -> None:
        echo(line, err=as_json)

    bench = _own_path()
    to.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=nix.cache_folder()) as folder:
        shared = block_plan(plan, Path(folder), progress)
        for notice in shared.notices:
            progress(notice)
        nonce = secrets.token_hex(8) if again else ""
        measured = realise(derive(shared.record(bench), blocks, nonce, Path(folder)), Builders(builders), progress)
        links = {block.number: link(block, to) for block in measured if block.state != "failed"}
    if as_json:
        rows = [{**asdict(block), "link": str(links.get(block.number, "")) or None} for block in measured]
        echo_json({"blocks": rows})
    elif links:
        echo(f"{len(links)} of {len(measured)} blocks: bench compare {to / 'result-*'}")
    sys.exit(0 if len(links) == len(measured) else 1)


@click.command(hidden=True)
def block() -> None:
    """Measure one block, within the build of its derivation."""
    from engine.farm.block_build import measure

    sys.exit(measure())


def _own_path() -> str:
    """Bench without what could be built with it, which would be copied to every builder."""
    if given := os.environ.get("PGBED_SELF_CONTAINED"):
        return given
    path = Path(os.environ.get("PGBED_CATALOG", "")).resolve()
    store_path = Path(*path.parts[:4]) if len(path.parts) > 4 else path
    if nix.store_hash(store_path) is None or not (store_path / "bin" / "bench").exists():
        raise UserError("builders are given bench from the Nix store: start it from its flake (nix run), or by ./bench")
    return str(store_path)
