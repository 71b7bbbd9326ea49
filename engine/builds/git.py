"""The one place that calls git.

The configuration of a repository can name programs for git to run, and root may have unpacked a stranger's. So git is
never shown it: each call works on a repository made for it, whose configuration is written here, and whose objects,
references and index are links to the real ones. Git runs as the owner, never as root, and the kernel lets it start no
process.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.core.errors import UserError
from engine.core.text import user_path
from engine.system.account import Account, confined, may_read_all, unprivileged
from engine.system.files import read_plain

LINKED = ("objects", "refs", "packed-refs", "reftable", "logs", "shallow", "index", "sharedindex.*", "*_HEAD")
# The user's and the repository's settings that are taken over: its format, and which files have changed.
TAKEN = re.compile(
    r"(core)\.(autocrlf|checkstat|eol|excludesfile|filemode|ignorecase|repositoryformatversion|symlinks|trustctime)"
    r"|(extensions)\.(compatobjectformat|objectformat|refstorage)"
)
# Threads count as processes.
WRITTEN = "[index]\n\tthreads = 1\n[core]\n\tpreloadIndex = false\n\tfsmonitor = false\n"
NOWHERE = "/nonexistent"


@dataclass(frozen=True, slots=True)
class Repository:
    """`top` is the folder of the working tree, None without one; `common` is the part that its worktrees share."""

    top: Path | None
    folder: Path
    common: Path

    @property
    def account(self) -> Account:
        """The user who runs git: this one, or instead of root the owner, or instead of both an unprivileged account."""
        owner = (self.top or self.folder).stat()
        if os.geteuid() != 0 or owner.st_uid == 0:
            return unprivileged()
        return Account(f"user {owner.st_uid}", owner.st_uid, owner.st_gid, switch=True)


def repository_at(path: Path) -> Repository | None:
    """The repository whose top is this folder, or that is this folder."""
    try:
        for top, folder in ((path, path / ".git"), (None, path)):
            if top and folder.is_file():
                folder = path / _line(folder).removeprefix("gitdir: ")
            common = folder / _line(folder / "commondir") if (folder / "commondir").exists() else folder
            if os.path.lexists(folder / "HEAD") and (common / "objects").is_dir() and (common / "refs").is_dir():
                return Repository(top, folder.resolve(), common.resolve())
    except (OSError, ValueError):
        pass
    return None


def repository_of(path: Path) -> Repository | None:
    """The repository at a folder or at one above it; a folder above counts if it is the same owner's."""
    path = path.resolve()
    owner = path.stat().st_uid
    for folder in (path, *path.parents):
        if folder.stat().st_uid != owner:
            return None
        if repository := repository_at(folder):
            return repository
    return None


def git(path: Path, *arguments: str, failing: bool = False) -> str:
    """Run git and return its output; on an error return "" if `failing`, else raise UserError with git's words."""
    with running(path, *arguments) as child:
        output, errors = child.communicate()
    if child.returncode == 0:
        return output.decode(errors="surrogateescape")
    if failing:
        return ""
    words = errors.decode(errors="replace").strip().partition("\n")[0]
    raise UserError(f"{path}: git {arguments[0]} failed: {words}")


