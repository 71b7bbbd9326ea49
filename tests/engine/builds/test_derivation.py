"""Derivations made from others; needs Nix."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engine.builds import derivation
from engine.builds.catalog import catalog

pytestmark = [pytest.mark.outside, pytest.mark.usefixtures("real")]


def test_a_derivation_without_a_change_is_the_same() -> None:
    known = next(entry for entry in catalog() if entry.label == "13.16")
    same = derivation.derive(known.drv, derivation.Change())
    assert (same.drv, same.out) == (known.drv, known.out)


def test_flags_for_this_machine_only_reach_the_compiler() -> None:
    known = derivation.read_derivation(Path(next(entry for entry in catalog() if entry.label == "13.16").drv))
    plain, native = (
        derivation.arguments(known, derivation.Change(cflags=(flag,)))["env"] for flag in ("-O3", "-march=native")
    )
    assert {name: native[name] for name in native.keys() - plain.keys()}["NIX_ENFORCE_NO_NATIVE"] == "0"
    assert (native["preferLocalBuild"], native["allowSubstitutes"]) == (True, False)


def test_a_derivation_as_nixpkgs_writes_it_comes_out_the_same() -> None:
    expression = """
      let source = builtins.toFile "a-source" "it"; in derivation {
        name = "tried"; system = "x86_64-linux"; builder = "/bin/sh"; outputs = [ "dev" "out" ];
        args = [ "-c" "cat ${source}" ]; __structuredAttrs = false; strictDeps = true; patches = "";
        buildPhase = "tab\\there \\"quoted\\" \\\\back\\nline $x \\${y}"; buildRecord = "{\\"patches\\":[]}";
        buildInputs = [ (derivation { name = "input"; system = "x86_64-linux"; builder = "/bin/sh"; }) ];
      }
    """
    printed = subprocess.run(["nix-instantiate", "--expr", expression], capture_output=True, text=True, check=True)
    drv = printed.stdout.strip().partition("!")[0]
    assert derivation.derive(drv, derivation.Change()).drv == drv
