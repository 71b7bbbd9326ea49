"""The consistency conditions, which must hold after any work and roll-back."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

from workloads.pgbench.scripts import commands


class Condition(NamedTuple):
    """A condition that holds, in words, and the query that counts the rows for which it does not."""

    text: str
    query: str


def conditions() -> tuple[Condition, ...]:
    source = files("workloads.tpcc").joinpath("conditions.sql").read_text("utf-8")
    texts = re.findall(r"^-- (.*)\nSELECT", source, re.M)
    return tuple(Condition(text, query) for text, (_, query) in zip(texts, commands(source), strict=True))


def schema(warehouses: int, seed: int) -> tuple[str, ...]:
    """The statements that make the tables and fill them, the same for all servers."""
    source = files("workloads.tpcc").joinpath("schema.sql").read_text("utf-8")
    text = source.replace("{warehouses}", str(warehouses)).replace("{seed}", str(seed % MOST_SEED))
    return tuple(statement for _, statement in commands(text))


MOST_SEED = 100_000  # so that no product of it and a key is too large
