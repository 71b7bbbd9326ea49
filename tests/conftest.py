"""Fixtures of all tests: the real servers named by PGBED_SERVERS, started once per session and version.

PGBED_SERVERS is a folder of LABEL -> install prefix (`nix flake check` and ./check set it). Without it the tests
that need a server fail; they are not skipped, because a suite that skips them says nothing. But for nightly tests,
clusters are copies of one that `initdb` made: see `tests.support.templates`.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path

import hypothesis
import pytest

from engine.builds import resolve
from engine.core.model import Build, Config
from engine.host import environment
from engine.host.procfs import number_after
from engine.postgres import configs
from engine.postgres.server import Server
from engine.system.account import Account, unprivileged
from tests.support import templates
from tests.support.second_try import *  # noqa: F403

MEMORY, ROOM = Path("/dev/shm"), 6 << 30  # bytes; several times what all tests have at once


def in_memory() -> bool:
    """Whether files of tests can be in memory.

    On some disks, the thousands of files that servers make and remove take more CPU time than the tests.
    """
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return False
    available = number_after(Path("/proc/meminfo").read_bytes(), b"\nMemAvailable:") << 10
    return min(available, shutil.disk_usage(MEMORY).free) >= ROOM


# A machine that is busy with other things makes no example wrong: only pytest's own timeout counts.
hypothesis.settings.register_profile("pgbed", deadline=None, max_examples=int(os.environ.get("PGBED_EXAMPLES", 25)))
hypothesis.settings.load_profile("pgbed")
# A shell has what it starts in the background ignore Ctrl-C, and so would all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

RECORDINGS = Path(__file__).parent / "recorded"
MAJORS = (12, 14, 16, 17, 18)
BUILTIN_ARGS = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8")
# Small and quick to start; not what a run would use.
TEST_SETTINGS = ("shared_buffers=64MB", "max_wal_size=1GB", "min_wal_size=128MB")
TIERS = pytest.StashKey[str]()
# A file with the markers of every test, written by a process that collects all of them: others import no file of which
# they run no test.
MARKERS = os.environ.get("PGBED_MARKERS")
SCREENS = Path(__file__).parents[1] / "tui"
# Of a test file: the screens, or a module of `tests.support` that imports them.
IMPORTS_SCREENS = re.compile(
    r"^(?:from|import) tui\b|^from tests\.support(?:\.| import [^#\n]*\b)(?:aftermath|asking|film|pictures|screens)\b",
    re.MULTILINE,
)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # which has the environment of the process that shares out the tests
        return
    if "not outside" in config.option.markexpr and in_memory():  # tests outside build servers, and attach to files
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
    if templates.BY_THEMSELVES and not config.option.markexpr.startswith("nightly"):
        folder = Path(tempfile.mkdtemp(prefix="pgbed-installs-"))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ[templates.ORIGINALS] = os.environ[templates.VARIABLE]
        os.environ[templates.VARIABLE] = str(templates.installs(Path(os.environ[templates.VARIABLE]), folder))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over files without a test that the markers choose, and over the screens in a source tree without them."""
    tests = known_markers().get(os.path.relpath(collection_path, config.rootpath))
    if tests is not None and not any(_chosen(config.option.markexpr, markers) for markers in tests):
        return True
    return True if not SCREENS.is_dir() and imports_screens(collection_path) else None


@cache
def known_markers() -> dict[str, list[list[str]]]:
    """The markers of each test, by file; empty if nobody has collected all tests before."""
    return json.loads(Path(MARKERS).read_bytes()) if MARKERS and Path(MARKERS).exists() else {}


def _chosen(expression: str, markers: list[str]) -> bool:
    names = dict.fromkeys(re.findall(r"\w+", expression), False) | dict.fromkeys(markers, True)
    return bool(not expression or eval(expression, {}, names))


@cache
def imports_screens(path: Path) -> bool:
    return path.suffix == ".py" and bool(IMPORTS_SCREENS.search(path.read_text()))


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that start PostgreSQL, order all, count each tier. Raises UsageError where nightly lacks a reason."""
    counts = dict.fromkeys(("pytest", "./check", "./check --all"), 0)
    by_file: dict[str, set[tuple[str, ...]]] = {}
    for item in items:
        if "servers" in getattr(item, "fixturenames", ()):
            item.add_marker("servers")
        if imports_screens(item.path):
            item.add_marker("screens")
        markers = {marker.name for marker in item.iter_markers()}
        by_file.setdefault(os.path.relpath(item.path, config.rootpath), set()).add(tuple(sorted(markers)))
        if any(not marker.args for marker in item.iter_markers("nightly")):
            raise pytest.UsageError(f"{item.nodeid}: nightly says why")
        if "nightly" in markers:
            counts["./check --all"] += 1
        elif markers & {"servers", "slow", "outside"}:
            counts["./check"] += 1
        else:
            counts["pytest"] += 1
    items.sort(key=lambda item: item.get_closest_marker("first") is None)
    gc.freeze()  # what lasts: to look through it again and again takes a seventh of the screens' tests
    if MARKERS and not known_markers() and not config.option.markexpr:
        Path(MARKERS).write_text(json.dumps({file: sorted(tests) for file, tests in by_file.items()}))
    config.stash[TIERS] = ", ".join(f"{count:,} of {tier}" for tier, count in counts.items())


def pytest_report_collectionfinish(config: pytest.Config) -> str:
    return f"tests by the first command that runs them: {config.stash[TIERS]}"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A run of 14.10 and 16.3, three repeats, with stalls and probes; a copy of one's own."""
    return unpacked("two-builds", tmp_path / "20261120-131303-14.10_prebuilt-16.3_prebuilt")


