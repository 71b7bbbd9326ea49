"""A real browser without a screen, over the pipe of Chromium's DevTools protocol: opens a page of the disk, offline."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chromium-headless-shell")
PATIENCE_S = 60.0


def chromium() -> str:
    """The browser's program."""
    program = os.environ.get("PGBED_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert program, f"no browser on this machine ({', '.join(NAMES)}); ./check installs one"
    return program


class Browser:
    """One page of a browser of its own. `problems` are what its console and its scripts complained of."""

    def __init__(self, width: int = 1280, height: int = 800, *, dark: bool = False) -> None:
        self.problems: list[str] = []
        self.size, self.dark = (width, height), dark
        self._number = 0
        self._rest = b""
        self._session = ""

    def __enter__(self) -> Self:
        self._profile = tempfile.mkdtemp(prefix="pgbed-browser-")
        commands, ours = os.pipe()
        theirs, answers = os.pipe()

        def pipes() -> None:  # the protocol's places for them
            high = [os.dup2(pipe, 60 + place) for place, pipe in enumerate((commands, answers))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [chromium(), "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-dev-shm-usage", f"--user-data-dir={self._profile}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self._ours, self._theirs = ours, theirs
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(*self.size)
        scheme = "dark" if self.dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._ours)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._theirs)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Asks the browser for something, and returns its answer."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._ours, json.dumps(asked).encode() + b"\0")
        while (message := self._next()).get("id") != self._number:
            self._heed(message)
        assert "error" not in message, message["error"]
        answer: dict[str, Any] = message["result"]
        return answer

    def open(self, page: Path) -> float:
        """Opens a page, and returns how many seconds it took until all of it was there."""
        began = time.monotonic()
        self.call("Page.navigate", url=page.as_uri())
        while self.evaluate("document.readyState") != "complete":
            time.sleep(0.01)
        return time.monotonic() - began

    def evaluate(self, script: str) -> Any:
        """The value of an expression on the page; waits for a promise."""
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        """Makes the window that large."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, to: Path) -> None:
        """Writes the view as a PNG."""
        to.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            assert time.monotonic() < deadline, "the browser did not answer"
            if select.select([self._theirs], [], [], 1.0)[0]:
                read = os.read(self._theirs, 1 << 20)
                assert read, "the browser has gone"
                self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        event: dict[str, Any] = json.loads(message)
        return event

    def _heed(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(str(params["entry"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(str(params["args"]))
        elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
            self.problems.append(f"it asked for {params['request']['url']}")
