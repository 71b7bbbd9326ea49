"""Derivations of blocks, and their realisation by Nix on whichever builder takes them, with Nix 2.8 and later.

Nix copies a block's inputs to a builder and its run folder back. A block whose builder died is tried again; one
that failed on its own is not. A block whose result is in the store is not measured again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.builds import nix
from engine.builds.derivation import read_derivation
from engine.builds.nix_log import FORMAT, NixLog, last_words
from engine.core.errors import UserError
from engine.farm import nix_builders
from engine.farm.block_build import ENDED
from engine.farm.nix_builders import Builders
from engine.system.account import bound_to_engine

EXPRESSION = Path(__file__).with_name("block.nix")
TRIES = 3
POLL_S = 0.2
END_S = 10.0  # for Nix to tell its builders
REASON_CHARS = 300

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FarmBlock:
    """A block and its outcome: `state` is cached, measured, failed or "" (pending); `refused`: no builder takes it."""

    number: int
    drv: str
    out: str
    state: str = ""
    builder: str = ""
    tries: int = 0
    reason: str = ""
    refused: bool = False


def derive(shared: Mapping[str, Any], count: int, nonce: str, roots: Path) -> list[FarmBlock]:
    """The derivations of `count` blocks; they stay in the store while `roots` has links to them."""
    with TemporaryDirectory(dir=nix.cache_folder()) as folder:
        request = Path(folder) / "request.json"
        request.write_text(json.dumps({**shared, "nonce": nonce}))
        given = f"builtins.fromJSON (builtins.readFile {request})"
        numbers = " ".join(map(str, range(1, count + 1)))
        expression = f"map (block: import {EXPRESSION} ({given} // {{ inherit block; }})) [ {numbers} ]"
        command = ["nix-instantiate", "--expr", expression, "--add-root", str(roots / "block")]
        try:
            completed = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except FileNotFoundError as error:
            raise nix.no_nix() from error
    if completed.returncode != 0:
        raise UserError(f"Nix cannot make blocks of this plan: {last_words(completed.stderr)}")
    drvs = [os.path.realpath(line) for line in completed.stdout.split()]
    return [FarmBlock(n, drv, read_derivation(Path(drv)).outputs["out"]) for n, drv in enumerate(drvs, 1)]


def realise(blocks: Sequence[FarmBlock], builders: Builders, progress: Progress) -> list[FarmBlock]:
    """Measure all blocks that are not in the store; return them with their outcomes.

    A block whose builder is lost restarts at once, on another builder if there is one. Raises UserError if no builder
    takes any, and none has been measured before.
    """
    outcomes = {b.number: replace(b, state="cached") if nix.is_valid(b.out) else b for b in blocks}
    for block in outcomes.values():
        if block.state:
            progress(f"block {block.number}: cached: measured before, not again (--again measures again)")
    missing = [block for block in outcomes.values() if not block.state]
    if missing:
        nix_builders.check(builders)
    calls = [_begin(missing, builders)] if missing else []
    try:
        while calls:
            for call in list(calls):
                for block in _look(call, builders, progress):
                    outcomes[block.number] = block
                    begun = block.number in call.seen
                    if not block.refused:
                        progress(_words(block, begun))
                    if not block.state:  # separately, so that it does not wait for the others
                        calls.append(
                            _begin([block], nix_builders.without(builders, block.builder) if begun else builders)
                        )
                if not call.blocks:
                    calls.remove(call)
                    _end([call])
            time.sleep(POLL_S)
    finally:
        _end(calls)
    refused = [block for block in outcomes.values() if block.refused]
    if len(refused) == len(outcomes):
        raise UserError(refused[0].reason)
    for block in refused:
        progress(f"block {block.number}: not begun: {block.reason}")
    return list(outcomes.values())


def link(block: FarmBlock, folder: Path) -> Path:
    """Link a block's run, which keeps it from garbage collection. Raises UserError if another file is in the way."""
    path = folder / f"result-{block.number}"
    if path.exists() and not path.is_symlink():
        raise UserError(f"{path} exists and is not a link to a result: remove it, or choose another folder with --to")
    path.unlink(missing_ok=True)
    command = ["nix-store", "--realise", block.drv, "--add-root", str(path)]
    completed = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if completed.returncode != 0:
        raise UserError(f"{path} cannot be created: {last_words(completed.stderr)}")
    return path


