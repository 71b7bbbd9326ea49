"""The items of each panel of the Launch screen, and the plan that results from choosing one.

`Choices` is the answer of `bench list choices`. All is pure: a plan and the choices in, items out, a new plan back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from engine.builds.label import is_external, name_of
from engine.core.format import size
from engine.core.version import order_of
from engine.plan.request import Request
from tui.launch.plan_edits import (
    steps_of,
    with_base,
    with_build,
    with_config,
    with_kernel,
    with_only_step,
    with_probe,
    with_step,
)
from workloads.api.options import Option

Row = dict[str, Any]
Change = Callable[[], Request]


@dataclass(frozen=True, slots=True)
class Choices:
    """The available choices: rows as in `bench list`."""

    builds: tuple[Row, ...] = ()
    configs: tuple[Row, ...] = ()
    workloads: tuple[Row, ...] = ()
    loads: tuple[Row, ...] = ()
    options: tuple[Row, ...] = ()
    presets: tuple[Row, ...] = ()
    kernels: tuple[Row, ...] = ()
    probes: tuple[Row, ...] = ()
    runs: tuple[Row, ...] = ()

    @classmethod
    def of(cls, record: dict[str, list[Row]]) -> Choices:
        return cls(**{name: tuple(record.get(name, ())) for name in cls.__slots__})

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(str(row["label"]) for row in self.builds)

    @property
    def descriptions(self) -> dict[str, str]:
        return {str(row["workload"]): str(row["description"]) for row in self.loads}

    def options_of(self, plan: Request) -> tuple[Option, ...]:
        return tuple(msgspec.convert(row, Option) for row in self.options if row["workload"] == plan.workload)

    def values(self, plan: Request, option: Option) -> tuple[str, ...]:
        """The values of an option: its choices, or the workload's named sizes."""
        if option.choices or option.kind != "str" or option.many:
            return option.choices
        return tuple(dict.fromkeys(str(row[option.name]) for row in self._sizes(plan) if option.name in row))

    def usual(self, plan: Request) -> Row:
        """The named size that matches the plan's options, or an empty row."""
        options = {option.name: option for option in self.options_of(plan)}
        excluded = {name for option in plan.options if option in options for name in options[option].excludes}
        if any(options[name].kind == "str" for name in excluded if name in options):
            return {}
        return next((row for row in self._sizes(plan) if self._fits(row, plan, options)), {})

    def load(self, plan: Request) -> str:
        """The workload, or its named plan, with its size: `insert g24b quick`."""
        if "preset" in plan.options:
            return str(plan.options["preset"])
        row = self.usual(plan)
        options = [option for option in self.options_of(plan) if option.kind == "str" and not option.many]
        return " ".join((plan.workload, *(str(row[option.name]) for option in options if option.name in row)))

    def preset(self, plan: Request) -> Row | None:
        return next((row for row in self.presets if row["preset"] == plan.options.get("preset")), None)

    def steps(self, plan: Request) -> tuple[str, ...]:
        preset = self.preset(plan)
        if preset is not None:
            return tuple(preset["steps"])
        options = {option.name: option for option in self.options_of(plan) if option.choices}
        return next((tuple(str(row["steps"]).split()) for row in self._sizes(plan) if self._fits(row, plan, options)),
                    ())  # fmt: skip

    def step_texts(self, plan: Request) -> dict[str, str]:
        return next((dict(row["steps"]) for row in self.loads if row["workload"] == plan.workload), {})

    def _sizes(self, plan: Request) -> tuple[Row, ...]:
        return tuple(row for row in self.workloads if row["workload"] == plan.workload)

    def _fits(self, row: Row, plan: Request, options: Mapping[str, Option]) -> bool:
        """Whether a row of sizes matches the plan's options and defaults."""
        return all(
            row[name] == plan.options.get(name, option.default or option.unset)
            for name, option in options.items()
            if name in row and option.kind == "str" and not option.many
        )


