"""JSON input of the launcher of a combined workload."""

from __future__ import annotations

import msgspec


class PartSpec(msgspec.Struct, frozen=True):
    """The launcher of one load: see `workloads.base.Launch`."""

    name: str
    command: tuple[str, ...]
    stdin: str


class Spec(msgspec.Struct, frozen=True):
    """A step. `roles` are the slots of the page, `firsts` the first of each part's."""

    page_fd: int
    roles: int
    firsts: tuple[int, ...]
    parts: tuple[PartSpec, ...]
