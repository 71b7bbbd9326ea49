"""pgbench's scripts: names, contents, and the line that an error of pgbench refers to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workloads.api.files import read_plain

MAX_BYTES = 1 << 20
NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9_.+-]{0,99}")
# The parts of a script: quoted text is one part, so that a semicolon or a backslash in it ends nothing.
PART = re.compile(
    r"""(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$"""
    r"""|\\[;:]|;|\n|(?:(?!(?<!\w)[eE]')[^;\n'"$/\\-])+|.""",
    re.S,
)
# A command of pgbench's own: to the end of the line, or of the last continuation line.
META = re.compile(r"\\(?![;:])[^\n]*(?:(?<=\\)\n[^\n]*)*")
META_NAME = re.compile(r"\\[\s\\]*(\w*)")
OF_RESULT = ("\\gset", "\\aset")  # part of the SQL command before them
WORD = re.compile(r"\s*(\w+)")
READS = frozenset({"select", "with", "show", "begin", "end", "commit", "start", "set", "values", "table", "explain"})
WRITES = re.compile(
    r"\b(insert|update|delete|merge|copy|truncate|create|drop|vacuum|into|for\s+(no\s+key\s+)?update)\b"
)
CALL = re.compile(r"""((?:[\w$"]+\s*\.\s*)*[\w$"]+)\s*\(""")
# Words before a parenthesis in a script that only reads: SQL keywords, and functions that write nothing.
CALLED = """
all and any array as between by case cast cube distinct else end except exists explain extract filter from group
having ilike in intersect is join lateral like limit materialized not offset on or order over row rollup select sets
similar some then to union using values when where within
bigint char decimal int integer interval numeric time timestamp timestamptz varchar
abs array_agg avg bool_and bool_or ceil ceiling clock_timestamp coalesce concat count date_part date_trunc dense_rank
every first_value floor generate_series greatest hashtext json_agg jsonb_agg lag last_value lead least left length
lower max md5 min mod now nullif pg_backend_pid pg_sleep position power random rank replace right round row_number
sign sqrt stddev string_agg substr substring sum to_char to_date to_timestamp trim unnest upper variance version
"""
READ_ONLY_CALLS = frozenset(CALLED.split())
SLEEP = re.compile(r"\bpg_sleep(_for|_until)?\s*\(", re.I)
# The last command of each file. pgbench reads its clock after waiting, and after a command of its own. If an answer
# came at once it would not, and log a transaction of 0 us: one in a hundred of short ones.
CLOCK = "\\set pgbed_ended 0"
# pgbench's messages about a failed command, with script and command counted from 0: an SQL command, or one of its own,
# whose reason is the line before.
OF_SQL = re.compile(r"client \d+ script (\d+) (?:aborted in )?command (\d+) query \d+:\s*(.*)", re.S)
OF_OWN = re.compile(r"client \d+ aborted in command (\d+) \(.*\) of script (\d+); (.*)")
OF_CONDITION = re.compile(r'condition error in script "(.*)" command (\d+): (.*)')  # commands count from 1
# Before version 13, messages about clients have no prefix.
MESSAGE = re.compile(r"^(?:pgbench: (?:(error|fatal): )?|(?=client \d+ ))", re.M)
# A message about what another error has led to.
RESULT = re.compile(
    r"client \d+ aborted(?: while|:)|Run was aborted|could not create connection|.*perhaps the backend died"
)


@dataclass(frozen=True, slots=True)
class Script:
    """A script with its weight. `text` is empty for a built-in one, which pgbench knows by name."""

    name: str
    weight: int = 1
    text: str = ""

    @property
    def builtin(self) -> bool:
        return not self.text


BUILTIN = {"select": "select-only", "tpcb": "tpcb-like", "simple": "simple-update"}


def timed(script: Script) -> str:
    """A script's text for its file, with a last command that makes pgbench read its clock."""
    return f"{script.text}\n\n{CLOCK}\n"  # two line ends, since its last line may continue


def read(spec: str) -> Script:
    """Read FILE or FILE@WEIGHT, else a unique prefix of a built-in script's name. Raises ValueError."""
    path, at, weight = spec.rpartition("@")
    if not at:
        path, weight = spec, "1"
    if not re.fullmatch("[0-9]{1,9}", weight):
        raise ValueError(f"script {spec}: the weight must be a whole number, not '{weight}'")
    file = Path(path)
    try:
        if not file.is_file():
            builtin_names = [name for name in BUILTIN.values() if path and name.startswith(path)]
            if len(builtin_names) == 1:
                return Script(builtin_names[0], int(weight))
            if not file.exists():
                names = ", ".join(BUILTIN.values())
                raise ValueError(f"script {path}: no such file, and none of pgbench's own scripts: {names}")
        text = read_plain(file, MAX_BYTES, follow=True).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file (UTF-8)"
        raise ValueError(f"script {path}: {reason}") from None
    if not text.strip():
        raise ValueError(f"script {path}: it is empty")
    return checked(Script(file.name, int(weight), text))


def checked(script: Script) -> Script:
    """The script, if its name is a plain file name or a built-in one. Raises ValueError otherwise."""
    if script.name in BUILTIN.values() if script.builtin else NAME.fullmatch(script.name):
        return script
    raise ValueError(f"script {script.name!r}: a script's name has letters, digits, and _ - + . only")


def read_setup(path: str, scripts: Sequence[Script]) -> Script:
    """The script that is run once. Raises ValueError if it is invalid, or another has its name."""
    setup = read(path)
    if setup.builtin or setup.weight != 1:
        raise ValueError(f"setup {path}: no such file")
    if setup.name in {script.name for script in scripts}:
        raise ValueError(f"setup {path}: a script has this name; give one of them another")
    return setup


def read_all(specs: Sequence[str]) -> tuple[Script, ...]:
    """The scripts of a plan. Raises ValueError if one is invalid, or two have the same name."""
    if not specs:
        raise ValueError(
            "no script given: --workload pgbench:FILE.sql, or pgbench-select, pgbench-tpcb, pgbench-simple"
        )
    scripts = tuple(read(spec) for spec in specs)
    names = [script.name for script in scripts]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"script {name}: two scripts of one name; give one of them another")
    if not any(script.weight for script in scripts):
        raise ValueError("the scripts' weights add up to 0: none would ever be run")
    return scripts


def commands(text: str) -> list[tuple[int, str]]:
    """A script's commands as pgbench counts them: first line (from 1) and text, pgbench's own in lower case."""
    lines: list[tuple[int, str]] = []
    line, begun, sql, place = 1, 0, "", 0

    def end() -> None:
        nonlocal sql
        if sql.strip():
            lines.append((begun, sql.strip()))
        sql = ""

    while place < len(text):
        meta = META.match(text, place)
        part = meta or PART.match(text, place)
        assert part is not None
        word = part.group()
        comment = word.startswith(("--", "/*"))
        if meta:
            end()
            meta_command = META_NAME.sub(lambda name: f"\\{name.group(1).lower()}", word, count=1).strip()
            if meta_command.startswith(OF_RESULT) and lines:
                lines[-1] = (lines[-1][0], f"{lines[-1][1]} {meta_command}")
            else:
                lines.append((line, meta_command))
        elif word == ";":
            end()
        elif not comment:
            if word.strip() and not sql.strip():
                begun = line
            sql += word
        line += word.count("\n")
        place = part.end()
    end()
    return lines


def writes(script: Script) -> bool:
    """Whether a script may write: errs on the side of yes, such as for unknown functions."""
    if script.builtin:
        return script.name != BUILTIN["select"]
    return any(_may_write(sql) for _, text in commands(script.text) if text[0] != "\\" for sql in text.split("\\;"))


def _may_write(sql: str) -> bool:
    word, small = WORD.match(sql), sql.lower()
    if not sql.strip():
        return False
    if word is None or word.group(1).lower() not in READS or WRITES.search(small):
        return True
    return not READ_ONLY_CALLS.issuperset(CALL.findall(small))


def sleeps(scripts: Iterable[Script]) -> bool:
    """Whether clients rest within a script, so that an idle session means nothing."""
    return any(text.startswith("\\sleep") for script in scripts for _, text in commands(script.text))


def waits(scripts: Iterable[Script]) -> bool:
    """Whether a script waits by the clock, in its client or in the server, as far as its text tells."""
    scripts = tuple(scripts)
    return sleeps(scripts) or any(SLEEP.search(sql) for script in scripts for _, sql in commands(script.text))


def error_of(errors: str, scripts: Sequence[Script], folder: str) -> str:
    """A failure's reason in one line, from pgbench's standard error, with script (without `folder`) and line.

    The first error is the cause: other clients fail because of it, and then the run.
    """
    text = errors.replace(f"{folder}/", "").strip()
    before, *parts = MESSAGE.split(text)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    said = [message for kind, message in pairs if kind or message.startswith("client ")] or [before]
    first = next((message for message in said if not RESULT.match(message)), said[0])
    rest = [message for message in said[said.index(first) + 1 :] if message.strip() != first.strip()]
    if match := OF_SQL.match(first):
        why = re.split(r"\n(?:LINE \d|DETAIL|CONTEXT|HINT|STATEMENT)", match.group(3))[0]
        return _told(f"{_place(scripts, int(match.group(1)), int(match.group(2)))}: {why}")
    if match := OF_CONDITION.search(first):
        return _told(f"{_place_of_condition(scripts, match.group(1), int(match.group(2)))}: {match.group(3)}")
    if match := OF_OWN.match(first):
        return _told(f"{_place(scripts, int(match.group(2)), int(match.group(1)))}: {match.group(3)}")
    why = first.strip().splitlines()[0] if first.strip() else "pgbench ended without a word"
    if rest and (match := OF_OWN.match(rest[0])):
        why = f"{_place(scripts, int(match.group(2)), int(match.group(1)))}: {why}"
    return _told(why)


def _told(text: str) -> str:
    return " ".join(text.split())


def _place(scripts: Sequence[Script], number: int, command: int) -> str:
    if number >= len(scripts):
        return f"script {number}, command {command}"
    script = scripts[number]
    lines = commands(script.text)
    if command >= len(lines):
        return f"{script.name}, command {command + 1}"
    return f"{script.name}:{lines[command][0]}"


def _place_of_condition(scripts: Sequence[Script], name: str, command: int) -> str:
    """Script and line of a wrong condition; an unclosed `\\if` is reported at the end, but located where it begins."""
    known = next((script for script in scripts if script.name == name), None)
    lines = commands(known.text) if known is not None else []
    opened: list[int] = []
    for line, text in lines:
        if text.startswith("\\if"):
            opened.append(line)
        elif text.startswith("\\endif"):
            del opened[-1:]
    if command <= len(lines):
        return f"{name}:{lines[command - 1][0]}"
    return f"{name}:{opened[-1]}" if opened else f"{name}, command {command}"
