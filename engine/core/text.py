"""Untrusted text: in a record, a server's log, a file name, a command-line argument.

Any `str` may hold such text, so it is never written directly: whatever writes to a terminal, page or file takes
`Visible`, which only these functions create. A text composed of visible ones is a `str` again.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NewType, TextIO, TypeAlias

Untrusted: TypeAlias = str  # any text not yet made visible
Visible = NewType("Visible", str)  # safe to write anywhere

FORMULA = ("=", "+", "-", "@")  # start a formula in a spreadsheet
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")  # of a build, kernel or folder


def visible(text: Untrusted) -> Visible:
    """The text on one line: unprintable characters become their escapes.

    Line breaks, escape sequences, direction overrides and bytes that are not text become `\\n`, `\\x1b`, `\\u202e`,
    `\\udc80`. Markup of rich, HTML or Markdown stays as it is.
    """
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return Visible(text)


def user_path(text: Untrusted) -> Path:
    """The path that a user has typed. `~NAME` without such a user stays as it is, as in a shell."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 (pathlib's raises for it)


def visible_lines(text: Untrusted) -> Visible:
    """Like `visible`, but keep line breaks."""
    return Visible("\n".join(map(visible, text.split("\n"))))


def visible_record(value: Any) -> Any:
    """A record with all its texts made visible."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): visible_record(item) for key, item in value.items()}
    return [visible_record(item) for item in value] if isinstance(value, list) else value


def visible_json(value: Any, indent: int | None = None, *, allow_nan: bool = False) -> Visible:
    """A value as JSON, in ASCII without control characters."""
    return Visible(json.dumps(value, indent=indent, allow_nan=allow_nan).replace("\x7f", "\\u007f"))


def csv_text(text: Untrusted) -> Visible:
    """The text as a CSV cell: on one line, with `'` before anything that a spreadsheet would run as a formula."""
    if not text.startswith(FORMULA):
        return visible(text)
    try:
        float(text)
    except ValueError:
        return Visible(f"'{visible(text)}")
    return visible(text)


def write(text: Visible, file: TextIO) -> None:
    print(text, file=file, flush=True)
