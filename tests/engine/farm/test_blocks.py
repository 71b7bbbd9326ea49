"""Messages while Nix measures blocks, and the fate of refused ones; only Nix is made up."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from engine.builds import nix, resolve
from engine.core.errors import UserError
from engine.core.model import Build
from engine.farm.block_build import ENDED
from engine.farm.block_plan import check
from engine.farm.blocks import FarmBlock, realise
from engine.farm.nix_builders import Builders
from engine.plan.request import Request
from tests.support.nixevents import built, error, printed, stopped
from tests.support.smalltree import make_tree

HASH = "0" * 32
NOBODY = error("unable to start any build; remote machines may not have all required system features.")


# lib.run of the flake, over a library of Nix's own functions.
RUN = """
let
  lib = builtins // {
    filterAttrs = keep: set: builtins.removeAttrs set (builtins.filter (n: !keep n set.${n}) (builtins.attrNames set));
    nameValuePair = name: value: { inherit name value; };
    optionalAttrs = is: set: if is then set else { };
  };
  of = name: derivation { inherit name; system = builtins.currentSystem; builder = "/bin/sh"; } // { version = "1"; };
  run = import NIX/block.nix {
    inherit lib;
    stdenv.hostPlatform.system = builtins.currentSystem;
    bench = of "bench";
    hyperfine = of "hyperfine";
    pgbench = of "pgbench";
    postgres.catalog = [ ];
  };
in
{ inherit (run { plan = PLAN; block = 1; servers.mine = of "server"; }) programs requiredSystemFeatures; }
"""


@pytest.mark.outside
def test_the_largest_plan_is_evaluated_with_its_programs(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    for workload, variable in (("pgbench", "PGBED_PGBENCH"), ("micro", "PGBED_HYPERFINE"), ("insert", "")):
        plan.write_text(f'builds = ["mine"]\nworkload = "{workload}"\n# {"x" * 900_000}\n')
        text = RUN.replace("NIX", str(Path(__file__).parents[3] / "nix")).replace("PLAN", str(plan))
        done = subprocess.run(
            ["nix-instantiate", "--eval", "--strict", "--json", "-"], input=text, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-500:]
        programs, features = json.loads(done.stdout).values()
        assert (variable in programs if variable else programs == "{}") and features == ["benchmark"]


NIX_STORE = """#!/bin/sh
if [ "$1" = --check-validity ]; then test -e {folder}/$2; exit; fi
echo "$@" >> {folder}/calls
{script}
"""
DRV = "/nix/store/{}-pgbed-block-{}.drv"
LINE = "ssh-ng://{} x86_64-linux - 1 1 benchmark"


def writes(report: bytes) -> str:
    """A shell command that writes what Nix would report."""
    return f"cat >&2 <<'END'\n{report.decode()}END"


@pytest.fixture
def realised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, int, str], list[FarmBlock]]:
    """Realises blocks over a Nix that is this script; an output is a file. Prints all messages."""

    def realised(script: str, count: int, builders: str = LINE.format("b")) -> list[FarmBlock]:
        program = tmp_path / "bin" / "nix-store"
        program.parent.mkdir(exist_ok=True)
        program.write_text(NIX_STORE.format(folder=tmp_path, script=script.replace("@folder", str(tmp_path))))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        monkeypatch.setenv("PGBED_PACKAGE_SET", "nixpkgs")
        monkeypatch.setattr(nix, "STATE", tmp_path / "none")  # the store is this user's, also where a build is tested
        blocks = [FarmBlock(n, DRV.format(HASH, n), f"out{n}") for n in range(1, count + 1)]
        return realise(blocks, Builders(builders), print)

    return realised


@pytest.mark.slow
def test_measured_blocks_are_returned_without_a_builder_left(
    realised: Callable[..., list[FarmBlock]], capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = realised(f": > @folder/out1\n: > @folder/out3\n{writes(NOBODY)}", 4)
    assert [(block.number, block.state) for block in blocks] == [
        (1, "measured"), (2, "failed"), (3, "measured"), (4, "failed"),
    ]  # fmt: skip
    assert "no builder takes a block" in blocks[1].reason
    said = capsys.readouterr().out
    assert said.count("block 2: not begun: no builder takes a block") == 1 and "block 1: measured" in said


@pytest.mark.slow
def test_builders_that_refuse_are_listed_with_reasons(realised: Callable[..., list[FarmBlock]]) -> None:
    nobody = writes(NOBODY)
    with pytest.raises(UserError, match="no builder takes a block"):
        realised(nobody, 2)
    with pytest.raises(UserError, match="no builder takes a block: 'garbage' does not offer the feature benchmark; a"):
        realised(nobody, 2, "garbage")
    with pytest.raises(UserError, match="'ssh://a', 'ssh://b' do not offer the feature"):
        realised(nobody, 2, "ssh://a x86_64-linux - 1 1 kvm ; ssh://b")
    with pytest.raises(UserError, match="there are no builders: name them in /etc/nix/machines, or with --builders"):
        realised(nobody, 2, "")
    with pytest.raises(UserError, match="--builders /no/file cannot be read: No such file"):
        realised(nobody, 2, "@/no/file")
    refused = "cannot build on 'ssh-ng://b': error: cannot open connection to remote store 'ssh-ng://b': "
    away = writes(
        b"ssh: Could not resolve hostname b: Name or service not known\n"
        + error(f"{refused}error: unexpected end-of-file")
        + NOBODY
    )
    reason = "no builder can be reached: ssh-ng://b: ssh: Could not resolve hostname b: Name or service not known"
    with pytest.raises(UserError, match=f"^{reason}$"):
        realised(away, 2)


@pytest.mark.slow
def test_a_block_whose_run_fails_is_not_tried_again(
    realised: Callable[..., list[FarmBlock]], capsys: pytest.CaptureFixture[str]
) -> None:
    drv = DRV.format(HASH, 1)
    # The builder's own report of its build stands within Nix's own of it.
    said = built(1, drv, "ssh-ng://b") + built(2, drv) + printed(2, "bench: no room", f"{ENDED}2") + stopped(2)
    (block,) = realised(writes(said + error(f"builder for '{drv}' failed with exit code 2") + stopped(1)), 1)
    assert (block.state, block.builder, block.tries, block.reason) == ("failed", "ssh-ng://b", 1, "no room")
    out = capsys.readouterr().out
    assert out.count("begun on ssh-ng://b") == 1 and "block 1: failed on ssh-ng://b: no room" in out


@pytest.mark.slow
def test_a_block_that_is_lost_begins_again_at_once_and_elsewhere(
    realised: Callable[..., list[FarmBlock]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one, two = (DRV.format(HASH, number) for number in (1, 2))
    lost = built(1, one, "ssh-ng://a") + built(2, two, "ssh-ng://b") + error("unexpected end-of-file")
    lost += error(f"builder for '{one}' failed with exit code 1;") + stopped(1)
    # The second block ends only after the first has been measured by another call.
    script = f"""case $* in
  *block-2*)
    {writes(lost)}
    until [ -e @folder/out1 ]; do :; done
    : > @folder/out2 ;;
  *)
    {writes(built(1, one, "ssh-ng://b"))}
    : > @folder/out1 ;;
