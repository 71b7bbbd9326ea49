"""The words of the product's text that are not plain English, or have another word in the glossary.

    python -m tests.idioms [manual]

Strings, docstrings and comments are read, and README and the manual, more strictly; names are not. And which tests
within the Nix build name a file of the machine, which the sandbox of a build lacks; and which calls read text of
programs or files without saying what becomes of bytes that are not UTF-8. A class name occurs once,
a docstring opens with a thing or a verb, and names of locals say what they hold.
"""

from __future__ import annotations

import ast
import gc
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGES = ("engine", "tui", "workloads", "probes")
TEXT = {".bt", ".sql", ".toml", ".html", ".css"}  # read whole
IDIOMS = (
    "is none", "so many", "by itself", "goes on", "what there is", "that there is not", "for what is none",
    "whoever", "nobody knows", "is said", "are said", "is told", "are told",
)  # fmt: skip
BEGINNINGS = ("Of its", "Of their")  # of a sentence
INSTEAD = {  # what the glossary does not say -> what it does
    "abreast": "interleaved, side by side",
    "in turns": "interleaved",
    "driven": "run, interleaved",
    "running already": "external server",
    "attached server": "external server",
    "headline": "primary metric",
    "stands out": "is flagged",
    "stand out": "are flagged",
    "ragged": "imbalance",
}
FOUND = re.compile(
    r"\d %(?!\w)|"  # 2%, without a blank
    rf"(?i:\b(?:{'|'.join((*IDIOMS, *INSTEAD))})\b)|(?:(?<=[.:;] )|(?<=^)|(?<=\"\"\"))(?:{'|'.join(BEGINNINGS)})\b"
)

VOICELESS = r"\b(?:(?:[Tt]hat|[Tt]hose) of|others'|(?:as|by|for|from|of|to|with) others|says|said|tells|told)\b"
MANUAL = re.compile(  # its text is read by more people than comments are
    r"\d %(?!\w)|\b(?:anew|for certain|times as|baseline|four times in five)\b|, too(?=[.,;:]|$)|"
    rf"(?<!-after: )\bbeside\b|(?:^|[.:;] )Of\b|` names?\b|{VOICELESS}"
)
TEXTS = ("README", "CONTRIBUTING", "RELEASING", "SECURITY")
ITEM = re.compile(r" *(?:[-*]|\d+\.) ")
NAMES = re.compile(r"\{[^{}]*\}|`[^`]*`|^\"\w+\"$")  # within a text: values put in there, and names


def complaints(home: Path) -> Iterator[str]:
    """Findings below a source tree, as lines."""
    for package in PACKAGES:
        for path in sorted((home / package).rglob("*")):
            if path.suffix == ".py" or path.suffix in TEXT:
                faults = (*strict_reads(path), *headless(path))
                yield from (f"{path.relative_to(home)}:{line}: {why}" for line, why in faults)
                for line, text in pieces(path):
                    for match in FOUND.finditer(text):
                        word = match[0].lower()
                        if match[0].endswith("None"):  # Python's
                            continue
                        instead = f": say {INSTEAD[word]}" if word in INSTEAD else ""
                        at = line + text.count("\n", 0, match.start())
                        yield f"{path.relative_to(home)}:{at}: {match[0]!r}{instead}"


