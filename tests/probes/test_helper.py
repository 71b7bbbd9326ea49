"""Refusals of the privileged helper: everything but its own scripts over a running server's own binary."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from probes import bpftrace, helper, processes, tracer
from probes.errors import ProbeError
from tests.support.observing import Helper, helper_with
from tests.support.programs import PLANNER, PUSH, Compile

# Whom it trusts depends on who owns files, which says nothing inside a build's sandbox.
pytestmark = pytest.mark.outside


@pytest.fixture
def running(compile_c: Compile) -> Iterator[tuple[Path, int]]:
    """A program with a planner, running."""
    program = compile_c("server", PLANNER, *PUSH, "-DSTART=", "-DDONE=")
    with subprocess.Popen([program, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield program, process.pid
        process.kill()


def program(folder: Path, text: str = "exit 0") -> Path:
    """An executable named bpftrace, which says that it is 0.17."""
    written = folder / "bpftrace"
    written.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo bpftrace v0.17.0 && exit 0\n{text}\n')
    written.chmod(0o755)
    return written


@pytest.fixture
def safe_folder() -> Iterator[Path]:
    """A folder that only root can change, up to the root folder: pytest's are below /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/lib", prefix="pgbed-tests-") as folder:
        yield Path(folder)


@pytest.fixture
def arguments(running: tuple[Path, int]) -> dict[str, str]:
    """Arguments that are right."""
    binary, pid = running
    return {"--binary": str(binary), "--major": "16", "--server": str(pid), "--launcher": str(os.getpid())}


def argv(probe: str, arguments: dict[str, str]) -> list[str]:
    return [probe, *(word for pair in arguments.items() for word in pair)]


def test_right_arguments_give_the_projects_own_script(arguments: dict[str, str]) -> None:
    script = helper.prepare(helper.parse(argv("planner", arguments)))
    assert f"uprobe:{arguments['--binary']}:pg_plan_query /@g[tid] == 1/" in script
    assert f"@g[{arguments['--server']}] = 1;" in script
    assert f"@g[{os.getpid()}] = 4;" in script


@pytest.mark.parametrize("probe", ["procsched", "../runq", "runq.bt", "", "/etc/passwd"])
def test_unknown_probes_are_refused(arguments: dict[str, str], probe: str) -> None:
    with pytest.raises(ProbeError, match="has no probe"):
        helper.parse(argv(probe, arguments))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--major", "16; x", "not a major version"),
        ("--major", "9", "not a major version"),
        ("--server", "0", "not a process id"),
        ("--server", "-1", "not a process id"),
        ("--server", "1 2", "not a process id"),
        ("--server", "4194305", "there is no process"),
        ("--launcher", "$(id)", "not a process id"),
        pytest.param("--server", str(os.getpid()), "was started from another file", id="this process"),
        ("--binary", "/nowhere/postgres", "was started from another file"),
        ("--binary", "/etc/shadow", "was started from another file"),
        ("--binary", "/\x1b[2Jpostgres", r"another file than /\\x1b\[2Jpostgres"),
        ("--bpftrace", "/nowhere/bpftrace", "helper: unrecognized arguments"),
        ("--unknown", "1", "helper: "),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(arguments: dict[str, str], option: str, value: str, said: str) -> None:
    with pytest.raises(ProbeError, match=said.replace("$", r"\$")) as refused:
        helper.parse(argv("planner", arguments | {option: value}))
    assert str(refused.value).startswith("probes: ") and "\n" not in str(refused.value)


def test_a_path_that_a_script_cannot_hold_is_refused(arguments: dict[str, str], tmp_path: Path) -> None:
    odd = tmp_path / 'a"b'
    os.link(arguments["--binary"], odd)
    with pytest.raises(ProbeError, match="cannot hold this path"):
        helper.parse(argv("planner", arguments | {"--binary": str(odd)}))


