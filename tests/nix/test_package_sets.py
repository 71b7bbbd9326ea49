"""Package sets from nixpkgs of other ages: small sets in its shape, evaluated by Nix. Needs Nix."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.outside

NIX = Path(__file__).parents[2] / "nix"
KERNELS = """
  let
    kernel = { version = "6.12.9"; outPath = "/kernel"; drvPath = "/kernel.drv"; configfile = "/config"; TARGET };
  in (import NIX/kernels {
    lib = import NIX/hostpkgs/lib.nix // { getOutput = name: package: "${package}/${name}"; };
    runCommand = name: about: command: kernel // about.passthru or { } // { inherit command; };
    stdenv.hostPlatform = { isx86_64 = true; PLATFORM };
    linuxKernel.kernels = { linux_6_12 = kernel; linux_5_10 = throw "linux 5.10 was removed"; };
    qemu_kvm = ""; pkgsStatic.busybox = ""; e2fsprogs = ""; erofs-utils = "";
  })
"""
SERVERS = """
  let packages = import NIX/hostpkgs { lib = import NIX/hostpkgs/lib.nix; system = "x86_64-linux"; };
  in (packages.callPackage NIX/postgres { versions = import NIX/postgres/versions.nix; LLVM }).variants.jit
"""


def evaluated(expression: str, **words: str) -> Any:
    for name, word in {"NIX": str(NIX), **words}.items():
        expression = expression.replace(name, word)
    command = ["nix-instantiate", "--eval", "--strict", "--json", "--expr", expression]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


@pytest.mark.parametrize(
    ("target", "platform"), [('target = "bzImage";', ""), ("", 'linux-kernel.target = "bzImage";')]
)
def test_removed_kernels_are_left_out_and_images_are_found(target: str, platform: str) -> None:
    words = {"TARGET": target, "PLATFORM": platform}
    assert [entry["label"] for entry in evaluated(f"({KERNELS}).catalog", **words)] == ["6.12"]
    assert "ln -s /kernel/bzImage $out/bzImage" in evaluated(f"({KERNELS}).packages.kernel-6_12.command", **words)


@pytest.mark.parametrize("llvm", ["llvmPackages_18 = null;", 'llvmPackages_18 = throw "LLVM 18 was removed";'])
def test_without_llvm_18_there_is_no_jit(llvm: str) -> None:
    assert evaluated(SERVERS, LLVM=llvm) is None and "CLANG" in evaluated(SERVERS, LLVM="")["env"]
