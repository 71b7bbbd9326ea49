"""Text that somebody else wrote: in a record, a server's log, a file's name, an argument of the command line."""

from __future__ import annotations

import re

FORMULA = ("=", "+", "-", "@")  # what a spreadsheet takes for the start of a formula
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")  # of a build, a kernel, an external server; a folder's, too


def visible(text: str) -> str:
    """The text on one line, as it can be printed anywhere: what is not printable stands as its escape.

    Line breaks, escape sequences, direction overrides and bytes that are no text come out as `\\n`, `\\x1b`, `\\u202e`,
    `\\udc80`. For rich it must still become a `Text`: square brackets are left as they are.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def visible_lines(text: str) -> str:
    """The same for a text of several lines, which stay."""
    return "\n".join(visible(line) for line in text.split("\n"))


def csv_text(text: str) -> str:
    """The text as a cell of a CSV file: on one line, a `'` before what a spreadsheet would run as a formula."""
    if not text.startswith(FORMULA):
        return visible(text)
    try:
        float(text)
    except ValueError:
        return f"'{visible(text)}"
    return text
