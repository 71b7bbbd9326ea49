"""Variants: other ways to compile a build, by the words that a label has for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Variant:
    """Additions to the recipe's CFLAGS and to configure's arguments."""

    cflags: tuple[str, ...] = ()
    configure_flags: tuple[str, ...] = ()


CFLAGS = "CFLAGS="
VARIANTS: Mapping[str, Variant] = {
    "O3": Variant(cflags=("-O3",)),
    # Fat, because not every `ar` has the plugin that reads the other ones.
    "lto": Variant(cflags=("-flto=auto", "-ffat-lto-objects")),
    "cassert": Variant(configure_flags=("--enable-cassert",)),
}
FLAG = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9=+._,/-]*")  # one that no shell interprets
NATIVE = re.compile(r"-m\w+=native")


def unknown_variant(word: str) -> UserError:
    return UserError(f"unknown variant ':{word}' (known: {', '.join(VARIANTS)}, {CFLAGS}FLAGS)")


def variant(word: str) -> Variant:
    if word.startswith(CFLAGS):
        flags = tuple(word.removeprefix(CFLAGS).split())
        if not flags or not all(map(FLAG.fullmatch, flags)):
            raise UserError(f":{word}: expected compiler flags, as in :CFLAGS=-march=native")
        return Variant(cflags=flags)
    if word not in VARIANTS:
        raise unknown_variant(word)
    return VARIANTS[word]
