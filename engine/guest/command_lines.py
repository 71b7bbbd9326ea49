"""Variants of a kernel by its command line: `6.12:preempt=lazy,nohz_full=1` is 6.12 booted with these words.

Only parameters of this table are taken: the rest of a guest's command line is pgbed's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.core.errors import UserError, unknown
from engine.core.kernel import Kernel, version_of

CPUS = r"\d{1,4}(-\d{1,4})?"
LAST = (1000, 0)


@dataclass(frozen=True, slots=True)
class Parameter:
    """The values of a parameter, and its requirements on a kernel.

    `option` is one of its configuration, `only` are the series that know a value, from the first to before the second.
    """

    values: str
    option: str = ""
    only: Mapping[str, tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=dict)


PARAMETERS: Mapping[str, Parameter] = {
    "preempt": Parameter(
        "none|voluntary|full|lazy",
        "PREEMPT_DYNAMIC",
        {"none": ((5, 12), (7, 0)), "voluntary": ((5, 12), (7, 0)), "full": ((5, 12), LAST), "lazy": ((6, 13), LAST)},
    ),
    "nohz_full": Parameter(CPUS, "NO_HZ_FULL"),
    "rcu_nocbs": Parameter(CPUS, "RCU_NOCB_CPU"),
    "isolcpus": Parameter(CPUS, "CPU_ISOLATION"),
    "mitigations": Parameter("off|auto"),
    "transparent_hugepage": Parameter("always|madvise|never", "TRANSPARENT_HUGEPAGE"),
    "hugepages": Parameter(r"\d{1,8}", "HUGETLBFS"),
    "hugepagesz": Parameter("2M|1G", "HUGETLBFS"),
    "default_hugepagesz": Parameter("2M|1G", "HUGETLBFS"),
    "numa_balancing": Parameter("enable|disable", "NUMA_BALANCING"),
    "skew_tick": Parameter("0|1"),
    "noautogroup": Parameter("", "SCHED_AUTOGROUP"),
}


def joined(specs: Sequence[str]) -> tuple[str, ...]:
    """Rejoin items that a comma has split: it stands between kernels and between a kernel's parameters."""
    items: list[str] = []
    for spec in specs:
        if items and ":" in items[-1] and spec.partition("=")[0] in PARAMETERS:
            items[-1] += f",{spec}"
        else:
            items.append(spec)
    return tuple(items)


def parted(spec: str) -> tuple[str, tuple[str, ...]]:
    """A kernel's name without parameters, and the parameters. Raises UserError for an unknown one."""
    place, colon, text = spec.rpartition(":")
    if not colon or ("/" in place and "/" in text):  # of a path with a colon
        return spec, ()
    words = tuple(text.split(","))
    for word in words:
        name, _, value = word.partition("=")
        if name not in PARAMETERS:
            raise UserError(f"--kernel {spec}: {unknown('parameter of a kernel', name, PARAMETERS)}")
        if not re.fullmatch(PARAMETERS[name].values, value):
            raise UserError(f"--kernel {spec}: {name} is '{value}', and can be {_readable(PARAMETERS[name].values)}")
    return place, words


def named(label: str, words: Sequence[str]) -> str:
    """The label of a variant, which is part of file names: `6.12-preempt-full`."""
    return "-".join((label, *(re.sub("[^A-Za-z0-9_]+", "-", word) for word in words)))


def with_words(kernel: Kernel, words: Sequence[str]) -> Kernel:
    """The kernel booted with these parameters. Raises UserError for one that this kernel would not heed."""
    series = version_of(kernel.release)
    for word in words:
        name, _, value = word.partition("=")
        parameter = PARAMETERS[name]
        first, last = parameter.only.get(value, ((0, 0), LAST))
        if not first <= series < last:
            change, (major, minor) = ("came", first) if series < first else ("went", last)
            raise UserError(
                f"kernel '{kernel.label}': {word} {change} with Linux {major}.{minor}, and this is {kernel.release}"
            )
        if kernel.options and parameter.option and kernel.options.get(parameter.option) == "n":
            raise UserError(f"kernel '{kernel.label}': {word} has no effect: it was built without {parameter.option}")
    return replace(kernel, command_line=" ".join(words)) if words else kernel


def _readable(values: str) -> str:
    return {CPUS: "a CPU or a range, such as 1-3", "": "given alone"}.get(values, values.replace("|", ", "))
