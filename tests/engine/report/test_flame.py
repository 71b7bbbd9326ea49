"""Flame graphs: sampled stacks on disk, as a tree, as a page, and from the command line."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.core.model import Cell, Subject
from engine.core.record import converted
from engine.journal.manifest import read_manifest
from engine.journal.totals import StepTotals
from engine.report import flame
from engine.report.flame import Profile
from engine.report.html.flames import functions
from engine.results.flame import FlameGraph
from engine.tracing import stacks
from tests.support.benchcall import Bench
from tests.support.browser import Browser
from tests.support.journal import make_run

OLD = {"main;exec;plan": 10, "main;exec;run": 80, "main;gone": 10}
NEW = {"main;exec;plan;walk": 100, "main;exec;run": 80, "main;exec;run;write_[k]": 20}
FOLDED = st.dictionaries(
    st.lists(st.sampled_from("abcd<"), min_size=1, max_size=5).map(";".join), st.integers(1, 1000), min_size=1
)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs, `one` of 16.3 and 17.0 and `two` of 17.0 alone, with stacks of delete in l.i1; `bare` has none."""
    folder = tmp_path / "runs"
    for name, builds in (("one", ("16.3", "17.0")), ("two", ("17.0",)), ("bare", ("16.3",))):
        run = make_run(folder / name, builds=builds, repeats=2)
        if name != "bare":
            for cell in cells(run):
                folded = OLD if cell.subject.build == "16.3" else NEW
                stacks.write_folded(run / "cells" / cell.id, "l.i1", "delete", folded)
    return folder


def cells(run: Path) -> list[Cell]:
    return list(read_manifest(run).cells)


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*)</script>', page)
    assert match
    data: dict[str, Any] = json.loads(match[1])
    return data


def inner(tree: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for name in path:
        tree = next(child for child in tree["children"] if child["name"] == name)
    return tree


def total_delta(tree: Mapping[str, Any]) -> float:
    change: float = tree["change"]
    return change + sum(total_delta(child) for child in tree["children"])


@given(FOLDED)
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, folded: dict[str, int]) -> None:
    folder = tmp_path_factory.mktemp("cell")
    stacks.write_folded(folder, "l.i1", "insert", folded)
    assert stacks.parse(folder / "stacks" / "l.i1.insert.folded") == folded


def test_sampled_lines_are_parted_by_role() -> None:
    folded = {"delete;main;plan": 3, "delete;main": 1, "server": 2, "server;main": 4}
    assert stacks.by_role(folded) == {"delete": {"main;plan": 3, "main": 1}, "server": {"[unknown]": 2, "main": 4}}


def test_the_word_for_several_workers_means_all_of_them(runs: Path) -> None:
    run = runs / "two"
    for number, cell in enumerate(cells(run)):
        stacks.write_folded(run / "cells" / cell.id, "qr100", f"query{number + 1}", {"main": number + 1})
    for role, samples in (("query", 3), ("query2", 2)):
        by_cell = stacks.read_by_cell(run, Subject("17.0", "auto"), "qr100", role)
        assert sum(by_cell.values(), Counter()) == {"main": samples}


@given(FOLDED)
def test_a_node_is_as_wide_as_all_samples_through_it(folded: dict[str, int]) -> None:
    tree = flame.tree(folded)
    assert tree["value"] == sum(folded.values())
    for child in tree["children"]:
        name = child["name"]
        assert child["value"] == sum(count for line, count in folded.items() if line.split(";")[0] == name)


@pytest.mark.slow
@given(FOLDED, FOLDED)
def test_all_changes_add_up_to_the_difference_of_the_profiles(old: dict[str, int], new: dict[str, int]) -> None:
    as_new, as_base, how = flame.difference(Profile("old", old, 100), Profile("new", new, 100))
    expected = sum(new.values()) - sum(old.values())
    assert how == "per statement"
    assert total_delta(as_new) == pytest.approx(expected)
    assert total_delta(as_base) == pytest.approx(expected)
    assert (as_new["value"], as_base["value"]) == (sum(new.values()), sum(old.values()))


def test_samples_are_compared_per_statement_when_both_are_known() -> None:
    same = {"main": 100}
    twice_the_work, _, _ = flame.difference(Profile("old", same, 1000), Profile("new", same, 500))
    assert inner(twice_the_work, "main")["change"] == 50
    shares, _, how = flame.difference(Profile("old", same), Profile("new", same, 500))
    assert inner(shares, "main")["change"] == 0
    assert how.startswith("as shares")


