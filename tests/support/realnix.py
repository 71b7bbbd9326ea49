"""The environment that the installed wrapper sets, for tests that call Nix itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.core.model import Build

DEFAULT = re.compile(r"\$\{\w+:-(.*)\}")


def wrapper_environment() -> dict[str, str]:
    """Name and value of each variable; ./check names the wrapper."""
    wrapper = os.environ.get("PGBED_BENCH")
    if not wrapper or shutil.which("nix") is None:
        pytest.skip("needs Nix and the built application (PGBED_BENCH): run ./check")
    lines = (Path(wrapper).parents[1] / "share" / "pgbed" / "environment").read_text().splitlines()
    settings = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    # As a shell reads ${NAME:-VALUE}.
    usual = {name: DEFAULT.fullmatch(value) for name, value in settings.items()}
    return settings | {name: os.environ.get(name) or match[1] for name, match in usual.items() if match}


def as_wrapped(monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, str]:
    """Build as the wrapper of `bench` would, with caches and settings in a folder."""
    settings = wrapper_environment()
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PGBED_SERVERS", raising=False)
    monkeypatch.setenv("PGBED_CCACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    return settings


def derivation(command: str, more: str = "") -> str:
    """A derivation of the store that runs a shell command."""
    expression = f"""
      {{ command }}: derivation {{
        name = "tried"; {more}
        system = builtins.currentSystem;
        builder = "/bin/sh";
        args = [ "-c" command ];
        now = builtins.currentTime;
      }}
    """
    command_line = ["nix-instantiate", "--expr", expression, "--argstr", "command", command]
    return subprocess.run(command_line, capture_output=True, text=True, check=True).stdout.strip()


def says(build: Build) -> str:
    return subprocess.run([Path(build.prefix) / "bin" / "postgres"], capture_output=True, text=True, check=True).stdout