def test_a_bpftrace_that_only_root_can_change_is_found(safe_folder: Path) -> None:
    pinned = program(safe_folder)
    assert bpftrace.find(str(pinned)) == pinned
    (safe_folder / "link").symlink_to(pinned)
    assert bpftrace.find(str(safe_folder / "link")) == pinned


@pytest.mark.parametrize("loose", ["file", "group", "folder", "sticky", "owner", "link", "behind a link", "gone"])
def test_a_bpftrace_that_others_may_change_is_not_run(
    loose: str, safe_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = safe_folder / "bin"
    folder.mkdir()
    pinned = program(folder)
    match loose:
        case "file":
            pinned.chmod(0o777)
        case "group":
            pinned.chmod(0o775)
        case "folder":
            folder.chmod(0o777)
        case "sticky":
            folder.chmod(0o1777)
        case "owner":
            os.chown(folder, 65534, 65534)
        case "gone":
            pinned.unlink()
        case _:
            target, pinned = pinned, safe_folder / "link"
            pinned.symlink_to(target)
            if loose == "link":
                os.lchown(pinned, 65534, 65534)
            else:
                folder.chmod(0o777)
    assert bpftrace.find(str(pinned)) == bpftrace.find()
    monkeypatch.setattr(bpftrace, "SYSTEM_PATHS", ())
    with pytest.raises(ProbeError, match="others than root could change" if loose != "gone" else "bpftrace not found"):
        bpftrace.find(str(pinned))


def test_the_pinned_bpftrace_is_run_in_an_environment_of_its_own(
    arguments: dict[str, str], safe_folder: Path, tmp_path: Path
) -> None:
    folder = safe_folder / "bin"
    folder.mkdir()
    command = helper_with(program(folder, 'pwd; env | sort; echo "$@"'), safe_folder)
    asked = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
    assert asked.stdout == f"{folder}/bpftrace\n0.17.0\n"
    environment = {"SECRET": "1", "LD_LIBRARY_PATH": "/nowhere", "PYTHONPATH": "/nowhere", "PATH": str(tmp_path)}
    done = run_helper(command, argv("runq", arguments), environment)
    place, *variables, words = done.stdout.splitlines()
    assert place == "/" and words.startswith("-f json -B line")
    assert {line.split("=")[0] for line in variables} <= {*helper.ENVIRONMENT, "PWD", "SHLVL", "_"}


def run_helper(command: Helper, arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The helper with an input that does not end before its bpftrace does."""
    read, write = os.pipe()
    try:
        return subprocess.run(
            [*command, *arguments], stdin=read, capture_output=True, text=True, timeout=60, env=environment
        )
    finally:
        os.close(read)
        os.close(write)


def test_bpftrace_gets_a_path_that_no_caller_can_redirect(arguments: dict[str, str], safe_folder: Path) -> None:
    """Another program could be attached to than the one in which the helper found a function's place."""
    folder = safe_folder / "bin"
    folder.mkdir()
    show = 'for last; do :; done; cat "$last"; stat -c "%d:%i" /dev/shm/postgres; stat -c "%U %a" /dev/shm'
    command = helper_with(program(folder, show), safe_folder)
    before = Path("/proc/self/mounts").read_text()
    done = run_helper(command, argv("planner", arguments), dict(os.environ))
    assert "uprobe:/dev/shm/postgres:pg_plan_query" in done.stdout, done.stderr
    assert arguments["--binary"] not in done.stdout
    status = Path(arguments["--binary"]).stat()
    assert done.stdout.splitlines()[-2:] == [f"{status.st_dev}:{status.st_ino}", "root 755"]
    assert Path("/proc/self/mounts").read_text() == before


def test_a_users_own_mount_is_not_trusted(compile_c: Compile, safe_folder: Path) -> None:
    """FUSE says of each file what its user wants: that it is root's, and another one the next time."""
    folder = safe_folder / "mounted"
    folder.mkdir()
    command = helper_with(program(safe_folder, 'for last; do :; done; cat "$last"'), safe_folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nosuid,mode=755", "tmpfs", folder], check=True)
    try:
        binary = Path(shutil.copy(compile_c("server", PLANNER, *PUSH, "-DSTART=", "-DDONE="), folder))
        assert bpftrace.changeable(binary) is None
        with subprocess.Popen([binary, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            words = ["planner", "--binary", str(binary), "--major", "16", "--server", str(server.pid)]
            done = run_helper(command, words, dict(os.environ))
            server.kill()
    finally:
        subprocess.run(["umount", folder], check=True)
    assert "uprobe:/dev/shm/postgres:pg_plan_query" in done.stdout, done.stderr


def test_started_by_its_path_it_needs_nothing_of_the_environment(arguments: dict[str, str]) -> None:
    command = [*tracer.direct_command(), *argv("runq", arguments), "--render-only"]
    done = subprocess.run(command, capture_output=True, text=True, env={}, cwd="/", timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("// runq")
    refused = subprocess.run([*command, "--major", "x"], capture_output=True, text=True, env={}, cwd="/", timeout=60)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)


def test_who_came_by_sudo_may_watch_only_processes_of_their_own(
    arguments: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", "65534")
    with pytest.raises(ProbeError, match=r"belongs to user 0; only your own may be watched"):
        helper.prepare(helper.parse(argv("stacks", arguments)))


@pytest.fixture
def as_user(compile_c: Compile, cell_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Arguments of a user who came by sudo, over a program of that user's."""
    binary = Path(shutil.copy(compile_c("theirs", PLANNER, *PUSH, "-DSTART=", "-DDONE="), cell_dir))
    os.chown(binary, 65534, 65534)
    monkeypatch.setenv("SUDO_UID", "65534")
    with subprocess.Popen(
        [binary, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=65534, group=65534, extra_groups=[]
    ) as process:
        yield ["--binary", str(binary), "--major", "16", "--server", str(process.pid)]
        process.kill()


def test_who_came_by_sudo_gets_figures_of_their_own_user_only(
    as_user: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = int(as_user[-1])
    monkeypatch.setattr(processes, "groups", lambda *_: {pid: 1, os.getpid(): 1})  # a child that became root's
    for probe, point in (("planner", "uprobe:"), ("stacks", "profile:")):
        script = helper.prepare(helper.parse([probe, *as_user]))
        assert f"@g[{pid}] = 1;" in script and f"@g[{os.getpid()}]" not in script
        assert re.search(rf"^{point}\S* /.*&& uid == 65534\b.*/", script, re.MULTILINE)


def test_without_tracking_only_root_may_count_the_servers_of_all(as_user: list[str]) -> None:
    with pytest.raises(ProbeError, match=r"--untracked counts every user's servers .* only root"):
        helper.parse(["planner", *as_user, "--untracked"])


def test_for_who_came_by_sudo_nothing_is_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setattr(helper, "tracefs_mounted", lambda: False)
    with pytest.raises(ProbeError, match="is not mounted; as root"):
        helper.mount_tracefs()


def test_the_helper_leaves_nothing_and_imports_its_own(tmp_path: Path) -> None:
    package = tmp_path / "probes"
    shutil.copytree(Path(helper.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    before = sorted(package.rglob("*"))
    (tmp_path / "argparse.py").write_text("raise SystemExit(77)")
    command = [sys.executable, "-I", "-B", str(package / "helper.py"), "nonsense"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, timeout=60, env={"PYTHONPATH": str(tmp_path)}
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert sorted(package.rglob("*")) == before


def test_without_the_tracing_file_system_it_says_how_to_mount_it(arguments: dict[str, str]) -> None:
    without = ["unshare", "--mount", "sh", "-c", f'umount {helper.TRACEFS} && exec "$@"', "sh"]
    helper.mount_tracefs()
    command = [*without, *tracer.direct_command(), *argv("runq", arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", helper.NO_TRACEFS + "\n")
    assert helper.tracefs_mounted()
