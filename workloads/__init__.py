"""Workloads and their client processes. Knows nothing of the engine."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module

from workloads.api.base import Workload
from workloads.api.names import NotRegistered, pick
from workloads.presets import preset

# Each workload's name and module, with its attribute unless that is WORKLOAD (MODULE:NAME). PGBED_WORKLOADS adds to it
# (comma-separated NAME=MODULE).
REGISTRY = {
    "insert": "workloads.insert.workload",
    "pgbench-select": "workloads.pgbench.workload:SELECT",
    "pgbench-tpcb": "workloads.pgbench.workload:TPCB",
    "pgbench-simple": "workloads.pgbench.workload:SIMPLE",
    "pgbench": "workloads.pgbench.workload:SCRIPTS",
    "micro": "workloads.micro.workload",
    "oltp": "workloads.oltp.workload",
    "own": "workloads.own.workload",
    "tpcc-like": "workloads.tpcc.workload",
}


def modules() -> dict[str, str]:
    added = os.environ.get("PGBED_WORKLOADS", "")
    return REGISTRY | dict(entry.split("=", 1) for entry in added.split(",") if "=" in entry)


@cache
def workload(name: str) -> Workload:
    """Look up a workload by its name. Raises UnknownName, or NotRegistered if its module holds no workload."""
    module, _, attribute = pick("workload", name, modules()).partition(":")
    try:
        loaded: Workload = getattr(import_module(module), attribute or "WORKLOAD")
    except (ImportError, AttributeError) as error:
        raise NotRegistered(
            f"workloads in config.toml: {module}: {error}; name a module with WORKLOAD in it"
        ) from error
    return loaded


def workloads() -> tuple[Workload, ...]:
    return tuple(workload(name) for name in modules())


def of_preset(name: str) -> str:
    return preset(name).workload
