"""The manual and other texts of the same source: help, man page, samples, README's links."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from engine.cli.commands import COMMANDS, EXIT_CODES
from engine.plan.request import request_options
from tests.test_documented_commands import BLOCK, GENERATED, bench

HOME = Path(__file__).parents[1]
DOCS = HOME / "docs"
MACROS = {".TH", ".SH", ".SS", ".PP", ".TP", ".nf", ".fi", ".br", ".B", ".RS", ".RE"}
LINK = re.compile(r"""(?:\]\(|src(?:set)?=")([^)#:"]+)[)"]""")
CODE = ("engine", "probes", "tui", "workloads")
MOST_LINES = 120


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_ends_with_a_page_about_the_command(command: str) -> None:
    lines = bench(command, "--help").output.rstrip().splitlines()
    assert max(map(len, lines)) <= 80
    last = lines[-1].strip()
    page = last.removeprefix("Manual: docs/")
    assert page != last and (page in GENERATED or f"bench {command}" in (DOCS / page).read_text())


def test_the_help_of_a_command_below_another_ends_likewise() -> None:
    assert bench("list", "runs", "--help").output.rstrip().endswith("Manual: docs/how-to/comparisons.md")


def test_the_man_page_has_every_command_option_and_exit_code() -> None:
    text = runpy.run_path(str(DOCS / "manpage.py"))["page"]()
    assert {line.split(" ")[0] for line in text.splitlines() if line.startswith((".", "'"))} == MACROS
    shown = text.replace(r"\-", "-")
    assert [name for name in COMMANDS if f".SS bench {name} " not in shown] == []
    assert [option.flag for option in request_options() if f"\\fB{option.flag}" not in shown] == []
    assert all(meaning in shown for _, meaning in EXIT_CODES)


def test_a_text_keeps_its_signs_in_roff() -> None:
    roff = runpy.run_path(str(DOCS / "manpage.py"))["roff"]
    assert roff(r".a\b `c-d`") == r"\&.a\eb c\-d"


def test_the_tutorial_quotes_the_sample_comparison(tmp_path: Path) -> None:
    run = bench("demo", "--to", str(tmp_path)).output.partition(";")[0]
    generated = runpy.run_path(str(DOCS / "generated.py"))
    sample = generated["comparison"](run)
    quoted = [
        text for language, text in BLOCK.findall((DOCS / "tutorial" / "first-comparison.md").read_text()) if language
    ]
    assert len(quoted) > 3
    assert [text for text in quoted if text not in sample] == []


def test_the_builds_page_has_the_labels_of_the_catalog() -> None:
    listed = {line.split()[0] for line in bench("list", "builds").output.splitlines()[1:]}
    page = GENERATED["reference/builds.md"]()
    assert {label for label in listed if re.match(r"\d", label)} <= set(re.findall(r"`(\d[^`:]*)`", page))


def test_troubleshooting_quotes_messages_of_the_program() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE)
    code = " ".join(path.read_text() for folder in CODE for path in (HOME / folder).rglob("*.py"))
    code = re.sub(r'"\s*\n\s*f?"', "", code)  # a text in several lines
    code = re.sub(r"\{[^{}]*\}", "…", code)
    quoted = [message for row in rows for message in re.findall(r"`([^`]*)`", row)]
    assert len(quoted) > 25
    assert [message for message in quoted if any(part.strip(" …") not in code for part in re.split("…", message))] == []


def test_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (HOME / "README.md").read_text()
    assert len(text.splitlines()) <= MOST_LINES
    assert [link for link in LINK.findall(text) if not (HOME / link).exists()] == []
