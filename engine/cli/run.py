"""The command `bench run`, which is also `bench --pg …`: make a plan and start it.

Its options derive from the fields of `Request`, and of the options class of every feature and workload. An option
that is not given has the value None: then a plan file's entry holds, or else the default.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import click
import msgspec

from engine.builds import typed_release, user_builds
from engine.builds.catalog import catalog
from engine.builds.label import shown
from engine.cli import completion, start
from engine.cli.grouped_options import Grouped, GroupedCommand, Row, Section, help_text, option, rare_rows
from engine.cli.options import GLYPHS, OUT, PLAIN, FigureType, agree, console
from engine.journal import housekeeping
from engine.plan import planfile, prepare
from engine.plan.command_line import command
from engine.plan.request import Request, request_options, workload_argument
from engine.report.console import PlainConsole, echo, echo_json
from engine.system.account import own_folder
from workloads import of_preset, workload, workloads
from workloads.api.lists import comma_list
from workloads.api.names import UnknownName
from workloads.api.options import COMPARE, WORKLOAD, Option, checked, given, options_of

EXAMPLES = (
    ("bench --pg 16.3,18.6", "two releases"),
    ("bench --pg 16.3 --config cx5,cx7 --clients 8", "two configs"),
    ("bench --pg 16.3,dev=~/postgresql --probes default", "a release, a tree"),
)
# As pgbench spells them; its -s is not pgbed's --scale.
SHORT = {"--clients": ["-c"], "--jobs": ["-j"], "--protocol": ["-M"], "--rate": ["-R"], "--pgbench-scale": ["-s"],
         "--seconds": ["-T"], "--transactions": ["-t"]}  # fmt: skip


class RunCommand(GroupedCommand):
    """A command with the options of a run; its full help shows each workload's options apart."""

    def __init__(
        self, *args: Any, examples: Sequence[Row] = EXAMPLES, refused: Sequence[str] = (), **attributes: Any
    ) -> None:
        """`refused` options are rejected and left out of the help."""
        super().__init__(*args, examples=examples, **attributes)
        plan = Grouped(
            ["--plan"], type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", group=COMPARE,
            help="Plan file (TOML), whose config files are in its folder, or a run's manifest.json; options override "
            "its entries.",
            brief="A plan from a TOML file.",
        )  # fmt: skip
        named = Grouped(
            ["-O", "named"], multiple=True, metavar="NAME=VALUE", group=WORKLOAD,
            help="An option of the workload by its name; the options of each workload are listed below.",
            brief="Another option of the workload (--help-all).", shell_complete=completion.rare_options,
        )  # fmt: skip
        self.params = [
            *map(_parameter, request_options()), plan, *map(_parameter, workload_options()), named, *self.params,
        ]  # fmt: skip
        for parameter in self.params:
            if isinstance(parameter, Grouped) and parameter.name in refused:
                parameter.hidden, parameter.brief = True, ""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options. Raises UsageError for a word that belongs to none."""
        ctx.allow_extra_args = True
        super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            raise click.UsageError(
                f"'{ctx.args[0]}' belongs to no option: a list has commas, as in --pg 16.3,18.6", ctx
            )
        return ctx.args

    def sections(self, ctx: click.Context) -> list[Section]:
        flags = {option.flag for option in workload_options()}
        records = {
            parameter.opts[0]: parameter.get_help_record(ctx) for parameter in self.params if parameter.opts[0] in flags
        }
        sections: list[Section] = [
            (title, [row for row in rows if row not in records.values()]) for title, rows in super().sections(ctx)
        ]
        classes = _classes()
        for cls, names in classes.items():
            inherited = {option.name for base in cls.__bases__ if base in classes for option in options_of(base)}
            options = [option for option in options_of(cls) if option.name not in inherited]
            rows = [(record[0], help_text(option)) for option in options if (record := records.get(option.flag))]
            title = f"Options of --workload {', '.join(names)}"
            sections.append((title, [*rows, *rare_rows(option for option in options if option.rare)]))
        return sections


@cache
def workload_options() -> tuple[Option, ...]:
    """All workloads' options with flags, each flag once; values that differ by workload stay text until it is known."""
    by_flag: dict[str, Option] = {}
    for entry in (entry for known in workloads() for entry in options_of(known.options) if not entry.rare):
        first = by_flag.setdefault(entry.flag, entry)
        if first.many != entry.many:
            by_flag[entry.flag] = replace(first, kind="str", many=False, least=None, most=None)
    return tuple(by_flag.values())


def _classes() -> dict[type[msgspec.Struct], list[str]]:
    names: dict[type[msgspec.Struct], list[str]] = {}
    for known in workloads():
        for cls in reversed(known.options.__mro__):
            if issubclass(cls, msgspec.Struct) and cls is not msgspec.Struct:
                names.setdefault(cls, []).append(known.name)
    return names


