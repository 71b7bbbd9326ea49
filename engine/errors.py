"""The one kind of error that is meant for the person at the keyboard."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something the user can mend; printed as one line, exit code 2."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not in a table: says which names come nearest.

    `kind` is the thing's word in the vocabulary ("build", "config", "step").
    """
    choices = sorted(set(known))
    near = get_close_matches(name, choices, n=3, cutoff=0.4)
    hint = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(choices)}"
    return UserError(f"unknown {kind} '{name}' ({hint})")
