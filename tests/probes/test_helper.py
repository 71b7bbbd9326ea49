"""What the privileged helper refuses: everything but its own scripts over a running server's own binary."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import PLANNER, PUSH, Compile

from probes import helper, tracer
from probes.errors import ProbeError

# Whom it trusts depends on who owns files, which says nothing inside a build's sandbox.
pytestmark = pytest.mark.outside


@pytest.fixture
def running(compile_c: Compile) -> Iterator[tuple[Path, int]]:
    """A program with a planner, running."""
    program = compile_c("server", PLANNER, *PUSH, "-DSTART=", "-DDONE=")
    with subprocess.Popen([program, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield program, process.pid
        process.kill()


def bpftrace(folder: Path) -> Path:
    """An executable of that name."""
    program = folder / "bpftrace"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def arguments(running: tuple[Path, int], tmp_path: Path) -> dict[str, str]:
    """Arguments that are right."""
    binary, pid = running
    return {
        "--bpftrace": str(bpftrace(tmp_path)),
        "--binary": str(binary),
        "--major": "16",
        "--server": str(pid),
        "--launcher": str(os.getpid()),
    }


def argv(probe: str, arguments: dict[str, str]) -> list[str]:
    return [probe, *(word for pair in arguments.items() for word in pair)]


def test_right_arguments_give_the_projects_own_script(arguments: dict[str, str]) -> None:
    script = helper.prepare(helper.parse(argv("planner", arguments)))
    assert f"uprobe:{arguments['--binary']}:pg_plan_query /@g[tid] == 1/" in script
    assert f"@g[{arguments['--server']}] = 1;" in script
    assert f"@g[{os.getpid()}] = 4;" in script


@pytest.mark.parametrize("probe", ["procsched", "../runq", "runq.bt", "", "/etc/passwd"])
def test_unknown_probes_are_refused(arguments: dict[str, str], probe: str) -> None:
    with pytest.raises(ProbeError, match="knows no probe"):
        helper.parse(argv(probe, arguments))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--major", "16; x", "no major version"),
        ("--major", "9", "no major version"),
        ("--server", "0", "no process id"),
        ("--server", "-1", "no process id"),
        ("--server", "1 2", "no process id"),
        ("--server", "4194305", "there is no process"),
        ("--launcher", "$(id)", "no process id"),
        ("--server", str(os.getpid()), "was started from another file"),
        ("--binary", "/nowhere/postgres", "No such file"),
        ("--bpftrace", "/bin/sh", "starts nothing else"),
        ("--bpftrace", "/nowhere/bpftrace", "No such file"),
        ("--unknown", "1", "helper: "),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(arguments: dict[str, str], option: str, value: str, said: str) -> None:
    with pytest.raises(ProbeError, match=said.replace("$", r"\$")) as refused:
        helper.parse(argv("planner", arguments | {option: value}))
    assert str(refused.value).startswith("probes: ") and "\n" not in str(refused.value)


def test_a_bpftrace_that_others_may_change_is_refused(arguments: dict[str, str]) -> None:
    Path(arguments["--bpftrace"]).chmod(0o777)
    with pytest.raises(ProbeError, match="could be changed by others"):
        helper.parse(argv("planner", arguments))


def test_a_bpftrace_in_a_folder_that_others_may_change_is_refused(arguments: dict[str, str], tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    with pytest.raises(ProbeError, match="could be changed by others"):
        helper.parse(argv("planner", arguments | {"--bpftrace": str(bpftrace(loose))}))


def test_a_wrapper_script_for_a_binary_is_refused(arguments: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "postgres"
    shutil.copy(arguments["--bpftrace"], script)
    with pytest.raises(ProbeError, match="a wrapper script was found"):
        helper.parse(argv("planner", arguments | {"--binary": str(script)}))


def test_a_path_that_a_script_cannot_hold_is_refused(arguments: dict[str, str], tmp_path: Path) -> None:
    odd = tmp_path / 'a"b'
    shutil.copy(arguments["--binary"], odd)
    with pytest.raises(ProbeError, match="the path holds characters"):
        helper.parse(argv("planner", arguments | {"--binary": str(odd)}))


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


def test_a_privileged_helper_runs_no_program_of_its_callers(
    arguments: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(arguments["--bpftrace"], 65534, 65534)
    monkeypatch.setattr(os, "getuid", lambda: 65534)
    with pytest.raises(ProbeError, match="could be changed by others"):
        helper.trusted_program(Path(arguments["--bpftrace"]))


def test_it_leaves_nothing_in_its_folder_and_imports_from_no_other(tmp_path: Path) -> None:
    package = tmp_path / "probes"
    shutil.copytree(Path(helper.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    before = sorted(package.rglob("*"))
    (tmp_path / "argparse.py").write_text("raise SystemExit(77)")
    python, *options, _ = tracer.direct_command()
    command = [python, *options, str(package / "helper.py"), "nonsense"]
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
