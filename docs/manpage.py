"""The man page bench(1), written from the commands and their options.

PYTHONPATH=. python docs/manpage.py > bench.1
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

import click

from engine.cli.commands import COMMANDS, EXIT_CODES
from engine.cli.grouped_options import GroupedCommand, help_text
from engine.cli.main import main
from engine.cli.run import RunCommand
from engine.cli.settings import ENVIRONMENT, Settings
from workloads.api.options import options_of

SUMMARY = "compare PostgreSQL servers: which is slower, by how much, how certain that is, and why"


def roff(text: str) -> str:
    """Plain text as a line of roff."""
    text = re.sub(r"`([^`]*)`", r"\1", text.replace("\\", r"\e")).replace("-", r"\-")
    return r"\&" + text if text[:1] in {".", "'"} else text


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a help text; those after a \\b keep their lines."""
    for paragraph in text.split("\n\n"):
        lines = paragraph.strip("\n").split("\n")
        if lines[0].strip() == "\b":
            yield "\n".join((".PP", ".nf", *map(roff, lines[1:]), ".fi"))
        else:
            yield f".PP\n{roff(' '.join(line.strip() for line in lines))}"


def definitions(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, text in rows:
        yield f".TP\n\\fB{roff(term)}\\fR\n{roff(' '.join(text.split()))}"


def command_section(context: click.Context, name: str, command: click.Command) -> Iterator[str]:
    own = click.Context(command, parent=context, info_name=name)
    yield f".SS {roff(' '.join((own.command_path, *command.collect_usage_pieces(own))))}"
    yield from paragraphs(command.help or "")
    if isinstance(command, GroupedCommand):
        every = command.sections(own) if name == "run" else command.sections(own)[:1]
        for title, rows in every if isinstance(command, RunCommand) else command.sections(own):
            yield f".PP\n\\fI{roff(title)}\\fR"
            yield from definitions(rows)
    else:
        yield from definitions(row for option in command.get_params(own) if (row := option.get_help_record(own)))
    if isinstance(command, click.Group):
        for below in command.list_commands(own):
            yield from command_section(own, below, command.commands[below])


def page() -> str:
    """The whole page."""
    context = click.Context(main, info_name="bench")
    keys = ((f"{key.name} = {key.metavar}", help_text(key)) for key in options_of(Settings))
    parts = [
        '.TH BENCH 1 "" pgbed "pgbed"',
        f".SH NAME\nbench \\- {roff(SUMMARY)}",
        ".SH SYNOPSIS",
        ".B bench\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.br",
        ".B bench\n\\-\\-pg \\fILABEL\\fR,… [\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
        *paragraphs(main.help or ""),
        ".SH COMMANDS",
        *(
            line
            for name, command in sorted(COMMANDS.items())
            for line in command_section(context, name, command.load())
        ),
        ".SH EXIT STATUS",
        *definitions(EXIT_CODES),
        ".SH ENVIRONMENT",
        *definitions(ENVIRONMENT),
        ".SH FILES",
        *definitions([("~/.config/pgbed/config.toml", "Settings of all runs. Its keys:")]),
        ".RS",
        *definitions(keys),
        ".RE",
        *definitions(
            [
                ("~/.config/pgbed/builds.toml", "Builds of your own, and releases that bench pin added."),
                ("~/.local/state/pgbed, /var/tmp/pgbed", "Runs; the second of these is root's."),
            ]
        ),
        ".SH SEE ALSO\nThe manual in docs/ of the repository; bash nix/machine.sh manual makes it a site.",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
