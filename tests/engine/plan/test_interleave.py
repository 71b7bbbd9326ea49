"""The choice of interleaving that is left to the plan: slices where they can be, else cells, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from engine.core.errors import UserError
from engine.core.model import Build
from engine.plan import interleaving
from engine.plan.interleaving import CannotBeSliced
from engine.plan.request import Request
from engine.postgres.configs import ConfigSpec, Setting
from tests.support.benchcall import Bench

GB = 1 << 30


@pytest.fixture
def estimate(bench: Bench, build: Callable[[int | str], Build]) -> Callable[..., dict[str, Any]]:
    """The estimate of a plan of two builds, or of those that it names; what takes turns is left to it."""

    def of(*options: str, builds: tuple[int, ...] = (14, 16)) -> dict[str, Any]:
        labels = ",".join(build(major).label for major in builds)
        done = bench("--pg", labels, *options, "--estimate")
        assert done.returncode == 0, done.stderr
        plan: dict[str, Any] = json.loads(done.stdout)
        return plan

    return of


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--scale", "io"), "--scale io: the write-back of one server would go on in the slices of the others"),
        (("--placement", "free"), "--placement free: in slices both servers must have the same CPUs"),
        (
            ("--set-each", "work_mem=1MB,2MB,3MB"),
            "slices take 2 to 4 servers side by side (--aa adds one for each config)",
        ),
        (("--config", "auto,readahead-0"), "'readahead-0' sets read_ahead_kb of this machine, which servers side"),
        (("--set", "statement_timeout=5s"), "statement_timeout=5s would end statements of a server that is paused"),
        (("--set", "shared_buffers=100GB"), "of memory side by side, 0 would"),
        (("--rows", "2000000000"), "of data each do not fit into"),
    ],
)
def test_where_slices_cannot_be_an_even_number_of_cells_is_run(
    estimate: Callable[..., dict[str, Any]], options: tuple[str, ...], reason: str
) -> None:
    plan = estimate(*options)
    assert plan["interleave"] == "cells" and reason in plan["interleave_reason"]
    assert "--interleave" not in plan["interleave_reason"]
    assert plan["cell_count"] == 2 * 4 * (2 if "--config" in options else 3 if "--set-each" in options else 1)


def test_one_build_is_run_in_cells(estimate: Callable[..., dict[str, Any]]) -> None:
    plan = estimate(builds=(16,))
    assert plan["interleave"] == "cells" and "only one" in plan["interleave_reason"]


def test_what_was_decided_is_said(bench: Bench, build: Callable[[int | str], Build]) -> None:
    labels = f"{build(14).label},{build(16).label}"
    arguments = ("--pg", labels, "--interleave", "auto", "--dry-run")
    assert "slices: 2 servers fit side by side" in bench(*arguments).stdout
    cells = bench(*arguments, "--placement", "free")
    assert "cells: --placement free: in slices both servers must have the same CPUs" in " ".join(cells.stdout.split())


def test_buffers_and_data_of_all_servers_fit_into_memory() -> None:
    request = Request(builds=("a", "b", "c"), interleave="slices")
    settings = [{"shared_buffers": "1GB"}]
    interleaving.check_memory(settings, 3 * GB, request, 16 * GB)
    with pytest.raises(CannotBeSliced, match=r"3 servers with shared_buffers of 1 GB and 5 GB of data .* 2 would"):
        interleaving.check_memory(settings, 5 * GB, request, 16 * GB)
    request = Request(builds=("a", "b"), configs=("small", "large"), interleave="slices")
    interleaving.check_memory([{"shared_buffers": "128kB"}, {"shared_buffers": "6GB"}], 0, request, 16 * GB)
    with pytest.raises(UserError, match=r"4 servers with shared_buffers of .* to 8 GB .* 3 would; use --interleave"):
        interleaving.check_memory([{"shared_buffers": "128kB"}, {"shared_buffers": "8GB"}], 0, request, 16 * GB)


@pytest.mark.parametrize("name", ["checkpoint_timeout", "lock_timeout", "huge_pages"])
def test_settings_of_some_versions_cannot_be_sliced(name: str) -> None:
    spec = ConfigSpec("mine", "", "", (Setting(name, "0", last=13),))
    with pytest.raises(CannotBeSliced, match=f"config 'mine' sets {name} for some versions only"):
        interleaving.stretched(spec, (), 2)
    assert interleaving.stretched(spec, ((name, "0"),), 2), "set for all on top of it"
