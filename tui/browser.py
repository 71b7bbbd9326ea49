"""`python -m tui.browser [RUN]`: the interface in a browser, for `bench serve`, which has checked the arguments.

A page is a terminal, whose interface is a process of its own, as in any other terminal. Anyone who can open it can do
what the user who serves it can: start runs, stop them. Other users of the machine reach a port on loopback as well, and
so do a browser's other pages. Therefore only the library's own files are served without the token, nothing at all under
a name that is not this server's (a stranger's name may resolve to this address), and each page has one websocket, by a
secret of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import hmac
import ipaddress
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import aiohttp_jinja2
import jinja2
from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int
from yarl import URL

from engine.core.errors import UserError
from engine.core.text import visible, write
from tui import MODES

TOKEN = "PGBED_SERVE_TOKEN"  # an environment variable, since all users can see a process's arguments
ENDING_S = 5.0  # grace period for the interfaces before they are killed
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FONT = (8, 16, 40)  # pixels: minimum, default, maximum
REFUSED = "Refused: open the whole address that `bench serve` printed, with its token.\n"
NOT_HERE = "Refused: open the address that `bench serve` printed, by that name.\n"
MOST_PAGES = 8  # each has a process of its own
FULL = f"Refused: {MOST_PAGES} pages are open already; close one.\n"
# Everything is served from here: a browser fetches no font or script from another machine.
POLICY = (
    "default-src 'self'; script-src 'self' 'nonce-{}'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self' ws: wss:; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Interface(AppService):
    def __init__(self, words: list[str], websocket: web.WebSocketResponse, server: Server) -> None:
        super().__init__(
            words[0],
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=websocket.close,  # type: ignore[arg-type]  # its result is ignored
            download_manager=server.download_manager,
        )
        self._words = words

    async def _open_app_process(self, width: int = 80, height: int = 24) -> asyncio.subprocess.Process:
        """Start the interface without the library's shell."""
        pipe = asyncio.subprocess.PIPE
        environment = self._build_environment(width, height)
        self._process = await asyncio.create_subprocess_exec(
            *self._words, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
        )
        self._stdin = self._process.stdin
        return self._process

    async def run(self) -> None:
        """Forward the output, and tell the page when the interface has ended, for whatever reason."""
        await super().run()
        await self.remote_close()

    async def ended(self) -> None:
        """Wait until it has ended; kill it if it does not."""
        if self._process is not None:
            try:
                await asyncio.wait_for(self._process.wait(), ENDING_S)
            except TimeoutError:
                self.kill()

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