@dataclass(frozen=True, slots=True)
class Question:
    """A line to type, and the plan that results; `take` raises UserError for an invalid line.

    A line that `check` or `take` refuses stays for correction. `forms` describes valid lines and the default.
    """

    text: str
    value: str
    take: Callable[[str], Request]
    forms: str = ""
    check: Callable[[str], object] | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """`box` precedes the name, `text` follows it, `aside` too if it fits; `detail` is shown below at the cursor.

    `mark` styles box or text. Space does `toggle`, left and right `lesser` and `greater`; `question` asks for a value.
    """

    name: str
    box: str = ""
    text: str = ""
    aside: str = ""
    detail: str = ""
    mark: str = ""
    toggle: Change | None = None
    lesser: Change | None = None
    greater: Change | None = None
    question: Question | None = None
    base: Change | None = None  # key `b`
    only: Change | None = None  # key `x`
    group: str = ""  # heading of its group, drawn where another one stands above
    shown: str = ""  # instead of its name


def _box(chosen: bool) -> str:
    return "[x]" if chosen else "[ ]"


def builds(plan: Request, offer: Choices, wanted: str = "") -> Iterator[Item]:
    """The user's own installs, then builds by major, newest first; only those chosen or containing `wanted`."""
    custom = {build: {"label": name_of(build), "version": "", "patches": [],
                   "provenance": "external server" if is_external(build) else build.partition("=")[2]}
           for build in plan.builds if build not in offer.labels}  # fmt: skip
    known = sorted(offer.builds, key=lambda row: order_of(str(row["version"])), reverse=True)
    rows: dict[str, Row] = custom | {str(row["label"]): row for row in known}
    for build, row in rows.items():
        if wanted and wanted not in build and build not in plan.builds:
            continue
        patches = " ".join(row.get("patches") or ())
        chosen, is_base = build in plan.builds, build == plan.base_build
        origin = "running" if is_external(build) else "own" if build in custom else str(row["provenance"])
        yield Item(
            name_of(build),
            "[b]" if is_base else _box(chosen),
            origin,
            patches or (row["provenance"] if build in custom else ""),
            f"{name_of(build)}: {row['version']} {row['provenance']} {patches}".strip()
            + ("; the base, which the others are compared with" if is_base else "; b makes it the base"),
            "base" if is_base else "chosen" if chosen else "",
            toggle=partial(with_build, plan, build, offer.labels),
            base=partial(with_base, plan, build, offer.labels),
            group=str(order_of(str(row["version"]))[0] or "") or "own",
            shown=name_of(build).replace("-prebuilt", "") if origin == "prebuilt" else "",
        )


def configs(plan: Request, offer: Choices) -> Iterator[Item]:
    names = tuple(str(row["name"]) for row in offer.configs)
    described = {str(row["name"]): str(row["description"]) for row in offer.configs}
    # The default is the last of its table, but the first that a person looks for.
    ordered = (*(name for name in names if name == "auto"), *(name for name in names if name != "auto"))
    files = tuple(config for config in plan.configs if config not in names)
    for config in (*ordered, *files):
        chosen, words = config in plan.configs, described.get(config, "a file of your own")
        yield Item(
            config,
            _box(chosen),
            aside=words,
            detail=f"{config}: {words}",
            mark="chosen" if chosen else "",
            toggle=partial(with_config, plan, config, (*ordered, *files)),
        )


def kernels(plan: Request, offer: Choices) -> Iterator[Item]:
    """The running kernel, those booted in guests, and the user's own."""
    rows = {str(row["kernel"]): (str(row["release"]), str(row["state"])) for row in offer.kernels}
    files = {kernel: ("", "a file of your own") for kernel in plan.kernels if kernel not in rows}
    for kernel, (release, state) in {**rows, **files}.items():
        chosen = kernel in plan.kernels
        yield Item(
            name_of(kernel),
            _box(chosen),
            release,
            state,
            f"{name_of(kernel)}: {release}, {state}",
            "chosen" if chosen else "",
            toggle=None if plan.kernels == (kernel,) else partial(with_kernel, plan, kernel, (*rows, *files)),
        )


