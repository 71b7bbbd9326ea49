"""`bench serve`: a page that holds the token gets the interface; nothing else gets anything."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from engine.cli.main import main
from tests.support.benchcall import processes_of
from tests.support.browser import Browser
from tests.support.journal import make_run
from tests.tui.test_terminal_lost import children_of, is_gone, wait_for
from tui.browser import MOST_PAGES
from workloads.process import PR_SET_PDEATHSIG

ROOT = Path(__file__).parents[2]
TOKEN = "a-token.of_our~own"
Page = Callable[[aiohttp.ClientSession, str], Awaitable[None]]


def _die_with_test() -> None:
    """A test that is killed leaves no server behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


@contextmanager
def served(*options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server's process, and what it printed first."""
    command = [sys.executable, "-m", "engine", "serve", *options]
    given = os.environ | {"PYTHONPATH": str(ROOT), **environment}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, env=given, stdout=pipe, stderr=pipe, text=True, start_new_session=True, preexec_fn=_die_with_test
    ) as server:
        try:
            assert server.stdout is not None and server.stderr is not None
            yield server, server.stdout.readline() or server.stderr.read()
        finally:
            server.kill()


def open_page(address: str, act: Page) -> None:
    async def session() -> None:
        async with aiohttp.ClientSession(address) as client:
            await asyncio.wait_for(act(client, TOKEN), 60)

    asyncio.run(session())


async def until(websocket: aiohttp.ClientWebSocketResponse, word: bytes) -> None:
    heard = b""
    while word not in heard:
        message = await websocket.receive()
        assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), (message, heard[-2000:])
        heard += message.data if isinstance(message.data, bytes) else b""


async def refused(client: aiohttp.ClientSession, _: str) -> None:
    for path in ("/", "/?token=", "/?token=wrong", f"/?token={TOKEN[:-1]}", "/ws/wrong", "/ws/%00", f"/ws/{TOKEN}"):
        async with client.get(path) as answer:
            assert (answer.status, TOKEN in await answer.text()) == (403, False), path
    for path in ("/ws", "/ws/", "/ws/wrong", f"/ws/{TOKEN}"):
        with pytest.raises(aiohttp.WSServerHandshakeError) as error:
            await client.ws_connect(path)
        assert error.value.status in (403, 404), path


async def page_of(client: aiohttp.ClientSession, token: str) -> str:
    """A page's websocket."""
    async with client.get(f"/?token={token}") as answer:
        text = await answer.text()
        assert answer.status == 200, text
    return text.partition('data-session-websocket-url="ws://')[2].partition('"')[0].partition("/")[2]


async def a_stranger(client: aiohttp.ClientSession, token: str) -> None:
    """Somebody's page in the same browser, or somebody's name that leads here."""
    page, port = await page_of(client, token), client._base_url.port  # type: ignore[union-attr]
    for name, value in (
        ("Origin", "http://evil.example"), ("Origin", f"http://localhost:{port}0"), ("Origin", "null"),
        ("Host", "evil.example"), ("Host", f"evil.example:{port}"), ("Host", "localhost:x"),
    ):  # fmt: skip
        async with client.get(f"/?token={token}", headers={name: value}) as answer:
            text = await answer.text()
            assert answer.status == 403 and "evil" not in text and "/ws/" not in text, (name, value)
        with pytest.raises(aiohttp.WSServerHandshakeError) as error:
            await client.ws_connect(f"/{page}", headers={name: value})
        assert error.value.status == 403, (name, value)
    for host in ("localhost", "127.0.0.1", "[::1]"):
        async with client.get(f"/?token={token}", headers={"Host": f"{host}:9000"}) as answer:
            assert answer.status == 200, "a tunnel's port may be another"


async def too_many(client: aiohttp.ClientSession, token: str) -> None:
    """More pages than may be open, each with a websocket that can be opened once."""
    pages = [await page_of(client, token) for _ in range(MOST_PAGES)]
    opened = [await client.ws_connect(f"/{page}") for page in pages]
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        await client.ws_connect(f"/{pages[0]}")
    assert error.value.status == 403, "it has been opened"
    async with client.get(f"/?token={token}") as answer:
        assert answer.status == 503 and "8 pages are open already" in await answer.text()
    for websocket in opened:
        await until(websocket, b"finished")
        await websocket.close()


async def shown(client: aiohttp.ClientSession, token: str) -> None:
    websocket_path = await page_of(client, token)
    assert websocket_path.startswith("ws/") and token not in websocket_path
    async with client.get(f"/?token={token}") as answer:
        page = await answer.text()
        assert answer.status == 200 and "https://" not in page
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        nonce = answer.headers["Content-Security-Policy"].partition("'nonce-")[2].partition("'")[0]
        assert f'<script nonce="{nonce}">' in page, "else keys go nowhere until the page is clicked on"
    for path in ("js/textual.js", "css/xterm.css", "fonts/RobotoMono-VariableFont_wght.ttf"):
        async with client.get(f"/static/{path}") as answer:
            assert answer.status == 200 and path in page
    async with client.ws_connect(f"/{websocket_path}?width=100&height=30") as websocket:
        await until(websocket, b"finished")
        await websocket.send_str(json.dumps(["stdin", "5"]))
        await until(websocket, b"HISTORY")
        await websocket.send_str(json.dumps(["stdin", "q"]))
        while (await websocket.receive()).type is not aiohttp.WSMsgType.CLOSE:
            pass


