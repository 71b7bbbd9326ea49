"""Derivations of blocks, and their realisation by Nix on whichever builder takes them, with Nix 2.8 and later.

Nix copies what a block needs to a builder and its run directory back. A block whose builder died is tried again; one
that failed by itself is not. What is in the store already is not measured again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.core.errors import UserError
from engine.core.text import visible
from engine.host.account import bound_to_engine
from engine.postgres import nix
from engine.postgres.derivation import read_derivation

EXPRESSION = Path(__file__).with_name("block.nix")
FEATURE = "pgbed-bench"
TRIES = 3
POLL_S = 0.2
END_S = 10.0  # that Nix has to tell its builders that it ends
NAME = r"'/nix/store/[a-z0-9]{32}-pgbed-block-(\d+)\.drv'"
BEGUN = re.compile(rf"building {NAME}(?: on '([^']+)')?")
# Of a remote build Nix says this of its own go-between, too, whatever ended it: then it is the second that counts.
FAILED = re.compile(rf"builder for {NAME} failed with exit code (\d+)")
FAILED_THERE = re.compile(rf"build of {NAME} on '[^']+' failed: .*failed with exit code (\d+)")
HERE = "this machine"
NOBODY = re.compile(r"is required to build|required system or feature not available|[Uu]nable to start any build")
REFUSED = re.compile(r"cannot build on '([^']+)': (?:error: )?(.+)")
LOST = re.compile(r"error: (.+)")

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Block:
    """A block's derivation and what it makes. `state`: cached, measured, failed; `builder` is who measured it."""

    number: int
    drv: str
    out: str
    state: str = ""
    builder: str = ""
    tries: int = 0
    reason: str = ""


def derive(shared: Mapping[str, Any], count: int, nonce: str, roots: Path) -> list[Block]:
    """The derivations of so many blocks, in the store as long as `roots` has links to them."""
    with TemporaryDirectory(dir=nix.cache_folder()) as folder:
        request = Path(folder) / "request.json"
        request.write_text(json.dumps({**shared, "nonce": nonce}))
        given = f"builtins.fromJSON (builtins.readFile {request})"
        numbers = " ".join(map(str, range(1, count + 1)))
        expression = f"map (block: import {EXPRESSION} ({given} // {{ inherit block; }})) [ {numbers} ]"
        command = ["nix-instantiate", "--expr", expression, "--add-root", str(roots / "block")]
        try:
            made = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        except FileNotFoundError as error:
            raise nix.no_nix() from error
    if made.returncode != 0:
        raise UserError(f"Nix cannot make blocks of this plan: {nix.last_words(made.stderr)}")
    drvs = [os.path.realpath(line) for line in made.stdout.split()]
    return [Block(n, drv, read_derivation(Path(drv)).outputs["out"]) for n, drv in enumerate(drvs, 1)]


def realise(blocks: Sequence[Block], builders: str | None, progress: Progress) -> list[Block]:
    """Has all blocks measured that are not in the store; returns them with what became of each.

    Raises UserError where no builder takes any, and none has been measured before.
    """
    found = {b.number: replace(b, state="cached") if nix.is_valid(b.out) else b for b in blocks}
    for block in found.values():
        if block.state:
            progress(f"block {block.number}: cached: measured before, not again (--again measures again)")
    refused: list[Block] = []
    for number in range(1, TRIES + 1):
        missing = [block for block in found.values() if not block.state]
        if not missing:
            break
        log, seen = _run(missing, builders, progress)
        told = {int(block): code for block, code in FAILED.findall(log) if seen.get(int(block)) == HERE}
        told |= {int(block): code for block, code in FAILED_THERE.findall(log)}
        nobody = _nobody(log, builders) if NOBODY.search(log) else ""
        for block in missing:
            after = replace(block, builder=seen.get(block.number, block.builder), tries=number)
            if nix.is_valid(block.out):
                after = replace(after, state="measured")
                progress(f"block {block.number}: measured{_on(after)}")
            elif block.number in told:
                after = replace(after, state="failed", reason=_reason(log, f"its run ended with {told[block.number]}"))
                progress(f"block {block.number}: failed{_on(after)}: {after.reason}")
            elif block.number not in seen and nobody:
                after = replace(after, state="failed", reason=nobody)
                refused.append(after)
            else:
                lost = [text for text in LOST.findall(log) if "dependencies" not in text]
                reason = visible(lost[0])[:200] if lost else "its builder has ended"
                last = number == TRIES
                after = replace(after, state="failed" if last else "", reason=reason)
                again = "given up" if last else "tried again"
                begun = "lost" if block.number in seen else "not begun"
                progress(f"block {block.number}: {begun}{_on(after)}: {reason}; {again}")
            found[block.number] = after
        if len(refused) == len(found):
            raise UserError(refused[0].reason)
        for block in refused:
            progress(f"block {block.number}: not begun: {block.reason}")
        refused.clear()
    return list(found.values())