def take(values: dict[str, Any], read: Callable[[Path], Request] = planfile.read) -> Request:
    """Move a command's values into a request, over a plan file's entries, which `read` reads. Raises UserError."""
    plan: Path | None = values.pop("plan", None)
    named: Sequence[str] = values.pop("named", ())
    names = {option.name for option in (*request_options(), *workload_options())}
    typed = {name: value for name in names if (value := values.pop(name, None)) not in (None, ())}
    request = read(plan) if plan else Request()
    argument: dict[str, Any] = {}
    try:
        name = request.workload
        if "workload" in typed:
            name, argument = workload_argument(typed["workload"])
        elif "preset" in typed:
            name = of_preset(typed["preset"])
        if name != request.workload:  # the file's options are another workload's
            request = msgspec.structs.replace(request, options={})
        cls = workload(name).options
        parsed = {**_parsed(cls, typed), **_named(cls, named)}
    except (UnknownName, ValueError) as error:
        raise planfile.refused(error) from None
    return planfile.request({**request.entries(), **typed, "workload": name, **argument, **parsed})


def _parsed(cls: type[msgspec.Struct], typed: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for entry in options_of(cls):
        if entry.kind != "str" and isinstance(text := typed.get(entry.name), str):
            try:
                values[entry.name] = entry.parsed(text)
            except ValueError:
                raise ValueError(f"{entry.flag} must be {entry.words}, not '{text}'") from None
    return values


def _named(cls: type[msgspec.Struct], texts: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"-O {text}: give NAME=VALUE")
        values[name.strip().replace("-", "_")] = value
    return given(checked(cls, values, texts=True), values)


def _parameter(option: Option) -> Grouped:
    metavar = option.metavar or (f"[{'|'.join(option.choices)}]" if option.choices else None)
    shape: dict[str, Any] = {"metavar": metavar}
    if option.kind == "bool":
        shape = {"is_flag": True, "flag_value": True}
    elif option.repeated:
        shape |= {"multiple": True}
    elif option.many:
        shape |= {"callback": _names if option.kind == "str" else partial(_numbers, option)}
    elif option.kind in ("int", "float"):
        shape |= {"type": FigureType(option)}
    return Grouped(
        [option.flag, *SHORT.get(option.flag, ()), option.name], help=help_text(option), default=None,
        group=option.group, brief=option.brief, shell_complete=completion.values_of(option), **shape
    )  # fmt: skip


def _names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else comma_list(value)


def _numbers(option: Option, _: click.Context, param: click.Parameter, value: str | None) -> Any:
    try:
        return None if value is None else option.parsed(value)
    except ValueError:
        raise click.BadParameter("give whole numbers with commas between", param=param) from None


@click.command(cls=RunCommand)
@OUT
@option(
    "--dry-run", is_flag=True, help="Print the plan with estimated time and space, and stop.",
    brief="Print the plan, its time and space; stop.",
)  # fmt: skip
@option("--estimate", is_flag=True, help="Print the number of cells, time and space as JSON; build nothing.")
@PLAIN
@GLYPHS
@option(
    "--detach", is_flag=True, help="Start the engine, print the run's folder, and exit.",
    brief="Start the run, print its folder, exit.",
)  # fmt: skip
@option(
    "--yes",
    is_flag=True,
    help="Do not ask before running a manifest's plan, or adding a release to the table of builds.",
)
@option("--json", "as_json", is_flag=True, help="Print the plan as JSON, and with --detach the run's folder.")
def run(
    out: Path,
    dry_run: bool,
    estimate: bool,
    plain: bool,
    glyphs: str,
    detach: bool,
    yes: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Build the servers, run the workload on each, and print which is slower."""
    folder = own_folder(out)
    plan_file: Path | None = values["plan"]
    if plan_file is not None and planfile.is_manifest(plan_file):
        request = take(values, planfile.of_manifest)
        echo(f"{plan_file} would execute what it names:", err=True)
        echo(f"  {command(request)}", err=True)
        agree("Make a run of this plan?", yes)
    else:
        request = take(values)
    starts = not (dry_run or estimate) and (yes or sys.stdin.isatty())
    for version in typed_release.missing(request.builds) if starts else ():
        hint = typed_release.hint(version, catalog())
        agree(f"{hint}. Add {version} by the checksum that postgresql.org publishes?", yes)
        user_builds.pin(version)
    if estimate:
        plan = {**request.entries(), "builds": [shown(build) for build in request.builds]}
        echo_json({**prepare.estimate(request, folder), "plan": plan})
        return
    screen = PlainConsole(stderr=True, force_terminal=False) if as_json else console(plain)
    prospect = start.prepare_shown(request, folder, screen)
    if not as_json:
        start.print_prospect(prospect, folder, screen)
    elif dry_run or not detach:
        echo_json(prospect.record())
    if dry_run:
        housekeeping.forget_data(folder / prospect.manifest.run)
    else:
        code = start.start(prospect, folder, screen, detach=detach, glyphs=glyphs)
        if as_json and detach:
            echo_json({"folder": str(folder / prospect.manifest.run), **prospect.record()})
        sys.exit(code)
