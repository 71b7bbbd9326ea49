"""Variants: other ways to compile a build, by the words that a label has for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.core.errors import UserError


@dataclass(frozen=True, slots=True)
class Variant:
    """Additions to the recipe's CFLAGS and to configure's arguments.

    `packages` are a distribution's, by a program of each, of the tools that the usual recipe does not have; `tools` is
    their name in nix/postgres/default.nix, if they are added to it, `system` is for another recipe, which has them.
    """

    cflags: tuple[str, ...] = ()
    configure_flags: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    tools: str = ""
    system: str = ""


CFLAGS = "CFLAGS="
VARIANTS: Mapping[str, Variant] = {
    "O2": Variant(cflags=("-O2",)),
    "O3": Variant(cflags=("-O3",)),
    "nofp": Variant(cflags=("-fomit-frame-pointer",)),
    # Fat, because not every `ar` has the plugin that reads the other ones.
    "lto": Variant(cflags=("-flto=auto", "-ffat-lto-objects")),
    "cassert": Variant(configure_flags=("--enable-cassert",)),
    "jit": Variant(
        configure_flags=("--with-llvm",), packages={"llvm-config": "llvm-dev", "clang": "clang"}, tools="jit"
    ),
    "meson": Variant(packages={"meson": "meson", "ninja": "ninja-build"}, system="meson"),
}
LAYOUT = re.compile(r"layout[1-9][0-9]{0,5}")
FLAG = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9=+._,/-]*")  # one that no shell interprets
NATIVE = re.compile(r"-m\w+=native")


def unknown_variant(word: str) -> UserError:
    return UserError(f"unknown variant ':{word}' (known: {', '.join(VARIANTS)}, layoutN, {CFLAGS}FLAGS)")


def variant(word: str) -> Variant:
    if word.startswith(CFLAGS):
        flags = tuple(word.removeprefix(CFLAGS).split())
        if not flags or not all(map(FLAG.fullmatch, flags)):
            raise UserError(f":{word}: expected compiler flags, as in :CFLAGS=-march=native")
        return Variant(cflags=flags)
    if LAYOUT.fullmatch(word):
        return Variant()  # linked of objects of the other variants: see `engine.builds.derivation`
    if word not in VARIANTS:
        raise unknown_variant(word)
    return VARIANTS[word]
