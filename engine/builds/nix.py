"""The Nix commands that builds need, for Nix 2.8 and later: put a file into the store, realise a derivation.

Nothing is evaluated, so what is in the store already needs neither the network nor the flake.

Environment, set by the `bench` wrapper:
    PGBED_PACKAGE_SET       what derivations are made of: `nixpkgs`, or `hostpkgs` (the machine's own tools)
    PGBED_BPFTRACE          the derivation of the bpftrace that runs the probes
    PGBED_BPFTRACE_VERSION  its version, known before it is built
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.core.errors import UserError
from engine.core.text import visible

Progress = Callable[[str], None]

LOG_LINES = 12
STATE = Path("/nix/var/nix")
OUTPUT = re.compile(r'\("out","(/nix/store/[^"/]+)"')
STORE_NAME = re.compile(r"/nix/store/([a-z0-9]{32})-[^/]+")
STEP = re.compile(r"^(building|copying path|downloading) '(?:/nix/store/[a-z0-9]{32}-)?([^']+?)(?:\.drv)?'", re.M)
MISMATCH = re.compile(
    r"hash mismatch in fixed-output derivation '/nix/store/[a-z0-9]{32}-(.+?)\.drv'"
    r".*?specified:\s+(\S+).*?got:\s+(\S+)",
    re.S,
)
FAILED_BUILDER = re.compile(r"error: (builder for|Cannot build|build of)")
NIX_ITSELF = re.compile(
    r"(building|copying path|downloading) '|(this|these) .*(derivation|path)s? will be |/nix/store/\S+$|warning: "
)
COMPILER_ERROR = re.compile(r":\d+(:\d+)?: (fatal )?error: |\*\*\* \[.*\] Error|: \*\*\*|FAILED at|^error: ")
MAKE_CHATTER = re.compile(r"make(\[\d+\])?: (Entering|Leaving|Nothing)")
# Of the machine, not of the source: the same build may do well later.
LACKING = re.compile(
    r"virtual memory exhausted|cc1\w*: out of memory|Cannot allocate memory|No space left on device"
    r"|fatal error: Killed signal|\] Killed$",
    re.M,
)
COMPILED = re.compile(r"\s-c (?:-o \S+ )?(\S+\.c)\b")
LINKED = re.compile(r"^(?:\S*ccache )?(?:\S*/)?(?:gcc|cc|clang|g\+\+|c\+\+|clang\+\+)(?:-\d+)?\s.*\s-o (\S+)")
DOWNLOADED = re.compile(r"(?:Downloading from \S+:|trying) https?://([^/\s]+)/(?:\S*/)?([^/\s]+)$")
ARCHIVES = (".jar", ".tgz", ".tar.bz2")
POLL_S = 0.5
SILENCE_S = 10.0
MESSAGE_CHARS = 300
LINE_CHARS, LOG_CHARS = 60, 160


class BuildFailed(UserError):
    """A builder ended with an error: the source does not compile, a patch does not apply. `lines` end its `log`."""

    def __init__(self, message: str, log: Path, lines: tuple[str, ...]) -> None:
        super().__init__(message)
        self.log = log
        self.lines = lines


def over_hostpkgs() -> bool:
    """Whether sources cannot be fetched, because the package set is the machine's own tools."""
    return os.environ.get("PGBED_PACKAGE_SET") == "hostpkgs"


def store_hash(path: Path) -> str | None:
    """The hash part of a store path, which names its content; None for any other path."""
    match = STORE_NAME.fullmatch(str(path))
    return match[1] if match else None


def is_valid(store_path: str) -> bool:
    """Whether the store holds this path."""
    if _of_another_user():
        return _finished(Path(store_path))
    nix_store = shutil.which("nix-store")
    if nix_store is None:
        return False
    asked = subprocess.run([nix_store, "--check-validity", store_path], capture_output=True, check=False)
    return asked.returncode == 0


def fixed_path(sha256: str, name: str) -> str:
    """The store path that a file of this hash and name has once it is there."""
    command = ["nix-store", "--print-fixed-path", "sha256", sha256, name]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise no_nix() from error
    if asked.returncode != 0:
        raise UserError(f"{name}: Nix cannot say where it would be: {last_words(asked.stderr)}")
    return asked.stdout.strip()