def probes(plan: Request, offer: Choices) -> Iterator[Item]:
    """The probes; a costly one can run all the time or in windows."""
    asked = {name.partition(":")[0]: name.partition(":")[2] for name in plan.probes}
    if "default" in asked:
        asked |= {"sched": "", "stacks": ""}
    for row in sorted(offer.probes, key=lambda row: row["state"] == "always on"):
        probe, state = str(row["probe"]), str(row["state"])
        modes = ("", "window") if int(row["tier"]) >= 2 else ("",)
        always, lacking = state == "always on", state not in ("ready", "always on")
        text = "always" if always else "?" if lacking else asked.get(probe, "")
        yield Item(
            probe,
            _box(always or probe in asked),
            text,
            str(row["cost"]) if not lacking else state,
            f"{row['question']} Costs {row['cost']}." + (f" Not here: {state}" if lacking else ""),
            "warning" if lacking else "chosen" if always or probe in asked else "",
            toggle=None if always else partial(with_probe, plan, probe, modes),
        )


def steps(plan: Request, offer: Choices, planned: Sequence[str] = ()) -> Iterator[Item]:
    """The steps; `planned` are those that will run, including prerequisites of chosen ones."""
    every = offer.steps(plan)
    fixed, named = offer.preset(plan) is not None, steps_of(plan)
    for step in every:
        chosen = fixed or not named or step in named
        needed = not chosen and step in planned
        words = "the preset's own" if fixed else offer.step_texts(plan).get(step, "")
        yield Item(
            step,
            "[+]" if needed else _box(chosen),
            detail=f"{step}: {words}" + ("; added because other steps need it" if needed else ""),
            mark="chosen" if chosen else "",
            toggle=None if fixed else partial(with_step, plan, step, every),
            only=None if fixed else partial(with_only_step, plan, step),
        )


# -- the preflight

ANOTHER_RUN = "another run"  # fails while another run is measuring
SIGNS = {"ok": ("ok", "dim"), "warn": ("?", "warning"), "fail": ("x", "error")}


def checks(rows: Sequence[Row]) -> tuple[Item, ...]:
    """The preflight checks, the worst first."""
    ordered = sorted(rows, key=lambda row: ("fail", "warn", "ok").index(row["status"]))
    items = []
    for row in ordered:
        sign, mark = SIGNS[row["status"]]
        why = "; ".join(part for part in (row["reason"], row["remedy"] and f"do: {row['remedy']}") if part)
        detail = f"{row['name']}: {row['found']}" + (f" - {why}" if why else "")
        items.append(Item(str(row["name"]), sign, str(row["found"]), detail=detail, mark=mark))
    return tuple(items)


def own_checks(plan: Request, needed_bytes: int, free_bytes: int | None, measuring: str) -> tuple[Row, ...]:
    """Checks of the plan itself: disk space, if known, and no other run on this machine."""
    rows: list[Row] = []
    if needed_bytes and free_bytes is not None:
        enough = free_bytes >= needed_bytes
        rows.append(
            {
                "name": "free space",  # replaces the check of `bench doctor`, which knows no plan
                "status": "ok" if enough else "fail",
                "found": f"{size(free_bytes)} free, {size(needed_bytes)} needed",
                "reason": "" if enough else "the run would be refused",
                "remedy": "" if enough else "free some, choose another --out, or a smaller scale",
            }
        )
    if measuring:
        rows.append(
            {
                "name": ANOTHER_RUN,
                "status": "warn" if plan.allow_concurrent else "fail",
                "found": measuring,
                "reason": "each would disturb the other's figures",
                "remedy": "wait for it, or choose concurrent in the design",
            }
        )
    return tuple(rows)


def unfinished(offer: Choices) -> tuple[Row, ...]:
    return tuple(
        row
        for row in offer.runs
        if row["state"] in ("unfinished", "not started") or (str(row["state"]).endswith(" failed") and row["cells"])
    )
