"""Text that somebody else wrote: in a record, a server's log, a file's name, an argument of the command line.

Any `str` may hold such text, so none is written as it is: what writes to a terminal, a page or a file takes `Visible`,
which only the functions here make. A text that is composed of visible ones is a `str` again.
"""

from __future__ import annotations

import json
import re
from typing import Any, NewType, TextIO, TypeAlias

Untrusted: TypeAlias = str  # every text, until it is made visible
Visible = NewType("Visible", str)  # nothing in it acts on what it is written to

FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes for the start of a formula
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")  # of a build, a kernel, an external server; a folder's, too


def visible(text: Untrusted) -> Visible:
    """The text on one line: what is not printable becomes its escape.

    Line breaks, escape sequences, direction overrides and bytes that are no text become `\\n`, `\\x1b`, `\\u202e`,
    `\\udc80`. Markup of rich, HTML or Markdown stays as it is.
    """
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return Visible(text)


def visible_lines(text: Untrusted) -> Visible:
    """The same for a text of several lines, which stay."""
    return Visible("\n".join(map(visible, text.split("\n"))))


def visible_record(value: Any) -> Any:
    """A record with each of its texts made visible."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): visible_record(item) for key, item in value.items()}
    return [visible_record(item) for item in value] if isinstance(value, list) else value


def visible_json(value: Any, indent: int | None = None, *, allow_nan: bool = False) -> Visible:
    """A value as JSON, in ASCII without control characters."""
    return Visible(json.dumps(value, indent=indent, allow_nan=allow_nan).replace("\x7f", "\\u007f"))


def csv_text(text: Untrusted) -> Visible:
    """The text as a cell of a CSV file: on one line, a `'` before what a spreadsheet would run as a formula."""
    if not text.startswith(FORMULA):
        return visible(text)
    try:
        float(text)
    except ValueError:
        return Visible(f"'{visible(text)}")
    return visible(text)


def write(text: Visible, file: TextIO) -> None:
    """Writes a text and a line break at once."""
    print(text, file=file, flush=True)
