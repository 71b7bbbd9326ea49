"""Printed comparisons: complete in 80 columns, readable without colour, the same in all formats."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from engine.analysis.answer.compare import compare
from engine.core.model import Cell
from engine.journal.totals import StepTotals
from engine.observe.stalls import Stall
from engine.report import document, gate, render, tables
from engine.report.gate import GatedStep
from engine.results.comparison import Comparison
from engine.results.section import Notes, drawn, number
from tests.support.journal import make_run
from tests.support.totals import SECOND_NS

LONG = "17beta1-builtin"


def printed(comparison: Comparison, width: int = 80, encoding: str = "utf-8", published: bool = False) -> str:
    raw = io.BytesIO()
    console = Console(
        file=io.TextIOWrapper(raw, encoding=encoding, newline="\n", write_through=True),
        width=width, force_terminal=False, highlight=False,
    )  # fmt: skip
    render.print_comparison(comparison, console, published=published)
    return raw.getvalue().decode(encoding)


@pytest.fixture
def rich_run(tmp_path: Path) -> Path:
    """A run that has something for every table: effects, stalls, a missed SLA, a failed cell, A/A."""

    def stalled(cell: Cell, step: str, started_ns: int) -> list[Stall]:
        if step != "l.i1" or cell.subject.build != LONG:
            return []
        causes = ({"kind": "checkpoint", "text": "checkpoint sync"},)
        ended_ns = started_ns + 14 * SECOND_NS
        return [Stall("insert", 1, started_ns, ended_ns, "rate", 0.01, 14.0, 0, 280_000, 20_000.0, causes)]

    def late(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        missed = step == "qr100" and cell.subject.build == LONG
        waits = {"": 140, "IO:DataFileImmediateSync": 30, "LWLock:LogicalRepLauncherDSA": 29, "Lock:tuple": 1}
        roles = {name: replace(role, waits=waits, wait_samples=200) for name, role in totals.roles.items()}
        totals = replace(totals, roles=roles) if step == "qr100" else totals
        return replace(totals, seconds=totals.seconds * 1.4) if missed else totals

    return make_run(
        tmp_path / "r", builds=("16.3", LONG), repeats=4, aa=True, effects={(LONG, "l.i0"): 0.856},
        stalls=stalled, change=late, failed={9: "server killed by signal 9"},
    )  # fmt: skip


def test_everything_fits_into_80_columns_and_nothing_is_cut(rich_run: Path) -> None:
    comparison = compare([rich_run])
    text = printed(comparison, published=True)
    # An answer is a line by itself: in a terminal it is folded, elsewhere a program may read it.
    assert max(len(line) for line in text.splitlines()[len(comparison.answer) :]) <= 80
    assert "…" not in text
    for step in ("l.i0", "l.x", "l.i1", "qr100"):
        assert step in text
    assert text.count(LONG) > 20
    waits = text.partition("Waits of server processes")[2]
    assert re.search(r"16.3 insert +70%  <1%    14%      -   - 15%      -     - DataFileImmediat *\n", waits)


def test_the_header_says_what_a_tree_was_and_no_usual_options(tmp_path: Path) -> None:
    usual = {"delete_form": "subselect", "lookup_connection": "kept"}
    plain = compare([make_run(tmp_path / "usual", repeats=2, options=usual)])
    text = " ".join(printed(plain).split())
    assert "non-default" not in text and "PostgreSQL" not in text
    assert "no verdict can be given yet; 3 are needed" in text
    built = [replace(build, source="commit 1a2b with changes 3c4d") for build in plain.measured.builds]
    measured = replace(plain.measured, builds=tuple(built))
    assert "17.0: PostgreSQL 17.0, commit 1a2b with changes 3c4d" in printed(replace(plain, measured=measured))


def test_a_run_without_results_says_so(tmp_path: Path) -> None:
    assert "no cell has finished yet" in printed(compare([make_run(tmp_path / "r", repeats=1, unfinished=[0, 1])]))


def test_no_colour_is_written_when_none_is_wanted(rich_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system="truecolor", highlight=False)
    render.print_comparison(compare([rich_run]), console)
    assert "\x1b[38;" not in out.getvalue()
    assert "▼" in out.getvalue()


def test_a_terminal_without_unicode_gets_ascii(rich_run: Path) -> None:
    text = printed(compare([rich_run]), encoding="ascii")
    assert text.isascii()
    assert "v0.8" in text


def test_csv_has_a_line_for_every_step_subject_and_metric(rich_run: Path) -> None:
    comparison = compare([rich_run])
    rows = list(csv.DictReader(io.StringIO(render.to_csv(comparison))))
    assert {row["subject"] for row in rows} == {"16.3", "16.3 A/A", LONG}
    assert {row["verdict"] for row in rows if row["subject"] == "16.3"} == {"base"}
    assert {row["design"] for row in rows} == {"cells"}
    (slower,) = [r for r in rows if (r["subject"], r["step"], r["metric"]) == (LONG, "l.i0", "rate_per_s")]
    assert slower["verdict"] == "slower"
    assert float(slower["ratio"]) == pytest.approx(0.856, abs=0.01)


HOSTILE = "[/red]\x1b]0;x\x07\x7f\u202e|<b>"


@pytest.fixture
def hostile(tmp_path: Path) -> Comparison:
    """A comparison of a record with escape sequences, markup and formulas wherever a text can stand."""

    def stalled(cell: Cell, step: str, started_ns: int) -> list[Stall]:
        causes = ({"name": "lock", "text": f"=1+1\n{HOSTILE}"},)
        return [Stall(HOSTILE, 1, started_ns, started_ns + SECOND_NS, "rate", 0.0, 1.0, 0, 1, 1.0, causes)]

    def probed(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, observers=(HOSTILE,)) if cell.subject.build == HOSTILE else totals

    run = make_run(
        tmp_path / "r", builds=("=cmd|' /C calc'!A0", HOSTILE), repeats=3, stalls=stalled, change=probed,
        failed={5: f"@SUM(1)\n{HOSTILE}"},
    )  # fmt: skip
    return compare([run])


@pytest.mark.parametrize("form", ["terminal", "markdown", "comment", "csv", "json", "junit", "page"])
def test_text_of_a_record_is_neither_markup_nor_escape_sequences(hostile: Comparison, form: str) -> None:
    folders = [Path(folder) for folder in hostile.measured.folders.values()]
    shown: dict[str, Callable[[], str]] = {
        "terminal": lambda: printed(hostile, width=200, published=True),
        "markdown": lambda: render.to_markdown(hostile, published=True),
        "comment": lambda: render.to_comment(hostile, [HOSTILE]),
        "csv": lambda: render.to_csv(hostile),
        "json": lambda: render.to_json(hostile),
        "junit": lambda: gate.to_junit(hostile, (GatedStep(HOSTILE, HOSTILE, "failed", f"{HOSTILE}\n"),)),
        "page": lambda: re.sub(r"(?s)<(script|style)>.*?</\1>", "", document.report(folders)),
    }
    text = shown[form]()
    assert all(line.isprintable() for line in text.split("\n"))
    assert "[/red]" in text


def test_a_spreadsheet_runs_nothing_of_a_csv(hostile: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(render.to_csv(hostile))))
    assert {row["build"][:2] for row in rows} == {"'=", "[/"}
    assert not [cell for row in rows for name, cell in row.items() if cell.startswith(("=", "+", "@"))]


def test_markdown_cells_hold_no_tag_and_no_column(hostile: Comparison) -> None:
    text = render.to_markdown(hostile)
    assert "<b>" not in text
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1, table


def test_no_backslash_of_a_text_undoes_the_escape_of_markdown() -> None:
    assert render.markdown_text(r"\[a](b) \| c") == r"\\\[a](b) \\\| c"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.0123, "0.012"), (9.5, "9.50"), (123.45, "123.5"), (28_410.0, "28,410")],
)
def test_numbers_keep_about_four_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_builds_of_different_runs_are_not_one_pair(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / build, builds=(build,), repeats=5) for build in ("16.3", "17.0")]
    lines = render.footer(compare(runs))
    assert not [line for line in lines if "one pair" in line]


def test_a_comment_has_sentence_and_rates_and_folds_the_rest(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "run", effects={("17.0", "qr100"): 0.8})])
    text = render.to_comment(comparison, ["head: a <b>", "gate: failed"])
    seen, folded = text.split("<details>")
    assert seen.startswith("**17.0 is slower than 16.3") and "- head: a &lt;b&gt;\n- gate: failed\n" in seen
    assert "### Throughput" in seen and seen.count("###") == 1
    assert "### Per operation" in folded and folded.endswith("</details>\n")


@pytest.mark.parametrize("sliced", [False, True])
def test_figures_beside_a_ratio_have_it_as_their_quotient(tmp_path: Path, sliced: bool) -> None:
    """Ratios hold where cells scatter so that the medians go the other way, and in slices."""
    scatter = {("16.3", 1): 0.7, ("17.0", 1): 0.95, ("16.3", 2): 1.3, ("17.0", 3): 0.8}

    def scattered(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, seconds=totals.seconds / scatter.get((cell.subject.build, cell.repeat), 1.0))

    run = make_run(
        tmp_path / "r", builds=("16.3", "17.0"), repeats=4, change=scattered, noise=0.05, blocks=30 * sliced,
    )  # fmt: skip
    comparison = compare([run])
    judged = [ratio for ratio in comparison.ratios if ratio.ratio and ratio.pairs]
    rows = {
        (row["step"], row["subject"], row["metric"]): row
        for row in csv.DictReader(io.StringIO(render.to_csv(comparison)))
    }
    for ratio in judged:
        row = rows[ratio.step, ratio.subject, ratio.metric]
        assert float(row["mean"]) / float(row["base_mean"]) == pytest.approx(float(row["ratio"]))
        base, other = (comparison.figure(name, ratio.step, ratio.metric) for name in comparison.names)
        assert base and other and other / base == pytest.approx(ratio.ratio)
    section = next(part for part in drawn(tables.sections(comparison), Notes()) if part.title.startswith("Throughput"))
    figures = [float(cells[1].replace(",", "")) for cells, _ in section.rows if cells[0] in ("  16.3", "  17.0")]
    ratios = [float(cells[2].strip("▲▼=~?")) for cells, _ in section.rows if cells[0] == "  17.0"]
    for base, other, printed_ratio in zip(figures[::2], figures[1::2], ratios, strict=True):
        assert other / base == pytest.approx(printed_ratio, abs=0.001)
