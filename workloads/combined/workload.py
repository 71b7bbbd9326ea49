"""A workload with background workloads, as a workload: see `workloads.base`.

The main workload gives the steps, their lengths and their primary metrics. The others run in the background of each
step whose primary metric is a live rate, except loads of tables, and end with it. Their tables are made before all
other steps, in a schema of their own; other names are looked up in the main workload's schema.

In its record, `parts` are all their records, the main workload's first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from workloads.base import (
    Background,
    BackgroundWorkload,
    Launch,
    Listing,
    Maintenance,
    Place,
    Plan,
    Record,
    Role,
    Step,
    Workload,
    Written,
    role_kind,
)
from workloads.combined.spec import PartSpec, Spec

ALONE = frozenset({"load"})  # kinds of steps that run without background workloads


class Combined:
    """See `workloads.base.Workload`. `background` are the workloads that run with the main one."""

    def __init__(self, main: Workload, background: tuple[Workload, ...]) -> None:
        names = [main.name, *(each.name for each in background)]
        self.name = "+".join(names)
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{self.name}: {name} is named twice")
        for each in background:
            if not isinstance(each, BackgroundWorkload):
                raise ValueError(f"{self.name}: {each.name} cannot be a background workload; name it first")
        self.main = main
        self.background = background
        self.description = (
            f"{main.description}; in the background: {', '.join(each.description for each in background)}"
        )
        self.options = main.options

    def plan(self, options: Any) -> Plan:
        return self.joined(self.main.plan(options), [_background(each).background_plan({}) for each in self.background])

    def joined(self, main: Plan, background: Sequence[Plan]) -> Plan:
        plans, parts = (main, *background), [main.record, *(plan.record for plan in background)]
        others = "; ".join(f"{part['name']} {part['title']}, {_clients(part)}" for part in parts[1:])
        record = {
            "name": self.name,
            "title": f"{main.record['title']} (in the background: {others})",
            "clients": main.record["clients"],
            "parts": parts,
        }
        made = [{"name": step.name, "kind": step.kind} for step, *_ in self._preparing(record)]
        return Plan(
            record | {"steps": [*made, *main.record["steps"]]},
            tuple(dict.fromkeys(setting for plan in plans for setting in plan.settings)),
            main.probes,
            tuple(dict.fromkeys(program for plan in plans for program in plan.programs)),
            "; ".join(dict.fromkeys(plan.own_server for plan in plans if plan.own_server)),
        )

    def check(self, record: Record) -> None:
        self.written(record)
        for part, own in self._parts(record):
            part.check(own)

    def written(self, record: Record) -> Written:
        try:
            return Written.together(part.written(own) for part, own in self._parts(record))
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}; rename one") from None

    def sliced_options(self, entries: Record) -> dict[str, Any]:
        background = ", ".join(each.name for each in self.background)
        raise ValueError(
            f"steps with background workloads cannot be interleaved ({background} behind {self.main.name})"
        )

    def steps(self, record: Record) -> tuple[Step, ...]:
        (_, of_main), *_ = self._parts(record)
        joined = (self._joined(record, step) for step in self.main.steps(of_main))
        return (*(step for step, *_ in self._preparing(record)), *joined)

    def maintenance(self, record: Record, step: Step, server_major: int) -> Maintenance:
        for made, part, own, original, _ in self._preparing(record):
            if made.name == step.name:
                return part.maintenance(own, original, server_major)
        (_, of_main), *_ = self._parts(record)
        return self.main.maintenance(of_main, self._of_main(record, step), server_major)

    def launch(self, record: Record, step: Step, place: Place) -> Launch:
        for made, part, own, original, role in self._preparing(record):
            if made.name == step.name:
                return part.launch(own, original, replace(place, found={}, schema=_schema(role)))
        (_, of_main), *others = self._parts(record)
        main = self._of_main(record, step)
        launches = {self.main.name: self.main.launch(of_main, main, place)}
        first = len(main.roles)
        for (part, own), each in zip(others, step.background, strict=False):
            load = part.steps(own)[-1]
            where = replace(place, found={}, first=first, until=len(main.roles), schema=_schema(each.role))
            # Its name seeds the keys that it draws, which must differ between steps.
            launches[each.role] = part.launch(own, replace(load, name=f"{step.name}.{load.name}"), where)
            first += len(load.roles)
        if not step.background:
            return launches[self.main.name]
        parts = tuple(PartSpec(name, launch.command, launch.stdin) for name, launch in launches.items())
        spec = Spec(place.page_fd, first, (0, *self._firsts(record, step)), parts)
        command = (sys.executable, "-m", "workloads.combined.launch")
        return Launch(command, msgspec.json.encode(spec).decode(), tuple(part.command for part in parts))

    def relations(self, record: Record, role: Role) -> frozenset[str]:
        for (part, own), name in zip(self._parts(record)[1:], self._roles(record), strict=False):
            if role.name == name:
                found = part.relations(own, role)
                return found | {f"{_schema(name)}.{relation}" for relation in found}
        (_, of_main), *_ = self._parts(record)
        return self.main.relations(of_main, role)

    def expected_bytes(self, record: Record, max_wal_bytes: int) -> int:
        return sum(part.expected_bytes(own, max_wal_bytes) for part, own in self._parts(record))

    def identity(self, record: Record) -> dict[str, Any]:
        (_, of_main), *others = self._parts(record)
        found = dict(self.main.identity(of_main))
        for part, own in others:
            values = {**part.identity(own), "clients": own["clients"]}
            found |= {f"{part.name} {name}": value for name, value in values.items()}
        return found

    def non_default(self, record: Record) -> tuple[str, ...]:
        (_, of_main), *others = self._parts(record)
        of_others = (f"{part.name} {words}" for part, own in others for words in part.non_default(own))
        return (*self.main.non_default(of_main), *of_others)

    def sizes(self) -> Listing:
        return self.main.sizes()

    def _parts(self, record: Record) -> list[tuple[Workload, Record]]:
        programs = {"programs": record["programs"]} if "programs" in record else {}
        owners = (self.main, *self.background)
        return [(part, {**own, **programs}) for part, own in zip(owners, record["parts"], strict=True)]

    def _roles(self, record: Record) -> tuple[str, ...]:
        """Roles of the background workloads: their names, unless the main workload has a role of that name."""
        taken = {role_kind(role.name) for step in self.main.steps(record["parts"][0]) for role in step.roles}
        return tuple(f"{part.name}-beside" if part.name in taken else part.name for part in self.background)

    def _preparing(self, record: Record) -> Iterator[tuple[Step, Workload, Record, Step, str]]:
        for (part, own), role in zip(self._parts(record)[1:], self._roles(record), strict=True):
            for step in part.steps(own)[:-1]:
                yield replace(step, name=f"{step.name}.{role}"), part, own, step, role

    def _joined(self, record: Record, step: Step) -> Step:
        if step.primary_metric is None or not step.primary_metric.live or step.kind in ALONE:
            return replace(step, sliced="")
        roles, loads, connections = list(step.roles), [], step.connections
        for (part, own), name in zip(self._parts(record)[1:], self._roles(record), strict=True):
            load = part.steps(own)[-1]
            roles += [Role(role.client, name) for role in load.roles]
            loads.append(
                Background(name, load.primary_metric.unit if load.primary_metric else "ops/s", load.ages, load.threads)
            )
            connections += load.connections
        own_record = {**step.record, "background": [each.role for each in loads]}
        return replace(
            step, record=own_record, roles=tuple(roles), background=tuple(loads), connections=connections, sliced=""
        )

    def _of_main(self, record: Record, step: Step) -> Step:
        (_, of_main), *_ = self._parts(record)
        return next(each for each in self.main.steps(of_main) if each.name == step.name)

    def _firsts(self, record: Record, step: Step) -> Iterator[int]:
        for each in step.background:
            yield next(slot for slot, role in enumerate(step.roles) if role.name == each.role)


def _background(part: Workload) -> BackgroundWorkload:
    assert isinstance(part, BackgroundWorkload)
    return part


def _schema(role: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in role)


def _clients(record: Record) -> str:
    return f"{record['clients']} client{'s' if record['clients'] != 1 else ''}"
