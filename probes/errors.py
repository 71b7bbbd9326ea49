"""What can go wrong with probes, as one line each. The engine turns it into its own error for the user."""

from __future__ import annotations


class ProbeError(Exception):
    """Something the user can mend; the text is one clear line: what, where, what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(visible(text))


def visible(text: str, most: int = 1000) -> str:
    """Text of a foreign file or program as it can be printed anywhere: cut off, one line, the unprintable escaped."""
    text = text[:most]
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
