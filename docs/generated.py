"""The pages of the manual that are generated (options, builds, presets, records, glossary, …), and its samples: the
comparison and the report of the demo's recording.

PYTHONPATH=. python docs/generated.py FOLDER        writes them below a folder, as Sphinx does with each build
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from engine.builds.compile_variants import CFLAGS, VARIANTS
from engine.cli.commands import COMMANDS, EXIT_CODES
from engine.cli.main import main
from engine.cli.run import SHORT
from engine.cli.schema import RECORDS
from engine.cli.settings import ENVIRONMENT, Settings
from engine.plan.request import request_options
from engine.postgres import configs
from probes.table import PROBES
from tui.glossary import FIGURES, VOCABULARY
from workloads import workloads
from workloads.api.options import Option, options_of
from workloads.presets import presets

ROOT = Path(__file__).parent.parent
VERSIONS = ROOT / "nix" / "postgres" / "versions.nix"
BUILTIN_SINCE = 17  # releases have a builtin locale provider
TERMINAL_WIDTH = 80


def bench(*words: str, width: int | None = None) -> str:
    """What a command prints."""
    done = CliRunner().invoke(main, words, prog_name="bench", terminal_width=width)
    if done.exit_code != 0:
        raise RuntimeError(f"bench {' '.join(words)}: {done.output}")
    return done.output


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; its cells are plain text."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def code(text: str) -> str:
    """Text as code, or nothing."""
    return f"`{text}`" if text else ""


def options() -> str:
    """Every option of `bench run`: those of a plan, then those of each workload."""
    parts = [
        "# Options\n",
        "All options of `bench run`, in the order of its `--help-all`. A plan file uses their keys.\n",
        "## Options of every workload\n",
    ]
    parts.append(_options(request_options()))
    for workload in workloads():
        parts += [f"## Workload {workload.name}\n", _options(options_of(workload.options))]
    return "\n".join(parts)


def _options(found: Iterable[Option]) -> str:
    lines = []
    for option in found:
        names = ", ".join((*SHORT.get(option.flag, ()), option.flag))
        flag = code(f"{names} {option.metavar}".rstrip() if option.flag else f"-O {option.name}=")
        default = f" Default: {own}." if (own := _default(option)) else ""
        lines.append(f"- {flag} (key {code(option.name)}, {option.words}): {option.text}{default}")
    return "\n".join(lines) + "\n"


def _default(option: Option) -> str:
    if option.unset or option.default in (None, (), "", False):
        return option.unset
    return code(",".join(map(str, option.default)) if option.many else str(option.default))


def environment() -> str:
    """The environment variables, and the keys of config.toml."""
    variables = table(("variable", "meaning"), ((code(name), text) for name, text in ENVIRONMENT))
    keys = table(("key", "value", "meaning"), ((code(key.name), key.metavar, key.text) for key in options_of(Settings)))
    return (
        f"# Environment and config.toml\n\nThe environment variables of `bench`.\n\n{variables}\n"
        f"## Keys of config.toml\n\nThe file is `~/.config/pgbed/config.toml`; see [](settings.md).\n\n{keys}"
    )


def exit_codes() -> str:
    """The exit codes of all commands."""
    rows = table(("code", "meaning"), EXIT_CODES)
    text = "Every command of `bench` ends with one of these codes; an error is one line on stderr."
    return f"# Exit codes\n\n{text}\n\n{rows}"


def the_builds() -> str:
    """The labels of the version table, and the variants."""
    rows = []
    for version, entry in re.findall(r'^  "([^"]+)" = \{\n(.*?)^  \};', VERSIONS.read_text(), re.MULTILINE | re.DOTALL):
        labels = (version, f"{version}-prebuilt" if "prebuilt" in entry else "")
        twins = tuple(f"{label}-builtin" for label in labels if label) if _major(version) >= BUILTIN_SINCE else ()
        rows.append((*map(code, labels), ", ".join(map(code, twins))))
    releases = table(("from source", "compiled by somebody else", "with the builtin locale provider"), rows)
    variants = table(
        ("variant", "CFLAGS", "arguments of configure"),
        (
            *((code(f":{name}"), code(" ".join(own.cflags)), code(" ".join(own.configure_flags)))
              for name, own in VARIANTS.items()),
            (code(f":{CFLAGS}FLAGS"), "FLAGS", ""),
        ),
    )  # fmt: skip
    return (
        "# Builds\n\nReleases that `--pg` can name, as in `nix/postgres/versions.nix` and `bench list builds`. Trees, "
        f"commits and patches: [](../how-to/builds.md).\n\n{releases}\n## Variants\n\nAppended to a label or "
        f"a tree, as in `17.11:O3:lto`; what they add to the recipe of all builds:\n\n{variants}"
    )


def _major(version: str) -> int:
    return int(re.split(r"\D", version)[0])


def the_configs() -> str:
    """Sets of server settings."""
    rows = ((code(config.name), config.description) for config in configs.catalog())
    text = "Sets of server settings that `--config` can name; a file of `postgresql.conf` or TOML also is one."
    return f"# Configs\n\n{text}\n\n{table(('config', 'description'), rows)}"


def the_presets() -> str:
    """Presets and the questions that they answer."""
    rows = ((code(name), preset.workload, preset.question) for name, preset in presets().items())
    text = "Plans that `--preset` can name, each with the question that it answers: see [](../how-to/presets.md)."
    return f"# Presets\n\n{text}\n\n{table(('preset', 'workload', 'question'), rows)}"


def the_probes() -> str:
    """Probes, with question and cost."""
    rows = ((code(probe.id), probe.question, probe.cost) for probe in PROBES)
    text = "Probes that `--probes` can name, and what they cost: see [](../how-to/probes.md)."
    return f"# Probes\n\n{text}\n\n{table(('probe', 'question', 'cost'), rows)}"


def commands() -> str:
    """The help of every command."""
    parts = ["# Commands\n", "The help of each command. `bench run --help-all` and [](options.md) have all options.\n"]
    for name in sorted(COMMANDS):
        shown = bench(name, "--help", width=TERMINAL_WIDTH)
        parts += [f"## bench {name}\n", f"```text\n{shown.rstrip()}\n```\n"]
    return "\n".join(parts)


def records() -> str:
    """The keys of what pgbed writes as JSON, and the schema of the journal."""
    parts = [
        "# Records\n",
        "The keys of what pgbed writes; `bench schema RECORD` prints the JSON Schema of each record.\n",
    ]
    for name in RECORDS:
        schema = json.loads(bench("schema", name))
        parts.append(f"## {name}\n")
        for title, part in schema["$defs"].items():
            if properties := part.get("properties"):
                text = " ".join(part.get("description", "").split())
                rows = ((code(key), _type(value)) for key, value in properties.items())
                parts += [f"**{title}.** {text}\n", table(("key", "value"), rows)]
    schema, views = ((ROOT / "engine/journal" / name).read_text() for name in ("schema.sql", "views.sql"))
    return "\n".join((*parts, "## journal.db\n", f"```sql\n{schema}\n{views}```\n"))


def _type(schema: dict[str, Any]) -> str:
    """The values that a part of a schema allows, in words."""
    if reference := schema.get("$ref"):
        return str(reference).rpartition("/")[2]
    if choices := schema.get("anyOf"):
        return " or ".join(map(_type, choices))
    if values := schema.get("enum"):
        return ", ".join(code(str(value)) for value in values)
    if schema.get("type") == "array":
        items = schema.get("items") or next(iter(schema.get("prefixItems", ())), {})
        return f"list of {_type(items)}"
    if isinstance(values := schema.get("additionalProperties"), dict):
        return f"object, of each key: {_type(values)}"
    return str(schema.get("type", "any"))


def glossary() -> str:
    """The words of the screens and of the manual."""
    words, figures = (
        table(("word", "meaning"), ((entry.term, entry.meaning) for entry in entries))
        for entries in (VOCABULARY, FIGURES)
    )
    text = "The words of pgbed, on its screens and in this manual."
    return f"# Glossary\n\n{text}\n\n{words}\n## Figures on the screens\n\n{figures}"


def comparison(run: str) -> str:
    """The output of `bench compare --all`, as wide as a terminal."""
    lines = bench("compare", "--all", run).splitlines()
    return "\n".join("\n".join(textwrap.wrap(line, TERMINAL_WIDTH)) if line.strip() else "" for line in lines) + "\n"


def report(run: str) -> str:
    """The page of a run."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        bench("report", run, "--to", str(page))
        return page.read_text()


PAGES: dict[str, Callable[[], str]] = {
    "reference/builds.md": the_builds,
    "reference/exit-codes.md": exit_codes,
    "reference/options.md": options,
    "reference/environment.md": environment,
    "reference/configs.md": the_configs,
    "reference/presets.md": the_presets,
    "reference/probes.md": the_probes,
    "reference/commands.md": commands,
    "reference/records.md": records,
    "glossary.md": glossary,
}


SAMPLES: dict[str, Callable[[str], str]] = {
    "sample/sample-comparison.txt": comparison,
    "sample/sample-report.html": report,
}


def write(folder: Path) -> None:
    """Writes all pages below a folder; a file that would not change is not written."""
    pages = {name: page() for name, page in PAGES.items()}
    with tempfile.TemporaryDirectory() as out:
        run = bench("demo", "--to", out).partition(";")[0]
        pages |= {name: sample(run) for name, sample in SAMPLES.items()}
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
