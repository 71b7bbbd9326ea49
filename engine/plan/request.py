"""What a user asks for, before any of it is looked up: from the command line, a plan file or the Launch screen.

The command line's options, a plan file's entries and their bounds derive from the fields of `Request`, and those of its
`options` from the workload's own class: see `workloads.options`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from engine.builds.label import is_external, name_of
from engine.core.kernel import HOST, GuestDisk
from engine.core.model import LOOKS, MOST_MINUTES, PAIRS, SLICE_MS, Stopping
from engine.core.perf_events import Counters
from engine.core.route import LEAST_PORT, MOST_PORT
from workloads import modules, of_preset, workload
from workloads.combined.names import Part, arms_of, parts_of
from workloads.options import about, checked, given, options_of

# Names of entries in plan files and manifests of before.
OLD_NAMES = {"beside": "allow_concurrent"}
# Repeats of whole cells, and in slices. Even numbers: the servers' order turns round from repeat to repeat, and of
# whole cells, as of steps that are not sliced, the first is not measured as the second is. Six short pairs: an interval
# over pairs narrows more with one more of them than with longer ones.
CELLS = 4
MOST_REPEATS = 1000
_AFTER = ", ".join(str(look.pairs) for look in LOOKS)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run. `options` are those of the workload that differ from its defaults, by their names.

    Made by `request_of`, `workload` is a single one by its name, and `arms` are the names of those that begin with it
    and are to be run: none for itself alone.
    """

    builds: Annotated[
        tuple[str, ...],
        about("Builds to compare, the base first. 16.3+FILE.patch is that version patched, 16.3:O3 (:lto, :cassert, "
              ":CFLAGS=FLAGS) compiled in another way; NAME=/path an install of your own or a source tree, built as it "
              "is, NAME=git:/path@REVISION a commit; NAME=postgresql://USER@HOST/DB a server that is running already.",
              metavar="LABEL,…", flag="--pg"),
    ] = ()  # fmt: skip
    base: Annotated[
        str | None, about("Build to compare the others with.", metavar="LABEL", unset="the first of --pg")
    ] = None
    configs: Annotated[
        tuple[str, ...], about("Server settings to compare under.", metavar="NAME|FILE,…", flag="--config")
    ] = ("auto",)
    kernels: Annotated[
        tuple[str, ...],
        about(
            "Kernels to compare under, the base first: host is the one that runs here; each cell of another has a "
            "guest of its own. NAME=/path/bzImage is one of your own, with lib/modules/RELEASE beside it.",
            metavar="LABEL,…",
            flag="--kernel",
        ),
    ] = (HOST,)
    kernel_by: Annotated[
        Literal["guest", "reboot"],
        about(
            "How a cell comes by its kernel: in a guest, or by a boot of this machine into it, one for each cell. "
            "bench host-kernels shows which there are."
        ),
    ] = "guest"
    sched: Annotated[
        tuple[str, ...],
        about(
            "A tunable of the kernel's scheduler, in every cell; on the host it is restored afterwards. ext=scx_rusty "
            "starts that scheduler of sched_ext.",
            metavar="NAME=VALUE",
            repeated=True,
        ),
    ] = ()
    guest_cpus: Annotated[
        Annotated[int, Meta(ge=1, le=512)] | None,
        about("CPUs of a guest with another kernel.", metavar="N", unset="as many as there are here"),
    ] = None
    guest_pin: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=4095)], ...],
        about("CPUs of this machine that a guest's are bound to, one each.", metavar="CPU,…", unset="not bound"),
    ] = ()
    guest_memory: Annotated[
        str | None,
        about("Memory of a guest with another kernel.", metavar="SIZE", unset="half of what there is here"),
    ] = None
    guest_huge_pages: Annotated[
        bool, about("Back a guest's memory with huge pages of this machine, which must be free (vm.nr_hugepages).")
    ] = False
    guest_disk: Annotated[
        GuestDisk,
        about("Where a guest's cluster lies: on a disk of its own, whose image is in the run's folder, or in memory."),
    ] = "image"
    guest_share: Annotated[
        Literal["auto", "erofs", "9p"],
        about(
            "How a guest gets its programs: as a read-only image of what it needs of the Nix store, or by 9p, which "
            "threads of the host serve while it runs. auto: erofs where mkfs.erofs is."
        ),
    ] = "auto"
    accelerator: Annotated[
        Literal["auto", "kvm", "tcg"],
        about(
            "What runs a guest's instructions. tcg emulates them, 10 to 250 times slower, which no verdict is given "
            "for; auto: kvm where it is seen to run a guest."
        ),
    ] = "auto"
    overrides: Annotated[
        tuple[str, ...],
        about("One more setting, on top of every config.", metavar="NAME=VALUE", flag="--set", repeated=True),
    ] = ()
    workload: Annotated[
        str,
        about(
            "Workload to run: see bench list workloads. NAME+NAME runs the second beside the measured steps of the "
            "first, on the same server.",
            metavar="NAME[:VALUE][+NAME…]",
        ),
    ] = "insert"
    arms: Annotated[
        tuple[str, ...],
        about(
            "Workloads to compare with the first of them, on each build: insert,insert+pgbench-select asks what "
            "pgbench beside them costs the inserts. All begin with the same.",
            metavar="WORKLOAD,…",
        ),
    ] = ()
    with_options: Annotated[
        tuple[str, ...],
        about(
            "An option of the loads beside the first, by its name: clients=4; of one of several: "
            "pgbench-select.clients=4. Options without --with are the first workload's.",
            metavar="[LOAD.]NAME=VALUE",
            flag="--with",
            repeated=True,
        ),
    ] = ()
    options: dict[str, Any] = {}
    repeats: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_REPEATS)] | None,
        about(
            "Cells per build. A verdict needs 3. Their order turns round with each repeat: even numbers balance it.",
            metavar="N",
            unset=f"{CELLS}, in slices {PAIRS}",
        ),
    ] = None
    aa: Annotated[bool, about("Run the base against itself too, to see the noise floor.")] = False
    interleave: Annotated[
        Literal["auto", "slices", "cells"],
        about(
            "What takes turns: whole cells, or slices of load, write and query steps and of pgbench's, with the "
            "servers of a repeat up side by side. Slices see much smaller differences on a machine that others use, "
            "too. auto: slices where they can be."
        ),
    ] = "auto"
    slice_ms: Annotated[
        Annotated[float, Meta(ge=SLICE_MS[0], le=SLICE_MS[1])],
        about("Length of a slice, ±20 % by block; about that in load and write steps.", metavar="MS", unit="ms"),
    ] = 50.0
    stop: Annotated[
        Stopping,
        about(
            "Which background processes of a server are stopped while others have their slices: those that were at "
            "work, all, or none. During others' steps that are not sliced, all are stopped unless it is none."
        ),
    ] = "busy"
    until_known: Annotated[
        bool,
        about(
            f"End as soon as every step's verdict is known: looks after {_AFTER} pairs in slices, at stricter levels.",
            excludes=["repeats"],
        ),
    ] = False
    minutes: Annotated[
        Annotated[float, Meta(ge=0.1, le=MOST_MINUTES)] | None,
        about(
            "Time for the whole run: ends before the pair that would take longer. Steps in slices whose differences "
            "are narrow enough end early, for more pairs.",
            metavar="N|TIME",
            unset="what the repeats take",
            unit="min",
        ),
    ] = None
    margin: Annotated[
        Annotated[float, Meta(ge=0.001, le=0.5)],
        about("Smallest effect to call faster or slower: 0.02 or 2%.", metavar="FRACTION", unit="share"),
    ] = 0.02
    tolerate: Annotated[
        tuple[str, ...],
        about(
            "Slow-down that bench compare --gate lets pass, of all steps or of one: 3%,l.x=10%.",
            metavar="[STEP=]PERCENT,…",
            unset="the margin",
        ),
    ] = ()
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)], about("Seed of the data; the same for all builds.", metavar="N")
    ] = 1
    probes: Annotated[
        tuple[str, ...],
        about(
            "Probes to attach: sched and stacks (default), and more expensive ones by name; NAME:window attaches for "
            "10 s of every 60, NAME:stalls around stalls, NAME:budget where cheap. See bench probes list.",
            metavar="NAME,…|default|none",
            unset="none, or the preset's",
        ),
    ] = ()
    probe_budget: Annotated[
        Annotated[float, Meta(ge=0, le=100)],
        about("Highest estimated cost of a probe in mode budget.", metavar="PERCENT", unit="%"),
    ] = 5.0
    allow_slow_probes: Annotated[bool, about("Attach probes even where each hit costs about 10 us.")] = False
    counters: Annotated[
        Counters,
        about(
            "Count events of the server's processes, such as instructions per operation, by perf stat. Where the "
            "machine shows no hardware counters: only what the kernel counts anyway (auto), or do not begin (hardware)."
        ),
    ] = "off"
    tcp: Annotated[
        bool,
        about("Connect clients over TCP within this machine, with a generated password, not over the Unix socket."),
    ] = False
    client_host: Annotated[
        str | None,
        about(
            "Run the clients on this host, by ssh, which must get there without asking; servers stay here.",
            metavar="[USER@]HOST",
            unset="this machine",
        ),
    ] = None
    ssh_options: Annotated[
        tuple[str, ...],
        about("One more option of ssh, as for ssh -o.", metavar="NAME=VALUE", flag="--ssh-option", repeated=True),
    ] = ()
    listen: Annotated[
        str | None,
        about(
            "The only address, or interface, that servers listen on for clients over TCP.",
            metavar="ADDRESS|INTERFACE",
            unset="127.0.0.1, or the one by which --client-host is reached",
        ),
    ] = None
    port: Annotated[
        Annotated[int, Meta(ge=LEAST_PORT, le=MOST_PORT)] | None,
        about("Their port there; servers side by side take the next ones, too.", metavar="N", unset="a free one"),
    ] = None
    accept_foreign_load: Annotated[
        bool, about("Give verdicts on servers that are running already, though others may use them meanwhile.")
    ] = False
    scratch_database: Annotated[
        str | None,
        about(
            "Empty database to work in on servers that are running already, where the role may not create one.",
            metavar="NAME",
            unset="one made and dropped for each cell",
        ),
    ] = None
    keep: Annotated[bool, about("Keep every cell's cluster instead of removing it.")] = False
    allow_concurrent: Annotated[
        bool, about("Run even if another run is measuring on this machine.", aliases=["--beside"])
    ] = False

    @property
    def base_build(self) -> str | None:
        """The build that others are compared with, as it is named among the builds; None without builds."""
        named = {name_of(build): build for build in self.builds} | {build: build for build in self.builds}
        return named.get(self.base or "", self.builds[0] if self.builds else None)

    @property
    def attached(self) -> bool:
        """Whether builds are servers that are running already."""
        return any(map(is_external, self.builds))

    @property
    def subjects(self) -> int:
        """How many subjects are compared: builds under configs, kernels and workloads, and the base's doubles."""
        return (len(self.builds) + self.aa) * len(self.configs) * len(self.kernels) * max(1, len(self.arms))

    @property
    def in_guests(self) -> bool:
        """Whether any cell runs in a guest, under another kernel than the host's."""
        return self.kernel_by == "guest" and any(kernel != HOST for kernel in self.kernels)

    @property
    def rebooting(self) -> bool:
        """Whether this machine is booted into the kernel of each cell."""
        return self.kernel_by == "reboot"

    @property
    def sliced(self) -> bool:
        """Whether slices take turns; not known of `auto` before it is planned."""
        return self.interleave == "slices"

    @property
    def planned_repeats(self) -> int:
        """Cells per build, at most. Where none are asked for: an even number of cells, or pairs of clusters."""
        usual = LOOKS[-1].pairs if self.until_known else CELLS if self.interleave == "cells" else PAIRS
        return self.repeats or usual

    def clusters_at_once(self, repeats: int) -> int:
        """How many clusters there are at once: all where they are kept, those of a repeat where cells are abreast."""
        abreast = self.subjects if self.sliced else 1
        return self.subjects * repeats if self.keep else abreast

    def entries(self) -> dict[str, Any]:
        """The JSON form, as in a plan file: the builds, and what differs from the defaults."""
        return {"builds": list(self.builds), **given(self), **self.options}


