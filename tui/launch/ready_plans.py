"""Plans that are ready to start: common questions, each with its time. Choosing one keeps the builds."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from engine.builds.label import refuse_password
from engine.core.errors import UserError
from engine.core.version import order_of
from engine.journal.manifest import read_manifest
from engine.journal.runs import runs_in
from engine.plan.request import Request, request_of
from tui.launch.choices import Choices, Item, Question, Row
from tui.launch.plan_edits import with_build

RECENT = 5  # runs


@dataclass(frozen=True, slots=True)
class Ready:
    """A named plan, with its time if that says enough about its size; `entries` go into its plan file."""

    name: str
    time: str
    words: str
    entries: Mapping[str, Any]
    patch: bool = False  # one build is the user's own; the screen asks for its path

    @property
    def title(self) -> str:
        """The name with its time: `quick look: 10 minutes`."""
        return f"{self.name}: {self.time}" if self.time else self.name

    def plan_from(self, plan: Request) -> Request:
        """Apply this plan to the builds, configs and kernels of another one."""
        kept = ("builds", "base", "configs", "set_each", "kernels", "overrides", "allow_concurrent")
        return replace(request_of(self.entries), **{name: getattr(plan, name) for name in kept})


def plans(offer: Choices) -> tuple[Ready, ...]:
    rows = sorted((row for row in offer.presets if row.get("title")), key=lambda row: int(row["place"]))
    return tuple(
        Ready(str(row["title"]), str(row["time"]), str(row["question"]), {**row["fields"], **row["options"]},
              bool(row["own_build"]))
        for row in rows
    )  # fmt: skip


def recent(out: Path) -> tuple[Row, ...]:
    """Builds of the newest runs, known before `bench` has listed any."""
    by_label: dict[str, Row] = {}
    for run in runs_in(out)[:RECENT]:
        with suppress(UserError):
            by_label |= {
                build.label: {"label": build.label, "version": build.version, "provenance": build.provenance}
                for build in read_manifest(run).builds
                if build.prefix
            }
    return tuple(by_label.values())


def newest(offer: Choices, majors: int) -> tuple[str, ...]:
    """The newest release, or release candidate, of each of the newest majors, oldest first; from source if possible."""
    by_major: dict[int, tuple[tuple[int, ...], bool, str]] = {}
    for row in offer.builds:
        key = order_of(str(row["version"]))
        if not key[0] or (*key, 0)[1] < -1 or row.get("initdb_args") or row.get("patches") or not _here(row):
            continue
        one = (key, row["provenance"] == "source", str(row["label"]))
        by_major[key[0]] = max(by_major.get(key[0], one), one)
    return tuple(by_major[major][2] for major in sorted(by_major)[-majors:])


def _here(row: Row) -> bool:
    """Whether this machine can have a build: it needs no archive that could not be fetched."""
    archive = row.get("tarball")
    return not archive or Path(str(archive.get("path", ""))).exists()


def items(plan: Request, offer: Choices) -> Iterator[Item]:
    """The ready plans; the one that equals the plan is marked."""
    for ready in plans(offer):
        chosen = bool(plan.builds) and ready.plan_from(plan) == plan
        yield Item(
            ready.title,
            "[x]" if chosen else "[ ]",
            detail=f"{ready.name}: {ready.words}",
            mark="chosen" if chosen else "",
            toggle=None if ready.patch else _toggle(ready, plan, offer),
            question=_question(ready, plan, offer) if ready.patch else None,
        )


def _toggle(ready: Ready, plan: Request, offer: Choices) -> Any:
    return lambda: replace(ready.plan_from(plan), builds=plan.builds or newest(offer, 2))


def _question(ready: Ready, plan: Request, offer: Choices) -> Question:
    known = next((build for build in plan.builds if "=" in build), "")

    def take(typed: str) -> Request:
        build = own_build(typed)
        base = tuple(name for name in plan.builds if "=" not in name)[:1] or newest(offer, 1)
        return with_build(replace(ready.plan_from(plan), builds=base, base=None), build, offer.labels)

    return Question("the patched build: NAME=/path of an install or of a source tree", known, take, check=named)


def named(typed: str) -> str:
    """Raise UserError unless the text names a build of the user's own."""
    name, _, place = typed.partition("=")
    if not name or not place:
        raise UserError(
            f"'{typed}': give NAME=/path of an install or a source tree, NAME=git:/path@REVISION, or NAME=postgresql://…"
        )
    return typed


def own_build(typed: str) -> str:
    """Parse a build of the user's own. Raises UserError if it is invalid or contains a password."""
    refuse_password(named(typed))
    return typed
