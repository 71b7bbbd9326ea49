"""The command `bench`. Every command is a thin wrapper: options in, one call, a table or JSON out."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from engine.cli import interface, settings, standard_streams
from engine.cli.commands import COMMANDS, EXIT_CODES, GROUPS, HIDDEN, loaded
from engine.cli.grouped_options import FULL, help_text, show_all
from engine.cli.options import console
from engine.core.errors import UserError, unknown
from engine.host.address_space import check_address_space
from engine.report.console import complain, echo
from workloads.api.names import NotRegistered
from workloads.api.options import options_of

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM  # the codes of a shell
OWN_OPTIONS = ("-h", "--help", "--help-all", "--version")
INTERFACE = "interface"  # of `bench` alone: no name of a command
INSTEAD = {
    ("bisect", "-o"): "-O", ("farm", "--out"): "--to", ("report", "--runs"): "--out", ("run", "-o"): "-O",
    ("trend", "--report"): "--to",
}  # fmt: skip
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class BenchGroup(click.Group):
    """`bench --pg …` is `bench run --pg …`; errors meant for the user are one line and exit code 2."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and exit: with 2 and one line on stderr for user errors, 130 on Ctrl-C, 143 on SIGTERM."""
        terminated: list[int] = []

        def terminate(number: int, _: FrameType | None) -> None:
            terminated.append(number)
            raise KeyboardInterrupt

        try:
            standard_streams.prepare()
            _keep_docstrings()
            signal.signal(signal.SIGTERM, terminate)
            settings.apply()
            code = super().main(*args, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            code = complain(_commands_of(error.ctx))
        except click.ClickException as error:
            code = complain(_refusal(error))
        except (UserError, NotRegistered) as error:
            code = complain(str(error))
        except (KeyboardInterrupt, click.Abort):
            code = INTERRUPTED
        except SystemExit as end:
            code = end.code
        except standard_streams.NotRead:
            code = standard_streams.NOT_READ
        except MemoryError:
            code = complain("out of memory: raise the limit (ulimit -v), or free some")
        except OSError as error:
            if error.filename != standard_streams.OUTPUT:
                raise
            code = complain(f"{error.filename}: {error.strerror}")
        code = standard_streams.settle(code or 0)
        sys.exit(TERMINATED if terminated and code == INTERRUPTED else code)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `run` before options that belong to it; without such options, open the interface on a terminal."""
        if not ctx.resilient_parsing and _of_interface(args) and interface.wanted(console(False)):
            ctx.meta[INTERFACE] = True
            args = [INTERFACE, *args]
        if args and args[0].startswith("-") and args[0] not in OWN_OPTIONS:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            return COMMANDS[cmd_name].load()
        hidden = HIDDEN | ({INTERFACE: "watch:open_interface"} if INTERFACE in ctx.meta else {})
        return loaded(hidden[cmd_name]) if cmd_name in hidden else super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of a name. Raises UserError, with the nearest names, if it is unknown."""
        if self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing and not args[0].startswith("-"):
            raise unknown("command", args[0], COMMANDS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), command.line) for name, command in group.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if not incomplete.startswith("-"):
            named = [(name, command.line) for name, command in COMMANDS.items() if name.startswith(incomplete)]
            return [CompletionItem(name, help=line) for name, line in named]
        command = self.get_command(ctx, "run")
        assert command is not None
        of_run = command.shell_complete(click.Context(command, parent=ctx, info_name="run"), incomplete)
        items = {item.value: item for item in (*super().shell_complete(ctx, incomplete), *of_run)}
        return list(items.values())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Add the environment variables, the keys of config.toml and the exit codes to the full help."""
        if FULL in ctx.meta:
            with formatter.section("Environment variables"):
                formatter.write_dl(settings.ENVIRONMENT)
            keys = options_of(settings.Settings)
            with formatter.section(f"Keys of {settings.settings_path()}"):
                formatter.write_dl([(f"{key.name} = {key.metavar}", help_text(key)) for key in keys])
            with formatter.section("Exit codes"):
                formatter.write_dl(EXIT_CODES)
        super().format_epilog(ctx, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. An OSError about a file is a user error, except in the engine."""
        check_address_space()  # with less, a library ends the process, and the exit code means something else
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.filename is None or ctx.invoked_subcommand == "engine":
                raise
            raise UserError(f"{error.filename}: {error.strerror}") from error


def _keep_docstrings() -> None:
    """Start again where PYTHONOPTIMIZE=2 has removed docstrings: they are the help."""
    if sys.flags.optimize > 1 and os.environ.pop("PYTHONOPTIMIZE", ""):
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _commands_of(ctx: click.Context | None) -> str:
    if ctx is None or not isinstance(ctx.command, click.Group):
        return "no command given; see bench --help"
    commands = ((name, ctx.command.get_command(ctx, name)) for name in ctx.command.list_commands(ctx))
    names = ", ".join(name for name, command in commands if command is not None and not command.hidden)
    why = " (the interface needs a terminal)" if ctx.parent is None else ""
    return f"no command given{why}; choose one of {names}; see {ctx.command_path} --help"


def _refusal(error: click.ClickException) -> str:
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "bench"
    command = command.removesuffix(f" {INTERFACE}")
    if isinstance(error, click.NoSuchOption) and (new := INSTEAD.get((command.split()[-1], error.option_name))):
        return f"{error.option_name} is now {new}; see {command} --help"
    message = error.format_message().rstrip(".").replace(". (", " (")
    return f"{message}{' See' if message.endswith('?') else '; see'} {command} --help"


def _of_interface(args: list[str]) -> bool:
    words = iter(args)
    for word in words:
        name, sign, _ = word.partition("=")
        if name not in ("--out", "--glyphs"):
            return False
        if not sign:
            next(words, None)
    return True


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from engine.cli.version import version_line  # looked up only now: that takes longer than some commands

        echo(version_line())
        ctx.exit()


@click.group(cls=BenchGroup, context_settings=CONTEXT, epilog="Manual: docs/index.md")
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print version, revision and package set.",
)
@click.option(
    "--help-all", is_flag=True, expose_value=False, is_eager=True, callback=show_all,
    help="Show this, environment variables, settings and exit codes.",
)  # fmt: skip
def main() -> None:
    """Does this PostgreSQL release, patch, setting or kernel change performance? By how much,
    with what certainty, and why?

    \b
    bench --pg 16.3,18.6                 compare two releases: about 9 minutes
    bench --pg 16.3 --config cx5,cx7     compare two configs on one build
    bench compare RUN                    show the results of a run again
    bench list builds                    list the builds that can be compared

    Options without a command belong to `bench run`. Each run is kept in a folder of its own below --out
    and never overwritten.
    """


@main.command(hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
def engine(folder: Path) -> None:
    """The engine itself, headless: started by `run` and `resume`."""
    from engine.core.record import converted, parsed
    from engine.host.disk import DiskFull
    from engine.run.engine import execute
    from engine.run.stop import BROKEN, NO_ROOM

    text = sys.stdin.buffer.read()  # connection strings, which may hold passwords: they are nowhere else
    connections = converted(parsed(text, "stdin"), dict[str, str], "stdin") if text else None
    try:
        outcome = execute(folder, connections)
    except DiskFull as error:
        with suppress(OSError):  # the log may be on that disk
            echo(f"bench: {error}", err=True)
        os._exit(NO_ROOM)
    except UserError:
        raise
    except Exception:
        with suppress(OSError):
            traceback.print_exc()
        sys.exit(BROKEN)  # 1 would be a cell that has failed
    sys.exit(INTERRUPTED if outcome.interrupted else 1 if outcome.failed else 0)
