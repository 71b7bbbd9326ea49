"""What can be chosen on the Launch screen: the items of each panel, and the plan that choosing one comes to.

`Offer` is what `bench list choices` says there is. All is pure: a plan and an offer in, items out, a new plan back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tui.launch.plan import Plan, name_of
from tui.numbers import size

Row = dict[str, Any]
Change = Callable[[], Plan]


@dataclass(frozen=True, slots=True)
class Offer:
    """What there is to choose from: rows as `bench list` gives them."""

    builds: tuple[Row, ...] = ()
    configs: tuple[Row, ...] = ()
    workloads: tuple[Row, ...] = ()
    presets: tuple[Row, ...] = ()
    kernels: tuple[Row, ...] = ()
    probes: tuple[Row, ...] = ()
    runs: tuple[Row, ...] = ()

    @classmethod
    def of(cls, record: dict[str, list[Row]]) -> Offer:
        """From the JSON of `bench list choices`."""
        return cls(**{name: tuple(record.get(name, ())) for name in cls.__slots__})

    @property
    def labels(self) -> tuple[str, ...]:
        """The builds' labels in their order."""
        return tuple(str(row["label"]) for row in self.builds)

    @property
    def generations(self) -> tuple[str, ...]:
        """The generations, the newest first."""
        return tuple(sorted({str(row["generation"]) for row in self.workloads}, reverse=True))

    @property
    def scales(self) -> tuple[str, ...]:
        """The named sizes, the smallest first."""
        return tuple(dict.fromkeys(str(row["scale"]) for row in self.workloads))

    def workload(self, plan: Plan) -> Row:
        """The row of the plan's generation and scale; an empty one where there is none."""
        scale = plan.scale or (self.scales[0] if self.scales else "")
        wanted = (plan.generation, scale)
        return next((row for row in self.workloads if (row["generation"], row["scale"]) == wanted), {})

    def preset(self, plan: Plan) -> Row | None:
        """The row of the plan's preset."""
        return next((row for row in self.presets if row["preset"] == plan.preset), None)

    def steps(self, plan: Plan) -> tuple[str, ...]:
        """All steps that the plan's workload has."""
        preset = self.preset(plan)
        if preset is not None:
            return tuple(preset["steps"])
        return tuple(str(self.workload(plan).get("steps", "")).split())


@dataclass(frozen=True, slots=True)
class Question:
    """A line to type, and the plan that it makes; `take` raises UserError for what cannot be."""

    text: str
    value: str
    take: Callable[[str], Plan]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in a panel. `box` is what stands before its name, `text` what comes after it, `aside` where there is
    room; `detail` is said of it below while the cursor is on it. `mark` is that of its box or text.

    `toggle` is what space does, `lesser` and `greater` what left and right do, `question` what is typed for it.
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
    base: Change | None = None  # what `b` does


def _box(chosen: bool) -> str:
    return "[x]" if chosen else "[ ]"


def builds(plan: Plan, offer: Offer, wanted: str = "") -> tuple[Item, ...]:
    """The builds, and the user's own installs; only those with `wanted` in their label, or chosen."""
    own = {build: {"label": name_of(build), "version": "", "provenance": build.partition("=")[2], "patches": []}
           for build in plan.builds if build not in offer.labels}  # fmt: skip
    rows: dict[str, Row] = {str(row["label"]): row for row in offer.builds} | own
    items = []
    for build, row in rows.items():
        if wanted and wanted not in build and build not in plan.builds:
            continue
        patches = " ".join(row.get("patches") or ())
        chosen, is_base = build in plan.builds, build == plan.base_build
        items.append(
            Item(
                name_of(build),
                _box(chosen),
                "base" if is_base else "",
                f"{row['provenance']} {patches}".strip(),
                f"{name_of(build)}: {row['version']} {row['provenance']} {patches}".strip()
                + ("; what the others are compared with" if is_base else "; b makes it the base"),
                "chosen" if chosen else "",
                toggle=lambda build=build: plan.with_build(build, offer.labels),  # type: ignore[misc]
                base=lambda build=build: plan.with_base(build, offer.labels),  # type: ignore[misc]
            )
        )
    return tuple(items)


def configs(plan: Plan, offer: Offer) -> tuple[Item, ...]:
    """The configs, and files of the user's own."""
    names = tuple(str(row["name"]) for row in offer.configs)
    said = {str(row["name"]): str(row["description"]) for row in offer.configs}
    # The one that is usual is the last of its table, and the first that a person looks for.
    ordered = (*(name for name in names if name == "auto"), *(name for name in names if name != "auto"))
    own = tuple(config for config in plan.configs if config not in names)
    return tuple(
        Item(
            config,
            _box(config in plan.configs),
            aside=said.get(config, "a file of your own"),
            detail=f"{config}: {said.get(config, 'a file of your own')}",
            mark="chosen" if config in plan.configs else "",
            toggle=lambda config=config: plan.with_config(config, (*ordered, *own)),  # type: ignore[misc]
        )
        for config in (*ordered, *own)
    )


