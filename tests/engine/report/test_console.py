"""Printed output: never markup, never an escape sequence, whoever wrote the text. Errors are one line."""

from __future__ import annotations

import ast
import fcntl
import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from rich.table import Table

import engine
from engine.report.console import PlainConsole
from tests.faults.call import Outcome, call, faults
from tests.support.journal import make_run

HOME = Path(engine.__file__).parents[1]
# Writers, and the only places for them: they take text that mypy knows to be visible.
WRITING = {
    "print": "engine/core/text.py",
    "echo": "engine/report/console.py",
    "secho": "engine/report/console.py",
    "Console": "engine/report/console.py",
    "Segment": "tui/widgets/text_lines.py",
}
# Ways to make markup of text.
MARKING = {"from_markup", "from_ansi", "render_markup", "rich_print"}
# Widgets that take their text for markup unless they are told not to.
WIDGETS = {"Static", "Label", "Button", "OptionList", "SelectionList", "notify"}
HOSTILE = "[/red]\x1b[2J\x9b2J\u202e\r\x07"


@cache
def calls(path: Path) -> list[tuple[str, ast.Call, str]]:
    """The calls in a module: the function's own name, the call, and the name that it is a member of."""
    sites = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            sites.append((node.func.attr, node, owner.id if isinstance(owner, ast.Name) else "?"))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            sites.append((node.func.id, node, ""))
    return sites


def constant(call: ast.Call) -> bool:
    return all(isinstance(argument, ast.Constant) for argument in call.args)


def unsafe(path: Path) -> Iterator[str]:
    """Calls that print or mark up what may be somebody else's text."""
    module = str(path.relative_to(HOME))
    for name, site, owner in calls(path):
        marked = next((keyword.value for keyword in site.keywords if keyword.arg == "markup"), None)
        told_off = isinstance(marked, ast.Constant) and marked.value is False
        own_echo = name == "echo" and owner == ""  # of engine.report.console
        printing = name in WRITING and owner in ("", "click", "rich") and not own_echo and not constant(site)
        printing = printing and module != WRITING[name]
        widget = name in WIDGETS and module.startswith("tui") and not constant(site) and not told_off
        if printing or name in MARKING or widget or (marked is not None and not told_off):
            yield f"{module}:{site.lineno}: {ast.unparse(site)[:80]}"


@pytest.mark.slow
def test_text_is_printed_in_one_place_and_never_as_markup() -> None:
    modules = [path for package in ("engine", "tui", "workloads") for path in sorted((HOME / package).rglob("*.py"))]
    assert len(modules) > 100
    assert [line for path in modules for line in unsafe(path)] == []


@pytest.mark.slow
def test_what_prints_a_line_is_given_no_line_break() -> None:
    """It would print the break's escape."""
    for path in (path for package in ("engine", "tui") for path in sorted((HOME / package).rglob("*.py"))):
        for name, site, owner in calls(path):
            texts = [node.value for word in site.args for node in ast.walk(word) if isinstance(node, ast.Constant)]
            if name in ("echo", "say") and owner != "click":
                assert not [text for text in texts if isinstance(text, str) and "\n" in text], f"{path}:{site.lineno}"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with `runs` of somebody who wants to take over the terminal."""
    name = f"=cmd()|<b>{HOSTILE}\nnext"
    make_run(tmp_path / "runs" / "made", builds=("16.3", name), failed={0: f"because {HOSTILE}\nx"})
    return tmp_path


@pytest.mark.parametrize(
    ("terminal", "shown"), [(True, "two words that \nare long\n"), (False, "two words that are long\n")]
)
def test_a_terminal_breaks_a_line_between_words(terminal: bool, shown: str) -> None:
    file = io.StringIO()
    console = PlainConsole(force_terminal=terminal, file=file)
    console.width = 16
    console.say("two words that are long")
    console.say("bench compare /a/folder/of/runs")
    assert file.getvalue() == f"{shown}bench compare /a/folder/of/runs\n"


def test_a_console_shows_text_as_it_is() -> None:
    console = PlainConsole(force_terminal=False)
    console.file = io.StringIO()
    table = Table()
    table.add_column("a[/red]")
    table.add_row("b[/red]\x1b[2J")
    console.print(f"c{HOSTILE}:smile:")
    console.print(table)
    shown = console.file.getvalue()
    assert "c[/red]\\x1b[2J\\x9b2J\\u202e" in shown and ":smile:" in shown
    assert "a[/red]" in shown and "b[/red]\\x1b[2J" in shown
    assert all(line.isprintable() for line in shown.split("\n"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [("compare",), ("compare", "--csv"), ("compare", "--md"), ("compare", "--json"), ("watch", "--once"),
     ("watch", "--plain"), ("list", "runs"), ("list", "runs", "--json")],
    ids=" ".join,
)  # fmt: skip
def test_a_record_does_not_act_on_the_terminal(hostile: Path, arguments: tuple[str, ...]) -> None:
    outcome = call((*arguments, "--out", str(hostile / "runs")), hostile)
    assert list(faults(outcome)) == []
    assert outcome.code == 0, outcome.stderr


def refused(outcome: Outcome) -> str:
    assert (outcome.code, list(faults(outcome))) == (2, []), outcome
    return outcome.stderr.strip()


@pytest.mark.slow
def test_an_error_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    assert refused(call(("compare", "a\nb", "--out", "runs"), tmp_path)) == (
        "bench: no run 'a\\nb': there are no runs in runs"
    )
    assert "Invalid value for '--rows'" in refused(call(("run", "--rows", "x\ny"), tmp_path))
    assert "see bench run --help" in refused(call(("run", "--absent\n"), tmp_path))
    assert "File name too long" in refused(call(("doctor", "--out", "x" * 256), tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(("group", "name"), [((), "compare"), (("list",), "builds"), (("probes",), "cost")])
def test_a_group_alone_names_its_commands(tmp_path: Path, group: tuple[str, ...], name: str) -> None:
    line = refused(call(group, tmp_path))
    assert name in line and f"see {' '.join(('bench', *group))} --help" in line


@pytest.mark.slow
@pytest.mark.parametrize("group", [(), ("list",), ("probes",)])
def test_the_summary_of_no_command_is_cut(tmp_path: Path, group: tuple[str, ...]) -> None:
    text = call((*group, "--help"), tmp_path).stdout
    assert not [line for line in text.splitlines() if line.startswith("  ") and line.endswith("...")]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_command_as_scripts_expect(tmp_path: Path, number: signal.Signals) -> None:
    run = make_run(tmp_path / "runs" / "made", repeats=1)
    with (run / "engine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as if an engine had it: watching does not end
        command = [sys.executable, "-m", "engine", "watch", "--plain", "made", "--out", "runs"]
        environment = os.environ | {"PYTHONPATH": str(HOME), "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as watching:
            assert watching.stdout is not None
            assert watching.stdout.readline()
            watching.send_signal(number)
            _, complaint = watching.communicate(timeout=60)
    assert "Traceback" not in complaint
    assert watching.returncode == 128 + number
