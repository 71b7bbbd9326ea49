"""Text of others: what it is made into, and that mypy lets nobody write it as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mypy import api

from engine.core.text import csv_text, visible, visible_json, visible_lines, visible_record

HOSTILE = "a\nb\x1b[2J\u202e\x9b\x7f\udcff"
SHOWN = "a\\nb\\x1b[2J\\u202e\\x9b\\x7f\\udcff"


def test_text_is_made_visible() -> None:
    assert visible(HOSTILE) == SHOWN
    assert visible_lines(HOSTILE) == SHOWN.replace("\\n", "\n")
    assert visible_record({HOSTILE: [HOSTILE, 1, None]}) == {SHOWN: [SHOWN, 1, None]}


def test_json_is_ascii_without_control_characters() -> None:
    text = visible_json({HOSTILE: HOSTILE})
    assert text.isascii() and text.isprintable() and json.loads(text) == {HOSTILE: HOSTILE}


def test_a_spreadsheet_takes_no_cell_for_a_formula() -> None:
    assert [csv_text(text) for text in ("=1+1", "-1.5", "+x", "@a", "l.i1", "-")] == [
        "'=1+1", "-1.5", "'+x", "'@a", "l.i1", "'-",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.screens
def test_mypy_refuses_to_write_text_that_is_not_visible(tmp_path: Path) -> None:
    refused = {
        "text.write(foreign, sys.stderr)": "write",
        "text.write(text.visible(foreign) + foreign, sys.stderr)": "write",
        "console.echo_lines(foreign)": "echo_lines",
        "disk.write_text(Path(), foreign)": "write_text",
        "disk.replace_text(Path(), foreign)": "replace_text",
        "text_lines._segment(foreign, Style())": "_segment",
        "text.write(text.visible(foreign), sys.stderr)": "",
    }
    module = tmp_path / "edge.py"
    imports = (
        "import sys", "from pathlib import Path", "from rich.style import Style", "from engine.core import text",
        "from engine.host import disk", "from engine.report import console", "from tui.widgets import text_lines",
    )  # fmt: skip
    module.write_text("\n".join((*imports, "foreign: str = sys.argv[0]", *refused, "")))
    report, complaint, _ = api.run(["--cache-dir", str(tmp_path), "--follow-imports=silent", str(module)])
    *lines, _ = report.splitlines()
    assert complaint == "" and len(lines) == len(refused) - 1, report
    for place, (line, name) in enumerate(zip(lines, refused.values(), strict=False), len(imports) + 2):
        assert f"edge.py:{place}: " in line and f'"{name}"' in line and 'expected "Visible"' in line