@pytest.fixture
def sliced_recording(tmp_path: Path) -> Path:
    """A run of 12.11 and 16.3 interleaved, one repeat, step qr100 in slices, 16.3 with a stall; a copy of one's own."""
    return unpacked("interleaved", tmp_path / "20261122-100939-12.11_prebuilt-16.3_prebuilt")


def unpacked(name: str, run: Path) -> Path:
    (run / "cells").mkdir(parents=True)
    shutil.copy(RECORDINGS / name / "manifest.json", run)
    (run / "journal.db").write_bytes(_journal(name))
    return run


@cache
def _journal(name: str) -> bytes:
    return gzip.decompress((RECORDINGS / name / "journal.db.gz").read_bytes())


@pytest.fixture(scope="session")
def servers() -> dict[str, Build]:
    """Every build in PGBED_SERVERS by label. Fails when it is not set, or a major version of MAJORS is not there."""
    folder = os.environ.get("PGBED_SERVERS")
    if not folder:
        pytest.fail(
            "PGBED_SERVERS is not set: it names a folder of LABEL -> PostgreSQL install; run ./check", pytrace=False
        )
    prefixes = sorted(prefix for prefix in Path(folder).iterdir() if (prefix / "bin" / "postgres").exists())
    builds = {prefix.name: resolve.local_build(prefix.name, prefix) for prefix in prefixes}
    builds = {
        label: replace(build, initdb_args=BUILTIN_ARGS) if label.endswith("-builtin") else build
        for label, build in builds.items()
    }
    missing = set(MAJORS) - {build.major for build in builds.values()}
    if missing:
        pytest.fail(
            f"PGBED_SERVERS={folder} has no PostgreSQL {sorted(missing)}: the tests need all of {MAJORS}", pytrace=False
        )
    return builds


@pytest.fixture(scope="session")
def build(servers: dict[str, Build]) -> Callable[[int | str], Build]:
    """A build by label, or by major version (not one with a locale provider of its own)."""

    def of(which: int | str) -> Build:
        if isinstance(which, str):
            return servers[which]
        return next(build for build in servers.values() if build.major == which and not build.initdb_args)

    return of


@pytest.fixture(scope="session")
def small_config() -> Callable[[Build], Config]:
    """`cx9a2_c8r32` shrunk to a test's share of the machine, as it applies to a build."""

    def of(build: Build) -> Config:
        (spec,) = configs.resolve(["cx9a2_c8r32"])
        return configs.apply(spec, build, environment.machine(Path("/tmp")), configs.overrides(TEST_SETTINGS))

    return of


@pytest.fixture(scope="session")
def account() -> Account:
    """The user who runs servers here."""
    return unprivileged()


@pytest.fixture(scope="session")
def new_folder(pytestconfig: pytest.Config) -> Iterator[Callable[[], Path]]:
    """Makes folders for clusters, which the servers' user can enter (not those of pytest), removed at the end."""
    place = MEMORY if not pytestconfig.option.markexpr.startswith("nightly") and in_memory() else None
    base = Path(tempfile.mkdtemp(prefix="pgbed-tests-", dir=place))
    base.chmod(0o755)

    def make() -> Path:
        folder = Path(tempfile.mkdtemp(prefix="", dir=base))
        folder.chmod(0o755)
        return folder

    yield make
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def cell_dir(new_folder: Callable[[], Path]) -> Path:
    """An empty folder for one cell."""
    return new_folder()


@pytest.fixture(scope="session")
def server(
    build: Callable[[int | str], Build], small_config: Callable[[Build], Config], new_folder: Callable[[], Path]
) -> Iterator[Callable[[int | str], Server]]:
    """A running server of a label or major version, started at its first use, with an empty database `ib`.

    The whole session shares it: make tables with names of your own, or databases, and drop them.
    """
    running: dict[str, Server] = {}
    with ExitStack() as stack:

        def of(which: int | str) -> Server:
            wanted = build(which)
            if wanted.label not in running:
                fresh = stack.enter_context(Server(wanted, small_config(wanted), new_folder()))
                fresh.create_database()
                running[wanted.label] = fresh
            return running[wanted.label]

        yield of
