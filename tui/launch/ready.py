"""Plans that are ready to start: what most people want to know, each with its time. Choosing one keeps the builds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from engine.core.errors import UserError
from engine.core.request import Request, refuse_password
from tui.launch.items import Choices, Item, Question, Row
from tui.launch.plan import version_key, with_build


@dataclass(frozen=True, slots=True)
class Ready:
    """A plan by its name, with its time where that is all there is to say of its size.

    `fields` are those of the request that differ from the defaults, `options` the workload's.
    """

    name: str
    time: str
    words: str
    fields: Mapping[str, Any]
    options: Mapping[str, Any]
    patch: bool = False  # one build is the user's own, of which the path is asked

    @property
    def title(self) -> str:
        """`quick look: 10 minutes`."""
        return f"{self.name}: {self.time}" if self.time else self.name

    def made(self, plan: Request) -> Request:
        """This plan for the builds, configs and kernels of another one."""
        kept = Request(builds=plan.builds, base=plan.base, configs=plan.configs, kernels=plan.kernels,
                       overrides=plan.overrides, allow_concurrent=plan.allow_concurrent)  # fmt: skip
        return replace(kept, **self.fields, options=dict(self.options))


READY = (
    Ready("quick look", "10 minutes", "the two newest releases under the smallest load: shows large differences only",
          {"minutes": 10.0}, {}),
    Ready("believable", "2 hours", "a larger load, and as many pairs as it takes until every step is known",
          {"minutes": 120.0, "until_known": True},
          {"rows": 4_000_000, "rows_written": 1_000_000, "query_seconds": 30}),
    Ready("one patch", "", "an install of your own against the newest release: writes and queries, an hour at most",
          {"minutes": 60.0, "until_known": True},
          {"rows": 2_000_000, "rows_written": 1_000_000, "query_seconds": 20, "steps": ["l.i1", "qr100"]},
          patch=True),
)  # fmt: skip


def newest(offer: Choices, majors: int) -> tuple[str, ...]:
    """The newest release of each of the newest majors, the oldest first; from source where that can be had."""
    found: dict[int, tuple[tuple[int, int, int], bool, str]] = {}
    for row in offer.builds:
        key = version_key(str(row["version"]))
        if key[1] < 2 or row.get("initdb_args") or row.get("patches") or not _here(row):
            continue
        one = (key, row["provenance"] == "source", str(row["label"]))
        found[key[0]] = max(found.get(key[0], one), one)
    return tuple(found[major][2] for major in sorted(found)[-majors:])


def _here(row: Row) -> bool:
    """Whether a build needs no archive that could not be fetched."""
    archive = row.get("tarball")
    return not archive or Path(str(archive.get("path", ""))).exists()


def items(plan: Request, offer: Choices) -> Iterator[Item]:
    """The ready plans; the one that the plan is now is chosen."""
    for ready in READY:
        chosen = bool(plan.builds) and ready.made(plan) == plan
        yield Item(
            ready.title,
            "[x]" if chosen else "[ ]",
            detail=f"{ready.name}: {ready.words}",
            mark="chosen" if chosen else "",
            toggle=None if ready.patch else _toggle(ready, plan, offer),
            question=_question(ready, plan, offer) if ready.patch else None,
        )


def _toggle(ready: Ready, plan: Request, offer: Choices) -> Any:
    return lambda: replace(ready.made(plan), builds=plan.builds or newest(offer, 2))


def _question(ready: Ready, plan: Request, offer: Choices) -> Question:
    known = next((build for build in plan.builds if "=" in build), "")

    def take(typed: str) -> Request:
        build = own(typed)
        base = tuple(name for name in plan.builds if "=" not in name)[:1] or newest(offer, 1)
        return with_build(replace(ready.made(plan), builds=base, base=None), build, offer.labels)

    return Question("the install with the patch: NAME=/path, of one that has bin/postgres", known, take, named)


def named(typed: str) -> str:
    """Raises UserError for what is no build of the user's own."""
    name, _, place = typed.partition("=")
    if not name or not place:
        raise UserError(f"'{typed}': give NAME=/path of an install with bin/postgres, or NAME=postgresql://…")
    return typed


def own(typed: str) -> str:
    """A build of the user's own as it is typed. Raises UserError for what is none, or has a password in it."""
    refuse_password(named(typed))
    return typed
