"""Restores a file of SQL by psql, in its restricted mode: nothing in the file that begins with a backslash runs."""

from __future__ import annotations

import os
import re
import secrets
import select
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from workloads.client.process import die_with_parent
from workloads.own.dump_statements import BOM, CHUNK, DumpStatement, Source, line_of, mapped, statements
from workloads.own.left_out import TRUST, Sorting

Check = Callable[[], None]
LOOK_S = 0.02
MOST_TOLD = 64 << 10
SHOWN = 60
# The oldest minor releases with \restrict, which came into all branches at once.
RESTRICTS = {13: 22, 14: 19, 15: 14, 16: 10, 17: 6}
VERSION = re.compile(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?")
ERROR = re.compile(r"psql:<stdin>:(\d+): (?:(?:ERROR|FATAL|PANIC):  ([0-9A-Z]{5}): |error: )(.*)")
CONTEXT = re.compile(r"^CONTEXT:  (COPY .*)", re.M)
PERMISSION = "42501"
IN_TRANSACTION = "25001"
# It is refused within a transaction.
LAST = b"\n;\nDISCARD ALL;\n"


def unfit(version: str) -> str:
    """The reason why a psql of a version, as it reports itself, cannot restore, or ""."""
    match = VERSION.search(version)
    major, minor = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
    if major >= 18 or (major in RESTRICTS and minor >= RESTRICTS[major]):
        return ""
    return (f"{version or 'psql'} has no restricted mode (\\restrict), so that a dump could run programs: set psql in "
            "config.toml to one of PostgreSQL 18")  # fmt: skip


def restore(psql: str, path: Path, dsn: str, sorting: Sorting, knows: Callable[[str], bool], check: Check) -> str:
    """Restore a file into a database; return why it cannot be, with its line, or "". `knows`: a server its settings."""
    with mapped(path) as text:
        parent = os.getpid()
        process = subprocess.Popen(
            [psql, "--no-psqlrc", "--no-password", "--quiet", "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=verbose",
             f"--dbname={dsn}", "--file=-"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0,
            env={"LC_ALL": "C", "PATH": os.environ.get("PATH", ""), "PGOPTIONS": "-c client_min_messages=error"},
            preexec_fn=lambda: die_with_parent(parent),
        )  # fmt: skip
        try:
            reported = _fed(process, parts(text, sorting, knows), check)
            process.wait()
        finally:
            process.kill()
            process.wait()
        return failure(reported, process.returncode, text, path)


def parts(text: Source, sorting: Sorting, knows: Callable[[str], bool]) -> Iterator[bytes]:
    """The input of psql: the file, with empty lines for commands left out, so that its lines keep their numbers."""
    token = secrets.token_hex(32).encode()
    yield b"\\restrict " + token + b"\n"
    sent = len(BOM) if text[: len(BOM)] == BOM else 0
    for statement in statements(text):
        if sorting.keeps(statement) and not _sets_unknown(statement, knows):
            yield from _chunks(text, sent, statement.end)
        else:
            yield from _chunks(text, sent, statement.begin)
            yield b"\n" * text[statement.begin : statement.end].count(b"\n")
        sent = statement.end
    yield from _chunks(text, sent, len(text))
    yield LAST


def _sets_unknown(statement: DumpStatement, knows: Callable[[str], bool]) -> bool:
    """Whether it is a SET of a parameter that this server does not know, as a newer pg_dump writes."""
    tokens = statement.tokens
    return tokens[:1] == ("set",) and tokens[2:3] in (("=",), ("to",)) and not knows(tokens[1])


def _chunks(text: Source, begin: int, end: int) -> Iterator[bytes]:
    for place in range(begin, end, CHUNK):
        yield bytes(text[place : min(place + CHUNK, end)])


def _fed(process: subprocess.Popen[bytes], pieces: Iterator[bytes], check: Check) -> str:
    """Write until psql has read all or has ended; return the end of its messages: it stops at the first error."""
    assert process.stdin is not None and process.stderr is not None
    into, out = process.stdin.fileno(), process.stderr.fileno()
    os.set_blocking(into, False)
    os.set_blocking(out, False)
    polled = select.poll()
    polled.register(into, select.POLLOUT)
    polled.register(out, select.POLLIN)
    reported, waiting = bytearray(), bytearray()
    more, writing = True, True
    while True:
        check()
        for descriptor, _ in polled.poll(LOOK_S * 1000):
            if descriptor == out:
                piece = os.read(out, CHUNK)
                reported += piece
                del reported[:-MOST_TOLD]
                if not piece:
                    return reported.decode(errors="replace")
            elif writing:
                while more and len(waiting) < CHUNK:
                    part = next(pieces, None)
                    more = part is not None
                    waiting += part or b""
                try:
                    del waiting[: os.write(into, memoryview(bytes(waiting[:CHUNK])))]
                except BrokenPipeError:
                    more, waiting = False, bytearray()
                if not more and not waiting:
                    writing = False
                    polled.unregister(into)
                    process.stdin.close()


def failure(reported: str, code: int, text: Source, path: Path) -> str:
    """The reason why psql failed, with the line of the script if it reported one; empty if it ended with 0."""
    if code == 0:  # with warnings or without
        return ""
    match = ERROR.search(reported)
    if match is None:
        return f"{path.name}: psql ended with code {code}: {' '.join(reported.split())[-200:]}"
    state, why = match[2] or "", match[3].strip()
    # Of what psql has read, the first line is ours. Of a statement it reports the line in which it has read the end.
    place = _place_of(text, int(match[1]) - 1)
    if place > len(text) and state == IN_TRANSACTION:
        return f"{path.name}: its last transaction has no COMMIT, so that nothing of it stays"
    failed = None
    for statement in statements(text):
        failed = statement
        if statement.end > place:
            break
    begin = 0 if failed is None else failed.begin
    if failed and failed.end - begin > SHOWN and failed.tokens == ("insert", "into"):
        begin = min(place, len(text))
    if context := CONTEXT.search(reported, match.end()):
        why += f" ({context[1]})"
    if state == PERMISSION:
        why += f"; {TRUST}"
    shown = " ".join(bytes(text[begin : begin + 4 * SHOWN]).decode(errors="replace").split())[:SHOWN]
    return f"{path.name}:{line_of(text, begin)}: {' '.join(filter(None, (state, why)))}, in: {shown}"


def _place_of(text: Source, line: int) -> int:
    """The place where a line begins; beyond the text if the text is shorter."""
    place, missing = 0, line - 1
    while missing > 0 and place < len(text):
        chunk = text[place : place + CHUNK]
        newlines = chunk.count(b"\n")
        if newlines < missing:
            missing -= newlines
            place += len(chunk)
            continue
        at = -1
        for _ in range(missing):
            at = chunk.find(b"\n", at + 1)
        return place + at + 1
    return place + missing
