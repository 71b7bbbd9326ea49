"""Errors shown to the user."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something that the user can fix; printed as one line, exit code 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for an unknown name, with the closest known ones; `kind` is a word of the vocabulary ("build")."""
    choices = sorted(set(known))
    near = get_close_matches(name, choices, n=3, cutoff=0.5)
    hint = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(choices) or 'none'}"
    return UserError(f"unknown {kind} '{name}' ({hint})")
