"""`bench report`: a page, Markdown or a mail, with the figures of `bench compare`, and safe whatever is recorded."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from click.testing import CliRunner

from engine.analysis.answer.compare import compare
from engine.cli.main import main
from engine.core.model import Cell
from engine.journal.archive import unpack
from engine.journal.reader import JournalReader
from engine.journal.totals import StepTotals
from engine.report import flame, tables
from engine.report.html import flames, page, series
from engine.report.journals import steps_of
from engine.results import section
from engine.results.section import Notes, bounds_text, number, of_ratio
from engine.tracing import stacks
from engine.view.step_series import StepSeries
from tests.support.browser import Browser
from tests.support.journal import make_run
from tests.support.totals import SECOND_NS

EVIL = "</script><img src=x onerror=owned=1><!--"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording of the demo: two builds in slices, with stacks, stalls and vacuums."""
    packed = files("engine.cli").joinpath("demo.tar.xz").read_bytes()
    return unpack(packed, "the demo", tmp_path_factory.mktemp("recorded"))


def written(run: Path, to: Path, *more: str) -> str:
    """The report as `bench report` writes it."""
    done = CliRunner().invoke(main, ["report", str(run), "--to", str(to), *more])
    assert done.exit_code == 0, done.output
    assert str(to) in done.stdout
    assert [file.name for file in to.parent.iterdir() if file.name.startswith(to.name)] == [to.name]
    return to.read_text()


