"""What is said while Nix measures blocks, and what becomes of those that nobody takes; only Nix is made up."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from engine.blocks import blocks
from engine.blocks.blocks import Block, realise
from engine.blocks.plan import check
from engine.core.errors import UserError
from engine.core.model import Build
from engine.core.request import Request
from engine.postgres import builds, nix
from tests.support.smalltree import make_tree

HASH = "0" * 32
BEGUN = "building '/nix/store/{}-pgbed-block-{}.drv' on 'ssh-ng://b'...\n"
NOBODY = "error: a 'x86_64-linux' with features {} is required to build '/nix/store/x.drv'\n"


def test_a_block_is_told_once_by_what_is_new_in_the_log() -> None:
    seen: dict[int, str] = {}
    said: list[str] = []
    text = (BEGUN.format(HASH, 1) + BEGUN.format(HASH, 2)).encode()
    rest = b""
    for begin in range(0, len(text), 7):
        rest = blocks._tell(rest + text[begin : begin + 7], seen, said.append)
        assert len(rest) <= len(BEGUN) + len(HASH), "what was read is not read again"
    assert rest == b"" and seen == {1: "ssh-ng://b", 2: "ssh-ng://b"}
    assert said == ["block 1: begun on ssh-ng://b", "block 2: begun on ssh-ng://b"]


@pytest.fixture
def realised(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[tuple[int, ...]], int], list[Block]]:
    """Realises blocks over a Nix that measures these in turn, and then has no builder left; prints what is said."""

    def realised(rounds: Sequence[tuple[int, ...]], count: int) -> list[Block]:
        valid: set[str] = set()
        turns = iter(rounds)

        def run(missing: Sequence[Block], *_: object) -> tuple[str, dict[int, str]]:
            done = next(turns, ())
            valid.update(f"out{number}" for number in done)
            return ("error: lost\n" if done else NOBODY), dict.fromkeys(done, "b")

        monkeypatch.setattr(nix, "is_valid", lambda out: out in valid)
        monkeypatch.setattr(blocks, "_run", run)
        return realise([Block(n, f"drv{n}", f"out{n}") for n in range(1, count + 1)], "b", print)

    return realised


def test_what_was_measured_is_handed_out_where_no_builder_is_left_for_the_rest(
    realised: Callable[..., list[Block]], capsys: pytest.CaptureFixture[str]
) -> None:
    found = realised([(1, 3)], 4)
    assert [(block.number, block.state) for block in found] == [
        (1, "measured"), (2, "failed"), (3, "measured"), (4, "failed"),
    ]  # fmt: skip
    assert "no builder takes a block" in found[1].reason
    said = capsys.readouterr().out
    assert said.count("block 2: not begun: no builder takes a block") == 1 and "block 1: measured" in said
    with pytest.raises(UserError, match="no builder takes a block"):
        realised([], 2)


def test_builds_of_trees_are_for_builders_and_installs_and_native_code_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    made = Build("mine", "18.99", "/nix/store/x", "x", "source", source="git 1234")
    listed = tmp_path / "builds.json"
    listed.write_text(json.dumps({"mine": asdict(made)}))
    monkeypatch.setenv("PGBED_BUILDS", str(listed))
    check(Request(builds=("mine",)))
    assert builds.resolve(["mine"], print) == (made,)
    with pytest.raises(UserError):
        builds.resolve(["other"], print)
