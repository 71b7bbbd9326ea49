"""Many runs over time: their index, the series, and the changes in them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from engine.analysis.series import trend
from engine.cli.main import main
from engine.core.version import order_of
from engine.journal.manifest import read_manifest
from tests.support.journal import make_run

RUNS, CHANGED = 14, 8  # from the ninth on the new build is 10% slower in qr100


def nightly(out: Path, number: int) -> Path:
    """The run of one night: 16.3 against a build that is called after it."""
    build = f"17beta{number}"
    effect = {(build, "qr100"): 0.9 if number > CHANGED else 1.0}
    run = make_run(out / f"run{number:02}", builds=("16.3", build), repeats=2, effects=effect, seed=number)
    manifest = read_manifest(run).record() | {"created": f"2026-03-{number:02}T01:00:00+00:00"}
    (run / "manifest.json").write_bytes(msgspec.json.encode(manifest))
    return run


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nights")
    for number in range(1, RUNS + 1):
        nightly(folder, number)
    return folder


def bench(*words: str) -> Result:
    return CliRunner().invoke(main, ["trend", *words])


@pytest.mark.slow
@pytest.mark.parametrize("order", [("--by", "date"), ("--by", "version", "--against-base"), ("--against-base",)])
def test_a_change_is_found_between_its_builds_and_nowhere_else(out: Path, order: tuple[str, ...]) -> None:
    outcome = bench(str(out), "--json", *order)
    assert outcome.exit_code == 0, outcome.stderr
    changes = [(series, change) for series in json.loads(outcome.stdout) for change in series["changes"]]
    ((series, change),) = changes
    assert (series["step"], len(series["points"])) == ("qr100", RUNS)
    assert [change[side]["build"] for side in ("before", "after")] == ["17beta8", "17beta9"]
    assert change["ratio"] == pytest.approx(0.9, rel=0.01) and change["p"] < 0.01
    command = "--good REL_17_BETA8 --bad REL_17_BETA9 --repo PATH --workload insert --step qr100"
    assert change["bisect"] == f"bench bisect {command}"


def test_it_is_drawn_with_the_place_of_the_change(out: Path) -> None:
    lines = bench(str(out), "--step", "qr100", "--against-base").stdout.splitlines()
    assert any("-9.8%" in line and "between 17beta8 and 17beta9" in line for line in lines)
    (marks,) = (line for line in lines if line.strip() == "^")
    points = [line for line in lines if "·" in line]
    assert len(points) == 7 and sum(line.count("o") for line in points) == RUNS
    column = marks.index("^")
    assert points[-1][column] == "o" and points[0][column - 1 : column + 1].count("o") == 0
    assert all(len(line) <= 80 for line in lines[2:] if "bench bisect" not in line)


def test_the_page_has_the_chart_the_change_and_the_command(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = bench(str(out), "--step", "qr100", "--to", str(tmp_path / "trend.html"))
    assert outcome.exit_code == 0 and "trend.html" in outcome.stdout, outcome.stderr
    text = (tmp_path / "trend.html").read_text()
    assert text.count("bench bisect --good REL_17_BETA8 --bad REL_17_BETA9") == 1 and "17beta8 to 17beta9" in text
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    changed = [step for step in data["steps"].values() if step["changes"]]
    assert [(len(step["points"]), step["changes"]) for step in changed] == [(RUNS, [CHANGED + 1])]
    ((old, new),) = (step["levels"] for step in changed)
    assert [old["from"], old["to"], new["to"]] == [0.5, CHANGED + 0.5, RUNS + 0.5] and old["to"] == new["from"]
    assert new["mean"] / old["mean"] == pytest.approx(0.9, rel=0.01) and "<h1>Throughput by date</h1>" in text


def test_an_index_is_written_through_no_link(tmp_path: Path) -> None:
    nightly(tmp_path, 1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (tmp_path / trend.INDEX).symlink_to(elsewhere)
    trend.entries(tmp_path)
    assert elsewhere.read_text() == "mine" and not (tmp_path / trend.INDEX).is_symlink()


def test_only_what_changed_is_read_again(out: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(out, tmp_path / "copy", ignore=shutil.ignore_patterns(trend.INDEX)))
    asked: list[tuple[int, int]] = []
    first = trend.entries(copy, lambda done, of: asked.append((done, of)))
    assert len(asked) == RUNS == len(first)
    assert trend.entries(copy, lambda done, of: asked.append((done, of))) == first and len(asked) == RUNS
    nightly(copy, RUNS + 1)
    shutil.rmtree(copy / "run01")
    later = trend.entries(copy, lambda done, of: asked.append((done, of)))
    assert asked[RUNS:] == [(0, 1)] and set(later) == (set(first) - {"run01"}) | {f"run{RUNS + 1}"}


@pytest.mark.parametrize(
    "index", [b"", b"\x93", msgspec.msgpack.encode([2, {}]), msgspec.msgpack.encode([1, {"x": 1}])]
)
def test_an_index_that_is_none_is_made_anew(tmp_path: Path, index: bytes) -> None:
    nightly(tmp_path, 1)
    (tmp_path / trend.INDEX).write_bytes(index)
    asked: list[tuple[int, int]] = []
    for _ in range(2):
        assert list(trend.entries(tmp_path, lambda done, of: asked.append((done, of)))) == ["run01"]
    assert asked == [(0, 1)]


def test_few_points_are_reported_and_damaged_runs_have_none(tmp_path: Path) -> None:
    nightly(tmp_path, 1)
    broken = nightly(tmp_path, 2)
    (broken / "journal.db").write_bytes(b"no database")
    outcome = bench(str(tmp_path), "--step", "l.i0")
    assert outcome.exit_code == 0 and "1 point by date" in outcome.stdout and "too few" in outcome.stdout


def test_bad_input_is_one_line(out: Path, tmp_path: Path) -> None:
    for words, said in (
        ((str(tmp_path / "absent"),), "no such folder"),
        ((str(tmp_path),), "no finished run has rate_per_s"),
        ((str(out), "--step", "qr10"), "unknown step 'qr10'"),
        ((str(out), "--metric", "rate"), "unknown metric 'rate'"),
    ):
        outcome = bench(*words)
        assert (outcome.exit_code, outcome.stdout) == (2, "") and said in outcome.stderr, outcome.stderr
        assert len(outcome.stderr.splitlines()) == 1


def test_versions_are_ordered_as_they_were_released() -> None:
    shuffled = ["17.10", "17rc1", "17beta2", "18.0", "16.3", "17.0", "9.6.24", "18rc1", "17beta1"]
    released = ["9.6.24", "16.3", "17beta1", "17beta2", "17rc1", "17.0", "17.10", "18rc1", "18.0"]
    assert sorted(shuffled, key=order_of) == released
