"""Variants: what they add to a build, and flags that are refused."""

from __future__ import annotations

import pytest

from engine.builds.compile_variants import variant
from engine.core.errors import UserError


@pytest.mark.parametrize("flags", ["", "-O3; rm -rf /", "-O3'", "$(x)", "@file"])
def test_flags_are_words_that_no_shell_reads_otherwise(flags: str) -> None:
    with pytest.raises(UserError, match="expected compiler flags"):
        variant(f"CFLAGS={flags}")
