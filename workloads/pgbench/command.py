"""pgbench's command lines, and the capabilities of each version."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workloads.pgbench.options import Options
from workloads.pgbench.scripts import BUILTIN, Script, commands

OPEN_END_S = 10_000_000  # of a step that the launcher ends
FAILURES_DETAILED, EXIT_ON_ABORT = 15, 17  # the first versions of pgbench with these options
CONTINUE_ON_ERROR = 19
# Commands in scripts, and the first version of pgbench that has them.
SINCE = {
    r"\\aset\b": ("\\aset", 13),
    r"\\startpipeline\b": ("\\startpipeline", 14),
    r"\bpermute\s*\(": ("permute()", 14),
    r"\\syncpipeline\b": ("\\syncpipeline", 17),
}
# Anywhere: pgbench accepts a command after SQL in the same line, in any case, and after blanks or a line's end.
SHELL = re.compile(r"\\[\s\\]*(?:set)?shell", re.I)


def major(program: Mapping[str, Any]) -> int:
    """The major version of a pgbench, from its output: 18 of `pgbench (PostgreSQL) 18.6`."""
    match = re.match(r"pgbench \(.+?\) (\d+)", str(program["version"]))
    if match is None:
        raise ValueError(f"{program['path']}: '{program['version']}' is not the version of a pgbench")
    return int(match.group(1))


def unknown(options: Options, scripts: Sequence[Script]) -> Iterator[tuple[str, int]]:
    """Features that a plan uses, and the first version of pgbench that has them."""
    if options.max_tries > 1:
        yield "--max-tries", 15
    if options.continue_on_error:
        yield "--continue-on-error", CONTINUE_ON_ERROR
    if "G" in options.init_steps:
        yield "--init-steps with G", 13
    if options.pgbench_partitions:
        yield "--partitions", 13
    for script in scripts:
        text = "\n".join(part for _, part in commands(script.text))
        for pattern, (name, since) in SINCE.items():
            if re.search(pattern, text, re.I):
                yield f"{name} in {script.name}", since


def run(
    program: str,
    version: int,
    options: Options,
    scripts: Sequence[Script],
    folder: str,
    *,
    clients: int,
    dsn: str,
    seed: int,
    transactions: int | None = None,
    seconds: int = OPEN_END_S,
) -> list[str]:
    """The command of a step, or of a warm-up; `folder` holds the scripts' files."""
    command = [program, "--no-vacuum", f"--protocol={options.protocol}", f"--random-seed={seed}"]
    command += [f"--client={clients}", f"--jobs={min(options.jobs, clients)}"]
    command += [f"--transactions={transactions}"] if transactions else [f"--time={seconds}"]
    if options.connect:
        command.append("--connect")
    if options.rate is not None:
        command.append(f"--rate={options.rate:.12g}")
    if options.latency_limit is not None:
        command.append(f"--latency-limit={options.latency_limit:.12g}")
    if options.max_tries > 1:
        command.append(f"--max-tries={options.max_tries}")
    if options.continue_on_error:
        command.append("--continue-on-error")
    if version >= FAILURES_DETAILED:
        command.append("--failures-detailed")
    if version >= EXIT_ON_ABORT:
        command.append("--exit-on-abort")
    if several(scripts):
        command.append("--report-per-command" if version >= FAILURES_DETAILED else "--report-latencies")
    command += [f"--define={definition}" for definition in options.define]
    for script in scripts:
        if script.builtin:
            command.append(f"--builtin={script.name}@{script.weight}")
        else:
            command.append(f"--file={os.path.join(folder, script.name)}@{script.weight}")  # noqa: PTH118
    if not any(script.builtin for script in scripts):
        command.append(f"--scale={options.pgbench_scale}")
    return [*command, dsn]


def several(scripts: Sequence[Script]) -> bool:
    """Whether to report by statement (0.3% slower); not for one short built-in statement, see `CLOCK`."""
    if any(script.builtin and script.name == BUILTIN["select"] for script in scripts):
        return False
    return any(script.builtin or sum(text[0] != "\\" for _, text in commands(script.text)) > 1 for script in scripts)


def initialize(program: str, options: Options, dsn: str) -> list[str]:
    command = [program, "--initialize", f"--init-steps={options.init_steps}", f"--scale={options.pgbench_scale}"]
    if options.fillfactor != 100:
        command.append(f"--fillfactor={options.fillfactor}")
    if options.unlogged:
        command.append("--unlogged-tables")
    if options.pgbench_partitions:
        command.append(f"--partitions={options.pgbench_partitions}")
    return [*command, "--quiet", dsn]
