"""The pages of the reference that are made of the code: options, presets, probes, records, glossary.

python docs/generated.py FOLDER        writes them below a folder, as Sphinx does by itself
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from click.testing import CliRunner

from engine.cli.main import main
from engine.plan.request import Request
from probes.table import PROBES
from tui.glossary import FIGURES, VOCABULARY
from workloads import workloads
from workloads.options import Option, options_of
from workloads.presets import presets

ROOT = Path(__file__).parent.parent


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; its cells are plain text."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def code(text: str) -> str:
    """Text as code, or nothing."""
    return f"`{text}`" if text else ""


def options() -> str:
    """Every option of `bench run`: those of a plan, then those of each workload."""
    parts = ["# Options\n", "Those of a plan hold for every workload. A plan file has them by their keys.\n"]
    parts.append(_options(options_of(Request)))
    for workload in workloads():
        parts += [f"## Workload {workload.name}\n", _options(options_of(workload.options))]
    return "\n".join(parts)


def _options(found: Iterable[Option]) -> str:
    rows = (
        [code(option.flag), code(option.name), option.text, option.words, code(_default(option))] for option in found
    )
    return table(("option", "key", "meaning", "value", "default"), rows)


def _default(option: Option) -> str:
    if option.unset or option.default in (None, (), "", False):
        return option.unset
    return ",".join(map(str, option.default)) if option.many else str(option.default)


def the_presets() -> str:
    """Presets and the questions that they answer."""
    rows = ((code(name), preset.workload, preset.question) for name, preset in presets().items())
    return f"# Presets\n\n{table(('preset', 'workload', 'question'), rows)}"


def the_probes() -> str:
    """Probes: question, cost and what they need."""
    rows = ((code(probe.id), probe.question, probe.cost) for probe in PROBES)
    return f"# Probes\n\n{table(('probe', 'question', 'cost'), rows)}"


def commands() -> str:
    """The help of every command."""
    names = sorted(main.list_commands(None))  # type: ignore[arg-type]
    parts = ["# Commands\n"]
    for name in names:
        shown = CliRunner().invoke(main, [name, "--help"], terminal_width=100).output
        parts += [f"## bench {name}\n", f"```text\n{shown.rstrip()}\n```\n"]
    return "\n".join(parts)


def records() -> str:
    """The keys of what pgbed writes as JSON, and the schema of the journal."""
    parts = ["# Records\n", "`bench schema RECORD` prints the JSON Schema of each.\n"]
    for name in ("compare", "slices", "flame", "manifest"):
        schema = json.loads(CliRunner().invoke(main, ["schema", name]).output)
        parts.append(f"## {name}\n")
        for title, part in schema["$defs"].items():
            if properties := part.get("properties"):
                text = " ".join(part.get("description", "").split())
                parts += [f"**{title}.** {text}\n", ", ".join(f"`{key}`" for key in properties) + "\n"]
    sql = (ROOT / "engine/journal/schema.sql").read_text()
    return "\n".join((*parts, "## journal.db\n", f"```sql\n{sql}```\n"))


def glossary() -> str:
    """The words of the screens and of the manual."""
    words, figures = (
        table(("word", "meaning"), ((entry.term, entry.meaning) for entry in entries))
        for entries in (VOCABULARY, FIGURES)
    )
    return f"# Glossary\n\n{words}\n## Figures on the screens\n\n{figures}"


PAGES: dict[str, Callable[[], str]] = {
    "reference/options.md": options,
    "reference/presets.md": the_presets,
    "reference/probes.md": the_probes,
    "reference/commands.md": commands,
    "reference/records.md": records,
    "glossary.md": glossary,
}


def write(folder: Path) -> None:
    """Writes all pages below a folder; one that has not changed keeps its time."""
    for name, page in PAGES.items():
        path, text = folder / name, page()
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