def manual(home: Path) -> Iterator[str]:
    """Findings in README, its like and the manual, as lines."""
    ignored = home / ".gitignore"  # which a source without Git lacks, as it lacks ignored files
    generated = ignored.read_text("utf-8").split() if ignored.is_file() else []
    for path in (*(home / f"{name}.md" for name in TEXTS), *sorted((home / "docs").rglob("*.md"))):
        if not path.is_file() or str(path.relative_to(home)) in generated:
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield from (f"{path.relative_to(home)}:{number}: {match[0]!r}" for match in MANUAL.finditer(line))
        for number, paragraph in paragraphs(path.read_text("utf-8")):
            for sentence in re.split(r"(?<=[.?!])\s+(?=[A-Z`*\[])", paragraph):
                if len(re.findall(r"[:;](?=\s)", sentence)) > 1:
                    yield f"{path.relative_to(home)}:{number}: two colons or semicolons in {sentence[:60]!r}"


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """The paragraphs and items of Markdown with their line, without code, tables, headings and brackets."""
    begun, words, fenced = 0, "", False
    for number, line in enumerate((*text.splitlines(), ""), 1):
        fence = line.lstrip().startswith("```")
        apart = fenced or fence or not line.strip() or line.startswith(("    ", "|", "#"))
        if words and (apart or ITEM.match(line)):
            yield begun, re.sub(r"\([^()]*\)", "", re.sub(r"`[^`]*`", "X", words))
            words = ""
        fenced ^= fence
        begun, words = (begun if words else number), "" if apart else f"{words} {line.strip()}"


def shown(path: Path) -> Iterator[str]:
    """Texts of a module that people see and that have no subject, or one that cannot speak."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    about = {id(node.body[0].value) for node in nodes(path) if isinstance(node, documented)
             and isinstance(node.body[0], ast.Expr) and not _is_help(node)}  # fmt: skip
    for node in nodes(path):
        if isinstance(node, ast.Constant) and " " in str(node.value) and id(node) not in about:
            yield from (f"{path}:{node.lineno}: {match[0]!r}" for match in re.finditer(VOICELESS, str(node.value)))


def _is_help(node: ast.AST) -> bool:
    """Whether the docstring of a definition is the help of a command."""
    return any(re.search(r"\b(command|group)\(", ast.unparse(mark)) for mark in getattr(node, "decorator_list", ()))


HEADLESS = re.compile(
    r"(?:(?:^|(?<=[.:;#/-] ))What\b|\b(?:of|by|with|from|in|to|than|after|behind|but|all|for|at|on|less|and|as) what\b"
    r"(?! to\b)|\b[Ww]hat (?:is|was|are|were)\b)(?![^.]*\?)"
)


def headless(path: Path) -> Iterator[tuple[int, str]]:
    """The places in docstrings and comments where "what" stands for a thing that has a name; questions may have it."""
    for line, text in pieces(path) if path.suffix not in (".html", ".css") else ():
        seen = path.suffix != ".py" or text.startswith(("#", '"""'))
        for match in HEADLESS.finditer(text.lstrip('"')) if seen else ():
            yield line + text.count("\n", 0, match.start()), f"{match[0]!r} names no thing"


def strict_reads(path: Path) -> Iterator[tuple[int, str]]:
    """Calls of programs with `text`, and of `read_text`, that do not say `errors` or, for a file of ours, "utf-8"."""
    for call in nodes(path) if path.suffix == ".py" else ():
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        name, keywords = call.func.attr, {keyword.arg for keyword in call.keywords}
        if name in ("run", "Popen", "check_output") and "text" in keywords and "errors" not in keywords:
            yield call.lineno, 'text of a program: say errors="replace"'
        if name == "read_text" and not call.args and not keywords:
            yield call.lineno, 'text of a file: say errors="replace", or "utf-8" for one of ours'


@cache
def pieces(path: Path) -> list[tuple[int, str]]:
    """The texts of a file, each with its line; line breaks within one are blanks to the search."""
    text = path.read_text("utf-8")
    if path.suffix in TEXT:
        return [(1, NAMES.sub("", text))]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    texts = [token for token in tokens if token.type in (tokenize.STRING, tokenize.COMMENT)]
    return [(token.start[0], NAMES.sub("", token.string)) for token in texts]


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a module's syntax tree, which comes first."""
    return list(ast.walk(ast.parse(path.read_bytes())))


