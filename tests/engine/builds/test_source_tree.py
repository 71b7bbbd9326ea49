"""Calls of git run no program, whatever the configuration names, and see the repository."""

from __future__ import annotations

import os
import re
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.builds.commit_log import commits_between, merge_base, message_of
from engine.builds.git import TAKEN, git, repository_at
from engine.builds.source_tree import files_of, revision_of, state_of, tree_at
from engine.core.errors import UserError
from engine.system.account import confined, unprivileged
from tests.support import smalltree

pytestmark = pytest.mark.outside  # git is not there in a Nix build

# Programs that git runs for the questions below; a signed commit, a promised object and a submodule are there.
PLAUSIBLE = (
    "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external", "diff.evil.command",
    "diff.evil.textconv", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "gpg.program",
    "gpg.openpgp.program", "remote.evil.uploadpack", "credential.helper", "pager.log", "tar.tar.command",
)  # fmt: skip
SWITCHES = {
    "log.showSignature": "true", "submodule.recurse": "true", "remote.evil.url": "ext::",
    "remote.evil.promisor": "true", "filter.evil.required": "true", "core.untrackedCache": "true",
    "diff.submodule": "diff", "filter.a=b.clean": "x",
    "status.submoduleSummary": "true", "diff.ignoreSubmodules": "none", "protocol.ext.allow": "always",
}  # fmt: skip
# These would end git's reading of all others, or are a format.
LEFT_OUT = ("include.", "includeIf.", "extensions.")
# Git looks up which commit a submodule has, and takes no path for a switch of its core.
CORE_PROGRAMS = re.compile(r"core\.(\w+Command|askPass|editor|fsmonitor|gitProxy|hooksPath|pager|attributesFile)")
KEY = re.compile(r"[\w-]+(\..+)?\.[A-Za-z][A-Za-z0-9-]*")  # of gitweb's, some can only be in the environment
PLACEHOLDERS = ("evil", "openpgp", "ssh", "x509", "log", "diff", "archive", "ls-files", "sub")
HOOKS = ("post-index-change", "post-checkout", "fsmonitor-watchman", "reference-transaction", "pre-auto-gc")
OWNER = 12345  # no user of this machine


