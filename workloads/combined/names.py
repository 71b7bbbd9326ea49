"""Names of combined workloads, `insert+pgbench-select+pgbench:my.sql`, and lists of them, taken apart.

A plus or comma may also be part of the argument after a workload's colon, such as a script's name: it begins a further
workload only if a workload's name follows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """A workload's name and the argument after its colon: `pgbench`, `my.sql`; empty without argument."""

    name: str
    argument: str = ""

    @property
    def text(self) -> str:
        return f"{self.name}:{self.argument}" if self.argument else self.name

    @property
    def label(self) -> str:
        """The text, with file names instead of paths."""
        files = (file.rpartition("/")[2] for file in self.argument.split(","))
        return f"{self.name}:{','.join(files)}" if self.argument else self.name


def parts_of(text: str, known: Collection[str]) -> tuple[Part, ...]:
    found: list[Part] = []
    for piece in _rejoined(text.split("+"), "+", known):
        name, _, argument = piece.partition(":")
        found.append(Part(name, argument))
    return tuple(found)


def variants_of(pieces: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    return tuple(_rejoined(pieces, ",", known))


def _rejoined(pieces: Sequence[str], sign: str, known: Collection[str]) -> list[str]:
    found: list[str] = []
    for piece in pieces:
        head = piece.partition("+")[0].partition(":")[0]
        last = found[-1].rpartition("+")[2] if sign == "," and found else found[-1] if found else ""
        if ":" in last and head not in known:
            found[-1] += sign + piece
        else:
            found.append(piece)
    return found
