"""Every command line of README.md and of the manual is run: a plan as `--dry-run` over the tests' servers,
readers over the demo's recording. `NOT_RUN` and `NOT_PLANNED` say which lines cannot be run here, and why; these are
parsed. Programs in a code block other than `bench` are named in `OTHER_PROGRAMS`.
"""

from __future__ import annotations

import itertools
import re
import runpy
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from engine.builds.catalog import catalog
from engine.cli.main import OWN_OPTIONS, main
from engine.cli.run import RunCommand, take
from engine.core.errors import UserError
from engine.core.model import Build
from engine.plan.request import Request
from engine.postgres import configs
from probes.table import PROBES

HOME = Path(__file__).parents[1]
GENERATED = runpy.run_path(str(HOME / "docs" / "generated.py"))["PAGES"]
MANUAL = sorted({*(HOME / "docs").rglob("*.md")} - {HOME / "docs" / page for page in GENERATED})
PAGES = (HOME / "README.md", *MANUAL)
PREFIX = r"(?:\./bench|bench|uvx --from \. bench|nix run \.#bench --)"
# A line of a code block ends where its explanation begins: at two spaces, or at a comment.
LINE = re.compile(rf"^ *{PREFIX}((?: [^ #\n]+)*)(?:  .*|  *#.*)?$", re.MULTILINE)
SPAN = re.compile(rf"(?<!`)`{PREFIX}((?:\s+[^`]*)?)`(?!`)")
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # without a language: of command lines

TERMINAL = "needs a terminal: tests/tui opens it in one"
NETWORK = "asks postgresql.org: tests/engine/cli answers in its place"
UNDER_WAY = "needs a run that is under way: tests/engine has one"
COMPILED = "compiles PostgreSQL: tests/engine/cli compiles a small tree"
NOT_RUN = {
    "": TERMINAL,
    "demo": TERMINAL,
    "watch RUN --cell 3 --step l.i1": TERMINAL,
    "list builds --newest": NETWORK,
    "pin 18.7": NETWORK,
    "pin 19.0": NETWORK,
    "resume RUN": UNDER_WAY,
    "run --plan RUN/manifest.json": "the recording's builds are not here: tests/engine/cli has some",
    'mark "ANALYZE began"': UNDER_WAY,
    "probes on planner": UNDER_WAY,
    "probes cost --pg 16.3": "measures for minutes: tests/engine/cli does so for seconds",
    "flame --step l.i1 --role delete --offcpu": "the recording has no such stacks: tests/probes makes some",
    "ci --base origin/main --gate": COMPILED,
    "ci --base origin/master --gate": COMPILED,
    "ci --base REL_16_3 --gate": COMPILED,
    "ci --install /opt/base,/opt/head --gate": "measures for minutes: tests/engine/cli does so for seconds",
    "run --plan RUN/manifest.json --steps qr100": "the recording's builds are not here: tests/engine/cli has some",
    "bisect --good … --bad …": COMPILED,
    "bisect --good REL_16_3 --bad REL_17_BETA1 --repo ~/src/postgres --step qr100": COMPILED,
    "compare --plan sales_by_region": "the recording has no such statement: tests/engine/run makes some",
    "farm nightly.toml --blocks 8": "needs builders: tests/engine/farm has some",
}
NOT_PLANNED = {
    "--workload own": "needs data that the run's user may read: tests/engine/run has some",
    "--kernel": "needs these kernels: tests/engine/run boots one in a guest",
    "--client-host": "these hosts are made up: tests/engine/run has one",
    "--probes sched": "needs root: tests/probes has these probes",
    "--preset planner-delete": "needs root: tests/probes has its probe",
    "postgresql://": "these servers are made up: tests/engine/run has some",
    "host=db1": "these servers are made up: tests/engine/run has some",
}
OTHER_PROGRAMS = {
    "./check": "runs this test",
    "tar -czf run.tar.gz -C ~/.local/state/pgbed RUN": "packs a folder",
    "python3 -m venv ~/pgbed": "a wheel is installed by tests/engine/test_wheel.py",
    "~/pgbed/bin/pip install .": "a wheel is installed by tests/engine/test_wheel.py",
    "~/pgbed/bin/bench --pg old=/usr/lib/postgresql/16,new=/usr/lib/postgresql/18": "needs Debian's servers",
    "nix develop": "evaluated by `nix flake check`",
    "nix build .#postgresql-16_3": "evaluated by `nix flake check`",
    "nix build .#kernel-6_12": "evaluated by `nix flake check`",
}
STANDS_FOR = {
    "RUN": "recorded",
    "RUN…": "recorded",
    "RUN-1": "recorded",
    "RUN-2": "again",
    "result-*": "runs/recorded",
    "OUT…": "runs",
    "FILE": "file",
    "FILE.html": "file.html",
    "STEP": "l.i1",
    "WORD,…": "word",
    "NAME": "patch",
    "COMMAND": "compare",
}

