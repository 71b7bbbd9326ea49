"""Variants: what they add to a build, and flags that are refused."""

from __future__ import annotations

import pytest

from engine.builds.compile_variants import variant
from engine.builds.derivation import Derived, laid_out
from engine.core.errors import UserError


@pytest.mark.parametrize("flags", ["", "-O3; rm -rf /", "-O3'", "$(x)", "@file"])
def test_flags_are_words_that_no_shell_reads_otherwise(flags: str) -> None:
    with pytest.raises(UserError, match="expected compiler flags"):
        variant(f"CFLAGS={flags}")


def test_what_meson_compiles_has_no_layouts() -> None:
    server = Derived("/nix/store/a.drv", "/nix/store/a", "/nix/store/a-dev", "")
    assert laid_out(server, "18.6-meson", ("meson",)) == server
    with pytest.raises(UserError, match="a layout is linked of what make has compiled"):
        laid_out(server, "18.6-meson-layout1", ("meson", "layout1"))
