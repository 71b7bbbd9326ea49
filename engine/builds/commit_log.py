"""The commits between two revisions of a repository, first parents only: a merge is one change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.builds.git import git
from engine.builds.source_tree import SHOWN_HEX, revision_of
from engine.core.errors import UserError
from engine.core.text import visible


@dataclass(frozen=True, slots=True)
class Commit:
    hash: str
    subject: str

    @property
    def text(self) -> str:
        return f"{self.hash[:SHOWN_HEX]} {self.subject}"


def commits_between(repository: Path, good: str, bad: str) -> tuple[Commit, ...]:
    """The good commit, then each one up to the bad one.

    Raises UserError for an unknown revision, a tree that is not PostgreSQL's, a shallow clone, or a good commit that is
    not an ancestor of the bad one.
    """
    ends = [revision_of(name, repository, revision).commit for name, revision in (("good", good), ("bad", bad))]
    where = str(repository)
    if ends[0] == ends[1]:
        raise UserError(f"{where}: {good} and {bad} are the same commit; name two that differ")
    if git(repository, "rev-parse", "--is-shallow-repository").strip() == "true":
        raise UserError(f"{where} is a shallow clone: git fetch --unshallow gets the commits between")
    if ends[0] not in git(repository, "rev-list", "--first-parent", ends[1], failing=True).split():
        after = ends[1] in git(repository, "rev-list", "--first-parent", ends[0], failing=True).split()
        how = "it comes after it: swap them" if after else "name a common ancestor as --good"
        raise UserError(f"{where}: {good} is not a first-parent ancestor of {bad}; {how}")
    lines = git(repository, "log", "--first-parent", "--reverse", "--format=%H%x00%s", f"{ends[0]}..{ends[1]}")
    first = git(repository, "log", "-1", "--format=%H%x00%s", ends[0])
    parts = [line.partition("\0") for line in (first + lines).splitlines()]
    return tuple(Commit(commit, visible(subject)) for commit, _, subject in parts)


def message_of(repository: Path, commit: Commit) -> str:
    return git(repository, "log", "-1", "--format=%an, %as%n%n%B", commit.hash).rstrip()


def merge_base(repository: Path, base: str, head: str) -> tuple[Commit, Commit]:
    """The newest common ancestor of two revisions, and the head. Raises UserError."""
    ends = [revision_of(name, repository, revision).commit for name, revision in (("base", base), ("head", head))]
    common = git(repository, "merge-base", *ends, failing=True).strip()
    where = visible(str(repository))
    if not common:
        how = "name other revisions"
        if git(repository, "rev-parse", "--is-shallow-repository").strip() == "true":
            how = "this is a shallow clone: git fetch --unshallow (in a workflow, fetch-depth: 0)"
        raise UserError(f"{where}: {visible(base)} and {visible(head)} have no commit in common; {how}")
    if common == ends[1]:
        raise UserError(f"{where}: {visible(head)} is part of {visible(base)}: there is nothing to compare")
    lines = [git(repository, "log", "-1", "--format=%s", commit).strip() for commit in (common, ends[1])]
    return Commit(common, visible(lines[0])), Commit(ends[1], visible(lines[1]))