esac"""
    blocks = realised(script, 2, " ; ".join(map(LINE.format, "ab")))
    assert [(block.state, block.builder, block.tries) for block in blocks] == [
        ("measured", "ssh-ng://b", 2), ("measured", "ssh-ng://b", 1),
    ]  # fmt: skip
    said = capsys.readouterr().out
    assert "block 1: lost on ssh-ng://a: unexpected end-of-file; tried again" in said
    first, second = (tmp_path / "calls").read_text().splitlines()
    assert "--max-jobs 0" in first, "this machine is no builder, though Nix offers the feature on every one"
    assert "ssh-ng://a" in first and "ssh-ng://a" not in second and LINE.format("b") in second


def test_only_builds_of_trees_are_for_builders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, install = tmp_path / "tree", tmp_path / "install"
    make_tree(tree)
    (install / "bin").mkdir(parents=True)
    (install / "bin" / "postgres").write_text("#!/bin/sh")
    (install / "bin" / "postgres").chmod(0o755)
    check(Request(builds=(f"mine={tree}", f"fast={tree}:O3:lto", f"other={tree}:CFLAGS=-march=x86-64-v3")))
    with pytest.raises(UserError, match="build mine is an install of this machine, which Nix cannot copy to builders"):
        check(Request(builds=(f"mine={install}",)))
    with pytest.raises(UserError, match="-march=native compiles for this machine, not for the builders"):
        check(Request(builds=(f"mine={tree}:CFLAGS=-march=native",)))

    build = Build("mine", "18.99", "/nix/store/x", "x", "source", source="git 1234")
    listed = tmp_path / "builds.json"
    listed.write_text(json.dumps({"mine": asdict(build)}))
    monkeypatch.setenv("PGBED_BUILDS", str(listed))
    check(Request(builds=("mine",)))
    assert resolve.resolve(["mine"], print) == (build,)
    with pytest.raises(UserError):
        resolve.resolve(["other"], print)


def test_native_code_is_found_in_bases_of_user_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = tmp_path / "catalog.json"
    tarball = {"name": "postgresql-17.11.tar.bz2", "hash": "sha256-AA==", "path": ""}
    known = {"label": "17.11", "version": "17.11", "attr": "a", "provenance": "source", "drv": "a", "tarball": tarball}
    catalog.write_text(json.dumps([known]))
    monkeypatch.setenv("PGBED_CATALOG", str(catalog))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "pgbed").mkdir()
    (tmp_path / "pgbed" / "builds.toml").write_text(
        '[builds."17.11-n"]\nfrom = "17.11"\ncflags = ["-march=native"]\n'
        '[builds."17.11-m"]\nfrom = "17.11-n"\ncflags = ["-O3"]\n'
    )
    for label in ("17.11-n", "17.11-m"):
        with pytest.raises(UserError, match="-march=native compiles for this machine, not for the builders"):
            check(Request(builds=(label,)))
