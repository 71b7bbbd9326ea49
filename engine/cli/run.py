"""The command `bench run`, which is also `bench --pg …`: a plan in, a run started.

Its options derive from the fields of a `Request` and of every workload's options class. A value that is not given is
None: then a plan file's entry holds, and else the default.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from engine.builds.label import shown
from engine.cli import start
from engine.cli.options import GLYPHS, OUT, PLAIN, Figure, console
from engine.core.errors import UserError
from engine.host.account import own_folder
from engine.plan import planfile, prepare
from engine.plan.request import Request, loads_of
from engine.report.console import PlainConsole, echo_json
from workloads import modules, of_preset, workload, workloads
from workloads.combined.names import arms_of
from workloads.names import UnknownName
from workloads.options import Option, checked, given, options_of

KNOBS = click.Option(
    ["--knob", "knobs"], multiple=True, hidden=True, metavar="NAME=VALUE", help="An option of the workload by its name."
)
PLAN = click.Option(
    ["--plan"],
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Plan file (TOML), whose config files lie in its folder; command-line options override it.",
)


class RunCommand(click.Command):
    """A command with the options of a run, in its help the workload's apart from those of all workloads."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [PLAN, *_options(options_of(Request)), *self.params, *workload_options(), KNOBS]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, then those of each workload."""
        own = {param.opts[0] for param in workload_options()}
        shown = [(param.opts[0], param.get_help_record(ctx)) for param in self.get_params(ctx)]
        with formatter.section("Options"):
            formatter.write_dl([record for name, record in shown if record and name not in own])
        for of, names in _by_class().items():
            inherited = {option.flag for base in of.__bases__ if base in _by_class() for option in options_of(base)}
            written = {option.flag for option in options_of(of)} - inherited
            with formatter.section(f"Options of --workload {', '.join(names)}"):
                formatter.write_dl([record for name, record in shown if record and name in written])


def workload_options() -> list[click.Option]:
    """The options of all workloads; one that several have stands there once, or by each of its flags.

    Where it is not the same for all of them its value is text, until it is known whose it is.
    """
    found: dict[str, Option] = {}
    for each in workloads():
        for option in options_of(each.options):
            known = found.setdefault(option.flag, option)
            if known.many != option.many:
                text = known.text if option.text in known.text else f"{known.text} {option.text}"
                found[option.flag] = dataclasses.replace(
                    option, text=text, kind="str", default=None, unset="1", many=False, least=None, most=None
                )
    return _options(tuple(found.values()))


def _by_class() -> dict[type[msgspec.Struct], list[str]]:
    """The classes of the workloads' options, and the names of the workloads that have these options."""
    found: dict[type[msgspec.Struct], list[str]] = {}
    for each in workloads():
        for of in reversed(each.options.__mro__):
            if issubclass(of, msgspec.Struct) and of is not msgspec.Struct:
                found.setdefault(of, []).append(each.name)
    return found


def take(values: dict[str, Any]) -> Request:
    """The request of a command's values, which it takes out of them; a plan file's entries where it has none.

    Raises UserError for invalid values.
    """
    plan: Path | None = values.pop("plan", None)
    knobs: Sequence[str] = values.pop("knobs", ())
    names = {option.name for option in options_of(Request)} | {str(option.name) for option in workload_options()}
    typed = {name: value for name in names if (value := values.pop(name, None)) not in (None, ())}
    asked = planfile.read(plan) if plan else Request()
    argument: dict[str, Any] = {}
    try:
        name, arms = asked.workload, asked.arms
        if typed.keys() & {"workload", "arms"}:  # then what the file says of either does not hold
            if len(single := arms_of(typed.get("arms", ()), modules())) == 1:
                raise ValueError(f"--arms {single[0]}: nothing to compare it with; name two or more, or use --workload")
            name, argument, arms = loads_of(typed.get("workload"), typed.get("arms", ()))
            asked = msgspec.structs.replace(asked, with_options=())
        elif "preset" in typed:
            name, arms = of_preset(typed["preset"]), ()
        if name != asked.workload:  # the file's options are those of another workload
            asked = msgspec.structs.replace(asked, options={})
        own = _knobs(workload(name).options, knobs)
        texts = {
            option.name: _parsed(option, typed[option.name])
            for option in options_of(workload(name).options)
            if option.kind != "str" and isinstance(typed.get(option.name), str)
        }
    except (UnknownName, ValueError) as error:
        raise planfile.refused(error) from None
    given_here = {**typed, "workload": name, "arms": arms, **argument, **texts, **own}
    return planfile.request({**asked.entries(), **given_here})


