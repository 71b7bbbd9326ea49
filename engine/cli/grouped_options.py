"""Options in groups: `--help` shows the options that have a brief line, `--help-all` shows every option in full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import click

from engine.core.text import visible_lines
from engine.report.console import echo_lines
from workloads.api.options import GROUPS, OUTPUT, Option

FULL = "full"  # in a context's `meta`
EXAMPLE_WIDTH = 60
Row = tuple[str, str]
Section = tuple[str, Sequence[Row]]


class Grouped(click.Option):
    """An option with a group and, if `--help` is to show it, a brief line."""

    def __init__(self, words: Sequence[str], *, group: str = OUTPUT, brief: str = "", **attributes: Any) -> None:
        super().__init__(words, **attributes)
        self.group, self.brief = group, brief

    @property
    def brief_row(self) -> Row:
        value = "" if self.is_flag else self.metavar or "WORD"
        names = ", ".join(sorted(self.opts, key=len))
        return (f"{names} {'WORD' if value.startswith('[') and '|' in value else value}".strip(), self.brief)


option = partial(click.option, cls=Grouped)


class GroupedCommand(click.Command):
    """A command whose help shows its options in groups; `leading` groups come before those of `GROUPS`."""

    def __init__(
        self, *args: Any, leading: Sequence[str] = (), examples: Sequence[Row] = (), **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.groups, self.examples = (*leading, *GROUPS), examples
        self.params.append(
            Grouped(
                ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show_all,
                help="Show all options.", brief="Show all options, with details.",
            )
        )  # fmt: skip

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        full = FULL in ctx.meta
        sections = self.sections(ctx) if full else self._brief_sections(ctx)
        width = 0 if full else max(len(name) for _, rows in sections for name, _ in rows)
        for title, rows in sections:
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in rows])
        if self.examples:
            with formatter.section("Examples"):
                formatter.write_dl(self.examples, col_max=EXAMPLE_WIDTH)

    def sections(self, ctx: click.Context) -> list[Section]:
        return self._sections(ctx, lambda parameter: parameter.get_help_record(ctx))

    def _brief_sections(self, ctx: click.Context) -> list[Section]:
        return self._sections(ctx, lambda parameter: parameter.brief_row if parameter.brief else None)

    def _sections(self, ctx: click.Context, row: Any) -> list[Section]:
        parameters = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, Grouped)]
        rows = {group: [row(option) for option in parameters if option.group == group] for group in self.groups}
        return [
            (group, shown) for group, all_rows in rows.items() if (shown := [option for option in all_rows if option])
        ]


def rare_rows(options: Iterable[Option]) -> list[Row]:
    return [
        (f"-O {option.name}={option.metavar or '|'.join(option.choices) or 'true'}", help_text(option))
        for option in options
    ]


def help_text(option: Option) -> str:
    default = option.unset or _default(option)
    return f"{option.text}  [default: {default}]" if default else option.text


def _default(option: Option) -> str:
    if option.kind == "bool" or option.default in (None, (), ""):
        return ""
    return ",".join(map(str, option.default)) if option.many else f"{option.default}"


def show_all(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        ctx.meta[FULL] = True
        echo_lines(visible_lines(ctx.get_help()))
        ctx.exit()
