"""What is asked of git of a tree or repository runs no program that it names, and finds what there is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engine.builds.commit_log import commits_between, message_of
from engine.builds.source_tree import files_of, revision_of, tree_at
from engine.core.errors import UserError
from tests.support import smalltree

pytestmark = pytest.mark.outside  # git is not there in a Nix build

# What git runs by a repository's own configuration. A signed commit, a promised object and a submodule are there below.
NAMED = (
    "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external", "diff.evil.command",
    "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge", "filter.Two.dots.process", "gpg.program",
    "gpg.openpgp.program", "remote.promised.uploadpack", "credential.helper", "pager.log", "tar.tar.command",
)  # fmt: skip
FURTHER = {
    "core.hooksPath": "hooks", "log.showSignature": "true", "submodule.recurse": "true", "remote.promised.url": "ext::",
    "remote.promised.promisor": "true", "filter.evil.required": "true", "core.untrackedCache": "true",
}  # fmt: skip


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A script that says that it was run, and fails."""
    script = tmp_path / "evil"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> {tmp_path}/executed\nexit 1\n')
    script.chmod(0o755)
    return script


@pytest.fixture
def tree(tmp_path: Path, evil: Path) -> Path:
    """A repository of two commits, the later one signed, and changed files; its configuration runs a script."""
    tree = smalltree.make_repository(tmp_path / "postgres")
    (tree / "hooks").mkdir()
    for hook in ("post-index-change", "post-checkout", "fsmonitor-watchman", "reference-transaction"):
        (tree / "hooks" / hook).symlink_to(evil)
    smalltree.make_repository(tree / "sub")
    (tree / ".gitattributes").write_text("* filter=evil diff=evil\ndoc/* filter=Two.dots\n")
    smalltree.commit(tree, "v2")
    _sign(tree)
    for repository in (tree, tree / "sub"):
        for name in NAMED:
            smalltree.git(repository, "config", name, str(evil))
        for name, value in FURTHER.items():
            smalltree.git(repository, "config", name, value)
    (tree / "src/backend/postgres.c").write_text("changed\n")
    (tree / "sub/configure").write_text("changed\n")
    (tree / "new.c").write_text("new\n")
    return tree


def _sign(tree: Path) -> None:
    commit = smalltree.git(tree, "cat-file", "commit", "HEAD")
    head, _, message = commit.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n aaaa\n -----END PGP SIGNATURE-----"
    signed = subprocess.run(
        ["git", "-C", str(tree), "hash-object", "-t", "commit", "-w", "--stdin"],
        input=f"{head}\n{signature}\n\n{message}\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    smalltree.git(tree, "update-ref", "HEAD", signed.stdout.strip())


@pytest.mark.parametrize("words", [("status",), ("diff", "HEAD"), ("archive", "HEAD"), ("log", "-1")])
def test_git_itself_would_run_what_the_tree_names(tree: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    subprocess.run(["git", "-C", str(tree), *words], capture_output=True, check=False)
    assert (tmp_path / "executed").exists()


def test_nothing_that_a_tree_names_is_run(tree: Path, tmp_path: Path) -> None:
    found = tree_at("mine", tree)
    assert found.changes and found.commit == smalltree.git(tree, "rev-parse", "HEAD")
    with files_of(found) as folder:
        assert {"configure", "new.c"} <= set(folder.files or ())
    for revision, text in (("v1", False), ("HEAD", True)):
        with files_of(revision_of("then", tree, revision)) as folder:
            assert (folder.path / "configure").exists() and (folder.path / ".gitattributes").exists() == text
    commits = commits_between(tree, "v1", "HEAD")
    assert [commit.subject for commit in commits] == ["v1", "v2"]
    assert message_of(tree, commits[1]).endswith("v2")
    assert not (tmp_path / "executed").exists(), (tmp_path / "executed").read_text()


def test_an_object_that_a_partial_clone_lacks_is_not_fetched(tree: Path, tmp_path: Path) -> None:
    blob = smalltree.git(tree, "rev-parse", "v1:configure")
    (tree / ".git/objects" / blob[:2] / blob[2:]).unlink()
    smalltree.git(tree, "config", "remote.promised.url", f"ext::{tmp_path}/evil")
    smalltree.git(tree, "config", "protocol.ext.allow", "always")
    smalltree.git(tree, "config", "extensions.partialClone", "promised")
    smalltree.git(tree, "config", "core.repositoryFormatVersion", "1")
    with pytest.raises(UserError):
        revision_of("then", tree, "v1")
    assert not (tmp_path / "executed").exists(), (tmp_path / "executed").read_text()


def test_a_filter_that_cannot_be_switched_off_is_refused(tree: Path, tmp_path: Path) -> None:
    smalltree.git(tree, "config", "filter.a=b.clean", str(tmp_path / "evil"))
    with pytest.raises(UserError, match="has a filter with '=' in its name"):
        tree_at("mine", tree)
    assert not (tmp_path / "executed").exists()
