"""Nix's output with `--log-format internal-json`, line by line."""

from __future__ import annotations

import json
from typing import Any


def event(**entries: Any) -> bytes:
    return b"@nix " + json.dumps(entries).encode() + b"\n"


def built(identity: int, drv: str, builder: str = "") -> bytes:
    text = f"building '{drv}'"
    return event(action="start", id=identity, level=3, type=105, text=text, fields=[drv, builder, 1, 1])


def copied(identity: int, path: str) -> bytes:
    return event(action="start", id=identity, level=3, type=100, text=f"copying path '{path}'", fields=[path, "a", "b"])


def waiting(identity: int, text: str) -> bytes:
    return event(action="start", id=identity, level=1, type=111, text=text)


def printed(identity: int, *lines: str) -> bytes:
    return b"".join(event(action="result", id=identity, type=101, fields=[line]) for line in lines)


def error(text: str) -> bytes:
    return event(action="msg", level=0, msg=f"\x1b[31;1merror:\x1b[0m {text}", raw_msg=text)


def stopped(identity: int) -> bytes:
    return event(action="stop", id=identity)