FILES = {
    "nightly.toml": 'builds = ["16.3", "17.11"]\n',
    "load.sql": "SELECT 1;\n",
    "make.sql": "SELECT 1;\n",
    "read.sql": "SELECT 1;\n",
    "write.sql": "SELECT 1;\n",
    "report.sql": "SELECT count(*) FROM pi1;\n",
}


@dataclass(frozen=True, slots=True)
class Documented:
    place: str
    alone: bool  # the name of a command only, as in "`bench delete` removes them"


@cache
def documented() -> dict[str, Documented]:
    """The arguments of each command line, with the place of the first one."""
    lines: dict[str, Documented] = {}
    for page in PAGES:
        text = re.sub(r" \\\n +", " ", page.read_text())  # a command of several lines
        for pattern in (LINE, SPAN):
            for match in pattern.finditer(text):
                place = f"{page.relative_to(HOME)}:{text.count(chr(10), 0, match.start()) + 1}"
                for arguments in alternatives(" ".join(match[1].split())):
                    alone = pattern is SPAN and " " not in arguments and not arguments.startswith("-")
                    if arguments not in lines or lines[arguments].alone:
                        lines[arguments] = Documented(place, alone)
    return lines


def alternatives(usage: str) -> Iterator[str]:
    """The command lines that a usage stands for: `list builds|runs`, `compare [RUN…] [--json|--csv]`."""
    words = [word.strip("[]").split("|") for word in usage.split(" ")]
    return (" ".join(words) for words in itertools.product(*words))


def of_run(words: list[str]) -> bool:
    return words[:1] == ["run"] or (words[0].startswith("-") and words[0] not in OWN_OPTIONS)


def why_not_run(arguments: str) -> str | None:
    return NOT_RUN.get(arguments) or next((why for part, why in NOT_PLANNED.items() if part in arguments), None)


def parse(arguments: str) -> None:
    """Parse a command line as `bench` does, up to the call. Raises for an unknown command, option or value."""
    words = shlex.split(arguments)
    if words and words[0].startswith("-"):
        words = ["run", *words]
    name: str | None = "bench"
    command: click.Command | None = main
    context: click.Context | None = None
    while words and isinstance(command, click.Group):
        context = click.Context(command, parent=context, info_name=name)
        name, command, words = command.resolve_command(context, words)
    if command is None or isinstance(command, click.Group):
        return
    context = command.make_context(name, words, parent=context)
    if isinstance(command, RunCommand):
        request = take(dict(context.params), lambda plan: Request(builds=("16.3",)))
        configs.resolve(request.configs)
        assert {probe.partition(":")[0] for probe in request.probes} <= {"default", "none", *(p.id for p in PROBES)}


def bench(*words: str) -> Result:
    return CliRunner().invoke(main, words, prog_name="bench")


