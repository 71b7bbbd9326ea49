"""Nix's progress while it builds: a reader of `--log-format internal-json`, which Nix has since 2.4.

Each line is a message, or the start, a result, or the end of an activity; numbers stand for kinds, as in Nix's
logging.hh. The output of a builder is the result of its build's activity, so it is never mistaken for Nix's own words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

FORMAT = ("--log-format", "internal-json")
MARK = b"@nix "
COPY, DOWNLOAD, BUILD, WAIT = 100, 101, 105, 111  # kinds of activities
PRINTED = 101  # kind of a result: a line of a builder
ERROR, INFO = 0, 3  # levels
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
STORE_PATH = re.compile(r"/nix/store/[a-z0-9]{32}-([^'\s]+)")
# Exit codes of `nix-store --realise`; with --keep-going their bits are combined.
FAILED_BUILD, HASH_MISMATCH = 100, 102
HASH = re.compile(r"\bsha(?:1|256|512)[-:]\S+")

ARCHIVES = (".jar", ".tgz", ".tar.bz2")
COMPILER_ERROR = re.compile(r":\d+(:\d+)?: (fatal )?error: |\*\*\* \[.*\] Error|: \*\*\*|FAILED at|^error: ")
MAKE_CHATTER = re.compile(r"make(\[\d+\])?: (Entering|Leaving|Nothing)")
COMPILED = re.compile(r"\s-c (?:-o \S+ )?(\S+\.c)\b")
LINKED = re.compile(r"^(?:\S*ccache )?(?:\S*/)?(?:gcc|cc|clang|g\+\+|c\+\+|clang\+\+)(?:-\d+)?\s.*\s-o (\S+)")
DOWNLOADED = re.compile(r"(?:Downloading from \S+:|trying) https?://([^/\s]+)/(?:\S*/)?([^/\s]+)$")
LOG_LINES = 12
MESSAGE_CHARS = 300
LINE_CHARS, LOG_CHARS = 60, 160


class _Event(msgspec.Struct):
    action: str
    id: int = 0
    level: int = INFO
    type: int = 0
    text: str = ""
    msg: str = ""
    fields: list[int | str] = []


@dataclass(slots=True)
class NixActivity:
    """A build (with its builder's lines), copy or download of `subject`, or a wait, in Nix's words.

    `builder` is "" for this machine.
    """

    kind: int
    subject: str
    builder: str = ""
    lines: list[str] = field(default_factory=list)
    running: bool = True

    @property
    def title(self) -> str:
        if self.kind == WAIT:
            if not self.subject.startswith("waiting for lock"):  # but for a machine, or for a user to build as
                return STORE_PATH.sub(lambda path: path[1].removesuffix(".drv"), self.subject).replace("'", "")
            # For the locks of all outputs: 'PATH', 'PATH-dev'.
            name = min(STORE_PATH.findall(self.subject), key=len, default="it")
            return f"waiting for another build of {name}"
        match = STORE_PATH.fullmatch(self.subject)
        name = match[1].removesuffix(".drv") if match else self.subject
        # A package registry's client downloads within what Nix calls a build.
        fetching = self.kind != BUILD or name.endswith(ARCHIVES)
        return f"{'fetching' if fetching else 'building'} {name}"


@dataclass(frozen=True, slots=True)
class NixError:
    """An error of Nix on one line; `before` is what another program, such as ssh, printed just before."""

    text: str
    before: str = ""


@dataclass(slots=True)
class NixLog:
    reported: list[NixError] = field(default_factory=list)
    activities: dict[int, NixActivity] = field(default_factory=dict)
    _rest: bytes = b""
    _plain: str = ""

    def feed(self, data: bytes) -> str:
        """Take in more output; returns its complete lines as readable text."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return "".join(f"{text}\n" for line in lines if (text := self._line(line)) is not None)

    @property
    def errors(self) -> list[str]:
        return [error.text for error in self.reported]

    def builds(self) -> list[NixActivity]:
        return [activity for activity in self.activities.values() if activity.kind == BUILD]

    def _current(self) -> NixActivity | None:
        activities = list(self.activities.values())
        running = [activity for activity in activities if activity.running]
        return next(reversed(running or activities), None)

    @property
    def doing(self) -> str:
        """The current action, such as `building postgresql-13.16`, or ""."""
        current = self._current()
        return current.title if current else ""

    @property
    def last_line(self) -> str:
        """The current build's last line, shortened, or ""."""
        current = self._current()
        lines = [line for line in current.lines if line.strip()] if current else []
        line = shortened(lines[-1].strip()) if lines else ""
        return line if len(line) <= LINE_CHARS else "…" + line[1 - LINE_CHARS :]

    def printed(self) -> list[str]:
        """The non-empty lines of the build named by the first error, else of all builds."""
        builds = self.builds()
        failed = [build for build in builds if self.errors and build.subject in self.errors[0]]
        return [line.strip() for build in failed or builds for line in build.lines if line.strip()]

    def telling_lines(self) -> tuple[str, ...]:
        """The relevant lines of a failed build: from the compiler's first error on, else the last ones."""
        lines = [shortened(line) for line in self.printed() if not MAKE_CHATTER.match(line)]
        first = next((i for i, line in enumerate(lines) if COMPILER_ERROR.search(line)), len(lines) - LOG_LINES)
        return tuple(lines[max(0, min(first, len(lines) - 1)) :][:LOG_LINES])

    def explanation(self, label: str, code: int) -> str:
        """One line on why Nix ended with this exit code."""
        hashes = HASH.findall(self.errors[0]) if self.errors else []
        if is_failed_build(code) and code & 2 and len(hashes) > 1:
            match = STORE_PATH.search(self.errors[0])
            pinned, actual = hashes[:2]
            name = match[1].removesuffix(".drv") if match else "its source"
            return f"build '{label}': download of {name} refused, its hash is {actual} and the pinned one {pinned}"
        printed: list[str] = []
        if is_failed_build(code):
            lines = self.printed()
            # A compiler's first error says more than make's.
            printed = [line for line in lines if COMPILER_ERROR.search(line)][:1] or lines[-3:]
        return f"build '{label}' failed: {cut_short(' | '.join(printed or self.errors[:1]) or 'its log is empty')}"

    def _line(self, data: bytes) -> str | None:
        try:
            event = msgspec.json.decode(data.removeprefix(MARK), type=_Event) if data.startswith(MARK) else None
        except (ValueError, RecursionError):
            event = None
        if event is None:  # Nix's words before it knows the format, or another program's
            self._plain = data.decode(errors="replace")
            if self._plain.startswith("error: "):
                self.reported.append(NixError(self._plain.removeprefix("error: ")))
            return self._plain
        before, self._plain = self._plain, ""
        match event.action:
            case "msg":
                text = ANSI.sub("", event.msg)
                if event.level == ERROR:
                    self.reported.append(NixError(" ".join(text.removeprefix("error:").split()), before.strip()))
                return text if event.level <= INFO else None
            case "start" if event.type in (COPY, DOWNLOAD, BUILD) and event.level <= INFO:
                texts = [*map(str, event.fields), "", ""]
                activity = NixActivity(event.type, texts[0], texts[1] if event.type == BUILD else "")
                self.activities[event.id] = activity
                return event.text
            case "start" if event.type == WAIT:
                text = ANSI.sub("", event.text)
                self.activities[event.id] = NixActivity(WAIT, text)
                return text
            case "result" if event.type == PRINTED and event.id in self.activities:
                line = ANSI.sub("", "".join(map(str, event.fields)))
                self.activities[event.id].lines.append(line)
                return line
            case "stop" if event.id in self.activities:
                self.activities[event.id].running = False
        return None


def is_failed_build(code: int) -> bool:
    return code & FAILED_BUILD == FAILED_BUILD


def shortened(line: str) -> str:
    """A builder's line for display: of compilers the output, of downloads file and host."""
    if fetched := DOWNLOADED.search(line):
        return f"{fetched[2]} from {fetched[1]}"
    compiled, linked = COMPILED.search(line), LINKED.search(line)
    line = compiled[1] if compiled else f"linking {linked[1]}" if linked else line
    return line if len(line) <= LOG_CHARS else line[: LOG_CHARS - 1] + "…"


def last_words(stderr: str) -> str:
    """The first error of a failed Nix command, else its last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return cut_short(" | ".join(errors[:1] or lines[-1:]) or "it printed nothing")


def cut_short(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARS else "…" + text[-MESSAGE_CHARS:]