def add_fixed(file: Path, name: str) -> None:
    """Put `file` into the store as `name`. Its path is made of name and hash, so Nix then has nothing to fetch."""
    with TemporaryDirectory(dir=cache_folder()) as folder:
        named = Path(folder) / name
        shutil.copyfile(file, named)
        command = ["nix-store", "--add-fixed", "sha256", str(named)]
        try:
            added = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise no_nix() from error
    if added.returncode != 0:
        raise UserError(f"{file} cannot be put into the Nix store: {last_words(added.stderr)}")


def realise(
    label: str, drv: str, on_progress: Progress, link: Path | None, *, visible_to_build: Path | None = None
) -> Path:
    """The store path that `drv` makes, built or fetched unless it is there and kept by `link`.

    `label` is for messages. A sandbox shows the build the folder `visible_to_build`, if this user may ask for it.
    Raises BuildFailed with the log's end where a builder ends with an error, UserError when it is not available.
    """
    if _of_another_user():
        return _there(label, Path(drv))
    log = cache_folder() / f"build-{label}.log"
    started = time.monotonic()
    command = realise_command(drv, link)
    if visible_to_build is not None:
        command += ["--option", "extra-sandbox-paths", str(visible_to_build)]
    output = _run_logged(command, log, lambda doing: on_progress(f"{label}: {doing}"))
    if output is None:
        text = log.read_text(errors="replace")
        message = f"{explain_failure(label, text)} (all of it: {log})"
        if lacking := LACKING.search(text):
            raise UserError(f"build '{label}' stopped, as the machine had too little: {lacking[0]} (the log: {log})")
        if MISMATCH.search(text) or not any(FAILED_BUILDER.match(line) for line in text.splitlines()):
            raise UserError(message)
        printed = telling_lines(text)
        for line in printed:
            on_progress(f"{label} | {line}")
        raise BuildFailed(message, log, printed)
    on_progress(f"{label}: ready after {time.monotonic() - started:.0f} s")
    return Path(output.strip()).resolve()


def _of_another_user() -> bool:
    """Whether this user may only read the store: it is another's, who has no daemon for it."""
    return STATE.exists() and not os.access(STATE / "db", os.W_OK) and not (STATE / "daemon-socket" / "socket").exists()


def _finished(store_path: Path) -> bool:
    """Whether a path of the store is there, and nobody is building it."""
    return store_path.exists() and not store_path.with_name(f"{store_path.name}.lock").exists()


def _there(label: str, drv: Path) -> Path:
    """What a derivation makes, if it is in the store already."""
    made = OUTPUT.search(drv.read_text()) if drv.is_file() else None
    if made is None or not _finished(Path(made[1])):
        if shutil.which("nix") is None:
            raise no_nix()
        raise UserError(
            f"'{label}' is not in the Nix store, to which {getpass.getuser()} may not write: let {STATE.owner()}, "
            "whose it is, run a plan with it once, or install Nix with its daemon"
        )
    return Path(made[1])


def realise_command(drv: str, link: Path | None) -> list[str]:
    """The command that builds one derivation and prints what it makes."""
    command = ["nix-store", "--realise", f"{drv}!out"]
    if link is not None:
        command += ["--add-root", str(link)]
    if over_hostpkgs():
        # The machine's own tools are outside any sandbox, and a cache that cannot be reached only costs time.
        command += ["--option", "sandbox", "false", "--option", "substituters", ""]
    return command


def fetch_bpftrace(on_progress: Progress, roots: Path) -> None:
    """See to it that the wrapper's bpftrace is there, kept by a link in `roots`.

    A failure is reported, not raised: the machine may have a bpftrace of its own.
    """
    drv = os.environ.get("PGBED_BPFTRACE")
    if not drv:
        return
    try:
        realise("bpftrace", drv, on_progress, roots / "bpftrace")
    except UserError as error:
        on_progress(str(error))
    os.environ.pop("PGBED_BPFTRACE_VERSION", None)  # from now on what is there counts, not what was announced


def _run_logged(command: list[str], log: Path, on_doing: Progress) -> str | None:
    """Stdout of the command, or None if it failed. Stderr goes to `log`; `on_doing` gets each action."""
    try:
        with (
            log.open("wb") as sink,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sink, text=True) as process,
        ):
            try:
                output = _wait(process, log, on_doing)
            except BaseException:
                # Leaving the block waits for the build, which whoever stops us does not want to do.
                process.terminate()
                raise
    except FileNotFoundError as error:
        raise no_nix() from error
    return output if process.returncode == 0 else None