@dataclass(slots=True)
class _Call:
    """One call of Nix: the blocks still to be measured, its log, and each block's builder."""

    blocks: dict[int, FarmBlock]
    process: subprocess.Popen[bytes]
    report: int
    read: int = 0
    log: NixLog = field(default_factory=NixLog)
    seen: dict[int, str] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)  # unreachable builders that were reported


def _begin(blocks: Sequence[FarmBlock], builders: Builders) -> _Call:
    command = ["nix-store", "--realise", *(block.drv for block in blocks), "--keep-going", *FORMAT]
    # This machine may offer the feature as well, as Nix does by default; it is not one of the builders.
    command += ["--max-jobs", "0"]
    if builders.spec is not None:
        command += ["--builders", builders.spec]
    if nix.over_hostpkgs():  # as for servers
        command += ["--option", "sandbox", "false", "--option", "substituters", ""]
    report = os.memfd_create("nix")
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=report,
        preexec_fn=bound_to_engine(signal.SIGTERM),
    )
    return _Call({block.number: replace(block, tries=block.tries + 1) for block in blocks}, process, report)


def _look(call: _Call, builders: Builders, progress: Progress) -> list[FarmBlock]:
    """The outcomes of blocks since the last call; the others remain with the call."""
    ended = call.process.poll() is not None  # before its report is read
    new = os.pread(call.report, os.fstat(call.report).st_size - call.read, call.read)
    call.read += len(new)
    call.log.feed(new + (b"\n" if ended else b""))
    for place, why in nix_builders.unreachable(call.log.reported).items():
        if place not in call.away:
            call.away.add(place)
            progress(f"{place} cannot be reached: {why}")
    settled = []
    for number, block in list(call.blocks.items()):
        # Nix reports a remote build twice: as its own, with the builder's name, and nested as the builder's.
        builds = [build for build in call.log.builds() if build.subject == block.drv]
        if builds and number not in call.seen:
            call.seen[number] = builds[0].builder
            progress(f"block {number}: begun on {call.seen[number]}")
        if ended or (builds and not builds[0].running):
            del call.blocks[number]
            lines = [line for build in builds for line in build.lines]
            settled.append(_settled(block, call, lines, builders))
    return settled


def _settled(block: FarmBlock, call: _Call, lines: Sequence[str], builders: Builders) -> FarmBlock:
    """The outcome of a block that printed these lines; without a state it is to be tried again."""
    begun = call.seen.get(block.number, "")
    block = replace(block, builder=begun or block.builder)
    last = "failed" if block.tries == TRIES else ""
    if nix.is_valid(block.out):
        return replace(block, state="measured")
    if code := next((line.removeprefix(ENDED) for line in lines if line.startswith(ENDED)), ""):
        return replace(block, state="failed", reason=_reason(lines, f"its run ended with {code}"))
    nobody = "" if begun else nix_builders.why_none(call.log.reported, builders)
    if nobody:
        first = block.tries == 1  # later ones ask fewer builders
        return replace(block, state="failed" if first else last, reason=nobody, refused=first)
    lost = [error for error in call.log.errors if block.drv not in error]
    return replace(block, state=last, reason=lost[-1][:REASON_CHARS] if lost else "its builder has ended")


def _words(block: FarmBlock, begun: bool) -> str:
    if block.state == "measured":
        return f"block {block.number}: measured{_on(block)}"
    if block.state == "failed" and block.tries < TRIES:
        return f"block {block.number}: failed{_on(block)}: {block.reason}"
    then = "given up" if block.state else "tried again"
    return f"block {block.number}: {'lost' if begun else 'not begun'}{_on(block)}: {block.reason}; {then}"


def _end(calls: Sequence[_Call]) -> None:
    for call in calls:
        call.process.terminate()
    for call in calls:
        try:
            call.process.wait(END_S)
        except subprocess.TimeoutExpired:
            call.process.kill()
            call.process.wait()
        os.close(call.report)


def _on(block: FarmBlock) -> str:
    return f" on {block.builder}" if block.builder else ""


def _reason(lines: Sequence[str], otherwise: str) -> str:
    said = [line.removeprefix("bench: ") for line in lines if line.startswith("bench: ")]
    return said[-1][:REASON_CHARS] if said else otherwise