OPENINGS = re.compile(
    r"(What|Whether|How|Where|Which|When|Why|Who|Of|By|With|From|In|For|At|On|To|As|If|Without|Not|Only|Also|Up|That|Is)\b"
)
VAGUE = {"found", "each", "own", "made", "told", "whole"}  # they do not say what they hold
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
MOST_CHARS = 60  # of a test's name


def words(home: Path) -> Iterator[str]:
    """Docstrings that open without a thing or a verb, vague locals, and long names of tests."""
    files = (path for package in (*PACKAGES, "tests") for path in sorted((home / package).rglob("*.py")))
    for path, node in ((file, node) for file in files for node in nodes(file)):
        if not isinstance(node, (ast.Module, ast.ClassDef, *FUNCTION)):
            continue
        where = f"{path.relative_to(home)}:{getattr(node, 'lineno', 1)}"
        answers = isinstance(node, FUNCTION) and node.returns and "bool" in ast.unparse(node.returns)
        match = OPENINGS.match(ast.get_docstring(node) or "")
        if match and not (answers and match[0] == "Whether"):
            yield f"{where}: a docstring that opens with {match[0]!r}"
        if isinstance(node, ast.Module) and path.is_relative_to(home / "tests"):
            yield from (f"{path.relative_to(home)}:{line}: {why}" for line, why in headless(path))
        if isinstance(node, FUNCTION):
            yield from (f"{where}: {name!r} does not say what it holds" for name in sorted(_local(node) & VAGUE))
            if node.name.startswith("test_") and len(node.name) > MOST_CHARS:
                yield f"{where}: a test's name of {len(node.name)} characters"


def _local(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names of a function's parameters and variables."""
    inside = list(ast.walk(function))
    stored = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in inside if isinstance(node, ast.arg)}


def repeated_classes(home: Path) -> Iterator[str]:
    """Class names of the product that stand for more than one class, but for those of a protocol, as lines."""
    places: dict[str, list[str]] = {}
    for path in (path for package in PACKAGES for path in sorted((home / package).rglob("*.py"))):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and node.name not in ("Options", "Part"):
                places.setdefault(node.name, []).append(f"{path.relative_to(home)}:{node.lineno}")
    yield from (f"{' and '.join(where)}: two classes {name}" for name, where in places.items() if len(where) > 1)


MACHINE = re.compile(r"/(usr|s?bin|lib(64)?|sys)(/\S*)?")
IN_SANDBOX = ("/bin/sh",)


def files_of_the_machine(home: Path) -> Iterator[str]:
    """The paths, in tests that are not marked `outside`, of files that a sandbox lacks, as lines."""
    for path in sorted((home / "tests").rglob("test_*.py")):
        for node in _inside(nodes(path)[0]):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node.value in IN_SANDBOX:
                continue
            if MACHINE.fullmatch(node.value):
                where = f"{path.relative_to(home)}:{node.lineno}"
                yield f"{where}: a build's sandbox lacks {node.value!r}: make it, search PATH, or mark the test outside"


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """A syntax tree without parts marked `outside`, and without the parts of f-strings."""
    if isinstance(node, ast.Module) and any(
        isinstance(line, ast.Assign) and "pytestmark" in ast.unparse(line) and "mark.outside" in ast.unparse(line)
        for line in node.body
    ):
        return
    marks = getattr(node, "decorator_list", ())
    if isinstance(node, ast.JoinedStr) or any("mark.outside" in ast.unparse(mark) for mark in marks):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _inside(child)


def everything(home: Path) -> Iterator[str]:
    """All findings, as lines."""
    gc.disable()  # syntax trees stay
    for look in (complaints, manual, words, repeated_classes, files_of_the_machine):
        yield from look(home)
    for package in PACKAGES:
        yield from (line for path in sorted((home / package).rglob("*.py")) for line in shown(path))


if __name__ == "__main__":
    lines = list((manual if sys.argv[1:] == ["manual"] else everything)(Path(__file__).parents[1]))
    print(*lines, sep="\n", file=sys.stderr) if lines else None
    sys.exit(1 if lines else 0)
