"""A runner of somebody's CI, in a sandbox, for the script of action.yml: needs root to take everything else away.

A job is a user with no privilege, in namespaces of its own, with a read-only home, its own /nix, and neither KVM,
tracefs nor a PMU. Files that a real runner keeps between jobs, or may keep, are in the runner's folder.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
UID = 60999  # that useradd gives nobody: the processes of an account are killed when it is removed
DATABASE = Path("/nix/var/nix/db/db.sqlite")
PASSED = ("PIP_", "NPM_", "MAVEN_", "SSL_", "NODE_", "HTTP", "http", "LANG", "LC_", "TZ")  # how registries are reached
# As root within the new namespaces; the job's own command follows.
SETUP = """
set -e
runner=$1 nix=$2 uid=$3; shift 3
mount --make-rprivate /
install -d -o $uid -g $uid "$runner/disk/nix" "$runner/disk/temp" "$runner/disk/work"
# All of /etc, since a file that is replaced outside, as accounts come and go, is no mount point here any more.
rm -rf "$runner/etc"
cp -a /etc "$runner/etc" 2>/dev/null || test -s "$runner/etc/passwd"  # a lock went while it was copied
printf 'runner:x:%s:%s::%s:/bin/bash\\n' $uid $uid "$runner/home" >> "$runner/etc/passwd"
mount --bind "$runner/etc" /etc
mount --bind "$runner/home" "$runner/home"
mount -o remount,bind,ro "$runner/home"
case $nix in
own) mount --bind "$runner/disk/nix" /nix ;;
machine)
  mount -t tmpfs added "$runner/added"
  mkdir -p "$runner/added/nix" "$runner/added/work" "$runner/added/var/nix/db"
  mount -t overlay -o "lowerdir=/nix,upperdir=$runner/added/nix,workdir=$runner/added/work" added /nix
  # Nothing else of /nix/var, whose files come and go as root builds outside.
  mv "$runner/db.sqlite" "$runner/added/var/nix/db/"
  cp /nix/var/nix/db/schema "$runner/added/var/nix/db/"
  chown -R $uid:$uid "$runner/added/var"
  mount --bind "$runner/added/var" /nix/var
  chown $uid:$uid /nix /nix/store
  ;;
none)
  mount -t tmpfs hidden /nix
  for program in nix nix-store nix-build; do
    ! found=$(command -v "$program") || mount --bind /dev/null "$(readlink -f "$found")"
  done
  ;;
esac
for shared in /tmp /run/lock; do mount -t tmpfs -o mode=1777 own "$shared"; done
[ ! -e /dev/kvm ] || mount --bind /dev/null /dev/kvm
for traced in /sys/kernel/tracing /sys/kernel/debug; do mount -t tmpfs hidden "$traced"; done
ip link set lo up 2> /dev/null || true
cd "$runner/disk/work"
exec setpriv --reuid=$uid --regid=$uid --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all -- "$@"
"""


@dataclass(frozen=True, slots=True)
class Runner:
    """`nix` is a store of the runner's `own`, one that begins as the `machine`'s, or `none` at all."""

    folder: Path
    nix: str = "own"

    @property
    def work(self) -> Path:
        return self.folder / "disk" / "work"

    def make(self) -> None:
        for name in ("home", "added", "disk", "disk/nix", "disk/temp", "disk/work"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            os.chown(self.folder / name, UID, UID)

    def job(
        self, command: Sequence[str], environment: Mapping[str, str], timeout_s: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name.startswith(PASSED)}
        variables = {
            "HOME": f"{self.folder}/home",
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "RUNNER_TEMP": f"{self.folder}/disk/temp",
            "TMPDIR": f"{self.folder}/disk/temp",
        }
        if self.nix == "machine":
            self._bring_database()
        return subprocess.run(
            ["unshare", "--mount", "--pid", "--mount-proc", "--ipc", "--net", "--fork", "--kill-child",
             "bash", "-c", SETUP, "setup", str(self.folder), self.nix, str(UID), *command],
            env={**kept, **variables, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )  # fmt: skip

    def _bring_database(self) -> None:
        """Copy the machine's list of packages in one piece: a build that goes on meanwhile may change its files."""
        copy = self.folder / "db.sqlite"
        copy.unlink(missing_ok=True)
        source, target = sqlite3.connect(f"{DATABASE.as_uri()}?mode=ro", uri=True), sqlite3.connect(copy)
        with closing(source), closing(target):
            source.backup(target)

    @property
    def summary(self) -> Path:
        return self.folder / "disk" / "temp" / "summary.md"

    @property
    def action(self) -> Path:
        return self.folder / "action"

    def hand_over(self, path: Path) -> None:
        subprocess.run(["chown", "-R", f"{UID}:{UID}", path], check=True)

    def bring_action(self) -> None:
        """Put this repository's files there, as a runner fetches an action: without git."""
        self.action.mkdir()
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        packed = subprocess.run(
            ["tar", "-c", "--null", "-T", "-"], cwd=ROOT, input=listed, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x"], cwd=self.action, input=packed.stdout, check=True)
        self.hand_over(self.action)

    def run_action(
        self, repository: str, branch: str, inputs: Mapping[str, str], timeout_s: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A job: a shallow clone, as actions/checkout makes it, and the action in it."""
        text, environment = script(inputs, {"runner.temp": str(self.folder / "disk" / "temp")})
        clone = f"rm -rf clone; git clone -q --depth=1 -b {branch} {repository} clone; cd clone"
        self.summary.unlink(missing_ok=True)
        variables = {"GITHUB_ACTION_PATH": str(self.action), "GITHUB_STEP_SUMMARY": str(self.summary)}
        return self.job(["bash", "-eo", "pipefail", "-c", f"{clone}\n{text}"], {**environment, **variables}, timeout_s)


def action() -> dict[str, Any]:
    description: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return description


def script(inputs: Mapping[str, str], github: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The action's script and its environment, for the inputs that a user gives."""
    description = action()
    values = {f"inputs.{name}": inputs.get(name, entry["default"]) for name, entry in description["inputs"].items()}
    (step,) = (step for step in description["runs"]["steps"] if "run" in step)
    environment = {name: _filled(_filled(text, values), github) for name, text in step["env"].items()}
    return step["run"], environment


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"${{{{ {name} }}}}", value)
    return text
