"""The command `bench bisect`: which commit made a step slower."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from engine.cli import completion
from engine.cli.grouped_options import option
from engine.cli.options import OUT
from engine.cli.run import RunCommand, take
from engine.core.errors import UserError
from engine.core.text import user_path
from engine.report.console import echo, echo_json
from engine.system.account import own_folder

SEARCH = "Search"
EXAMPLES = (("bench bisect --repo ~/pg --good REL_16_3 --bad REL_17_0", "two tags"),)
REFUSED = ("builds", "base", "kernels", "preset")  # a search compares commits under one workload
_option = partial(option, group=SEARCH)


@click.command(
    cls=RunCommand,
    leading=(SEARCH,),
    examples=EXAMPLES,
    refused=REFUSED,
    short_help="Find the commit that made a step slower.",
)
@_option("--good", required=True, metavar="REV", help="A revision that is good.", brief="A revision that is good.")
@_option(
    "--bad", required=True, metavar="REV", help="A later revision that is slower.",
    brief="A later revision that is slower.",
)  # fmt: skip
@_option(
    "--repo", required=True, type=click.Path(path_type=Path), metavar="PATH", help="The git repository of PostgreSQL.",
    brief="The git repository of PostgreSQL.",
)  # fmt: skip
@_option(
    "--step", metavar="STEP", help="The step to compare [default: the one that became slowest].",
    brief="Step to compare [the slowest].", shell_complete=completion.steps,
)  # fmt: skip
@_option(
    "--error", type=click.FloatRange(0.001, 0.3), default=0.05, show_default=True, metavar="FRACTION",
    help="Highest probability of a wrong answer.", brief="Probability of a wrong answer [0.05].",
)  # fmt: skip
@_option(
    "--pairs", type=click.IntRange(3, 100), default=3, show_default=True, metavar="N",
    help="Pairs of clusters for each measurement.",
)  # fmt: skip
@_option("--again", is_flag=True, help="Start the search again from the beginning.")
@option("--json", "as_json", is_flag=True, help="Print the result as JSON, and progress to stderr.")
@OUT
def bisect(
    good: str,
    bad: str,
    repo: Path,
    step: str | None,
    error: float,
    pairs: int,
    again: bool,
    as_json: bool,
    out: Path,
    **values: Any,
) -> None:
    """Find the commit between two revisions of PostgreSQL that made a step slower.

    Each commit is built and measured together with both ends; a later measurement can move the search back. Commits
    that do not build, or whose cells fail, are skipped. It takes the other options of `bench run` as well. The same
    command continues a search that has ended early.

    \b
    Exit codes:
      0    found
      2    not found: the ends do not differ clearly, or the command failed
      130  stopped by Ctrl-C, 143 by SIGTERM: the same command continues
    """
    from engine.bisect.search import Search, run
    from engine.cli.start import start

    request = take(values)
    if request.builds:
        raise UserError("--pg: a search builds commits; name the first and last with --good and --bad")
    if request.options.get("preset"):
        raise UserError("a search runs one workload: give no --preset, but its --workload and options")
    if request.base or request.kernels != type(request)().kernels or request.config_count > 1:
        raise UserError("a search compares commits only: give no --base, no --kernel and one --config")

    def say(text: str) -> None:
        echo(text, err=as_json)

    search = Search(
        repository=user_path(str(repo)).absolute(), good=good, bad=bad, asked=request, step=step, error=error,
        pairs=pairs, out=own_folder(out), say=say, start=partial(start, detach=False),
    )  # fmt: skip
    result = run(search, again=again)
    if as_json:
        echo_json(result.record())
    else:
        for line in result.lines():
            echo(line)
