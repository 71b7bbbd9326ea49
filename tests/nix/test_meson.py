"""The compilation of a server by Meson: the shell of nix/postgres/meson.nix. Needs Nix."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.outside

RECIPE = Path(__file__).parents[2] / "nix" / "postgres" / "meson.nix"


def test_files_compiled_with_other_headers_miss_the_cache(tmp_path: Path) -> None:
    expression = f'(import {RECIPE} {{ lib = {{ }}; meson = ""; ninja = ""; }}).configurePhase'
    phase = json.loads(subprocess.check_output(["nix-instantiate", "--eval", "--json", "--expr", expression]))

    def namespace(added: str) -> bytes:
        script = f"runHook() {{ :; }}\nmeson() {{ :; }}\n{phase}\necho $CCACHE_NAMESPACE"
        env = os.environ | {"ccacheFolder": str(tmp_path), "configureFlags": "", "NIX_CFLAGS_COMPILE": added}
        return subprocess.check_output(["bash", "-ec", script], cwd=tmp_path, env=env)

    one = namespace("-isystem /icu-76 -frandom-seed=a")
    assert one == namespace("-isystem /icu-76 -frandom-seed=b") != namespace("-isystem /icu-77 -frandom-seed=a")