def link(block: Block, folder: Path) -> Path:
    """A link to a block's run, which keeps it from garbage collection. Raises UserError where something else is."""
    path = folder / f"result-{block.number}"
    if path.exists() and not path.is_symlink():
        raise UserError(f"{path} is there, and no link to a result: remove it, or name another folder with --out")
    path.unlink(missing_ok=True)
    command = ["nix-store", "--realise", block.drv, "--add-root", str(path)]
    made = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if made.returncode != 0:
        raise UserError(f"{path} cannot be made: {nix.last_words(made.stderr)}")
    return path


def _run(blocks: Sequence[Block], builders: str | None, progress: Progress) -> tuple[str, dict[int, str]]:
    """Nix's log of realising these, and who began which; Nix is ended with whoever waits for it."""
    command = ["nix-store", "--realise", *(block.drv for block in blocks), "--keep-going"]
    if builders is not None:
        command += ["--builders", builders]
    if nix.over_hostpkgs():  # as for servers
        command += ["--option", "sandbox", "false", "--option", "substituters", ""]
    seen: dict[int, str] = {}
    with TemporaryDirectory(dir=nix.cache_folder()) as folder:
        log = Path(folder) / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=sink,
                preexec_fn=bound_to_engine(signal.SIGTERM),
            )
        try:
            with log.open("rb") as said:
                rest = b""
                while process.poll() is None:
                    rest = _tell(rest + said.read(), seen, progress)
                    time.sleep(POLL_S)
                _tell(rest + said.read() + b"\n", seen, progress)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(END_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        return log.read_text(errors="replace"), seen


def _tell(said: bytes, seen: dict[int, str], progress: Progress) -> bytes:
    """Says which blocks were begun by what Nix has said since, and where; returns the line that is not whole yet."""
    *whole, rest = said.split(b"\n")
    for number, builder in BEGUN.findall(b"\n".join(whole).decode(errors="replace")):
        if int(number) not in seen:
            seen[int(number)] = visible(builder) or HERE
            progress(f"block {number}: begun on {seen[int(number)]}")
    return rest


def _on(block: Block) -> str:
    return f" on {block.builder}" if block.builder else ""


def _reason(log: str, otherwise: str) -> str:
    """What `bench` said within a build that failed."""
    told = re.findall(r"bench: (.+)", log)
    return visible(told[-1])[:300] if told else otherwise


def _nobody(log: str, builders: str | None) -> str:
    refused = {place: visible(why)[:200] for place, why in REFUSED.findall(log)}
    if refused:
        why = "; ".join(f"{visible(place)}: {text}" for place, text in refused.items())
        return f"no builder can be reached: {why}"
    if builders == "" or (builders is None and not _configured()):
        return (
            f"there are no builders: name them in /etc/nix/machines, or with --builders "
            f"'ssh-ng://USER@HOST {os.uname().machine}-linux - 1 1 {FEATURE}'"
        )
    return (
        f"no builder takes a block: one is needed that offers the feature {FEATURE} for {os.uname().machine}-linux; "
        "add it to that machine's line in --builders or /etc/nix/machines, and to system-features in its nix.conf"
    )


def _configured() -> bool:
    """Whether Nix knows of any builders."""
    command = ["nix", "--extra-experimental-features", "nix-command", "show-config", "--json"]
    asked = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    try:
        value = str(json.loads(asked.stdout)["builders"]["value"])
    except (ValueError, KeyError, TypeError):
        return True
    if value.startswith("@"):
        file = Path(value[1:])
        value = file.read_text(errors="replace") if file.is_file() else ""
    return any(line.strip() and not line.strip().startswith("#") for line in re.split(r"[;\n]", value))