class BrowserServer(Server):
    """Serves interfaces to clients that know the token; `close` ends them all."""

    def __init__(self, words: list[str], token: str, title: str, host: str = "localhost") -> None:
        super().__init__(words[0], title=title, templates_path=Path(__file__).parent)
        self._words = words
        self._token = token.encode()
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}
        self._pages: list[str] = []  # secrets of pages without a websocket yet, the newest last
        self._open: dict[Interface, web.WebSocketResponse] = {}
        self._ending = False

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._by_name])
        aiohttp_jinja2.setup(app, loader=jinja2.FileSystemLoader(self.templates_path))
        app.add_routes(
            [
                web.get("/", self.handle_index),
                web.get("/ws/{page}", self.handle_websocket),
                web.static("/static", self.statics_path),
            ]
        )
        app.on_response_prepare.append(_add_headers)
        return app

    @web.middleware
    async def _by_name(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests for another host name. Any port is valid (a tunnel may use its own), and any address."""
        try:
            url = URL.build(scheme="http", authority=request.host)
            known = url.host is not None and (url.host in self._names or _is_address(url.host))
            origin = URL(request.headers.get("Origin", f"{request.scheme}://{request.host}"))
            same = origin.authority == URL.build(scheme=origin.scheme, authority=request.host).authority
        except ValueError:
            known = same = False
        if not (known and same):
            raise web.HTTPForbidden(text=NOT_HERE)
        return await handler(request)

    async def handle_index(self, request: web.Request) -> web.Response:
        if not hmac.compare_digest(request.query.get("token", "").encode(errors="replace"), self._token):
            raise web.HTTPForbidden(text=REFUSED)
        if len(self._open) >= MOST_PAGES:
            raise web.HTTPServiceUnavailable(text=FULL)
        self._pages = [*self._pages[1 - MOST_PAGES :], secrets.token_urlsafe(24)]
        secure = request.headers.get("X-Forwarded-Proto", request.scheme) == "https"  # behind a proxy
        nonce = secrets.token_urlsafe(16)
        values = {
            "title": self.title,
            "nonce": nonce,
            "websocket_url": f"{'wss' if secure else 'ws'}://{request.host}/ws/{self._pages[-1]}",
            "again": str(request.rel_url),
            "font_size": max(FONT[0], min(to_int(request.query.get("fontsize", ""), FONT[1]), FONT[2])),
        }
        page = aiohttp_jinja2.render_template("browser.html", request, values)
        page.headers["Content-Security-Policy"] = POLICY.format(nonce)
        return page

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run an interface until it or its page ends."""
        page = request.match_info["page"]
        if page not in self._pages:
            raise web.HTTPForbidden(text=REFUSED)
        self._pages.remove(page)
        if self._ending or len(self._open) >= MOST_PAGES:
            raise web.HTTPServiceUnavailable(text=FULL)
        websocket = web.WebSocketResponse(heartbeat=15)
        interface = Interface(self._words, websocket, self)
        columns, rows = (to_int(request.query.get(name, ""), usual) for name, usual in (("width", 80), ("height", 24)))
        self._open[interface] = websocket  # from here on `close` waits for it, even while it starts
        try:
            await websocket.prepare(request)
            if self._ending:
                return websocket
            await interface.start(columns, rows)
            with suppress(
                AssertionError, AttributeError, LookupError, TypeError, ValueError
            ):  # malformed messages from the page
                await self._process_messages(websocket, interface)
        finally:
            try:
                with suppress(Exception):  # it has ended; errors of its output no longer matter
                    await asyncio.wait_for(interface.stop(), ENDING_S)
                await interface.ended()
            finally:
                del self._open[interface]
                await websocket.close()
        return websocket

    async def close(self) -> None:
        self._ending = True
        await asyncio.gather(*(websocket.close() for websocket in self._open.values()), return_exceptions=True)
        while self._open:
            await asyncio.sleep(0.02)


def _is_address(host: str) -> bool:
    """Whether `host` is an IP address, and not a name, which a stranger could let resolve to this server."""
    with suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return False


def _end(ended: asyncio.Future[int], number: int) -> None:
    if not ended.done():
        ended.set_result(number)


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


async def serve(server: BrowserServer, host: str, port: int, started: Callable[[int], object]) -> int:
    """Serve until a signal; return its number. `started` gets the open port. Raises UserError if that cannot open."""
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, partial(_end, ended, number))
    runner = web.AppRunner(await server._make_app(), access_log=None, shutdown_timeout=ENDING_S)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise UserError(f"cannot listen on {host}, port {port}: {_reason(error)}") from None
        started(runner.addresses[0][1])
        signalled = await ended
        await server.close()
        return signalled
    finally:
        await runner.cleanup()


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another process listens there; --port 0 picks a free port"
    number = error.errno or 0  # negative if the name does not resolve
    reason = os.strerror(number) if number > 0 else error.strerror or str(error)
    return reason.lower()


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address(host: str, port: int, token: str) -> str:
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/?token={token}"


def main(words: Sequence[str] | None = None) -> int:
    """Serve until interrupted; `words` replace the process's arguments."""
    parser = argparse.ArgumentParser(prog="bench serve", description="The terminal interface of bench in a browser.")
    parser.add_argument("run", nargs="?", help="run directory to show")
    parser.add_argument("--out", required=True, help="folder that holds the runs")
    parser.add_argument("--screen", choices=MODES, default="live")
    parser.add_argument("--glyphs", default="braille")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", required=True, type=int)
    arguments = parser.parse_args(words)
    given = os.environ.pop(TOKEN, "")
    token = given or secrets.token_urlsafe(24)
    options = (f"--out={arguments.out}", f"--screen={arguments.screen}", f"--glyphs={arguments.glyphs}")
    command = [sys.executable, "-m", "tui", *([arguments.run] if arguments.run else []), *options]
    server = BrowserServer(command, token, f"bench on {socket.gethostname()}", arguments.host)

    def say(port: int) -> None:
        shown = address(arguments.host, port, "TOKEN" if given else token)
        write(visible(f"open {shown}{' with your token' if given else ''}; Ctrl-C ends it, runs continue"), sys.stdout)
        if not is_loopback(arguments.host):
            words = (
                "? not encrypted: anyone who reads the network traffic learns the token; safer without --host, through "
                f"`ssh -L {port}:localhost:{port} {socket.gethostname()}`"
            )
            write(visible(words), sys.stderr)

    try:
        return 128 + asyncio.run(serve(server, arguments.host, arguments.port, say))
    except UserError as error:
        write(visible(f"bench: {error}"), sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
