"""Bad values for every option and argument of every command. The commands are asked for their parameters."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import click

from engine.cli.main import main
from tests.faults.call import Case, call, faults

# Words that a command needs before it looks at the parameter that is tried: parameter -> words. RUN is a finished run's
# name. Nothing here may start a run.
NEEDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "run": {"builds": ("--pg", "LABEL"), "dry_run": ("--dry-run",)},
    "compare": {"runs": ("RUN",)},
    "watch": {"run": ("RUN",), "once": ("--once",)},
    "resume": {"run": ("absent",)},
    "stop": {"run": ("RUN",)},
    "mark": {"text": ("word",), "run": ("RUN",)},
    "flame": {"run": ("RUN",)},
    "tag": {"words": ("word",), "run": ("RUN",)},
    "bisect": {"good": ("--good", "a"), "bad": ("--bad", "b"), "repo": ("--repo", "absent")},
    "delete": {"names": ("RUN",)},
    "probes cost": {"label": ("--pg", "absent")},
    "probes on": {"name": ("plan",), "run": ("RUN",)},
    "probes off": {"name": ("plan",), "run": ("RUN",)},
}
TEXTS: Mapping[str, str] = {
    "newline": "a\nb",
    "256 characters": "x" * 256,
    "5,000 characters": "x" * 5000,
    "path of 5,000 characters": "/x" * 2500,
    "markup": "[/red]",
    "escape sequences": "\x1b]0;title\x07\x1b[2J\x9b2J",
    "right-to-left override": "\u202eabc",
    "empty": "",
    "blank": " ",
    "bytes that are no text": "\udcff\udcfe",
    "negative": "-1",
    "huge": "9" * 40,
    "exponent": "1e400",
    "not a number": "nan",
    "formula": "=HYPERLINK(1)",
    "parents": "../../../etc/passwd",
    "commas": ",a,,",
    "open quote": "'a,\"b,",
    "servers of several hosts": "a=host=/absent,/gone port=1,2,b=postgresql:///d?host=/absent,/gone",
    "release of an image": "postgres:16.3-alpine",
    "pair": "a=b",
    "host without a name": "a=postgresql://me@a..b/db",
    "pair that executes": "archive_command=touch never",
    "pair with a device": "a=/dev/zero",
    "placeholders": "%s{0}$HOME`id`",
}
FILES = (
    "fifo",
    "/dev/zero",
    "/dev/full",
    "/dev/null",
    "folder",
    "file",
    "file/below",
    "absent/below",
    "loop",
    "production.conf",
    "utf-16.sql",
    "commands.sql",
    "/proc/1/mem",
    "repository",
    "shared",
    "/proc/kmsg",
    "/dev/kmsg",
)


def cases(folder: Path, label: str, run: str) -> Iterator[Case]:
    """All of them, for a folder that `furnish` has filled and a run in its `runs`."""
    for path, command in commands(main, ()):
        name = " ".join(path)
        needs = dict(NEEDS.get(name, {}))
        if any(parameter.name == "out" for parameter in command.params):
            needs["out"] = ("--out", str(folder / "runs"))
        for parameter in command.params:
            others = [word for other, words in needs.items() if other != parameter.name for word in words]
            words = [{"LABEL": label, "RUN": run}.get(word, word) for word in others]
            for what, tried in _given(parameter, folder):
                yield _case(f"{name} {parameter.name}: {what}", (*path, *words, *tried), folder)
        yield _case(f"{name}: unknown option", (*path, "--absent\n[/red]"), folder)
        yield _case(f"{name}: too many arguments", (*path, *["a\nb"] * 9), folder)


def _case(name: str, arguments: tuple[str, ...], folder: Path) -> Case:
    return Case(name, partial(_attempt, arguments, folder))


def _attempt(arguments: tuple[str, ...], folder: Path) -> Iterable[str]:
    return faults(call(arguments, folder))


def commands(group: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below a group that a person may call, with its words."""
    if not isinstance(group, click.Group):
        yield path, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and (*path, name) != ("engine",):
            yield from commands(command, (*path, name))


def _given(parameter: click.Parameter, folder: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Values tried for a parameter, and the words for them."""
    option = max(parameter.opts, key=len) if isinstance(parameter, click.Option) else None
    files = {name: name if name[0] == "/" else str(folder / name) for name in FILES}
    for what, value in {**TEXTS, **files}.items():
        yield what, (f"{option}={value}",) if option else ("--", value)
    if option:
        yield "no value", (option,)


def furnish(folder: Path) -> None:
    """Makes the files that values name."""
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    (folder / "file").write_text("text\n")
    (folder / "loop").symlink_to("loop")
    for name in ("objects", "refs"):
        (folder / "repository/.git" / name).mkdir(parents=True)
    (folder / "repository/.git/HEAD").write_text("ref: refs/heads/main\n")
    (folder / "repository/.git/config").write_text('[core]\n\tfsmonitor = "touch never"\n')
    (folder / "shared").mkdir()
    (folder / "shared").chmod(0o777)
    (folder / "shared/.builds").symlink_to("/proc/1")
    reaching = (
        "archive_mode = on\narchive_command = 'touch never'\ninclude_dir = '.'\nsynchronous_standby_names = '*'\n"
    )
    (folder / "production.conf").write_text(reaching)
    (folder / "utf-16.sql").write_text("SELECT 1;\n", "utf-16")
    (folder / "commands.sql").write_text("COPY t FROM stdin;\n\\.\n\\! touch never\nSELECT 'no end")
