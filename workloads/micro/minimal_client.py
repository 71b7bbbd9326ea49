"""Sends a server one request and ends: a program of its own, so small that it starts in some milliseconds.

It imports nothing of pgbed, and of Python's library only the necessary: `signal` and `socket` would take three times as
long as all else, for their enumerations, so it uses the underlying `_socket`. Run it with -IS. It implements only the
part of the server's protocol that it needs.

minimal_client.py ask SOCKET USER DATABASE SQL
minimal_client.py start SOCKET USER DATABASE LAUNCHER LOG POSTGRES ARGUMENT…

`start` starts a server and asks every millisecond until it gets an answer, whereas `pg_ctl -w` checks every tenth of a
second. The server stays: it is the child of a process that ends it (SIGQUIT) when the LAUNCHER, a process id, ends.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

SIGKILL, SIGQUIT = 9, 3
ASK_EVERY_S = 0.001
END_MS = 5000
STARTING_UP = b"57P03"
PROTOCOL = 196608
CONNECTION_GONE = (FileNotFoundError, ConnectionError)


class NotYet(Exception):
    pass


def ask(place: str, user: str, database: str, sql: str) -> None:
    """Run one statement. Raises NotYet, OSError or RuntimeError."""
    words = f"user\0{user}\0database\0{database}\0application_name\0pgbed\0\0".encode()
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(place)
        connection.sendall((8 + len(words)).to_bytes(4, "big") + PROTOCOL.to_bytes(4, "big") + words)
        _await_ready(connection)
        text = sql.encode() + b"\0"
        connection.sendall(b"Q" + (4 + len(text)).to_bytes(4, "big") + text)
        _await_ready(connection)
        connection.sendall(b"X\0\0\0\4")
    finally:
        connection.close()


def _await_ready(connection: _socket.socket) -> None:
    unread = b""
    failed = None
    while True:
        while len(unread) < 5 or len(unread) < 1 + int.from_bytes(unread[1:5], "big"):
            part = connection.recv(65536)
            if not part:
                raise failed or ConnectionResetError("the server closed the connection")
            unread += part
        end = 1 + int.from_bytes(unread[1:5], "big")
        kind, body, unread = unread[:1], unread[5:end], unread[end:]
        if kind == b"E":
            fields = {field[:1]: field[1:] for field in body.split(b"\0") if field}
            if fields.get(b"C") == STARTING_UP:
                raise NotYet
            failed = RuntimeError(fields.get(b"M", b"an error without a message").decode(errors="replace"))
        elif kind == b"R" and int.from_bytes(body[:4], "big"):
            raise RuntimeError("the server asks for a password")
        elif kind == b"Z":
            if failed:
                raise failed
            return


def keep(launcher: int, log: str, command: list[str]) -> int:
    """The server's parent: start it, end it when the launcher ends, and wait for its end."""
    import select  # here, as only this process needs it

    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    files = [
        (os.POSIX_SPAWN_DUP2, nothing, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    server = os.posix_spawn(command[0], command, os.environ, file_actions=files)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    poller, ends = select.poll(), os.pidfd_open(server)
    poller.register(ends, select.POLLIN)
    try:
        watched = os.pidfd_open(launcher)
        poller.register(watched, select.POLLIN)
        ended = {descriptor for descriptor, _ in poller.poll()}
        poller.unregister(watched)
    except ProcessLookupError:
        ended = set()
    if ends not in ended:
        os.kill(server, SIGQUIT)
        if not poller.poll(END_MS):
            os.kill(server, SIGKILL)
    return 1 if os.waitpid(server, 0)[1] else 0


def start(place: str, user: str, database: str, launcher: str, log: str, *command: str) -> int:
    """Start a server and wait for its first answer; the exit code is 1 if it ends before."""
    parent, keeper = os.getppid(), os.fork()
    if keeper == 0:
        code = 1
        try:
            code = keep(int(launcher), log, list(command))
        finally:
            os._exit(code)
    while True:
        try:
            ask(place, user, database, "SELECT 1")
            return 0
        except (NotYet, *CONNECTION_GONE):
            pass
        if os.getppid() != parent or os.waitpid(keeper, os.WNOHANG)[0]:
            sys.stderr.write(f"the server ended before it answered; see {log}\n")
            return 1
        time.sleep(ASK_EVERY_S)


def main() -> int:
    what, *arguments = sys.argv[1:]
    try:
        if what == "start":
            return start(*arguments)
        ask(*arguments)
        return 0
    except (NotYet, OSError, RuntimeError) as error:
        sys.stderr.write(f"{error or 'the server is starting up'}\n")
        return 1


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # skip Python's shutdown, which would be timed, too
