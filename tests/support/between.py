"""A relay between a client and a server: it listens on TCP, and may change the server's messages."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

PART_BYTES = 65536


class Relay:
    """Passes connections to 127.0.0.1 on to a Unix socket, in threads. A context manager.

    In what the server says `old` becomes `new`, of the same length; `pooling` changes the number of the session's
    process, as one does that hands out sessions of its own.
    """

    def __init__(self, target: Path, old: bytes = b"", new: bytes = b"", *, pooling: bool = False) -> None:
        self._target, self._old, self._new, self._pooling = target, old, new, pooling
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self.cut()

    def cut(self) -> None:
        """Ends all connections, as a network does; new ones are still taken."""
        ended, self._open = self._open, []
        for end in ended:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._target))
                self._open += [client, server]
                for source, sink, changed in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass, args=(source, sink, changed), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, changed: bool) -> None:
        with suppress(OSError):
            while part := source.recv(PART_BYTES):
                sink.sendall(self._changed(part) if changed else part)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _changed(self, part: bytes) -> bytes:
        if self._old:
            part = part.replace(self._old, self._new)
        key = part.find(b"K\0\0\0\x0c") if self._pooling else -1
        if key >= 0:  # BackendKeyData: length, process, key
            part = part[: key + 5] + (1).to_bytes(4, "big") + part[key + 9 :]
        return part
