"""The steps of a plan: one for each number of clients, after the one that makes the tables."""

from __future__ import annotations

import hashlib
from typing import Any

from workloads.api.names import pick
from workloads.pgbench.options import DEFAULT_CLIENTS, DEFAULT_SECONDS, Options

INIT = "init"


def plan_steps(short: str, kind: str, options: Options) -> list[dict[str, Any]]:
    """Records of the steps, `init` first; names begin with `short`. Raises UnknownName or ValueError."""
    if options.seconds and options.transactions:
        raise ValueError("--seconds and --transactions exclude each other")
    numbers = DEFAULT_CLIENTS if options.clients is None else options.clients
    if not numbers:
        raise ValueError("--clients: give at least one number")
    if doubles := [number for number in dict.fromkeys(numbers) if numbers.count(number) > 1]:
        raise ValueError(f"--clients: {doubles[0]} is given twice; give each number once")
    if options.jobs > max(numbers):
        raise ValueError(f"--jobs {options.jobs}: no step has that many clients, and each thread needs one")
    steps = [_step(f"{short}.c{clients}", kind, clients, options) for clients in numbers]
    if options.steps:
        names = [INIT, *(step["name"] for step in steps)]
        wanted = {pick("step", name, {name: name for name in names}) for name in options.steps}
        steps = [step for step in steps if step["name"] in wanted]
    return [{"name": INIT, "kind": INIT}, *steps]


def _step(name: str, kind: str, clients: int, options: Options) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "clients": clients,
        "seconds": 0 if options.transactions else options.seconds or DEFAULT_SECONDS,
        "transactions": options.transactions or 0,
        "sweep": {"clients": clients},
    }


def seed_of(plan_seed: int, step: str, repeat: int) -> int:
    """A seed that is the same for all builds, but different for each step and repeat."""
    return int.from_bytes(hashlib.sha256(f"{plan_seed}/{step}/{repeat}".encode()).digest()[:4], "big")
