"""Real servers of every version: how they are made, that they cannot be left behind, and how they fail."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from engine.core.errors import UserError
from engine.core.model import Build, Config
from engine.host.procfs import children, processes_in
from engine.postgres.cluster import kill_leftover, last_words, living_server
from engine.postgres.server import Server
from engine.postgres.server_environment import ignore_libpq_variables
from engine.postgres.waiting import Waiting
from engine.system.account import Account, unprivileged
from engine.system.server_folders import SOCKET_PATH_MAX, ServerError
from tests.support.benchcall import wait_for
from tests.support.compiled import MAJORS
from tests.support.shared_memory import segments_of, still_there
from tests.support.templates import by_itself

Builds = Callable[[int | str], Build]
Configs = Callable[[Build], Config]
Servers = Callable[[int | str], Server]


def show(server: Server, *names: str) -> list[str]:
    with server.connect("postgres") as connection:
        return [connection.execute(f"SHOW {name}").fetchone()[0] for name in names]  # type: ignore[index]


@pytest.mark.parametrize("major", MAJORS)
def test_server_runs_the_build_with_checksums_and_the_config(major: int, server: Servers) -> None:
    running = server(major)
    assert running.alive() and running.died_reason() is None
    assert show(running, "server_version")[0].split()[0] == running.build.version
    names = ("data_checksums", "shared_buffers", "checkpoint_timeout", "synchronous_commit", "server_encoding")
    assert show(running, *names) == ["on", "64MB", "30min", "off", "UTF8"]


@pytest.mark.parametrize("major", MAJORS)
def test_what_the_bench_sets_comes_last(major: int, server: Servers) -> None:
    running = server(major)
    assert ("log_autoanalyze_min_duration" in running.harness_settings) == (major >= 19)
    for name, value in running.harness_settings.items():
        assert show(running, name)[0] == value, name
    prefix = "%n|%p|%b|" if major >= 13 else "%n|%p||"
    assert show(running, "log_line_prefix", "listen_addresses") == [prefix, ""]


@pytest.mark.parametrize("provenance", ["prebuilt", "local"])
def test_servers_see_nothing_of_the_users_environment(
    provenance: str, build: Builds, small_config: Configs, cell_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "LOCALE_ARCHIVE", "LD_LIBRARY_PATH", "LANG"):
        monkeypatch.setenv(name, "/the/users")
    monkeypatch.setenv("PGBED_SERVER_PATH", "/where/locale/is")
    one = replace(by_itself(build(16)), provenance=provenance)
    with Server(one, small_config(one), cell_dir) as running:
        texts = Path(f"/proc/{running.pid}/environ").read_bytes().decode().split("\0")
    seen = dict(text.split("=", 1) for text in texts if text and not text.startswith("PG"))
    expected = {"PATH": "/where/locale/is", "LC_ALL": "C", "TZ": "UTC"}
    # An install of the user's own may need it to find its libraries.
    assert seen == expected | ({"LD_LIBRARY_PATH": "/the/users"} if provenance == "local" else {})


@pytest.mark.parametrize("major", MAJORS)
def test_cluster_does_not_depend_on_locale_and_time_zone(
    major: int, build: Builds, small_config: Configs, cell_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo", "PGDATA": "/nowhere"}.items():
        monkeypatch.setenv(name, value)
    with Server(by_itself(build(major)), small_config(build(major)), cell_dir) as running:
        running.create_database()
        with running.connect() as connection:
            row = connection.execute(
                "SELECT datcollate, datctype, current_setting('TimeZone') FROM pg_database WHERE datname = 'ib'"
            ).fetchone()
        assert row in (("C.UTF-8", "C.UTF-8", "UTC"), ("C.UTF-8", "C.UTF-8", "Etc/UTC"))


def test_builtin_locale_provider_is_used_by_17(build: Builds, small_config: Configs, cell_dir: Path) -> None:
    builtin = replace(
        by_itself(build(17)), label="17-builtin", initdb_args=("--locale-provider=builtin", "--builtin-locale=C.UTF-8")
    )
    with Server(builtin, small_config(builtin), cell_dir) as running:
        running.create_database()
        with running.connect() as connection:
            row = connection.execute(
                "SELECT datlocprovider, datlocale FROM pg_database WHERE datname = 'ib'"
            ).fetchone()
        assert row == ("b", "C.UTF-8")
        assert "--builtin-locale=C.UTF-8" in running.record()["initdb"]


@pytest.mark.parametrize("major", MAJORS)
def test_pids_are_the_postmaster_and_its_children(major: int, server: Servers) -> None:
    running = server(major)
    with running.connect() as connection:
        backend = connection.info.backend_pid
        pids = (running.pid, *children(running.pid))
        assert pids[0] == running.pid and backend in pids
        assert set(pids) <= set(processes_in(running.data_dir))


def test_server_is_reached_only_by_its_user_in_a_private_folder(server: Servers, account: Account) -> None:
    folder = server(16).socket_dir
    assert folder is not None
    status = folder.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o700, account.uid)
    assert Path(f"/proc/{server(16).pid}").stat().st_uid == account.uid != 0


def test_what_the_user_sets_for_other_servers_is_not_obeyed(server: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    running = server(16)
    monkeypatch.setenv("PGHOSTADDR", "192.0.2.1")
    monkeypatch.setenv("PGSERVICE", "none such")
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    monkeypatch.setenv("PGBED_OUT", "/stays")
    ignore_libpq_variables()
    assert show(running, "default_transaction_read_only", "port") == ["off", "5432"]
    assert os.environ["PGBED_OUT"] == "/stays"


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(server: Servers) -> None:
    assert os.getsid(server(16).pid) == server(16).pid != os.getsid(0)


def test_leaving_removes_cluster_and_socket_and_keeps_the_log(
    build: Builds, small_config: Configs, cell_dir: Path
) -> None:
    with Server(build(16), small_config(build(16)), cell_dir) as running:
        sockets = running.socket_dir
    assert sockets is not None and not sockets.exists()
    assert [entry.name for entry in cell_dir.iterdir()] == ["server.log"]
    assert not processes_in(cell_dir / "data")


def test_a_kept_cluster_is_shut_down_cleanly(build: Builds, small_config: Configs, cell_dir: Path) -> None:
    with Server(build(14), small_config(build(14)), cell_dir, keep=True):
        pass
    assert (cell_dir / "data" / "PG_VERSION").read_text().strip() == "14"
    assert not (cell_dir / "data" / "postmaster.pid").exists()
    assert "shutting down" in (cell_dir / "server.log").read_text()


def test_a_cluster_that_is_there_is_not_overwritten(build: Builds, small_config: Configs, cell_dir: Path) -> None:
    second = Server(build(16), small_config(build(16)), cell_dir)
    in_use = pytest.raises(ServerError, match=r"in use by a running server \(process \d+\)")
    with Server(build(16), small_config(build(16)), cell_dir, keep=True), in_use:
        second.start()
    with (
        pytest.raises(ServerError, match="already contains a cluster"),
        Server(build(16), small_config(build(16)), cell_dir),
    ):
        pass
    assert (cell_dir / "data" / "PG_VERSION").exists()


def test_a_long_socket_path_is_refused_before_any_work(build: Builds, small_config: Configs, cell_dir: Path) -> None:
    deep = cell_dir / ("d" * 100)
    deep.mkdir()
    with pytest.raises(ServerError, match=rf"path of \d+ bytes, more than the {SOCKET_PATH_MAX}.*PGBED_SOCKETS"):
        Server(build(16), small_config(build(16)), cell_dir / "cell", sockets=deep).start()
    assert not (cell_dir / "cell").exists()


def test_a_long_tmpdir_and_a_long_cell_folder_do_not_matter(
    build: Builds, small_config: Configs, cell_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = cell_dir / ("d" * 120)
    deep.mkdir(mode=0o755)
    monkeypatch.setenv("TMPDIR", str(deep))
    with Server(build(12), small_config(build(12)), deep / "cell") as running:
        assert show(running, "data_checksums") == ["on"]


def test_a_socket_folder_that_is_not_there_is_said(build: Builds, small_config: Configs, cell_dir: Path) -> None:
    with pytest.raises(ServerError, match="does not exist; set PGBED_SOCKETS"):
        Server(build(16), small_config(build(16)), cell_dir, sockets=cell_dir / "nowhere").start()


def test_a_folder_that_the_servers_user_may_not_enter_is_named(
    build: Builds, small_config: Configs, cell_dir: Path
) -> None:
    closed = cell_dir / "closed"
    closed.mkdir(mode=0o700)
    stranger = Account("stranger", 64001, os.getgid(), switch=True)  # Nix opens its sandbox to the group of the build
    with pytest.raises(ServerError, match=rf"user stranger.*may not enter {closed}.*--out"):
        Server(build(16), small_config(build(16)), closed / "cell", account=stranger).start()


def test_binaries_that_cannot_be_run_are_named(build: Builds, small_config: Configs, cell_dir: Path) -> None:
    nothing = replace(build(16), prefix=str(cell_dir / "nothing"))
    with pytest.raises(ServerError, match=r"cannot run .*nothing/bin/initdb"):
        Server(nothing, small_config(build(16)), cell_dir / "cell").start()


@pytest.mark.parametrize("major", MAJORS)
def test_a_server_that_does_not_start_says_its_last_words(major: int, build: Builds, cell_dir: Path) -> None:
    config = Config("broken", (("shared_buffers", "64MB"), ("shared_preload_libraries", "no_such_library")), "test")
    with pytest.raises(ServerError) as caught, Server(build(major), config, cell_dir):
        pass
    said = str(caught.value)
    assert "no_such_library" in said and "ended with status 1" in said and "server.log" in said and "\n" not in said
    assert not (cell_dir / "data").exists()


def test_initdb_that_fails_says_why(build: Builds, small_config: Configs, cell_dir: Path) -> None:
    wrong = replace(by_itself(build(16)), initdb_args=("--locale=xx_XX.UTF-8",))
    with (
        pytest.raises(ServerError, match=r"initdb of .* failed: .*invalid locale"),
        Server(wrong, small_config(build(16)), cell_dir),
    ):
        pass
    assert not (cell_dir / "data").exists()


def test_a_server_killed_in_a_step_is_noticed_with_the_reason(
    build: Builds, small_config: Configs, cell_dir: Path
) -> None:
    with Server(build(17), small_config(build(17)), cell_dir) as running:
        os.kill(running.pid, signal.SIGKILL)
        wait_for(lambda: not running.alive(), "its end")
        assert "was killed by SIGKILL" in (running.died_reason() or "")
        assert children(running.pid) == []
    wait_for(lambda: not processes_in(cell_dir / "data"), "all its processes to end")


ENGINE = """
    import sys, time
    from pathlib import Path
    from engine.builds import resolve
    from engine.core.model import Config
    from engine.postgres.server import Server
    build = resolve.local_build("it", Path(sys.argv[1]))
    with Server(build, Config("small", (("shared_buffers", "64MB"),), "test"), Path(sys.argv[2])) as server:
        server.create_database()
        with server.connect() as connection:
            if sys.argv[3] == "busy":
                print(server.pid, flush=True)
                connection.execute("SELECT count(*) FROM generate_series(1, 1e12)")
            print(server.pid, flush=True)
            time.sleep(600)