@pytest.fixture
def base(new_folder: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that every user may enter, with a home and with a place that keeps the names of programs that ran."""
    base = new_folder()
    for name in ("ran", "home", "home/.config", "home/.config/git", "cache"):
        (base / name).mkdir()
        (base / name).chmod(0o1777)
    monkeypatch.setenv("HOME", str(base / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(base / "cache"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return base


def _tripwire(base: Path, name: str) -> str:
    """A program that notes its name and fails."""
    script = base / "tripwire"
    if not script.exists():
        script.write_text(f'#!/bin/sh\n: > "{base}/ran/${{0##*/}}"\nexit 1\n')
        script.chmod(0o755)
    (base / "programs").mkdir(exist_ok=True)
    wire = base / "programs" / name.replace("/", "_")
    if not wire.is_symlink():
        wire.symlink_to(script)
    return str(wire)


def _ran(base: Path) -> list[str]:
    return sorted(path.name for path in (base / "ran").iterdir())


def _every_key() -> list[str]:
    listed = subprocess.run(["git", "help", "--config"], capture_output=True, text=True, check=True).stdout.split()
    keys = []
    for key in (*listed, *PLAUSIBLE, "filter.<driver>.process", "tar.<format>.command", "trailer.<name>.command"):
        start, opened, rest = key.partition("<")
        wildcard = opened or key.endswith("*")
        names = [f"{start}{word}{rest.partition('>')[2]}" if opened else f"{key[:-1]}{word}" for word in PLACEHOLDERS]
        keys += [name.replace("*", "evil") for name in (names if wildcard else [key])]
    return [
        key for key in keys if KEY.fullmatch(key) and not key.startswith(LEFT_OUT) and not TAKEN.fullmatch(key.lower())
    ]


def _configuration(base: Path, keys: list[str]) -> str:
    text = ""
    for name, value in {key: _tripwire(base, key) for key in keys}.items() | SWITCHES.items():
        section, _, key = name.rpartition(".")
        first, _, middle = section.partition(".")
        text += f'[{first} "{middle}"]\n\t{key} = "{value}"\n' if middle else f'[{first}]\n\t{key} = "{value}"\n'
    return text


@pytest.fixture
def tree(base: Path) -> Path:
    """A repository of two commits, the later one signed, a submodule, and changed files."""
    tree = smalltree.make_repository(base / "postgres")
    smalltree.make_repository(tree / "sub")
    (tree / "signed").write_text("$Format:%G? %GS$\n")
    (tree / ".gitattributes").write_text("* filter=evil diff=evil merge=evil export-subst\n")
    smalltree.commit(tree, "v2")
    _sign(tree)
    (tree / "src/backend/postgres.c").write_text("changed\n")
    (tree / "sub/configure").write_text("changed\n")
    smalltree.commit(tree / "sub", "later")
    (tree / "sub/Makefile").write_text("changed\n")
    (tree / "new.c").write_text("new\n")
    return tree


def _plant(base: Path, tree: Path, keys: list[str]) -> None:
    """Name the programs wherever git finds a configuration, attributes or hooks."""
    of_submodule = [key for key in keys if not key.startswith("core.") or CORE_PROGRAMS.fullmatch(key)]
    for repository, text in ((tree / "sub", _configuration(base, of_submodule)), (tree, _configuration(base, keys))):
        (repository / ".git/included").write_text(text)
        with (repository / ".git/config").open("a") as config:
            config.write(f"[extensions]\n\tworktreeConfig = true\n[include]\n\tpath = included\n{text}")
        (repository / ".git/config.worktree").write_text(text)
        (repository / ".git/info/attributes").write_text("* filter=evil diff=evil\n")
        (repository / ".git/hooks").mkdir(exist_ok=True)
        for hook in HOOKS:
            (repository / ".git/hooks" / hook).symlink_to(_tripwire(base, hook))
    for name in (".gitconfig", ".config/git/config"):
        (base / "home" / name).write_text(text)
    (base / "home/.config/git/attributes").write_text("* filter=evil diff=evil\n")


def _ask(tree: Path) -> tuple[object, ...]:
    """Everything that is asked of git; returns the answers."""
    mine = tree_at("mine", tree)
    with files_of(mine) as folder:
        answers: list[object] = [mine, sorted(folder.files or ())]
    for revision in ("v1", "HEAD"):
        with files_of(revision_of("then", tree / "src", revision)) as folder:
            answers += [sorted(path.name for path in folder.path.rglob("*"))]
            assert not (folder.path / "doc/manual.sgml").exists()
    commits = commits_between(tree, "v1", "HEAD")
    assert message_of(tree, commits[1]).endswith("v2")
    with pytest.raises(UserError, match="there is nothing to compare"):
        merge_base(tree, "HEAD", "v1")
    return (*answers, commits)


def _as_user(uid: int, do: Callable[[], object]) -> None:
    """Do it in a process of this user. Fails with its traceback."""
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            do()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def _owned(folder: Path) -> None:
    subprocess.run(["chown", "--recursive", "--no-dereference", f"{OWNER}:{OWNER}", str(folder)], check=True)


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
def test_git_itself_would_run_what_is_planted(base: Path, tree: Path, words: tuple[str, ...]) -> None:
    _plant(base, tree, list(PLAUSIBLE))
    subprocess.run(["git", "-C", str(tree), *words], capture_output=True, check=False)
    assert _ran(base)


@pytest.mark.parametrize(
    ("keys", "asked_by"),
    [
        *(("those that git would run", who) for who in ("root of root's", "root of another's", "the owner")),
        ("every key of the manual", "root of another's"),
    ],
)
def test_nothing_that_a_configuration_names_is_run(base: Path, tree: Path, keys: str, asked_by: str) -> None:
    known = _ask(tree)
    _plant(base, tree, _every_key() if keys.startswith("every") else list(PLAUSIBLE))
    if asked_by != "root of root's":
        _owned(tree)

    def ask() -> None:
        assert _ask(tree) == known

    if asked_by == "the owner":
        _owned(base / "cache")
        _as_user(OWNER, ask)
    else:
        ask()
    assert not _ran(base)


def test_an_object_that_a_partial_clone_lacks_is_not_fetched(base: Path, tree: Path) -> None:
    _plant(base, tree, list(PLAUSIBLE))
    blob = smalltree.git(tree, "rev-parse", "v1:configure")
    (tree / ".git/objects" / blob[:2] / blob[2:]).unlink()
    smalltree.git(tree, "config", "remote.evil.url", f"ext::{_tripwire(base, 'url')}")
    smalltree.git(tree, "config", "extensions.partialClone", "evil")
    smalltree.git(tree, "config", "core.repositoryFormatVersion", "1")
    (tree / ".git/objects/pack/one.promisor").touch()
    with pytest.raises(UserError, match="a partial clone: git fetch --refetch --no-filter"):
        revision_of("then", tree, "v1")
    assert not _ran(base)


def test_the_kernel_lets_git_start_no_process(tmp_path: Path) -> None:
    confine = confined(unprivileged(), reads_all=False)
    command = ["sh", "-c", "id -u; echo it goes on"]
    done = subprocess.run(command, cwd="/", preexec_fn=confine, capture_output=True, text=True, check=False)
    assert "Cannot fork" in done.stderr and done.returncode


def test_roots_private_tree_is_read_by_an_unprivileged_user(tree: Path) -> None:
    for folder, _, names in os.walk(tree):
        Path(folder).chmod(0o700)
        for name in names:
            Path(folder, name).chmod(0o600)
    tree.parent.chmod(0o700)
    repository = repository_at(tree)
    assert repository and repository.account.uid
    assert tree_at("mine", tree).changes and revision_of("then", tree, "v1").commit


def test_what_no_other_account_may_enter_is_refused_in_one_line(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.builds.git.may_read_all", lambda: False)  # as in most containers
    assert tree_at("mine", tree).changes
    (tree / ".git").chmod(0o700)
    with pytest.raises(
        UserError, match=r"git is never run as root, and \w+, who .* may not enter .*: chmod o\+x"
    ) as raised:
        tree_at("mine", tree)
    assert "\n" not in str(raised.value)


def test_another_owners_parent_folder_is_not_the_repository(tree: Path) -> None:
    (tree / "inner").mkdir()
    assert git(tree / "inner", "rev-parse", "HEAD")
    os.chown(tree / "inner", OWNER, OWNER)
    with pytest.raises(UserError, match="is not a git repository"):
        git(tree / "inner", "rev-parse", "HEAD")


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)])
def test_bare_repositories_and_worktrees_are_read(base: Path, tree: Path, options: tuple[str, ...]) -> None:
    if options:
        smalltree.make_tree(base / "other")
        tree = base / "other"
        smalltree.git(tree, "init", "--quiet", *options)
        smalltree.commit(tree, "v1")
        smalltree.git(tree, "tag", "v1")
    smalltree.git(tree, "worktree", "add", "--quiet", "--detach", str(base / "beside"), "v1")
    smalltree.git(tree, "clone", "--quiet", "--bare", str(tree), str(base / "bare.git"))
    smalltree.git(base / "beside", "update-index", "--split-index")
    first = smalltree.git(tree, "rev-parse", "v1")
    assert state_of("beside", base / "beside") == (first, "")
    (base / "beside/Makefile").write_text("changed\n")
    assert state_of("beside", base / "beside")[1]
    assert revision_of("bare", base / "bare.git", "v1").commit == first


def test_what_the_user_ignores_everywhere_is_no_part_of_a_tree(base: Path, tree: Path) -> None:
    (base / "home/.config/git/ignore").write_text("*.orig\n")
    (tree / "left.orig").touch()
    before = (base / "home/.gitconfig", "[core]\n\texcludesFile = ~/mine\n")
    _owned(tree)

    def listed() -> set[str]:
        with files_of(tree_at("mine", tree)) as folder:
            return {"left.orig", "new.c"} & set(folder.files or ())

    def ask() -> None:
        assert listed() == {"new.c"}
        before[0].write_text(before[1])
        (base / "home/mine").write_text("new.c\n")
        assert listed() == {"left.orig"}

    _as_user(OWNER, ask)
    assert listed() == {"left.orig", "new.c"}  # root is no user of it


def test_a_link_or_a_pipe_among_new_files_is_not_followed(base: Path, tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    (tree / "link").symlink_to(base / "target")
    states = []
    for text in ("one", "two"):
        (base / "target").write_text(text)
        states.append(state_of("mine", tree))
    assert states[0] == states[1]
    (tree / "link").unlink()
    (tree / "link").symlink_to("elsewhere")
    assert state_of("mine", tree) != states[0]