def test_a_page_with_the_token_gets_the_interface_which_ends_with_the_server(tmp_path: Path) -> None:
    run = make_run(tmp_path / "out", repeats=1)
    with served(str(run), "--port", "0", PGBED_SERVE_TOKEN=TOKEN) as (server, said):
        address = said.split()[1].partition("?")[0]
        assert address.startswith("http://127.0.0.1:") and TOKEN not in said, "it may be a log that this goes to"
        open_page(address, refused)
        open_page(address, a_stranger)
        assert not children_of(server.pid)
        open_page(address, too_many)
        wait_for(lambda: not children_of(server.pid), "the interfaces to end")
        open_page(address, shown)
        wait_for(lambda: not children_of(server.pid), "the interface to end")

        async def left_open(client: aiohttp.ClientSession, token: str) -> None:
            async with client.ws_connect(f"/{await page_of(client, token)}") as websocket:
                await until(websocket, b"finished")
                (interface,) = children_of(server.pid)
                for pid in (server.pid, interface):
                    assert TOKEN.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
                port = address.rstrip("/").rpartition(":")[2]
                with served("--port", port, "--out", str(tmp_path)) as (second, refusal):
                    assert second.wait(30) == 2
                    assert refusal.splitlines() == [
                        f"bench: cannot listen on 127.0.0.1, port {port}: another process listens there; "
                        "--port 0 picks a free port"
                    ]
                server.send_signal(signal.SIGINT)
                while (await websocket.receive()).type is not aiohttp.WSMsgType.CLOSE:
                    pass
                assert await asyncio.to_thread(server.wait, 30) == 130
                assert is_gone(interface)

        open_page(address, left_open)


def test_an_interface_that_is_starting_ends_with_the_server(tmp_path: Path) -> None:
    run = make_run(tmp_path / "out", repeats=1)
    with served(str(run), "--port", "0", PGBED_SERVE_TOKEN=TOKEN) as (server, said):

        async def ends(client: aiohttp.ClientSession, token: str) -> None:
            pages = [await page_of(client, token) for _ in range(MOST_PAGES)]
            await asyncio.gather(*(client.ws_connect(f"/{page}") for page in pages))
            server.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(server.wait, 30) == 130

        open_page(said.split()[1].partition("?")[0], ends)
        assert not list(processes_of(tmp_path))


@pytest.mark.outside
def test_a_browser_shows_the_interface_and_not_the_token(tmp_path: Path) -> None:
    run = make_run(tmp_path / "out", repeats=1)
    with served(str(run), "--port", "0", PGBED_SERVE_TOKEN=TOKEN) as (_, said), Browser() as browser:
        address = said.split()[1].partition("?")[0]
        browser.call("Page.navigate", url=f"{address}?token={TOKEN}")
        wait_for(lambda: bool(browser.evaluate("document.body?.classList.contains('-first-byte')")), "the terminal")
        assert browser.evaluate("location.href") == address
        assert browser.evaluate("document.querySelector('#closed a').href") == f"{address}?token={TOKEN}"


def test_a_token_is_made_where_none_is_given_and_a_killed_server_leaves_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path, repeats=1)
    with served(str(run), "--port", "0", "--host", "localhost") as (server, said):
        address, _, token = said.split()[1].rstrip(";").partition("?token=")
        assert len(token) >= 32

        async def killed(client: aiohttp.ClientSession, _: str) -> None:
            async with client.ws_connect(f"/{await page_of(client, token)}") as websocket:
                await until(websocket, b"finished")
                (interface,) = children_of(server.pid)
                server.kill()
                await asyncio.to_thread(wait_for, lambda: is_gone(interface), "the interface to notice")

        open_page(address, killed)


def test_what_cannot_be_served_is_said_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGBED_SERVE_TOKEN", raising=False)
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    short = tmp_path / "short"
    short.write_text("short\n")
    short.chmod(0o600)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o600)
    monkeypatch.setenv("PGBED_OUT", str(tmp_path))
    for options, words in (
        (["--token-file", str(file)], "others can read or write it: chmod 600 it"),
        (["--token-file", str(short)], "the token must be 16 to 256 letters, digits"),
        (["--token-file", str(tmp_path / "none")], "No such file"),
        (["--token-file", str(fifo)], "not a regular file"),
        (["--port", "65536"], "65536 is not a port: give a number from 1 to 65535, or 0"),
        (["--port", "80x"], "80x is not a port"),
        (["nothing"], "no run 'nothing'"),
    ):
        done = CliRunner().invoke(main, ["serve", *options])
        assert done.exit_code == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    monkeypatch.setenv("PGBED_SERVE_TOKEN", "no good")
    assert "PGBED_SERVE_TOKEN: the token must be" in CliRunner().invoke(main, ["serve"]).stderr