def _parsed(option: Option, text: str) -> Any:
    try:
        return option.parsed(text)
    except ValueError:
        raise ValueError(f"{option.flag} must be {option.words}, not '{text}'") from None


def _knobs(options: Any, texts: Sequence[str]) -> Mapping[str, Any]:
    """Options of a workload that are given as NAME=VALUE."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--knob {text}: give NAME=VALUE")
        values[name.strip().replace("-", "_")] = value
    return given(checked(options, values, texts=True))


def _options(options: Sequence[Option]) -> list[click.Option]:
    return [made for option in options for made in _of(option)]


def _of(option: Option) -> list[click.Option]:
    """An option of the command line, and a hidden one for each of its former names."""
    default = option.unset or _default(option)
    text = f"{option.text}  [default: {default}]" if default else option.text
    metavar = option.metavar or (f"[{'|'.join(option.choices)}]" if option.choices else None)
    shape: dict[str, Any] = {"default": None, "metavar": metavar}
    if option.kind == "bool":
        shape = {"default": None, "is_flag": True, "flag_value": True}
    elif option.repeated:
        shape |= {"multiple": True}
    elif option.many:
        shape |= {"callback": _names if option.kind == "str" else partial(_numbers, option)}
    else:
        shape |= {"type": _type(option)}
    made = [click.Option([option.flag, option.name], help=text, **shape)]
    return made + [click.Option([alias, option.name], hidden=True, **shape) for alias in option.aliases]


def _type(option: Option) -> click.ParamType[Any]:
    return Figure(option) if option.kind in ("int", "float") else click.STRING


def _default(option: Option) -> str:
    if option.kind == "bool" or option.default in (None, (), ""):
        return ""
    return ",".join(map(str, option.default)) if option.many else f"{option.default}"


def _names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [name.strip() for name in value.split(",") if name.strip()]


def _numbers(option: Option, _: click.Context, param: click.Parameter, value: str | None) -> Any:
    try:
        return None if value is None else option.parsed(value)
    except ValueError:
        raise click.BadParameter("give whole numbers with commas between", param=param) from None


@click.command(cls=RunCommand)
@OUT
@click.option("--dry-run", is_flag=True, help="Print the plan with estimated time and space, and stop.")
@click.option("--estimate", is_flag=True, help="Print number of cells, time and space as JSON; build nothing.")
@PLAIN
@GLYPHS
@click.option("--detach", is_flag=True, help="Start the engine, print the run's folder, and exit.")
@click.option("--yes", is_flag=True, help="With --kernel-by reboot: do not ask before this machine is booted.")
@click.option("--json", "as_json", is_flag=True, help="The plan as JSON, and with --detach the run's folder.")
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
    """Build the servers, run the workload on each, and say which is slower."""
    folder = own_folder(out)
    asked = take(values)
    if estimate:
        plan = {**asked.entries(), "builds": [shown(build) for build in asked.builds]}
        echo_json({**prepare.estimate(asked, folder), "plan": plan})
        return
    screen = PlainConsole(stderr=True, force_terminal=False) if as_json else console(plain)
    prospect = start.prepare_shown(asked, folder, screen)
    if not as_json:
        start.print_prospect(prospect, folder, screen)
    elif dry_run or not detach:
        echo_json(prospect.record())
    if not dry_run:
        code = start.start(prospect, folder, screen, detach=detach, glyphs=glyphs, yes=yes)
        if as_json and detach:
            echo_json({"folder": str(folder / prospect.manifest.run), **prospect.record()})
        sys.exit(code)