def test_nodes_show_certain_changes_and_the_rest_is_grey() -> None:
    old, new = ({"main;exec;plan": plan, "main;exec;run": 80, "main;gone": 12} for plan in (10, 90))
    base, other = (Profile(name, folded, 1000) for name, folded in (("old", old), ("new", new)))
    for tree in flame.difference(base, other)[:2]:
        assert inner(tree, "main", "exec", "plan")["certain"] and inner(tree, "main")["certain"]
        assert not inner(tree, "main", "exec", "run")["certain"] and not inner(tree, "main", "gone")["certain"]
    graph = flame.graph("l.i1", "delete", base, other)
    assert graph.certain_functions == ("plan",) and "main;exec;plan" in graph.certain
    assert flame.graph("l.i1", "delete", base, base).certain == () == flame.graph("l.i1", "delete", base).certain
    page = flame.page("l.i1", "delete", other, base)
    assert "Grey: no significant change" in page and "d.data.certain" in page
    rows = functions(base, other)
    assert rows[0] == ["plan", 10, 90, "more"] and [row[3] for row in rows[1:]] == ["", ""]


def test_subjects_that_differ_in_config_are_kept_apart(runs: Path) -> None:
    run = runs / "one"
    profile = flame.profile(run, Subject("16.3", "auto"), "l.i1", "delete")
    assert [cell.folded for cell in profile.cells] == [OLD, OLD]
    assert profile.folded == {line: 2 * count for line, count in OLD.items()}
    assert profile.statements == sum(cell.statements or 0 for cell in profile.cells)


def test_a_vanished_function_shows_in_the_first_widths() -> None:
    as_new, as_base, _ = flame.difference(Profile("old", OLD, 1), Profile("new", NEW, 1))
    assert inner(as_new, "main", "gone")["value"] == 0
    assert inner(as_base, "main", "gone")["value"] == 10
    assert inner(as_base, "main", "gone")["change"] == -10


def test_kernel_functions_are_marked() -> None:
    tree = flame.tree(NEW)
    assert inner(tree, "main", "exec", "run", "write_[k]")["libtype"] == "kernel"
    assert "libtype" not in inner(tree, "main")


def test_no_name_can_end_the_pages_script() -> None:
    name = "</script><b>"
    page = flame.page("l.i1", "delete", Profile(name, {name: 1}))
    assert name not in page
    assert inner(data_of(page)["graphs"][0]["tree"], name)["value"] == 1


def test_a_flat_profile_says_that_it_is_one() -> None:
    assert "frame pointers" in flame.page("l.i1", "delete", Profile("16.3", {"hash_search": 4}))
    assert "frame pointers" not in flame.page("l.i1", "delete", Profile("16.3", OLD))


def test_a_cell_that_was_not_finished_is_compared_by_shares(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", builds=("16.3",), repeats=2, unfinished=(1,))
    for cell in cells(run):
        stacks.write_folded(run / "cells" / cell.id, "l.i1", "delete", OLD)
    assert flame.profile(run, Subject("16.3", "auto"), "l.i1", "delete").statements is None


def test_statements_are_those_of_the_cells_that_were_sampled(tmp_path: Path) -> None:
    def counted(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        roles = {name: replace(role, statements=100 + cell.repeat) for name, role in totals.roles.items()}
        return replace(totals, roles=roles)

    run = make_run(tmp_path / "run", builds=("16.3",), repeats=3, change=counted)
    for cell in cells(run)[:2]:
        stacks.write_folded(run / "cells" / cell.id, "l.i1", "delete", OLD)
    assert flame.profile(run, Subject("16.3", "auto"), "l.i1", "delete").statements == 203


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("bare", "--step", "l.i1", "--role", "delete"), "no stacks were recorded in this run; run it with --probes"),
        (("one", "--step", "l.i2", "--role", "delete"), "unknown step 'l.i2' (nearest: l.i1)"),
        (("one", "--step", "l.i1", "--role", "delte"), "unknown role in l.i1 'delte' (nearest: delete)"),
        (("one", "--step", "l.i1", "--role", "delete", "--pg", "17.1"), "unknown build in one '17.1' (nearest: 17.0"),
        (("one", "--step", "l.i1", "--role", "delete", "--diff", "tow"), "unknown run 'tow' (nearest: two"),
        (("one", "--step", "l.i1", "--role", "delete", "--diff", "bare"), "bare: no stacks were recorded"),
        (("one", "--step", "l.i1", "--role", "delete", "--to", "/nowhere/x"), "/nowhere/x: cannot be written"),
        (("one", "--step", "l.i1", "--role", "delete", "--to", "x", "--json"), "--json prints, --to names a file"),
        (("one", "--step", "l.i1", "--role", "delete", "--cell", "1", "--pg", "17.0"), "give it without --pg"),
        (("one", "--step", "l.i1", "--role", "delete", "--cell", "9"), "unknown cell '9'"),
    ],
)
def test_what_is_not_there_is_one_line(runs: Path, arguments: tuple[str, ...], complaint: str) -> None:
    done = Bench(runs)("flame", *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("other", "names"), [("17.0", "17.0 (one) against 16.3 (one)"), ("two", "17.0 (two) against 16.3 (one)")]
)
def test_two_builds_of_a_run_or_two_runs_are_compared(runs: Path, tmp_path: Path, other: str, names: str) -> None:
    to = tmp_path / "graph.html"
    bench = Bench(runs)
    done = bench("flame", "one", "--step", "l.i1", "--role", "delete", "--diff", other, "--to", str(to))
    assert done.returncode == 0, done.stderr
    page = to.read_text()
    assert names in page and "differentialColorMapper" in page
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page), "it needs nothing from elsewhere"
    data = data_of(page)
    assert data["differential"] is True
    assert [graph["tree"]["value"] for graph in data["graphs"]] == [400, 200]