def data_of(text: str) -> dict[str, Any]:
    """Data of the charts of a page."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert match
    data: dict[str, Any] = json.loads(match[1])
    return data


@pytest.mark.slow
def test_the_time_off_the_cpu_stands_behind_the_time_on_it(recorded: Path) -> None:
    for cell in recorded.glob("cells/*"):
        us = 3_000_000 if "-patch-" in cell.name else 1_000_000
        stacks.write_folded(cell, "l.i1", "insert", {"[asleep];PostgresMain;ExecInsert;LWLockAcquire": us}, "offcpu")
    known = compare([recorded])
    drawn = [graph for graph in flames.flames(known)["l.i1"] if graph["role"] == "insert"]
    both = ("main", "patch against main")
    titles = [f"{head}: {names}" for head in ("insert", "insert, off the CPU") for names in both]
    assert [graph["title"] for graph in drawn] == titles
    assert [graph["unit"] for graph in drawn] == [flames.SAMPLES] * 2 + [flames.OFF_CPU] * 2
    assert "s off the CPU against" in drawn[3]["note"] and "compared per statement" in drawn[3]["note"]
    assert drawn[2]["graphs"][0]["tree"]["value"] % 1_000_000 == 0


def evil_run(path: Path) -> Path:
    """A run whose every word would be markup."""
    run = make_run(path, builds=("16.3" + EVIL, "17.0" + EVIL), repeats=3, effects={("17.0" + EVIL, "l.i1"): 0.9})
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["environment"]["cpu"]["model"] = EVIL
    for build in manifest["builds"]:
        build |= {"compiler": EVIL, "flags": EVIL, "patches": [EVIL]}
    (run / "manifest.json").write_text(json.dumps(manifest))
    with sqlite3.connect(run / "journal.db") as journal:
        steps = journal.execute("SELECT id, attempt_id, started_ns FROM step").fetchall()
        for step, attempt, began_ns in steps:
            for kind in ("mark", "stall", "autovacuum"):
                data = {"text": EVIL, "relation": EVIL, "duration_s": 1.0, "causes": [{"name": EVIL, "text": EVIL}]}
                journal.execute(
                    "INSERT INTO event (attempt_id, step_id, kind, started_ns, ended_ns, role, data) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (attempt, step, kind, began_ns + SECOND_NS, began_ns + 2 * SECOND_NS, EVIL, json.dumps(data)),
                )
        journal.execute("UPDATE role_second SET wait_event = ?", (f"IO:{EVIL}",))
    return run


@pytest.mark.slow
def test_the_figures_are_those_of_compare(recorded: Path, tmp_path: Path) -> None:
    text, known = written(recorded, tmp_path / "r.html"), compare([recorded])
    steps: Mapping[str, Any] = data_of(text)["steps"]
    assert tuple(steps) == known.steps
    for step, data in steps.items():
        for other in known.others:
            ratio = known.ratio(other.name, step, known.primary_metric(step))
            assert ratio is not None
            (shown,) = [row for row in data["ratios"] if row["subject"] == other.name]
            assert (shown["ratio"], shown["pairs"]) == (ratio.ratio, ratio.pairs)
            assert (shown["low"], shown["high"]) == (ratio.bounds or (None, None))
            assert f"<strong>{ratio.ratio:.3f}</strong>" in text and bounds_text(of_ratio(ratio)) in text
        for cause in data["causes"]:
            figure = known.ratio(cause["subject"], step, cause["metric"])
            assert figure is not None and (figure.ratio, *(figure.bounds or (None, None))) == tuple(
                cause[name] for name in ("ratio", "low", "high")
            )
        for role in {wait["role"] for wait in data["waits"]}:
            sums = [sum(wait["share"] for wait in data["waits"] if (wait["role"], wait["subject"]) == (role, name))
                    for name in known.names]  # fmt: skip
            assert sums == pytest.approx([1.0] * len(sums))
        assert [cell["value"] for cell in data["cells"]] == [
            value for name in known.names for value in known.values(name, step, known.primary_metric(step))
        ]
    drawn = data_of(text)["flames"]
    assert {graph["title"] for graph in drawn["l.i1"]} >= {"insert: patch against main"}
    profile = flame.profile(recorded, known.subject(known.base).subject, "l.i1", "insert")
    assert drawn["l.i1"][0]["graphs"][0]["tree"]["value"] == profile.samples
    assert sum(count for _, count, *_ in drawn["l.i1"][0]["functions"]) <= profile.samples
    assert flames.pruned({"name": "all", "value": 1000, "change": 1, "children": [
        {"name": "a", "value": 999, "change": 2, "children": []},
        {"name": "b", "value": 1, "change": 4, "children": []},
    ]}) == {"name": "all", "value": 1000, "change": 5, "children": [
        {"name": "a", "value": 999, "change": 2, "children": []}]}  # fmt: skip
    with JournalReader(recorded) as reader:
        wal = [reader.differences(step.id)["wal"][""]["wal_bytes"] for cell, step in steps_of(reader)
               if step.name == "l.i1" and "-main-" in cell]  # fmt: skip
    assert number(median(wal)) in text and "wal wal_bytes" in text
    cells = [cell for table in section.drawn(tables.sections(known), Notes()) for row, _ in table.rows for cell in row]
    plain = re.sub(r"&(lt|gt|amp|#39);", lambda entity: {"lt": "<", "gt": ">", "amp": "&"}.get(entity[1], "'"), text)
    assert [cell for cell in cells if cell.strip() not in plain and "l.i1 " not in cell] == []
    assert all(line in plain for line in known.answer[0].lines)
    assert 'http-equiv="Content-Security-Policy"' in text and not re.search(r"""(src|href)=["']?(https?:)?//""", text)