def request_of(entries: Mapping[str, Any]) -> Request:
    """From the JSON form. Entries that are none of a request's are the workload's, to be checked by it.

    Raises UnknownName or ValueError for an invalid value.
    """
    named = {OLD_NAMES.get(name, name): value for name, value in entries.items()}
    own = {option.name for option in options_of(Request)}
    options = {name: value for name, value in named.items() if name not in own and name != "knobs"}
    knobs = named.get("knobs", {})
    if not isinstance(knobs, dict):
        raise ValueError(f"knobs must be a table, not {knobs!r}")
    request = checked(Request, {name: value for name, value in named.items() if name in own})
    asked, preset = named.get("workload"), options.get("preset")
    if asked is None and not request.arms and isinstance(preset, str):
        asked = of_preset(preset)
    name, argument, arms = loads_of(asked, request.arms)
    return msgspec.structs.replace(request, workload=name, arms=arms, options={**options, **knobs, **argument})


def loads_of(asked: str | None, arms: Sequence[str]) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """The workload that gives the steps, the option that stands behind its name, and the names of all arms.

    These are none where that workload is run by itself. Raises UnknownName or ValueError.
    """
    known = modules()
    names = arms_of(arms, known) or (asked or Request().workload,)
    parts = [parts_of(name, known) for name in names]
    for name, other in zip(names[1:], parts[1:], strict=True):
        if other[0] != parts[0][0]:
            raise ValueError(
                f"--arms: {names[0]} and {name} begin with different workloads, whose steps cannot be compared"
            )
    if arms and asked is not None and argument_of(asked)[0] != parts[0][0].name:
        raise ValueError(f"--workload {asked} and --arms {','.join(names)} exclude each other")
    seen: dict[frozenset[Part], str] = {}
    for name, own in zip(names, parts, strict=True):
        if twin := seen.get(frozenset(own[1:])):
            raise ValueError(
                f"--arms: {name} is given twice" if twin == name else f"--arms: {twin} and {name} are the same"
            )
        seen[frozenset(own[1:])] = name
        workload("+".join(part.name for part in own))  # whether these can be together
        for part in own[1:]:
            argument_of(part.text)
    labels = [label_of(own) for own in parts]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"--arms: two of them would be called {label}: give their scripts different names")
    main, argument = argument_of(parts[0][0].text)
    rest = ["+".join((main, *(part.text for part in own[1:]))) for own in parts]
    return main, argument, () if rest == [main] else tuple(rest)


def label_of(parts: Sequence[Part]) -> str:
    """What an arm is called: the names of its workloads."""
    return "+".join((parts[0].name, *(part.label for part in parts[1:])))


def argument_of(workload_name: str) -> tuple[str, dict[str, Any]]:
    """A workload's name, and the option that the rest of it (NAME:VALUE) gives. Raises UnknownName or ValueError."""
    name, colon, value = workload_name.partition(":")
    if not colon:
        return name, {}
    for option in options_of(workload(name).options):
        if option.argument:
            return name, {option.name: option.parsed(value)}
    raise ValueError(f"workload {name} takes nothing behind its name: ':{value}'")