def test_the_busiest_step_and_role_or_the_slowest_step_are_shown(tmp_path: Path) -> None:
    slower = {("17.0", "l.i1"): 0.5, ("17.0", "qr100"): 0.3}
    run = make_run(tmp_path / "one", builds=("16.3", "17.0"), repeats=4, effects=slower)
    for cell in cells(run):
        for step, role, count in (("l.i0", "insert", 9), ("l.i1", "insert", 1), ("l.i1", "delete", 2)):
            stacks.write_folded(run / "cells" / cell.id, step, role, {"main": count})
    for number in range(12):
        stacks.write_folded(run / "cells" / cells(run)[0].id, "l.x", f"query{number + 1}", {"main": 9})
    for words, shown in (
        ((), ["l.x", "query"]),
        (("--cell", "2"), ["l.i0", "insert"]),
        (("--role", "insert"), ["l.i0", "insert"]),
        (("--role", "delete"), ["l.i1", "delete"]),
        (("--diff", "17.0"), ["l.i1", "delete"]),
    ):
        done = json.loads(Bench(tmp_path)("flame", "one", "--json", *words).stdout)
        assert [done["step"], done["role"]] == shown


def test_the_stacks_are_a_record_too(runs: Path) -> None:
    bench = Bench(runs)

    def printed(*arguments: str) -> FlameGraph:
        done = bench("flame", "one", "--step", "l.i1", "--role", "delete", "--json", *arguments)
        assert done.returncode == 0, done.stderr
        return converted(json.loads(done.stdout), FlameGraph, "stdout")

    both = printed("--diff", "17.0")
    assert both.other is not None
    assert (both.base.name, both.other.name, both.base.samples, both.other.samples) == ("16.3", "17.0", 200, 400)
    assert {line: (one, two) for line, one, two in both.stacks} == {
        line: (2 * OLD.get(line, 0), 2 * NEW.get(line, 0)) for line in {*OLD, *NEW}
    }
    across = printed("--diff", "two", "--pg", "17.0")
    assert across.other is not None
    assert (across.base.name, across.other.name) == ("17.0 (one)", "17.0 (two)")
    alone = printed()
    assert (alone.other, alone.scale, alone.innermost_only) == (None, 1.0, False)
    cell = next(cell.id for cell in cells(runs / "one") if cell.subject.build == "17.0")
    assert {line: one for line, one, _ in printed("--cell", cell).stacks} == NEW


def test_time_off_the_cpu_is_a_graph_of_its_own(runs: Path, tmp_path: Path) -> None:
    bench = Bench(runs)
    arguments = ("flame", "one", "--step", "l.i1", "--role", "delete", "--offcpu")
    done = bench(*arguments)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["bench: one: no stacks were recorded in this run; run it with --probes offcpu"]
    for cell in cells(runs / "one"):
        waits = {"[asleep];main;PostgresMain;lock": 1500 if cell.subject.build == "16.3" else 500, "[disk];fsync": 500}
        stacks.write_folded(runs / "one" / "cells" / cell.id, "l.i1", "delete", waits, "offcpu")
    done = bench(*arguments, "--diff", "17.0", "--json")
    graph = converted(json.loads(done.stdout), FlameGraph, "stdout")
    assert graph.offcpu and not graph.innermost_only
    # The kind stays where the way to the main loop is cut off.
    assert set(graph.stacks) == {("[asleep];PostgresMain;lock", 3000, 1000), ("[disk];fsync", 1000, 1000)}
    to = tmp_path / "graph.html"
    done = bench(*arguments, "--to", str(to))
    assert "0.004 s off the CPU; open it" in done.stdout
    assert data_of(to.read_text())["offcpu"] is True and "0.004 s off the CPU" in to.read_text()


