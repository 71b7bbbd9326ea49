"""Servers that others run, of which one may answer oddly or never: a socket here speaks as one that does."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from engine.core.errors import UserError
from engine.postgres import external_queries
from engine.postgres.external_server import check_scratch, look
from tests.support.benchcall import Bench

ASKS_FOR_TLS = (80877103, 80877104)


@contextmanager
def odd_server(version: str, answers_with: bytes | None) -> Iterator[str]:
    """The connection string of a server that lets everybody in, and answers every question alike, or none."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener, version, answers_with), daemon=True).start()
        yield f"host=127.0.0.1 port={listener.getsockname()[1]} user=me dbname=it"
        listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, version: str, answers_with: bytes | None) -> None:
    with suppress(OSError):
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=_speak, args=(peer, version, answers_with), daemon=True).start()


def _speak(peer: socket.socket, version: str, answers_with: bytes | None) -> None:
    with peer, suppress(OSError, struct.error), peer.makefile("rb") as heard:
        while True:
            (length,) = struct.unpack("!I", heard.read(4))
            if struct.unpack("!I", heard.read(length - 4)[:4])[0] not in ASKS_FOR_TLS:
                break
            peer.sendall(b"N")
        status = b"server_version\0" + version.encode() + b"\0"
        peer.sendall(_said(b"R", bytes(4)) + _said(b"S", status) + _said(b"K", bytes(8)) + _said(b"Z", b"I"))
        while kind := heard.read(1):
            heard.read(struct.unpack("!I", heard.read(4))[0] - 4)
            if kind in b"QS" and answers_with is not None:
                peer.sendall((_said(b"1", b"") + _said(b"2", b"") if kind == b"S" else b"") + answers_with)


def _said(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def _one_row(*values: bytes) -> bytes:
    column = b"odd\0" + struct.pack("!IHIHIH", 0, 0, 25, 0xFFFF, 0xFFFFFFFF, 0)
    described = _said(b"T", struct.pack("!H", len(values)) + column * len(values))
    row = _said(b"D", struct.pack("!H", len(values)) + b"".join(struct.pack("!I", len(v)) + v for v in values))
    return described + row + _said(b"C", b"SELECT 1\0") + _said(b"Z", b"I")


NO_ROWS = _said(b"C", b"SELECT 0\0") + _said(b"Z", b"I")


@pytest.mark.parametrize(
    ("version", "said", "why"),
    [
        ("16.3", _one_row(b"\x1b[31mwhat"), r"the server's answer to: Version and state .* is invalid"),
        ("16.3", _one_row(b"1", b"2"), "is invalid"),
        ("16.3", NO_ROWS, "the last operation didn't produce"),
        ("banana", _one_row(b"1"), "what the server reports as its version, 'banana', is not a version of PostgreSQL"),
        ("", _one_row(b"1"), "what the server reports as its version, '', is not a version of PostgreSQL"),
        ("9.6.24", _one_row(b"1"), "PostgreSQL 9.6.24 is too old: 12 or later is needed"),
        ("16.3\x1b[31m<b>", _one_row(b"1"), "is not a version of PostgreSQL"),
    ],
)
def test_a_server_that_answers_oddly_is_refused_in_a_line(version: str, said: bytes, why: str) -> None:
    with odd_server(version, said) as conninfo, pytest.raises(UserError, match=f"^odd: .*{why}"):
        look("odd", conninfo)


@pytest.mark.parametrize("said", [_one_row(b"1", b"2"), NO_ROWS, _one_row(b"")])
def test_a_scratch_database_is_empty_only_if_it_says_so(said: bytes) -> None:
    with odd_server("16.3", said) as conninfo, pytest.raises(UserError, match=r"^odd: "):
        check_scratch("odd", conninfo, "it")


def test_a_server_without_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_queries, "ANSWER_S", 0.3)
    with odd_server("16.3", None) as conninfo, pytest.raises(UserError) as raised:
        look("odd", conninfo)
    assert str(raised.value) == (
        "odd: no answer within 0.3 s to: Version and state of an external server, and the rights of i…"
    )


@pytest.mark.slow
def test_bench_refuses_it_with_one_line(bench: Bench) -> None:
    with odd_server("16.3", _one_row(b"x")) as conninfo:
        command = bench.command("run", "--pg", f"odd={conninfo}", "--repeats", "1", "--steps", "l.i0")
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    (line,) = done.stderr.splitlines()
    assert "odd: the server's answer to: " in line