@contextmanager
def running(path: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Git at work at the top of a folder's repository, with pipes for its output and errors. Raises UserError."""
    repository = repository_of(path)
    if repository is None:
        raise UserError(f"{path} is not a git repository")
    shown, account = repository.top or repository.folder, repository.account
    with TemporaryDirectory(prefix="pgbed-git-") as temporary:
        template = Path(temporary)
        _check_open(account, shown, repository, template)
        settings = _settings(repository, account)
        folder = _linked(repository, template, settings)
        environ = {"GIT_DIR": str(folder), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        environ |= {"GIT_ATTR_NOSYSTEM": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "HOME": NOWHERE}
        if repository.top:
            environ["GIT_WORK_TREE"] = str(repository.top)
        with _started(("--no-optional-locks", *arguments), shown, account, environ) as child:
            yield child


def _line(file: Path) -> str:
    return os.fsdecode(read_plain(file, 4096)).strip()


def _check_open(account: Account, shown: Path, repository: Repository, template: Path) -> None:
    """Raise UserError if the account may not reach what it has to read."""
    template.chmod(0o755)
    if not _lent(account):
        for place in (repository.common / "objects", repository.folder, template):
            if barred := account.barred_at(place):
                how = f"chmod o+x {barred} lets it"
                how += ", and so does PGBED_USER with an account that may" if account == unprivileged() else ""
                who = f"git is never run as root, and {account.name}, who runs it instead, may not enter {barred}"
                raise UserError(f"{shown}: {who}: {how}")


def _lent(account: Account) -> bool:
    """Whether the account is lent the right to read all files: only root may have access to files of root."""
    return account.switch and account == unprivileged() and may_read_all()


def _settings(repository: Repository, account: Account) -> dict[tuple[str, str], str]:
    """The part of the configuration that is taken over, read as a file: no repository is opened."""
    environ = {"HOME": NOWHERE}
    if not account.switch:
        environ = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ}
    file = f"include.path={repository.common / 'config'}"
    question = ("-c", file, "config", "--null", "--get-regexp", rf"^({TAKEN.pattern})$")
    with _started(question, Path("/"), account, environ | {"GIT_DIR": NOWHERE}) as child:
        output, errors = child.communicate()
    if child.returncode not in (0, 1):  # 1: nothing is set
        words = errors.decode(errors="replace").strip().partition("\n")[0]
        raise UserError(f"{repository.top or repository.folder}: its configuration cannot be read: {words}")
    taken: dict[tuple[str, str], str] = {}
    if not account.switch:
        taken["core", "excludesfile"] = f"{environ.get('XDG_CONFIG_HOME') or '~/.config'}/git/ignore"
    for entry in filter(None, output.decode(errors="surrogateescape").split("\0")):
        name, line_break, value = entry.partition("\n")
        if TAKEN.fullmatch(name):
            section, _, key = name.partition(".")
            taken[section, key] = value if line_break else "true"
    if ("core", "excludesfile") in taken:
        taken["core", "excludesfile"] = str(user_path(taken["core", "excludesfile"]))
    return taken


def _linked(repository: Repository, place: Path, settings: Mapping[tuple[str, str], str]) -> Path:
    """Lay out a repository that leads to this one, with these settings and the ones written here; return its folder."""
    text = f"{WRITTEN}\tbare = {'false' if repository.top else 'true'}\n"
    for (section, key), value in settings.items():
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        text += f'[{section}]\n\t{key} = "{quoted}"\n'
    _write(place / "config", text)
    _link(repository.common, place)
    exclude = repository.common / "info" / "exclude"
    if exclude.exists():
        _make(place / "info")
        (place / "info" / "exclude").symlink_to(exclude)
    if repository.folder == repository.common:
        return place
    _make(place / "worktrees")
    _make(place / "worktrees" / "one")
    _write(place / "worktrees" / "one" / "commondir", "../..\n")
    _link(repository.folder, place / "worktrees" / "one")
    return place / "worktrees" / "one"


def _link(folder: Path, place: Path) -> None:
    for pattern in LINKED:
        for entry in folder.glob(pattern):
            (place / entry.name).symlink_to(entry)
    head = folder / "HEAD"  # git takes no link for it that leads out of its folder
    _write(place / "HEAD", f"ref: {head.readlink()}\n" if head.is_symlink() else f"{_line(head)}\n")


def _write(file: Path, text: str) -> None:
    file.write_bytes(os.fsencode(text))
    file.chmod(0o644)


def _make(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)


def _started(
    arguments: tuple[str, ...], where: Path, account: Account, environ: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    confine: Callable[[], None] = confined(account, reads_all=_lent(account))
    try:
        return subprocess.Popen(
            ["git", *arguments],
            cwd=where,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", **environ},
            preexec_fn=confine,
        )
    except FileNotFoundError as error:
        raise UserError("git is not installed; only installs and source trees outside git can do without") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"git cannot be started in {where}: {error}") from None
