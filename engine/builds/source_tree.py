"""Source trees of PostgreSQL and revisions of repositories: what they are, and which of their files count.

The manual's chapters do not: a commit that changes nothing else gives the same server.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.builds import nix
from engine.builds.derivation import Folder
from engine.builds.git import git, repository_at, repository_of, running
from engine.core.errors import UserError
from engine.core.text import user_path
from engine.system.files import read_plain

LEFT_OUT = ("doc", "doc/src/sgml")  # files directly in these; psql's help is generated from doc/src/sgml/ref
VERSION = re.compile(r"^PACKAGE_VERSION='(\d+[A-Za-z0-9.]{0,20})'$", re.M)
MESON_VERSION = re.compile(r"^project\('postgresql',.*?^\s+version: '(\d+[A-Za-z0-9.]{0,20})',$", re.M | re.S)
SHOWN_HEX = 12
FILE_MAX_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Source:
    """A tree or, with a `revision`, a commit at `path`. `commit` is "" outside git; `changes` hashes local changes.

    Without a `configure` script it is built by Meson.
    """

    path: Path
    version: str
    commit: str
    changes: str = ""
    revision: bool = False
    configure: bool = True

    @property
    def major(self) -> int:
        return int(re.match(r"\d+", self.version)[0])  # type: ignore[index]

    @property
    def title(self) -> str:
        return title(self.commit, self.changes)


def title(commit: str, changes: str) -> str:
    """The text for records: `commit 1a2b3c4d5e6f with changes 9f8e7d6c5b4a`."""
    changed = f" with changes {changes[:SHOWN_HEX]}" if changes else ""
    return f"commit {commit[:SHOWN_HEX]}{changed}" if commit else "a tree outside git"


def is_install(path: Path) -> bool:
    return (path / "bin" / "postgres").exists()


def is_tree(path: Path) -> bool:
    return (path / "src" / "backend").is_dir() and any((path / one).exists() for one in ("configure", "meson.build"))


def tree_at(name: str, path: Path) -> Source:
    """The source tree in a folder, with its uncommitted changes. Raises UserError if it is not one."""
    path = path.resolve()
    script = "configure" if (path / "configure").exists() else "meson.build"
    try:
        text = read_plain(path / script, FILE_MAX_BYTES, follow=True).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"build '{name}': {path} has neither configure nor meson.build") from None
    except OSError as error:
        raise UserError(f"build '{name}': {path / script}: {error.strerror}") from None
    version = _version(name, str(path), text)
    if not _in_git(path) and (path / "config.status").exists():
        raise UserError(f"build '{name}': {path} was built in place; clean it first: make -C {path} distclean")
    return Source(path, version, *state_of(name, path, _WITHOUT), configure=script == "configure")


def state_of(name: str, path: Path, files: Sequence[str] = (".",)) -> tuple[str, str]:
    """The commit of a tree, "" outside git, and the hash of the local changes to its `files` (of git's pathspecs)."""
    if not _in_git(path):
        return "", ""
    commit = git(path, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", failing=True).strip()
    if not commit:
        raise UserError(f"build '{name}': {path} is a git repository without a commit")
    marked = [line for line in git(path, "ls-files", "-v", "--", *files).splitlines() if _is_marked(line)]
    if marked:
        raise UserError(
            f"build '{name}': git ignores changes of {marked[0][2:]} (assume-unchanged or "
            f"skip-worktree), so that a build could not be identified: git -C {path} update-index --really-refresh"
        )
    return commit, _changes(path, files)


def _is_marked(line: str) -> bool:
    """Whether `git ls-files -v` marks a file whose changes git ignores."""
    return line[:1].islower() or line.startswith("S ")


def revision_of(name: str, repository: Path, revision: str) -> Source:
    """A commit, by any name that git accepts. Raises UserError for an unknown one."""
    repository = user_path(str(repository)).absolute()
    if not repository.is_dir():
        raise UserError(f"build '{name}': there is no folder {repository}")
    if revision.startswith("-"):
        raise UserError(f"build '{name}': '{revision}' is not a revision")
    if repository_of(repository) is None:
        raise UserError(f"build '{name}': {repository} is not a git repository")
    question = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    commit = git(repository, *question, failing=True).strip()
    if not commit:
        shallow = git(repository, "rev-parse", "--is-shallow-repository", failing=True).strip() == "true"
        more = "; it is a shallow clone: git fetch --unshallow gets the rest" if shallow else ""
        raise UserError(f"build '{name}': {repository} has no revision '{revision}'{more}")
    where = f"{repository} at {revision}"
    configure = git(repository, "cat-file", "blob", f"{commit}:configure", failing=True)
    text = configure or git(repository, "cat-file", "blob", f"{commit}:meson.build", failing=True)
    if not text or not git(repository, "cat-file", "-t", f"{commit}:src/backend", failing=True):
        lacking = "configure or meson.build, and src/backend"
        raise UserError(f"build '{name}': {where} is not PostgreSQL's source ({lacking}){_rest_of(repository)}")
    return Source(repository, _version(name, where, text), commit, revision=True, configure=bool(configure))


@contextmanager
def files_of(source: Source) -> Iterator[Folder]:
    """The files that count, as a folder; for a revision a temporary one."""
    if not source.revision:
        yield Folder(source.path, tuple(files_in(source.path, LEFT_OUT)))
        return
    with TemporaryDirectory(dir=nix.cache_folder(), prefix="source-") as folder:
        _extract(source, Path(folder))
        yield Folder(Path(folder).resolve())


def _version(name: str, where: str, script: str) -> str:
    """The version that configure, or meson.build, says."""
    match = VERSION.search(script) if "PACKAGE_NAME='PostgreSQL'" in script else MESON_VERSION.search(script)
    if match is None:
        raise UserError(
            f"build '{name}': {where} is not PostgreSQL's source: its configure script, or meson.build, belongs to "
            "something else"
        )
    return match[1]


def files_in(path: Path, left_out: Sequence[str] = ()) -> Iterator[str]:
    """Relative paths: with git, tracked and untracked but not ignored files; without git, all files.

    Not those directly in a folder that is `left_out`.
    """
    if _in_git(path):
        listed = git(path, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_without(left_out))
        yield from (file for file in dict.fromkeys(listed.split("\0")) if file and os.path.lexists(path / file))
        return
    for folder, folders, files in os.walk(path):
        relative = Path(folder).relative_to(path)
        yield from (str(relative / one) for one in (*folders, *(() if str(relative) in left_out else files)))


def _without(folders: Sequence[str]) -> tuple[str, ...]:
    return (".", *(f":(exclude,glob){folder}/*" for folder in folders))


_WITHOUT = _without(LEFT_OUT)


def _in_git(path: Path) -> bool:
    """Whether the folder is a repository's top: a tarball unpacked inside a repository is not its tree."""
    repository = repository_at(path)
    return repository is not None and repository.top is not None


def _changes(path: Path, files: Sequence[str]) -> str:
    """Hash of these files' differences from HEAD, untracked ones included; "" without any."""
    difference = hashlib.sha256()
    changed = git(path, "diff", "--ignore-submodules=dirty", "--binary", "HEAD", "--", *files)
    new = git(path, "ls-files", "-z", "--others", "--exclude-standard", "--", *files)
    if not changed and not new:
        return ""
    difference.update(changed.encode(errors="surrogateescape"))
    for file in sorted(filter(None, new.split("\0"))):
        difference.update(f"\0{file}\0".encode(errors="surrogateescape"))
        difference.update(_content(path / file))
    return difference.hexdigest()


def _content(file: Path) -> bytes:
    """The content of a regular file, or where a link leads, unfollowed; nothing of anything else."""
    if file.is_symlink():
        return os.fsencode(file.readlink())
    try:
        return read_plain(file, FILE_MAX_BYTES)
    except OSError as error:
        if stat.S_ISREG(file.lstat().st_mode):
            raise UserError(f"{file} cannot be read: {error.strerror}") from None
        return b""


def _extract(source: Source, folder: Path) -> None:
    # A tree, as in a commit `export-subst` has git look at signatures.
    with running(source.path, "archive", "--format=tar", f"{source.commit}^{{tree}}", "--", *_WITHOUT) as archive:
        command = ["tar", "--extract", "--no-same-owner", "--directory", str(folder)]
        unpacked = subprocess.run(command, stdin=archive.stdout, capture_output=True, check=False)
        assert archive.stdout is not None and archive.stderr is not None
        archive.stdout.close()  # tar may have given up
        errors = archive.stderr.read()
    if archive.returncode or unpacked.returncode:
        cause = errors if archive.returncode > 0 else unpacked.stderr
        words = cause.decode(errors="replace").strip().partition("\n")[0]
        raise UserError(f"{source.path}: commit {source.commit} cannot be read: {words}{_rest_of(source.path)}")


def _rest_of(path: Path) -> str:
    """A hint on getting the objects that a partial clone lacks, which pgbed does not fetch; "" for a whole one."""
    repository = repository_of(path)
    partial = repository is not None and any((repository.common / "objects" / "pack").glob("*.promisor"))
    return "; it is a partial clone: git fetch --refetch --no-filter gets the rest" if partial else ""