def test_a_build_without_stacks_is_told_why(runs: Path) -> None:
    run = runs / "one"
    for cell in cells(run):
        if cell.subject.build == "17.0":
            (run / "cells" / cell.id / "stacks" / "l.i1.delete.folded").unlink()
    done = Bench(runs)("flame", "one", "--step", "l.i1", "--role", "delete", "--diff", "17.0")
    assert "no stacks of 17.0 were sampled: its cells are finished, and the probe `stacks` was not on" in done.stderr
    assert "(there are some of 16.3)" in done.stderr
    unfinished = make_run(runs / "three", builds=("16.3", "17.0"), repeats=1, unfinished=(1,))
    stacks.write_folded(unfinished / "cells" / cells(unfinished)[0].id, "l.i1", "delete", OLD)
    done = Bench(runs)("flame", "three", "--step", "l.i1", "--role", "delete", "--diff", "17.0")
    assert "no stacks of 17.0 were sampled: none of its cells has finished a step with" in done.stderr


def test_damaged_stacks_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "l.i1.delete.folded"
    path.write_text("main;exec many\n")
    with pytest.raises(UserError, match="no folded stacks can be read"):
        stacks.parse(path)


@pytest.mark.slow
def test_stacks_that_are_no_plain_file_are_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "l.i1.delete.folded")
    with pytest.raises(UserError, match="no folded stacks can be read"):
        stacks.parse(tmp_path / "l.i1.delete.folded")
    with (tmp_path / "huge.delete.folded").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match=r"no folded stacks can be read.*larger than 256 MiB"):
        stacks.parse(tmp_path / "huge.delete.folded")


def test_a_cell_named_outside_its_run_is_not_looked_for(runs: Path) -> None:
    run = runs / "one"
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["cells"][0]["id"] = "../../elsewhere"
    stacks.write_folded(run.parent / "elsewhere", "l.i1", "delete", {"main": 1})
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="cannot be the name of a cell"):
        stacks.recorded(run)


@pytest.mark.outside
def test_a_browser_draws_it_and_runs_nothing_that_a_symbol_holds(tmp_path: Path) -> None:
    name = "<img src=x onerror=owned=1></script><script>owned=2</script>"
    old, new = (Profile(f"{name} {build}", {f"main;{name};exec": build, "main;other": 9}) for build in (16, 17))
    (tmp_path / "graph.html").write_text(flame.page("l.i1", "delete", new, old))
    with Browser() as browser:
        browser.open(tmp_path / "graph.html")
        frames = "[...document.querySelectorAll('#chart g.frame')]"
        assert browser.evaluate(f"{frames}.map(each => each.__data__.data.name).includes({json.dumps(name)})")
        assert browser.problems == []
        browser.evaluate(f"{frames}.forEach(each => each.dispatchEvent(new MouseEvent('mouseover')))")
        browser.evaluate(f"{frames}[1].dispatchEvent(new MouseEvent('click'))")
        browser.evaluate("document.querySelector('#search').value = 'exec'")
        browser.evaluate("document.querySelector('#controls').requestSubmit()")
        assert "search: 17 of 26" in browser.evaluate("document.querySelector('#details').textContent")
        browser.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=owned=3>')")
        browser.evaluate("new Promise(done => setTimeout(done, 300))")
        assert browser.evaluate("typeof owned") == "undefined"


def test_versions_are_compared_from_their_main_loop_on() -> None:
    old = {"main;ServerLoop;BackendRun;PostgresMain;exec;parse_analyze": 3, "main;ServerLoop;fork_[k]": 1}
    new = {"main;ServerLoop;postmaster_child_launch;BackendMain;PostgresMain;exec;parse_analyze_fixedparams": 3}
    profiles = [Profile(str(number), flame.under_main_loop(stacks), 1) for number, stacks in enumerate((old, new))]
    as_new, _, _ = flame.difference(*profiles)
    assert inner(as_new, "PostgresMain", "exec", "parse_analyze_fixedparams")["change"] == 0
    assert inner(as_new, "main", "ServerLoop", "fork_[k]")["change"] == -1


def test_a_split_function_is_one_and_recursion_stays() -> None:
    split = {"PostgresMain;CommitTransactionCommand;CommitTransactionCommandInternal;CommitTransaction": 2}
    assert flame.under_one_name(split) == {"PostgresMain;CommitTransactionCommand;CommitTransaction": 2}
    assert flame.under_one_name({"ExecProcNode;ExecProcNode": 1}) == {"ExecProcNode;ExecProcNode": 1}