def test_columns_of_the_page_keep_their_extremes(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with JournalReader(recorded) as reader:
        for _, step in steps_of(reader):
            name = step.name
            ticks, rates = series.read_rates(reader, step)
            shown = StepSeries(reader, step)
            shown.catch_up()
            if step.primary_metric is None or not step.primary_metric.live:
                assert rates is None
                continue
            assert rates is not None
            live = shown.active[step.primary_metric.role]
            assert rates.mean == pytest.approx(live.value), name
            monkeypatch.setattr(series, "COLUMNS", 3)
            _, few = series.read_rates(reader, step)
            monkeypatch.undo()
            assert few is not None and len(few.mean) == min(3, len(rates.mean))
            assert (few.least.min(), few.greatest.max()) == (rates.least.min(), rates.greatest.max())
            done = [sum(part.mean * [part.t[0], *(part.t[1:] - part.t[:-1])]) for part in (few, rates)]
            assert done[0] == pytest.approx(done[1])
            heat = series.heat_of([ticks])
            heat.add(reader, step, ticks, "x")
            role = step.primary_metric.role
            assert step.totals is not None
            counted = sum(column.sum() for (kind, _), column in heat.counts.items() if kind == role)
            assert counted in (0, sum(totals.statements for totals in step.totals.of_kind(role))), name


def test_no_word_of_a_record_is_markup(tmp_path: Path) -> None:
    run = evil_run(tmp_path / "evil")
    text = written(run, tmp_path / "r.html")
    assert "<img" not in text and "&lt;img" in text
    assert text.count("</script>") == 1 + len(page.LIBRARY) + len(page.OWN)
    assert "<!--" not in text
    assert "onerror" in str(data_of(text)["subjects"])
    assert page.in_script({"</script>\u2028": "<!--&"}) == '{"\\u003c/script\\u003e\\u2028":"\\u003c!--\\u0026"}'
    assert page.step_ids(["qr100", "l.i1", "a b", EVIL]) == {
        "qr100": "qr100", "l.i1": "l.i1", "a b": "step-3", EVIL: "step-4",
    }  # fmt: skip


def test_what_a_mark_means_stands_at_its_table(tmp_path: Path) -> None:
    def late(cell: Cell, step: str, totals: StepTotals) -> StepTotals:  # so that its verdict is withheld
        missed = step == "qr100" and cell.subject.build == "17.0"
        return replace(totals, seconds=totals.seconds * 1.4) if missed else totals

    text = written(make_run(tmp_path / "r", change=late), tmp_path / "r.html")
    tables = re.split(r'<div class="table">', text)
    marked = [set(re.findall(r" \((\d)\)</t[dh]>", table)) for table in tables]
    notes = [set(re.findall(r'class="note">\((\d)\) ', table)) for table in tables]
    assert any(marked) and marked == notes
    assert not re.search(r"<li>\(\d\)", text), "and nowhere else"


@pytest.mark.slow
def test_what_cannot_be_written_or_read_is_one_line(tmp_path: Path) -> None:
    small = make_run(tmp_path / "small", repeats=1)
    none = make_run(tmp_path / "none", failed={0: "killed by signal 9"}, unfinished=range(1, 6))
    newer = make_run(tmp_path / "newer", repeats=1)
    with sqlite3.connect(newer / "journal.db") as journal:
        journal.execute("UPDATE meta SET value = '9.0'")
    damaged = make_run(tmp_path / "damaged", repeats=1)
    with sqlite3.connect(damaged / "journal.db") as journal:
        journal.execute("UPDATE role_second SET service = x'ffffffff01000000'")
    to = tmp_path / "r.html"
    for arguments, complaint in (
        ((none, "--to", to), "none: no cell has finished, so there is nothing to report (left out: 16.3 repeat 1"),
        ((newer, "--to", to), "schema"),
        ((damaged, "--to", to), "table role_second: damaged histogram"),
        ((small, "--to", tmp_path), "is a directory"),
        ((small, "--to", "/nowhere/r.html"), "/nowhere/r.html: cannot be written: the folder /nowhere is missing"),
        ((small, "--to", "/proc/r.html"), "/proc/r.html: cannot be written: "),
        ((tmp_path / "nothing",), "unknown run"),
    ):
        done = CliRunner().invoke(main, ["report", *map(str, arguments)], env={"PGBED_OUT": str(tmp_path)})
        assert done.exit_code == 2 and complaint in done.stderr, done.output
        assert len(done.stderr.splitlines()) == 1 and not to.exists()


# Axes some of whose ticks say nothing.
WITHOUT_LABEL = """[...document.querySelectorAll('figure svg')].flatMap(svg => ['x', 'y'].filter(axis => {
  const of = what => [...svg.querySelectorAll(`g[aria-label="${axis}-axis ${what}`)];
  const labels = of('tick label"] text').filter(each => each.textContent.trim());
  return of('tick"] path').length > labels.length;
}).map(axis => `${svg.ariaLabel}: ${axis}`))"""


def printed(browser: Browser) -> int:
    """The number of pages of A4 on paper."""
    pdf = base64.b64decode(browser.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def hovered(browser: Browser, figure: str) -> str:
    """The text in the middle of a figure's chart under the mouse."""
    chart = f"document.querySelector('{figure} .plot svg')"
    browser.evaluate(f"{chart}.scrollIntoView({{ block: 'center' }})")
    box = f"(({{ left, top, width, height }}) => [left + width / 2, top + height / 2])({chart}.getBoundingClientRect())"
    x, y = browser.evaluate(box)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    said = f"{chart}.querySelector('[aria-label=tip]').textContent"
    text: str = browser.evaluate(f"new Promise(done => setTimeout(() => done({said}), 300))")
    return text


@pytest.mark.outside
def test_the_page_in_a_real_browser(recorded: Path, tmp_path: Path) -> None:
    written(recorded, tmp_path / "r.html")
    with Browser() as browser:
        browser.open(tmp_path / "r.html")
        # The first screen: the answer, every step, whether cells are comparable.
        for part in (".answer", "#grid tr:last-child", "#comparability"):
            assert browser.evaluate(f"document.querySelector('{part}').getBoundingClientRect().top") < 800
        assert printed(browser) <= 24, "the answer and the steps that differ, not fifty pages"
        opened = "folds.filter(each => each.open).map(each => each.parentElement.id)"
        assert browser.evaluate(opened) == ["l.i0", "l.i1", "qr100"], "the steps that differ"
        browser.evaluate("document.querySelector('#grid tbody a[href=\"#l.x\"]').click()")
        now = browser.evaluate(f"new Promise(done => setTimeout(() => done({opened}), 300))")
        assert now == ["l.i0", "l.x", "l.i1", "qr100"], "a link to a step opens it"
        browser.evaluate("document.querySelector('#unfold').click()")
        assert browser.evaluate("folds.every(each => each.open)")
        browser.evaluate("dispatchEvent(new Event('beforeprint'))")
        marks = "svg g :is(path, rect, circle, line)"
        empty = f"[...document.querySelectorAll('figure')].filter(f => f.querySelectorAll('{marks}').length < 2)"
        assert browser.evaluate(f"{empty}.map(f => f.ariaLabel)") == []
        assert browser.evaluate("document.querySelectorAll('figure').length") > 15
        assert browser.evaluate(WITHOUT_LABEL) == []
        assert browser.evaluate(
            "[...document.querySelectorAll('figure svg')].every(s => s.getAttribute('role') === 'img' && s.ariaLabel)"
        )
        links = "[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
        assert browser.evaluate(f"{links}.filter(a => a[0] !== '#' || !document.getElementById(a.slice(1)))") == []
        browser.evaluate("location.hash = 'qr100'")
        assert 0 <= browser.evaluate("document.getElementById('qr100').getBoundingClientRect().top") < 200
        text = hovered(browser, "[data-step=qr100][data-chart=rate]")
        assert re.search(r" s\W*main: [\d,.]+ \([\d,.]+ to [\d,.]+\)\W*patch: ", text), text
        # Figures behind a chart, and their copy.
        rows = "document.querySelector('[data-step=qr100][data-chart=ratio] details').open = true"
        browser.evaluate(f"{rows}; new Promise(done => setTimeout(done, 200))")
        table = "document.querySelector('[data-step=qr100][data-chart=ratio] details table')"
        assert "patch" in browser.evaluate(f"{table}.textContent")
        copied = browser.evaluate("tsv(textsOf(document.querySelector('#grid')))")
        assert copied.startswith("step\tmain\tpatch\nl.i0\t")
        browser.evaluate("document.querySelector('[data-chart=rate] select').value = 'work done'")
        browser.evaluate("document.querySelector('[data-chart=rate] select').dispatchEvent(new Event('change'))")
        paper = "getComputedStyle(document.body).backgroundColor"
        light = browser.evaluate(paper)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        assert browser.evaluate(paper) != light
        browser.resize(390, 844)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
        assert browser.problems == []


@pytest.mark.outside
def test_a_browser_runs_nothing_of_a_hostile_record(tmp_path: Path) -> None:
    written(evil_run(tmp_path / "evil"), tmp_path / "r.html")
    with Browser() as browser:
        browser.open(tmp_path / "r.html")
        browser.evaluate("dispatchEvent(new Event('beforeprint'))")
        browser.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        browser.evaluate("dispatchEvent(new Event('beforeprint'))")
        browser.evaluate("new Promise(done => setTimeout(done, 500))")
        assert browser.evaluate("typeof owned") == "undefined"
        assert browser.evaluate("document.querySelectorAll('img').length") == 0
        assert "<img src=x" in browser.evaluate("document.querySelector('h1').textContent")
        assert browser.problems == []
