"""The commands `bench host-kernels`: kernels that this machine itself can be booted into."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import click

from engine.cli.lists import Listing, show
from engine.cli.options import JSON
from engine.cli.start import agree
from engine.core.errors import UserError
from engine.core.kernel import scheduler_of
from engine.guest import host_kernels as kernels
from engine.guest.kernels import told_by
from engine.host import kexec, resume_unit
from engine.report.console import echo

YES = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
LABELS = click.argument("labels", nargs=-1, required=True, metavar="LABEL...")


@click.group(name="host-kernels")
def host_kernels() -> None:
    """Kernels that this machine can be booted into: `bench run --kernel A,B --kernel-by reboot` compares them."""


@host_kernels.command(name="list")
@JSON
def list_(as_json: bool) -> None:
    """List the kernels that this machine can be booted into, including the system's own."""
    running, rows, unread = kexec.running(), [], list[str]()
    for each in kernels.known():
        row: dict[str, str | None] = {"kernel": each.label, "release": None, "scheduler": None, "origin": each.origin}
        try:
            release, version = told_by(each.image)
        except UserError as error:
            rows.append({**row, "state": "cannot be read"})
            unread.append(str(error))
            continue
        runs = (release, version) == (running.release, running.version)
        told = {"release": release, "scheduler": scheduler_of(release), "state": "running" if runs else ""}
        rows.append({**row, **told})
    show(Listing(rows, ("kernel", "release", "scheduler", "origin", "state"), ("kernel",)), as_json)
    for line in unread:
        root = "; only root may read it: start bench as root" if line.endswith(os.strerror(errno.EACCES)) else ""
        echo(f"{line}{root}", err=True)
    why = kexec.hindrance()
    if why:
        echo(f"this machine cannot be booted into another kernel: {why}", err=True)


@host_kernels.command()
@LABELS
@YES
def install(labels: tuple[str, ...], yes: bool) -> None:
    """Fetch kernels of this machine's distribution, and prepare them for booting. Asks first.

    They are stored in /var/lib/pgbed/kernels, with a link in /lib/modules. Neither /boot nor the boot loader is
    touched: only bench boots them (kexec), and after a power cycle the machine boots as always.
    """
    kernels.check_install(labels)
    place = Path("/") / kernels.PLACE
    agree(f"Install {', '.join(labels)} in {place}, about 500 MB each?", yes)
    for label in labels:
        kernel = kernels.install(label, lambda text: echo(text, err=True))
        echo(f"installed {label}: {told_by(kernel.image)[0]}")


@host_kernels.command()
@LABELS
@YES
def remove(labels: tuple[str, ...], yes: bool) -> None:
    """Remove kernels that `install` has fetched. Asks first."""
    kernels.check_removal(labels)
    going = resume_unit.run_of()
    if going is not None:
        raise UserError(f"the run {going} continues after the next boot and may need them: stop it with bench stop")
    agree(f"Remove {', '.join(labels)} from {Path('/') / kernels.PLACE}?", yes)
    for label in labels:
        kernels.remove(label)
        echo(f"removed {label}")