def stand_in(label: str, servers: dict[int, Build]) -> Build:
    """The tests' server of a label's major version, or of the next one or the newest, by that label."""
    match = re.match(r"\d+", label)
    wanted = int(match[0]) if match else max(servers)
    major = min((major for major in servers if major >= wanted), default=max(servers))
    return replace(servers[major], label=label.split("=")[0].replace(":", "-"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, servers: dict[str, Build]) -> Path:
    """Builds by all documented labels, and a run, recorded: that of the demo, and again as another run."""
    place = tmp_path_factory.mktemp("documented")
    by_major = {build.major: build for build in servers.values() if not build.initdb_args}
    named = [words.split(" ")[0].split(",") for line in documented() for words in line.split("--pg ")[1:]]
    labels = {*itertools.chain(*named), *(entry.label for entry in catalog())}
    builds = {label: stand_in(label, by_major) for label in labels if not why_not_run(label)}
    (place / "builds.json").write_bytes(msgspec.json.encode(builds))
    unpacked = Path(bench("demo", "--to", str(place)).output.partition(";")[0])
    for name in ("recorded", "again"):
        shutil.copytree(unpacked, place / "runs" / name)
        manifest = place / "runs" / name / "manifest.json"
        manifest.write_text(manifest.read_text().replace(unpacked.name, name))
    return place


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files that command lines name, and the user's home."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("arguments", [line for line in documented() if why_not_run(line) is None])
def test_a_documented_command_line_runs(
    arguments: str, place: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = documented()[arguments]
    shutil.copytree(place / "runs", folder / "runs")
    monkeypatch.setenv("PGBED_OUT", str(folder / "runs"))
    monkeypatch.setenv("PGBED_BUILDS", str(place / "builds.json"))
    monkeypatch.setenv("PGBED_WORKLOADS", "toy=tests.support.toy")
    words = [STANDS_FOR.get(word, word) for word in shlex.split(arguments.replace("--diff 18.6", "--diff patch"))]
    if of_run(words) and "--help-all" not in words:
        words.append("--dry-run")
    elif words[0] == "delete":
        words.append("--yes")
    result = bench(*words, *(("--help",) if known.alone else ()))
    # The recording's patch is slower; whether the machine is quiet is its own affair.
    expected = {1} if "--gate" in words else {0, 1} if words == ["doctor"] else {0}
    assert result.exit_code in expected, f"{known.place}: {result.output}"


@pytest.mark.parametrize(
    "arguments",
    [
        # A preset that names its servers can be read only where these are.
        pytest.param(line, marks=pytest.mark.slow if "--preset preemption-2026" in line else ())
        for line in documented()
        if why_not_run(line) is not None
    ],
)
def test_one_that_cannot_be_run_is_accepted(arguments: str, folder: Path) -> None:
    try:
        parse(arguments)
    except click.MissingParameter:
        assert "…" in arguments, documented()[arguments].place


def test_every_reason_is_of_a_command_line() -> None:
    lines = documented()
    assert len(lines) > 100
    assert NOT_RUN.keys() <= lines.keys()
    assert all(any(part in line for line in lines) for part in NOT_PLANNED)


def test_a_code_block_has_command_lines_or_a_language() -> None:
    others = {
        re.split("  | #", line)[0]
        for page in PAGES
        for language, text in BLOCK.findall(page.read_text())
        for line in text.splitlines()
        if not language and not line.startswith(" ") and not LINE.match(line)
    }
    assert others == OTHER_PROGRAMS.keys()


@pytest.mark.parametrize(
    "arguments", ["comapre", "compare --gates", "--pg 16.3 --partitions 4", "list build", "--pg 16.3 -O x=1"]
)
def test_another_command_line_is_refused(arguments: str, folder: Path) -> None:
    with pytest.raises((click.UsageError, UserError)):
        parse(arguments)
    assert bench(*arguments.split()).exit_code == 2
