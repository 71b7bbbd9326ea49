"""Every command line of README.md and of the manual is one that `bench` accepts. Nothing is built or run."""

from __future__ import annotations

import itertools
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from engine.cli.main import OWN_OPTIONS, main
from engine.cli.run import RunCommand, take
from engine.core.errors import UserError
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


def documented() -> dict[str, str]:
    """The arguments of each command line, with the place of the first one."""
    lines: dict[str, str] = {}
    for page in PAGES:
        text = page.read_text()
        for found in (*LINE.finditer(text), *SPAN.finditer(text)):
            place = f"{page.relative_to(HOME)}:{text.count(chr(10), 0, found.start()) + 1}"
            for arguments in alternatives(" ".join(found[1].split())):
                lines.setdefault(arguments, place)
    return lines


def alternatives(usage: str) -> Iterator[str]:
    """The command lines that a usage stands for: `list builds|runs`, `compare [RUN…] [--json|--csv]`."""
    words = [word.strip("[]").split("|") for word in usage.split(" ")]
    return (" ".join(words) for words in itertools.product(*words))


def parse(arguments: str) -> None:
    """Parse a command line as `bench` does, up to the call. Raises for an unknown command, option or value."""
    words = shlex.split(arguments)
    if words[:1] and words[0].startswith("-") and words[0] not in OWN_OPTIONS:
        words = ["run", *words]
    name: str | None = "bench"
    command: click.Command | None = main
    context: click.Context | None = None
    while words and isinstance(command, click.Group) and words[0] not in OWN_OPTIONS:
        context = click.Context(command, parent=context, info_name=name)
        name, command, words = command.resolve_command(context, words)
    if command is None or isinstance(command, click.Group):
        return
    context = command.make_context(name, words, parent=context)
    if isinstance(command, RunCommand):
        request = take(dict(context.params), lambda plan: Request(builds=("16.3",)))
        configs.resolve(request.configs)
        assert {probe.partition(":")[0] for probe in request.probes} <= {"default", "none", *(p.id for p in PROBES)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty current folder: no file there has the name of a run."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("arguments", "place"), documented().items())
def test_a_documented_command_line_is_accepted(arguments: str, place: str) -> None:
    try:
        parse(arguments)
    except click.exceptions.Exit as end:
        assert end.exit_code == 0, place
    except click.MissingParameter as error:  # only the name of a command, as in "`bench delete` removes them"
        assert arguments == getattr(error.ctx, "info_name", None) or "…" in arguments, place


def test_command_lines_are_found() -> None:
    assert len(documented()) > 100


@pytest.mark.parametrize("arguments", ["compare --gates", "--pg 16.3 --tablespace x", "list build", "--pg 16.3 -o x=1"])
def test_another_command_line_is_refused(arguments: str) -> None:
    with pytest.raises((click.UsageError, UserError)):
        parse(arguments)
