"""Groups of a request's options, each one idea; they stand among the others on the command line and in plan files."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from engine.core.kernel import GuestDisk
from engine.core.route import LEAST_PORT, MOST_PORT
from workloads.api.options import EXTERNAL, KERNELS, WHERE, about


class RouteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that clients run on, and their way to the server."""

    client_host: Annotated[
        str | None,
        about(
            "Host to run the clients on, by ssh without a password prompt. Servers stay on this machine.",
            metavar="[USER@]HOST",
            unset="this machine",
            group=WHERE,
            brief="Run the clients there, by ssh.",
        ),
    ] = None
    ssh_options: Annotated[
        tuple[str, ...],
        about(
            "An option of ssh, as for ssh -o.", metavar="NAME=VALUE", flag="--ssh-option", repeated=True, group=WHERE
        ),
    ] = ()
    tcp: Annotated[
        bool,
        about(
            "Connect clients over TCP with a generated password, also on this machine, instead of a Unix socket.",
            group=WHERE,
        ),
    ] = False
    listen: Annotated[
        str | None,
        about(
            "The only address or interface that servers listen on for TCP clients.",
            metavar="ADDRESS|INTERFACE",
            unset="127.0.0.1, or the one that reaches --client-host",
            group=WHERE,
        ),
    ] = None
    port: Annotated[
        Annotated[int, Meta(ge=LEAST_PORT, le=MOST_PORT)] | None,
        about(
            "TCP port of servers; servers side by side also take the following ports.",
            metavar="N",
            unset="a free one",
            group=WHERE,
        ),
    ] = None


class GuestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that boots other kernels than the host's."""

    guest_cpus: Annotated[
        Annotated[int, Meta(ge=1, le=512)] | None,
        about("CPUs of a guest.", metavar="N", unset="as many as this machine has", group=KERNELS),
    ] = None
    guest_pin: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=4095)], ...],
        about("CPUs of this machine to bind the guest's CPUs to, one each.", metavar="CPU,…", unset="not bound",
              group=KERNELS),
    ] = ()  # fmt: skip
    guest_memory: Annotated[
        str | None, about("Memory of a guest.", metavar="SIZE", unset="half of this machine's", group=KERNELS)
    ] = None
    guest_huge_pages: Annotated[
        bool,
        about("Back a guest's memory with huge pages of this machine, which must be free (vm.nr_hugepages).",
              group=KERNELS),
    ] = False  # fmt: skip
    guest_disk: Annotated[
        GuestDisk,
        about(
            "Where a guest's cluster is stored: on a disk whose image is in the run's folder, or in memory.",
            group=KERNELS,
        ),
    ] = "image"
    accelerator: Annotated[
        Literal["auto", "kvm", "tcg"],
        about(
            "How a guest's code is executed. tcg emulates the CPU, 10 to 250 times slower, and gives no verdicts; "
            "auto: kvm if it can run a guest here.",
            group=KERNELS,
        ),
    ] = "auto"


class ExternalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The use of external servers."""

    accept_foreign_load: Annotated[
        bool, about("Give verdicts on external servers although others may use them at the same time.", group=EXTERNAL)
    ] = False
    scratch_database: Annotated[
        str | None,
        about(
            "Empty database to work in on external servers, where the role may not create one.",
            metavar="NAME",
            unset="one created and dropped for each cell",
            group=EXTERNAL,
        ),
    ] = None