def _wait(process: subprocess.Popen[str], log: Path, on_doing: Progress) -> str:
    """Waits for the command; reports each new action at once, and one that lasts again every few seconds."""
    reported, reported_s, started = "", 0.0, time.monotonic()
    while True:
        try:
            return process.communicate(timeout=POLL_S)[0]
        except subprocess.TimeoutExpired:
            text, now = log.read_text(errors="replace"), time.monotonic()
        doing = doing_now(text)
        if doing and (doing != reported or now - reported_s > SILENCE_S):
            line = last_line(text)
            on_doing(f"{doing} ({now - started:.0f} s){': ' if line else ''}{line}")
            reported, reported_s = doing, now


def doing_now(log: str) -> str:
    """What Nix is at, from what it has printed so far: `building postgresql-13.16`; empty before the first."""
    steps = STEP.findall(log)
    if not steps:
        return ""
    verb, name = steps[-1]
    # Nix says "building" of a download too, when a registry's client makes it.
    fetching = verb != "building" or name.endswith(ARCHIVES)
    return f"{'fetching' if fetching else 'building'} {name}"


def last_line(log: str) -> str:
    """What the builder at work printed last, cut to what fits beside what Nix is at; empty before it prints."""
    lines = _printed(log.rpartition("building '")[2])
    line = _shortened(lines[-1]) if lines else ""
    return line if len(line) <= LINE_CHARS else "…" + line[1 - LINE_CHARS :]


def telling_lines(log: str) -> tuple[str, ...]:
    """What a failed build has to say: the compiler's first error with what follows, else the end of the log."""
    lines = [_shortened(line) for line in _printed(log) if not MAKE_CHATTER.match(line)]
    first = next((place for place, line in enumerate(lines) if COMPILER_ERROR.search(line)), len(lines) - LOG_LINES)
    return tuple(lines[max(0, min(first, len(lines) - 1)) :][:LOG_LINES])


def _shortened(line: str) -> str:
    """A line of a log that can be shown; of compilers and downloads what they make or fetch, and from where."""
    if fetched := DOWNLOADED.search(line):
        return visible(f"{fetched[2]} from {fetched[1]}")
    compiled, linked = COMPILED.search(line), LINKED.search(line)
    line = visible(compiled[1] if compiled else f"linking {linked[1]}" if linked else line)
    return line if len(line) <= LOG_CHARS else line[: LOG_CHARS - 1] + "…"


def _printed(log: str) -> list[str]:
    """The builder's own lines, without Nix's."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    failed = next((place for place, line in enumerate(lines) if FAILED_BUILDER.match(line)), len(lines))
    return [line for line in lines[:failed] if not NIX_ITSELF.match(line)]


def explain_failure(label: str, log: str) -> str:
    """One line from a failed `nix build`: the hash that did not match, or the last words of what failed."""
    mismatch = MISMATCH.search(log)
    if mismatch is None:
        return f"build '{label}' failed: {last_words(log)}"
    name, pinned, got = mismatch.groups()
    return f"build '{label}': download of {name} refused, its hash is {got} and the pinned one {pinned}"


def last_words(log: str) -> str:
    """The end of a log as one line: what the builder printed last, else what Nix called an error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    printed: list[str] = []
    if any(FAILED_BUILDER.match(line) for line in lines):
        printed = _printed(log)
        # A compiler's first error says more than what make has to say of it.
        printed = [line for line in printed if COMPILER_ERROR.search(line)][:1] or printed[-3:]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")][:1]
    words = " | ".join(printed or errors or lines[-1:]) or "its log is empty"
    return words if len(words) <= MESSAGE_CHARS else "…" + words[-MESSAGE_CHARS:]


def no_catalogue() -> UserError:
    """The error for a build that only the wrapper's catalogue could know."""
    return UserError(
        "servers are built with Nix: start bench from its flake (`nix run .#bench`) or by ./bench, "
        "or name an install of your own: --pg NAME=/path/to/postgresql"
    )


def no_nix() -> UserError:
    return UserError("Nix is not installed: start with ./bench, which installs it")


def cache_folder() -> Path:
    """Where what was fetched and logged for this user is kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "pgbed"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