def kernels(plan: Plan, offer: Offer) -> tuple[Item, ...]:
    """The kernels; the running one is what every run has."""
    return tuple(
        Item(
            str(row["kernel"]),
            _box(row["kernel"] == "host"),
            str(row["release"]),
            str(row["state"]),
            f"{row['kernel']}: {row['release']}, {row['state']}",
            "chosen" if row["kernel"] == "host" else "",
        )
        for row in offer.kernels
    )


def probes(plan: Plan, offer: Offer) -> tuple[Item, ...]:
    """The probes that can be asked for; a costly one all the time, in windows, or where it is cheap."""
    asked = {name.partition(":")[0]: name.partition(":")[2] for name in plan.probes}
    if "default" in asked:
        asked |= {"sched": "", "stacks": ""}
    items = []
    for row in sorted(offer.probes, key=lambda row: row["state"] == "always on"):
        probe, state = str(row["probe"]), str(row["state"])
        modes = ("", "window", "budget") if int(row["tier"]) >= 2 else ("",)
        always, lacking = state == "always on", state not in ("ready", "always on")
        text = "always" if always else "?" if lacking else asked.get(probe, "")
        items.append(
            Item(
                probe,
                _box(always or probe in asked),
                text,
                str(row["cost"]) if not lacking else state,
                f"{row['question']} Costs {row['cost']}." + (f" Not here: {state}" if lacking else ""),
                "warning" if lacking else "chosen" if always or probe in asked else "",
                toggle=None if always else lambda probe=probe, modes=modes: plan.with_probe(probe, modes),  # type: ignore[misc]
            )
        )
    return tuple(items)


def steps(plan: Plan, offer: Offer, planned: Sequence[str] = ()) -> tuple[Item, ...]:
    """The steps; `planned` are those that will be run, which the chosen ones may stand on."""
    every = offer.steps(plan)
    fixed = plan.preset is not None
    items = []
    for step in every:
        chosen = fixed or not plan.steps or step in plan.steps
        needed = not chosen and step in planned
        items.append(
            Item(
                step,
                "[+]" if needed else _box(chosen),
                detail=f"{step}: " + ("the preset's own" if fixed else _said(step) + (
                    "; run because others stand on it" if needed else "")),
                mark="chosen" if chosen else "",
                toggle=None if fixed else lambda step=step: plan.with_step(step, every),  # type: ignore[misc]
            )
        )  # fmt: skip
    return tuple(items)


_STEPS = {
    "l.i0": "load the table in key order, without indexes",
    "l.x": "build the secondary indexes",
    "l.i1": "inserts and deletes of 50 rows each",
    "l.i2": "inserts and deletes of 5 rows each",
    "pause": "vacuum, checkpoint and rest",
}


def _said(step: str) -> str:
    if step in _STEPS:
        return _STEPS[step]
    kind = "point" if step.startswith("qp") else "range"
    rate = "".join(letter for letter in step.partition(".")[0] if letter.isdigit())
    return f"{kind} queries while {rate} rows/s are inserted and deleted"


# -- the preflight

SIGNS = {"ok": ("ok", "dim"), "warn": ("?", "warning"), "fail": ("x", "error")}


def checks(found: Sequence[Row]) -> tuple[Item, ...]:
    """What was looked at before the start, the worst first."""
    ordered = sorted(found, key=lambda row: ("fail", "warn", "ok").index(row["status"]))
    items = []
    for row in ordered:
        sign, mark = SIGNS[row["status"]]
        why = "; ".join(part for part in (row["reason"], row["remedy"] and f"do: {row['remedy']}") if part)
        detail = f"{row['name']}: {row['found']}" + (f" - {why}" if why else "")
        items.append(Item(str(row["name"]), sign, str(row["found"]), detail=detail, mark=mark))
    return tuple(items)


def own_checks(plan: Plan, offer: Offer, needed_bytes: int, free_bytes: int) -> tuple[Row, ...]:
    """What the plan itself needs: room, and a machine on which nobody else measures."""
    found: list[Row] = []
    if needed_bytes:
        enough = free_bytes >= needed_bytes
        room = {
            "name": "free space",  # doctor has one, too, that knows of no plan
            "status": "ok" if enough else "fail",
            "found": f"{size(free_bytes)} free, {size(needed_bytes)} needed",
            "reason": "" if enough else "the run would be refused",
            "remedy": "" if enough else "free some, choose another --out, or a smaller scale",
        }
        found.append(room)
    running = [str(row["run"]) for row in offer.runs if row["state"] == "running"]
    if running:
        found.append(
            {
                "name": "another run",
                "status": "warn" if plan.beside else "fail",
                "found": running[0],
                "reason": "two runs at a time measure each other",
                "remedy": "wait for it, or say beside in the design",
            }
        )
    return tuple(found)


def unfinished(offer: Offer) -> tuple[Row, ...]:
    """The runs that can be gone on with."""
    return tuple(row for row in offer.runs if row["state"] in ("unfinished", "not started") or _failed(row))


def _failed(row: Row) -> bool:
    return str(row["state"]).endswith(" failed") and bool(row["cells"])