"""


def start_engine(prefix: str, cell_dir: Path, what: str) -> tuple[subprocess.Popen[str], int]:
    engine = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENGINE), prefix, str(cell_dir), what],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert engine.stdout is not None
    line = engine.stdout.readline()
    assert line, "the engine did not start its server"
    return engine, int(line)


@pytest.mark.parametrize("what", ["idle", "busy"])
@pytest.mark.parametrize("major", [12, 18])
def test_killing_the_engine_leaves_no_server_behind(major: int, what: str, build: Builds, cell_dir: Path) -> None:
    engine, postmaster = start_engine(build(major).prefix, cell_dir, what)
    assert postmaster in processes_in(cell_dir / "data")
    engine.kill()
    engine.wait()
    wait_for(lambda: not processes_in(cell_dir / "data"), "all its processes to end")
    sockets = (cell_dir / "socket").readlink()
    kill_leftover(cell_dir, build(major).bin, unprivileged().uid)
    assert [entry.name for entry in cell_dir.iterdir()] == ["server.log"]
    assert not sockets.exists()


def test_killing_the_engine_during_initdb_leaves_nothing_running(build: Builds, cell_dir: Path) -> None:
    engine = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENGINE), by_itself(build(16)).prefix, str(cell_dir), "idle"],
        cwd=Path(__file__).parents[3],
    )
    wait_for(lambda: processes_in(cell_dir / "data"), "its processes")
    engine.kill()
    engine.wait()
    wait_for(lambda: not processes_in(cell_dir / "data"), "all its processes to end")
    kill_leftover(cell_dir, by_itself(build(16)).bin, unprivileged().uid)
    assert not (cell_dir / "data").exists()


def test_leftover_server_is_stopped_and_removed(build: Builds, small_config: Configs, cell_dir: Path) -> None:
    abandoned = Server(build(16), small_config(build(16)), cell_dir)
    abandoned.start()
    sockets, postmaster = abandoned.socket_dir, abandoned.pid
    assert living_server(cell_dir / "data") == postmaster
    kill_leftover(cell_dir, build(16).bin, unprivileged().uid)
    assert not abandoned.alive() and sockets is not None and not sockets.exists()
    assert [entry.name for entry in cell_dir.iterdir()] == ["server.log"]


def test_what_is_stopped_of_a_leftover_server_goes_on_and_ends(
    build: Builds, small_config: Configs, cell_dir: Path
) -> None:
    abandoned = Server(build(16), small_config(build(16)), cell_dir)
    abandoned.start()
    for pid in children(abandoned.pid):
        with contextlib.suppress(ProcessLookupError):  # the startup process may be just about to end
            os.kill(pid, signal.SIGSTOP)  # as a conductor does, that may be killed before it lets them go on
    kill_leftover(cell_dir, build(16).bin, unprivileged().uid)
    assert not abandoned.alive()
    assert "SIGKILL to recalcitrant children" not in (cell_dir / "server.log").read_text()


def test_leftover_backends_without_a_postmaster_are_ended(build: Builds, small_config: Configs, cell_dir: Path) -> None:
    abandoned = Server(build(16), small_config(build(16)), cell_dir)
    abandoned.start()
    stopped = next(pid for pid in children(abandoned.pid))
    os.kill(stopped, signal.SIGSTOP)  # a process that cannot notice that its postmaster is gone
    os.kill(abandoned.pid, signal.SIGKILL)
    wait_for(lambda: not abandoned.alive(), "its end")
    assert stopped in processes_in(cell_dir / "data")
    kill_leftover(cell_dir, build(16).bin, unprivileged().uid)
    wait_for(lambda: not Path(f"/proc/{stopped}/cwd").exists(), "its end")
    assert not (cell_dir / "data").exists()


def test_a_stale_pid_file_does_not_get_another_process_killed(build: Builds, cell_dir: Path) -> None:
    (cell_dir / "data").mkdir()
    (cell_dir / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n{cell_dir}/data\n")
    assert living_server(cell_dir / "data") is None
    kill_leftover(cell_dir, build(16).bin, unprivileged().uid)  # we are still here
    assert not (cell_dir / "data").exists()


def test_nothing_left_over_is_no_error(build: Builds, cell_dir: Path) -> None:
    kill_leftover(cell_dir, build(16).bin, unprivileged().uid)
    kill_leftover(cell_dir / "never-made", build(16).bin, unprivileged().uid)


def test_another_process_in_the_clusters_folder_is_left_alone(
    build: Builds, small_config: Configs, cell_dir: Path
) -> None:
    with Server(build(16), small_config(build(16)), cell_dir) as running:
        shell = subprocess.Popen(["sleep", "600"], cwd=cell_dir / "data")
        running.stop("immediate")
    try:
        assert shell.poll() is None
        (cell_dir / "data").mkdir()
        shell_there = subprocess.Popen(["sleep", "600"], cwd=cell_dir / "data")
        (cell_dir / "data" / "postmaster.pid").write_text(f"{shell_there.pid}\n{cell_dir}/data\n")
        kill_leftover(cell_dir, build(16).bin, unprivileged().uid)
        assert shell_there.poll() is None
        shell_there.kill()
        shell_there.wait()
    finally:
        shell.kill()
        shell.wait()


def test_a_symlink_as_cluster_or_socket_folder_is_refused(build: Builds, cell_dir: Path) -> None:
    for name in ("data", "socket"):
        target = cell_dir / f"pgbed-{name}"
        target.mkdir()
        unprivileged().chown(target)
        (target / "precious").write_text("")
        (target / ".s.PGSQL.5432").write_text("")
        (target / ".s.PGSQL.5432.lock").write_text("1\n/somewhere/else\n")
        (cell_dir / name).symlink_to(target)
    kill_leftover(cell_dir, build(16).bin, unprivileged().uid)
    for name in ("data", "socket"):
        assert len(list((cell_dir / f"pgbed-{name}").iterdir())) == 3
        assert not (cell_dir / name).is_symlink()


@pytest.mark.parametrize("kind", ["fifo", "symlink", "folder"])
def test_a_strange_file_in_a_cluster_is_not_written_to(
    kind: str, build: Builds, small_config: Configs, cell_dir: Path
) -> None:
    """An initdb that is not what it should be, of the account that runs servers."""
    make = {"fifo": "mkfifo", "symlink": f"ln -s {cell_dir}/precious", "folder": "mkdir"}[kind]
    (cell_dir / "precious").write_text("precious\n")
    (cell_dir / "bin").mkdir()
    for name in ("initdb", "postgres"):
        (cell_dir / "bin" / name).write_text(
            f"#!/bin/sh\nPATH={os.environ['PATH']}\n{make} postgresql.conf; mkfifo postmaster.pid\n"
        )
        (cell_dir / "bin" / name).chmod(0o755)
    strange = replace(build(16), prefix=str(cell_dir))
    with (
        pytest.raises(ServerError, match=r"postgresql.conf cannot be written"),
        Server(strange, small_config(build(16)), cell_dir / "cell"),
    ):
        pass
    assert (cell_dir / "precious").read_text() == "precious\n"
    assert not (cell_dir / "cell" / "data").exists()


@pytest.mark.parametrize(
    ("script", "message"), [("exec yes", "produces endless output"), ("sleep 600 & exit 1", "failed")]
)
def test_an_initdb_that_misbehaves_is_stopped(
    script: str, message: str, build: Builds, small_config: Configs, cell_dir: Path
) -> None:
    (cell_dir / "bin").mkdir()
    for name in ("initdb", "postgres"):
        (cell_dir / "bin" / name).write_text(f"#!/bin/sh\nPATH={os.environ['PATH']}\n{script}\n")
        (cell_dir / "bin" / name).chmod(0o755)
    strange = replace(build(16), prefix=str(cell_dir))
    with pytest.raises(ServerError, match=message), Server(strange, small_config(build(16)), cell_dir / "cell"):
        pass
    assert not (cell_dir / "cell" / "data").exists()


@pytest.mark.parametrize("major", MAJORS)
def test_what_a_killed_server_leaves_in_shared_memory_is_removed(
    major: int, build: Builds, small_config: Configs, cell_dir: Path
) -> None:
    with Server(build(major), small_config(build(major)), cell_dir) as running:
        segments = segments_of(running)
        assert len(segments) >= 2
        os.kill(running.pid, signal.SIGKILL)
        wait_for(lambda: not running.alive(), "its end")
        assert still_there(segments) == segments
    assert still_there(segments) == set()


def test_a_killed_server_of_initdb_leaves_no_shared_memory(
    build: Builds, small_config: Configs, cell_dir: Path
) -> None:
    """Even if initdb survives: it would remove the files of the cluster, one of which names the memory."""
    killed = set[Path]()

    def kill() -> None:
        for row in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
            segment, creator = row.split()[1], int(row.split()[4])
            if creator in processes_in(cell_dir / "data"):
                killed.add(Path("sysv", segment))
                os.kill(creator, signal.SIGKILL)

    installation = by_itself(build(16))
    with (
        pytest.raises(ServerError, match=r"(?i)killed"),
        Server(installation, small_config(installation), cell_dir, waiting=Waiting(check=kill)),
    ):
        pass
    assert killed and not still_there(killed)


ATTACH = """
import ctypes, sys, time
attach = ctypes.CDLL(None).shmat
attach.restype = ctypes.c_void_p
attach(int(sys.argv[1]), None, 0o10000)
print(flush=True)
time.sleep(1)
"""


def test_shared_memory_is_removed_with_its_last_process(build: Builds, small_config: Configs, cell_dir: Path) -> None:
    """A process that ends is attached for a moment in which nobody can see whose program it runs."""
    with Server(build(16), small_config(build(16)), cell_dir) as running:
        segments = segments_of(running)
        (number,) = (path.name for path in segments if not path.is_absolute())
        command = [sys.executable, "-c", ATTACH, number]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE, **unprivileged().identity())
        assert holder.stdout is not None and holder.stdout.readline() == b"\n"
        os.kill(running.pid, signal.SIGKILL)
        wait_for(lambda: not running.alive(), "its end")
    assert still_there(segments) == set()
    assert holder.wait() == 0


def test_the_shared_memory_of_another_cluster_is_left_alone(
    build: Builds, small_config: Configs, cell_dir: Path
) -> None:
    with Server(build(16), small_config(build(16)), cell_dir / "one") as other:
        line = (other.data_dir / "postmaster.pid").read_text()
        mine = cell_dir / "two" / "data"
        mine.mkdir(parents=True)
        (mine / "postmaster.pid").write_text(line)
        held = segments_of(other)
        kill_leftover(cell_dir / "two", build(16).bin, unprivileged().uid)
        assert other.alive() and still_there(held) == held


def test_stopping_one_that_is_gone_is_no_error(build: Builds, small_config: Configs, cell_dir: Path) -> None:
    with Server(build(12), small_config(build(12)), cell_dir) as running:
        running.stop("fast")
        assert not running.alive() and "ended with status 0" in (running.died_reason() or "")
        running.stop("immediate")
        with pytest.raises(psycopg.OperationalError):
            running.connect("postgres")


def test_last_words_are_one_line_without_prefix(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("1700000000.123|42|postmaster|LOG:  starting\n1700000000.124|42|postmaster|FATAL:  no space\n")
    assert last_words(log) == "FATAL:  no space"
    log.write_text("")
    assert last_words(log) == "its log is empty"
    assert last_words(tmp_path / "absent") == "its log cannot be read"


def test_pgbed_user_must_exist_and_not_be_root() -> None:
    if os.geteuid() == 0:
        with pytest.raises(UserError, match="no such user"):
            unprivileged({"PGBED_USER": "no_such_user_here"})
        with pytest.raises(UserError, match="root"):
            unprivileged({"PGBED_USER": "root"})
    else:
        assert unprivileged({"PGBED_USER": "no_such_user_here"}).uid == os.geteuid()  # nothing to switch to


def test_a_fifo_in_place_of_the_pid_file_is_not_waited_for(build: Builds, cell_dir: Path) -> None:
    (cell_dir / "data").mkdir()
    os.mkfifo(cell_dir / "data" / "postmaster.pid")
    assert living_server(cell_dir / "data") is None
    kill_leftover(cell_dir, build(16).bin, unprivileged().uid)
    assert not (cell_dir / "data").exists()
