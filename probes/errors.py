"""Errors of probes, one line each. The engine turns them into its own error for the user."""

from __future__ import annotations


class ProbeError(Exception):
    """An error that the user can fix; the text is one clear line: what, where, what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(visible(text))


def visible(text: str, most: int = 1000) -> str:
    """Make foreign text printable: truncated, on one line, unprintable characters escaped."""
    text = text[:most]
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
