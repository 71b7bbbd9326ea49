"""Plans kept as TOML: the fields of a request; an error is one line; the command line wins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.core.model import Build
from engine.journal.manifest import read_manifest
from engine.plan import planfile
from engine.plan.request import Request
from engine.postgres import configs
from tests.support.benchcall import SMALL, Bench

WORDS = st.text("abcxyz01.-=/", min_size=1, max_size=8)
REQUESTS = st.builds(
    Request,
    builds=st.lists(WORDS, min_size=1, max_size=3).map(tuple),
    options=st.fixed_dictionaries(
        {},
        optional={
            "scale": WORDS,
            "rows": st.integers(1000, 10**9),
            "steps": st.lists(WORDS, min_size=1, max_size=3),
            "clients": st.integers(2, 256),
            "placement": st.just("paired"),
            "resync_rounds": st.integers(2, 4),
        },
    ),
    overrides=st.lists(WORDS, max_size=2).map(tuple),
    base=st.none() | WORDS,
    aa=st.booleans(),
    margin=st.floats(0.001, 0.5),
    probes=st.lists(WORDS, max_size=2).map(tuple),
)


@given(REQUESTS)
def test_a_request_comes_back_from_its_file(tmp_path_factory: pytest.TempPathFactory, request_: Request) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.toml"
    path.write_text(tomli_w.dumps(request_.entries()))
    assert planfile.read(path) == request_


def test_only_what_is_not_as_usual_is_written() -> None:
    assert Request(builds=("16.3",)).entries() == {"builds": ["16.3"]}
    cells = {"builds": ["16.3"], "interleave": "cells"}
    assert planfile.request({**cells, "clients": 1, "placement": "free"}).entries() == cells
    # Values that slices may replace are kept where they may come, also where it is as usual.
    kept = {"builds": ["16.3"], "placement": "free"}
    assert planfile.request(kept).entries() == kept


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("buildz = ['16.3']", "unknown option 'buildz' (nearest: builds"),
        ("builds = '16.3'", "builds must be a list of texts, not '16.3'"),
        ("clients = true", "clients must be a whole number from 1 to 256, not True"),
        ("rows = 2000.5", "rows must be a whole number from 1,000 to 1,000,000,000,000, not 2000.5"),
        ("aa = 1", "aa must be true or false, not 1"),
        ("margin = 'two'", "margin must be a number"),
        ("placement = 'here'", "unknown placement 'here'"),
        ('rows = "\\u001b[2J"', r"not '\x1b[2J'"),
        ("builds = [", ": not valid TOML"),
        ("x = " + "[" * 20_000 + "]" * 20_000, "nested too deeply"),
    ],
)
def test_a_wrong_entry_is_told_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(UserError) as raised:
        planfile.read(path)
    assert message in str(raised.value) and str(path) in str(raised.value)


def test_only_files_of_a_decent_size_are_plans_and_configs(tmp_path: Path) -> None:
    (large := tmp_path / "large.toml").write_text("#" * (1 << 20) + "\n")
    for read in (planfile.read, lambda path: configs.resolve([str(path)])):
        with pytest.raises(UserError, match=f"{large} cannot be read: .*1 MiB"):
            read(large)


def refused(bench: Bench, *arguments: str) -> str:
    """The one line with which a command is refused."""
    done = bench(*arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., str]:
    """Writes a plan and names its file."""

    def write(**entries: Any) -> str:
        path = tmp_path / "plan.toml"
        path.write_text(tomli_w.dumps(entries))
        return str(path)

    return write


@pytest.mark.parametrize(
    "config", ["../secret", "/etc/shadow", "../secret.conf", "link.conf", "below/../../secret", "a/\0"]
)
def test_a_plan_reads_no_file_outside_its_folder(
    bench: Bench, plan: Callable[..., str], label: str, config: str
) -> None:
    file = plan(builds=[label], configs=[config])
    folder = Path(file).parent
    for secret in (folder.parent / "secret", folder.parent / "secret.conf"):
        secret.write_text("root:*:20228\n")
    (folder / "below").mkdir(exist_ok=True)
    (folder / "link.conf").unlink(missing_ok=True)
    (folder / "link.conf").symlink_to(folder.parent / "secret.conf")
    said = refused(bench, "run", "--plan", file, "--dry-run")
    assert "is not below the plan's folder" in said and "20228" not in said


def test_a_plans_config_file_is_found_beside_it(bench: Bench, plan: Callable[..., str], label: str) -> None:
    file = plan(builds=[label], configs=["below/own.conf", "plain"])
    below = Path(file).parent / "below"
    below.mkdir(exist_ok=True)
    (below / "own.conf").write_text("work_mem = 8MB\n")
    (below.parent / "plain").write_text("work_mem = 9MB\n")
    manifest = json.loads(bench("run", "--plan", file, "--dry-run", "--json").stdout)["manifest"]
    assert {config["name"] for config in manifest["configs"].values()} == {"own", "plain"}
    (below / "own.conf").write_text("root:*:20228\n")
    said = refused(bench, "run", "--plan", file, "--dry-run")
    assert "own.conf:1: not a line of the form NAME = VALUE" in said and "20228" not in said


def test_an_estimate_agrees_with_the_dry_run_and_asks_no_server(
    bench: Bench, build: Callable[[int | str], Build], plan: Callable[..., str]
) -> None:
    labels = [build(14).label, build(16).label]
    file = plan(builds=labels, rows=5000, aa=True, overrides=["max_wal_size=1GB"])
    estimate = json.loads(bench("--plan", file, "--estimate").stdout)
    planned = json.loads(bench("--plan", file, "--dry-run", "--json").stdout)
    for figure in ("cell_count", "cell_s", "total_s", "needed_bytes", "smallest_effect"):
        assert estimate[figure] == planned[figure]
    assert estimate["cell_count"] == len(planned["manifest"]["cells"]) == 24
    assert estimate["plan"]["builds"] == labels and estimate["plan"]["rows"] == 5000
    # A build that is nowhere at hand and could only be built is none of an estimate's business.
    bare = Bench(bench.out, {"PGBED_SERVERS": "", "PATH": "/nonexistent"})
    assert json.loads(bare("--plan", file, "--estimate").stdout)["cell_count"] == 24


def test_kept_clusters_take_the_space_of_those_that_fit(bench: Bench, build: Callable[[int | str], Build]) -> None:
    plan = (
        "--pg", f"{build(14).label},{build(16).label}", "--keep", "--interleave", "cells", "--repeats", "400",
        "--rows", "5000", "--estimate",
    )  # fmt: skip
    short, all_of_them = (json.loads(bench(*plan, *more).stdout) for more in (("--minutes", "20"), ()))
    assert 2 <= short["cell_count"] < 800 == all_of_them["cell_count"]
    for case in (short, all_of_them):
        assert case["needed_bytes"] / case["cell_count"] == pytest.approx(short["needed_bytes"] / short["cell_count"])


def test_a_detached_start_prints_only_json_with_the_folder(bench: Bench, label: str) -> None:
    done = bench("run", "--pg", label, "--repeats", "1", *SMALL, "--steps", "l.i0", "--detach", "--json")
    assert done.returncode == 0, done.stderr
    started = json.loads(done.stdout)
    assert Path(started["folder"]) == bench.run
    assert read_manifest(bench.run).run == started["manifest"]["run"]
    bench.await_end()
    assert [attempt.state for attempt in bench.attempts()] == ["finished"]


def test_kernels_are_listed_with_the_running_one(bench: Bench) -> None:
    import platform

    row, *others = json.loads(bench("list", "kernels", "--json").stdout)
    assert (row["kernel"], row["release"], row["state"]) == ("host", platform.release(), "running")
    assert {other["state"] for other in others} <= {"distro", "nixpkgs"}  # as this machine can have them
    assert all("base_slice_ns" in other["tunables"] for other in others if other["scheduler"] == "EEVDF")


def test_all_choices_come_in_one_object(bench: Bench) -> None:
    choices = json.loads(bench("list", "choices", "--out", str(bench.out)).stdout)
    assert set(choices) == {
        "builds", "configs", "workloads", "loads", "options", "presets", "kernels", "runs",
    }, "probes take longer and are asked for apart"  # fmt: skip
    for what in ("builds", "configs", "workloads", "kernels"):
        assert choices[what] == json.loads(bench("list", what, "--json").stdout)
    assert choices["runs"] == [] and "planner-delete" in [row["preset"] for row in choices["presets"]]


def test_naming_the_workload_of_a_plan_again_keeps_its_options(
    bench: Bench, label: str, plan: Callable[..., str]
) -> None:
    path = plan(builds=[label], scale="cached", repeats=6)
    for arguments in ((), ("--workload", "insert")):
        done = bench("run", "--plan", path, *arguments, "--estimate")
        assert json.loads(done.stdout)["plan"].items() >= {"scale": "cached", "repeats": 6}.items(), done.stderr


def test_numbers_are_read_as_people_write_them(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("builds = ['16.3']\nrows = '400k'\nquery_seconds = '1m'\nminutes = '2h'\nmargin = '1%'\n")
    plan = planfile.read(path)
    assert plan.options == {"rows": 400_000, "query_seconds": 60} and (plan.minutes, plan.margin) == (120, 0.01)
