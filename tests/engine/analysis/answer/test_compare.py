"""Comparisons of runs with known results: verdicts, why they are withheld, refusals."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.analysis.answer.compare import compare, compared_cells
from engine.analysis.answer.findings import clock_of, findings
from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.cells.run_results import ServerSettings
from engine.analysis.ratios import measured_ratios, verdicts
from engine.analysis.statistics.inference import Estimate
from engine.core.errors import UserError
from engine.core.model import Cell, Subject
from engine.journal.manifest import read_manifest
from engine.journal.totals import RoleTotals, StepTotals
from engine.report.render import to_json
from engine.results.comparison import Comparison, comparison_of
from engine.results.ratio import Ratio
from tests.support.journal import ENVIRONMENT, Change, make_run
from tests.support.totals import made_role


def rate(comparison: Comparison, step: str, name: str = "17.0", metric: str = "rate_per_s") -> Ratio:
    ratio = comparison.ratio(name, step, metric)
    assert ratio is not None
    return ratio


def test_a_slower_a_faster_and_a_like_step_get_their_verdicts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", effects={("17.0", "l.i0"): 0.93, ("17.0", "l.i1"): 1.10})
    comparison = compare([run])
    slower, faster, same = (rate(comparison, step) for step in ("l.i0", "l.i1", "qr100"))
    assert (slower.verdict, faster.verdict, same.verdict) == ("slower", "faster", "same")
    assert slower.ratio == pytest.approx(0.93, abs=0.01)
    assert slower.low is not None
    assert slower.high is not None
    assert slower.low < 0.93 < slower.high
    assert (slower.pairs, slower.better, faster.better) == (3, False, True)
    assert comparison.remarks.findings == ()


def test_costs_are_judged_from_the_users_side(tmp_path: Path) -> None:
    def dearer(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        factor = 1.1 if cell.subject.build == "17.0" else 1
        cpu_ns = int((totals.server_cpu_ns or 0) * factor)
        return replace(totals, server_cpu_ns=cpu_ns, wal_bytes=int(220 * 2e6 / factor))

    comparison = compare([make_run(tmp_path / "r", change=dearer)])
    cpu = rate(comparison, "l.i0", metric="server_cpu_us_per_op")
    assert (cpu.verdict, cpu.better, cpu.ratio) == ("slower", False, pytest.approx(1.1, rel=1e-6))
    assert (cpu.verdict_text, cpu.sign) == ("more", "worse"), "nothing is slower by its cost"
    assert replace(cpu, verdict="faster").verdict_text == "less"
    wal = rate(comparison, "l.i0", metric="wal_bytes_per_op")
    assert (wal.verdict, wal.flagged, wal.better, wal.verdict_text) == ("none", True, True, "flagged")


def test_one_repeat_gives_ratios_and_no_verdict(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "r", repeats=1, effects={("17.0", "l.i0"): 0.5})])
    ratio = rate(comparison, "l.i0")
    assert (ratio.verdict, ratio.low, ratio.high, ratio.pairs) == ("none", None, None, 1)
    assert ratio.ratio == pytest.approx(0.5, abs=0.02)


def test_noise_leaves_it_undecided_and_says_how_many_pairs_more(tmp_path: Path) -> None:
    ratio = rate(compare([make_run(tmp_path / "r", noise=0.01)]), "l.i0")
    assert ratio.verdict == "undecided"
    assert ratio.more_pairs is not None
    assert ratio.more_pairs > 3


def test_failed_and_unfinished_cells_are_listed_and_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", repeats=4, failed={0: "disk full"}, unfinished=[7])
    comparison = compare([run])
    assert [(cell.state, cell.reason, cell.name, cell.repeat) for cell in comparison.remarks.left_out] == [
        ("failed", "disk full", "16.3", 1),
        ("not run", "", "16.3", 4),
    ]
    assert rate(comparison, "l.i0").pairs == 2


def test_a_run_without_a_finished_cell_compares_to_nothing(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "r", repeats=1, unfinished=[0, 1])])
    assert (comparison.ratios, comparison.cells, len(comparison.remarks.left_out)) == ((), (), 2)
    json.loads(to_json(comparison))


def test_the_base_against_itself_is_the_noise_floor(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "r", aa=True, configs=("a", "b"))])
    twin = rate(comparison, "l.i0", "16.3/a A/A")
    assert twin.verdict == "same"
    assert twin.low is not None
    assert twin.high is not None
    floor = max(twin.high - 1, 1 / twin.low - 1)
    assert rate(comparison, "l.i0", "17.0/a").noise_floor == pytest.approx(floor)
    other = rate(comparison, "l.i0", "16.3/b A/A")
    assert comparison.subject(other.subject).subject == Subject("16.3", "b", control="aa")
    assert comparison.baseline_of(other.subject) == "16.3/b"


def test_an_aa_that_differs_from_itself_is_a_finding(tmp_path: Path) -> None:
    def luckier(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, seconds=totals.seconds * (0.9 if cell.subject.control else 1))

    comparison = compare([make_run(tmp_path / "r", aa=True, change=luckier)])
    assert any("the base against itself differs by +1" in finding for finding in comparison.remarks.findings)


# -- names and bases


@pytest.mark.parametrize(
    ("builds", "configs", "names"),
    [
        (("16.3", "17.0"), ("auto",), ["16.3", "17.0"]),
        (("16.3",), ("cx5", "cx7"), ["cx5", "cx7"]),
        (("16.3", "17.0"), ("cx5", "cx7"), ["16.3/cx5", "17.0/cx5", "16.3/cx7", "17.0/cx7"]),
        (("16.3",), ("auto",), ["16.3"]),
    ],
)
def test_names_tell_subjects_apart_by_what_differs(
    tmp_path: Path, builds: tuple[str, ...], configs: tuple[str, ...], names: list[str]
) -> None:
    comparison = compare([make_run(tmp_path / "r", builds=builds, configs=configs, repeats=1)])
    assert list(comparison.names) == names


def test_the_manifest_names_its_subjects_and_their_baseline(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", builds=("17.0", "16.3"), configs=("cx5", "cx7"), repeats=2, aa=True)
    manifest = read_manifest(run)
    manifest = replace(manifest, design=replace(manifest.design, base="16.3"))
    assert manifest.baseline == Subject("16.3", "cx5")
    assert next(iter(manifest.names.values())) == "16.3/cx5" and len(manifest.names) == 6
    assert manifest.names[Subject("17.0", "cx7")] == "17.0/cx7"
    assert replace(manifest, cells=()).baseline is None


def test_a_config_in_slices_is_named_by_its_sentence(tmp_path: Path) -> None:
    def slower(cell: Cell, _: str, totals: StepTotals) -> StepTotals:
        return replace(totals, seconds=totals.seconds * 2) if cell.subject.config == "io_uring" else totals

    configs = ("io_worker", "io_uring")
    run = make_run(tmp_path / "r", builds=("18.6",), configs=configs, repeats=6, change=slower, blocks=12, noise=0.0)
    (answer,) = compare([run]).answer
    assert answer.text.startswith("io_uring is slower than io_worker in "), answer.text


def test_the_base_can_be_chosen(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", configs=("cx5", "cx7"), effects={("17.0", "l.i0"): 0.5})
    assert compare([run], "17.0").base == "17.0/cx5"
    assert compare([run], "cx7").base == "16.3/cx7"
    chosen = compare([run], "17.0/cx7")
    assert chosen.names[0] == "17.0/cx7"
    assert rate(chosen, "l.i0", "16.3/cx5").ratio == pytest.approx(2, abs=0.05)
    with pytest.raises(UserError, match=r"unknown base '17.1' \(nearest: 17.0"):
        compare([run], "17.1")


# -- withheld


def only(change: Callable[[Cell, StepTotals], StepTotals]) -> Change:
    """Changes the totals of 17.0 in qr100."""
    return lambda cell, step, totals: (
        change(cell, totals) if (step, cell.subject.build) == ("qr100", "17.0") else totals
    )


def with_role(totals: StepTotals, name: str, role: RoleTotals) -> StepTotals:
    return replace(totals, roles={**totals.roles, name: role})


def fewer_rows(_: Cell, totals: StepTotals) -> StepTotals:
    query = totals.roles["query"]
    return with_role(totals, "query", replace(query, rows_actual=query.rows_actual // 2))


def at(temperature_c: float) -> dict[str, Any]:
    """The machine with its CPU at a temperature."""
    return {**ENVIRONMENT, "state": {"busy_share": 0.01, "temperature_c": temperature_c}}


SLOW = {**ENVIRONMENT, "cpu": {**ENVIRONMENT["cpu"], "probe_us": 130.0}}
SLOWED = "CPU speed changed: a fixed amount of work took 100.0 us, then 130.0 us"


@pytest.mark.parametrize(
    ("how", "reasons"),
    [
        (
            {"change": only(lambda cell, totals: replace(totals, seconds=totals.seconds * 1.4 ** (cell.repeat == 2)))},
            ["SLA: 17.0 kept up its insert rate in 2 of 3 cells"],
        ),
        (
            {"change": only(lambda _, totals: with_role(totals, "delete", made_role(120, 6000, rows_actual=5000)))},
            [f"unequal work in pair {pair}: delete rows done 6,000 vs 5,000" for pair in (1, 2, 3)],
        ),
        (
            {"change": only(fewer_rows)},
            [f"unequal work in pair {pair}: rows per query 10.00 vs 5.00" for pair in (1, 2, 3)],
        ),
        (
            {"change": only(lambda _, totals: replace(totals, observers=("planner",)))},
            [f"different probes in pair {pair}: none vs planner" for pair in (1, 2, 3)],
        ),
        (
            {"environments": lambda cell: SLOW if cell.subject.build == "17.0" else ENVIRONMENT},
            [f"pair {pair}: {SLOWED}" for pair in (1, 2, 3)],
        ),
    ],
)  # fmt: skip
def test_a_withheld_verdict_keeps_its_numbers_and_reasons(
    tmp_path: Path, how: dict[str, Any], reasons: list[str]
) -> None:
    ratio = rate(compare([make_run(tmp_path / "r", effects={("17.0", "qr100"): 0.8}, **how)]), "qr100")
    assert (ratio.verdict, ratio.pairs, ratio.left_out) == ("withheld", 3, ())
    assert ratio.ratio is not None and ratio.low is not None
    # Which of a pair's cells came first changes from pair to pair.
    assert [reason.replace("130.0 us, then 100.0", "100.0 us, then 130.0") for reason in ratio.reasons] == reasons


Environments = Callable[[Cell], dict[str, Any]]


@pytest.mark.parametrize(
    ("before", "after", "left_out"),
    [
        (lambda cell: SLOW if cell.ordinal == 7 else ENVIRONMENT, None, f"pair 4: {SLOWED}"),
        # Between pairs the machine may change, and other programs are noise.
        (lambda cell: SLOW if cell.repeat == 3 else ENVIRONMENT, None, ""),
        (lambda cell: {**ENVIRONMENT, "state": {"busy_share": 0.9 * (cell.ordinal == 1)}}, None, ""),
        # Idle before each cell and hot after it: beginnings are held against beginnings, ends against ends.
        (lambda _: at(42.0), lambda _: at(71.0), ""),
        (
            lambda cell: at(42.0 if cell.ordinal == 0 else 58.0),
            lambda _: at(60.0),
            "pair 1: the CPU's temperature changed: 42.0 C, then 58.0 C",
        ),
        (
            lambda _: at(42.0),
            lambda cell: at(90.0 if cell.ordinal == 3 else 60.0),
            "pair 2: the CPU's temperature changed: 60.0 C, then 90.0 C",
        ),
    ],
)
def test_a_pair_with_a_changed_machine_is_left_out(
    tmp_path: Path, before: Environments, after: Environments | None, left_out: str
) -> None:
    run = make_run(
        tmp_path / "r", repeats=4, effects={("17.0", "qr100"): 0.8}, environments=before, environments_after=after
    )
    ratio = rate(compare([run]), "qr100")
    assert (ratio.verdict, ratio.pairs, ratio.reasons) == ("slower", 3 if left_out else 4, ())
    assert ratio.left_out == ((f"left out: {left_out}",) if left_out else ())


def test_temperatures_are_compared_at_both_ends_of_cells(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "r", environments=lambda _: at(42.0),
        environments_after=lambda _: at(71.0),
    )  # fmt: skip
    checks = {check.what: check for check in compare([run]).checks("17.0")}
    assert (checks["CPU temperature"].ok, checks["machine"].ok) == (True, True)
    assert checks["CPU temperature"].text == "42 C before cells, 71 after"


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        # A probe that covered too little of one cell gives no planning time there, which is not one of zero.
        (lambda cell: cell.ordinal == 2, ("none", 3, (), ("left out: 1 of 4 pairs lack this figure in a cell",))),
        (
            lambda cell: (cell.repeat > 2) == (cell.subject.build == "17.0"),
            (
                "withheld", 0, ("no pair has this figure in both its cells",),
                ("left out: 4 of 4 pairs lack this figure in a cell",),
            ),
        ),
    ],
)  # fmt: skip
def test_a_figure_that_a_cell_lacks_costs_that_pair_only(
    tmp_path: Path, lacking: Callable[[Cell], bool], expected: tuple[Any, ...]
) -> None:
    def uncovered(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, wal_bytes=None) if step == "l.i0" and lacking(cell) else totals

    ratio = rate(compare([make_run(tmp_path / "r", repeats=4, change=uncovered)]), "l.i0", metric="wal_bytes_per_op")
    assert (ratio.verdict, ratio.pairs, ratio.reasons, ratio.left_out) == expected
    assert ratio.ratio == pytest.approx(1.0)


def test_causes_stand_out_and_have_no_verdict(tmp_path: Path) -> None:
    def bloated(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        factor = (1.2, 0.8) if cell.subject.build == "17.0" else (1, 1)
        return replace(
            totals, heap_bytes=int(totals.heap_bytes * factor[0]), index_bytes=int(totals.index_bytes * factor[1])
        )

    comparison = compare([make_run(tmp_path / "r", change=bloated)])
    heap, indexes = (rate(comparison, "l.i0", metric=name) for name in ("heap_bytes", "index_bytes"))
    assert {(cause.verdict, cause.flagged) for cause in (heap, indexes)} == {("none", True)}
    assert (heap.sign, indexes.sign) == ("worse", "better")
    assert not any(ratio.flagged for ratio in comparison.ratios if ratio.metric not in ("heap_bytes", "index_bytes"))


def test_a_saturated_client_withholds_rates_but_not_costs(tmp_path: Path) -> None:
    def busy(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        roles = {name: replace(role, saturated=name == "query") for name, role in totals.roles.items()}
        return replace(totals, roles=roles)

    run = make_run(tmp_path / "r", change=busy)
    comparison = compare([run])
    assert rate(comparison, "qr100").reasons[0] == "client CPU-bound (≥ 90% of a core) with 16.3: query"
    assert rate(comparison, "qr100", metric="latency_p50_us").verdict == "withheld", "clients measure it"
    assert rate(comparison, "qr100", metric="server_cpu_us_per_op").verdict == "same"
    assert rate(comparison, "l.i0").verdict == "same"


def test_two_modes_that_could_make_the_effect_withhold(tmp_path: Path) -> None:
    """The pgbench case of 2008: 10.4k 25.3k 10.4k 10.4k 11.3k."""
    published = (10.4, 25.3, 10.4, 10.4, 11.3)

    def moody(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        if step != "l.i0":
            return totals
        return replace(
            totals, seconds=2e6 / (1000 * (published[cell.repeat - 1] if cell.subject.build != "16.3" else 40))
        )

    comparison = compare([make_run(tmp_path / "r", repeats=5, change=moody)])
    ratio = rate(comparison, "l.i0")
    assert ratio.verdict == "withheld"
    assert ratio.reasons[0].startswith("bimodal: the cells of 17.0 lie 1")
    assert any(line.startswith("l.i0: the cells of 17.0 are bimodal") for line in comparison.remarks.findings)


def test_modes_that_both_sides_share_are_cancelled_by_the_pairs(tmp_path: Path) -> None:
    def throttled(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, seconds=totals.seconds * (1.5 if cell.repeat > 3 else 1))

    comparison = compare([make_run(tmp_path / "r", repeats=6, change=throttled, effects={("17.0", "l.i0"): 0.9})])
    assert rate(comparison, "l.i0").verdict == "slower"
    assert any("bimodal" in line for line in comparison.remarks.findings)


def test_an_outlying_ratio_is_independent_of_other_pairs_modes(tmp_path: Path) -> None:
    def moody(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        apart = cell.repeat == 2 and cell.subject.build == "17.0"
        return replace(totals, seconds=totals.seconds * (1.5 if cell.repeat > 5 else 1.03 if apart else 1))

    comparison = compare([make_run(tmp_path / "r", repeats=10, change=moody)])
    assert (rate(comparison, "l.i0").verdict, rate(comparison, "l.i0").reasons) == ("same", ())
    assert any(line.startswith("l.i0: the cells of 17.0 are bimodal") for line in comparison.remarks.findings)


# -- several runs


def test_pairs_of_several_runs_are_pooled(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, repeats=2, seed=seed) for name, seed in (("a", 1), ("b", 2))]
    comparison = compare(runs)
    assert rate(comparison, "l.i0").pairs == 4
    assert comparison.runs == ("a", "b")


def test_builds_of_different_runs_have_ratios_but_no_pairs(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / build, builds=(build,), repeats=3) for build in ("16.3", "17.0")]
    ratio = rate(compare(runs), "l.i0")
    assert (ratio.verdict, ratio.pairs, ratio.low) == ("withheld", 0, None)
    assert ratio.reasons[0].startswith("no pairs: the two")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"clients": 2}, "different clients (1, 2)"),
        ({"options": {"indexes": 2}}, "different indexes (3, 2)"),
        ({"options": {"lookup_connection": "new"}}, "different lookup connection (kept, new)"),
    ],
)
def test_different_workloads_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    runs = [make_run(tmp_path / "a", repeats=1), make_run(tmp_path / "b", repeats=1, **change)]
    with pytest.raises(UserError, match=re.escape(f"a and b cannot be compared: {said}")):
        compare(runs)


@pytest.mark.parametrize(
    "said_twice", [{"delete_form": "subselect"}, {"lookup_connection": "kept"}, {"resync_rounds": 1000}]
)
def test_what_the_generation_does_anyway_may_be_asked_for(tmp_path: Path, said_twice: dict[str, Any]) -> None:
    """g24b deletes by subselect: a run that was told so put on the same load."""
    runs = [make_run(tmp_path / name, repeats=1, options=options) for name, options in (("a", {}), ("b", said_twice))]
    assert compare(runs).pairs == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"digest": "d1"}, "16.3 is not the same binary in a and b"),
        (
            {"environment": {**ENVIRONMENT, "storage": {"filesystem": "ext4"}}},
            "between a and b the filesystem changed: xfs, then ext4",
        ),
    ],
)
def test_runs_that_differ_in_what_was_not_the_subject_withhold(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", **change)]
    ratio = rate(compare(runs), "l.i0")
    assert ratio.verdict == "withheld"
    assert said in ratio.reasons


def test_a_copy_of_a_run_is_no_further_sample(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / place / "r", repeats=1) for place in ("a", "b")]
    with pytest.raises(UserError, match="the same run given twice"):
        compare(runs)
    assert compare([runs[0], runs[0]]).pairs == 1


def test_what_is_no_run_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run's folder"):
        compare([tmp_path])
    with pytest.raises(UserError, match="no run given"):
        compare([])


# -- the model


def test_the_json_is_read_as_what_it_was_made_of(tmp_path: Path) -> None:
    comparison = compare([make_run(tmp_path / "r", repeats=1)])
    assert comparison_of(json.loads(to_json(comparison))).cells == comparison.cells


def test_the_timing_clock_is_read_from_the_settings() -> None:
    clocks = [{}, {"timing_clock_source": "auto (tsc)"}, {"timing_clock_source": "auto (system)"},
              {"timing_clock_source": "tsc"}]  # fmt: skip
    assert [clock_of(settings) for settings in clocks] == ["system", "tsc", "system", "tsc"]


def test_a_slow_clock_of_the_machine_is_told(tmp_path: Path) -> None:
    clocks = {name: ENVIRONMENT | {"kernel": {"clock_source": name}} for name in ("hpet", "tsc")}
    said = {
        name: [
            text
            for text in compare([make_run(tmp_path / name, environment=record)]).remarks.findings
            if "clock" in text
        ]
        for name, record in clocks.items()
    }
    (text,) = said["hpet"]
    assert text.startswith("the machine's clock is hpet: ") and not said["tsc"]


def test_clocks_and_what_is_unknown_are_told_of_each_config(tmp_path: Path) -> None:
    cells = compared_cells([make_run(tmp_path / "r", builds=("19.0",), configs=("fast", "slow"), repeats=1)])
    clocks = {"fast": ("tsc", "x"), "slow": ("system", "y")}
    every = []
    for cell in cells.cells:
        clock, name = clocks[cell.cell.subject.config]
        settings, unknown = ServerSettings({"timing_clock_source": clock}), (f"there is no setting {name}",)
        every.append(replace(cell, settings=settings, unknown=unknown))
    lines = findings(replace(cells, cells=tuple(every)), [], [])
    assert "19.0 has what pgbed does not know: there is no setting x; there is no setting y" in lines
    assert [text for text in lines if "different clocks (fast tsc, slow system)" in text]


def test_nothing_has_no_ratio_and_no_modes(tmp_path: Path) -> None:
    """One byte of WAL in 20 rows, in some cells: 400% of nothing."""

    def idle(cell: Cell, step: str, totals: StepTotals) -> StepTotals:
        return replace(totals, wal_bytes=3 * totals.roles["query"].statements if cell.ordinal == 5 else 100)

    comparison = compare([make_run(tmp_path / "r", repeats=4, change=lambda cell, step, totals: idle(cell, step, totals)
                                   if step == "qr100" else totals)])  # fmt: skip
    ratio = comparison.ratio("17.0", "qr100", "wal_bytes_per_op")
    assert ratio is not None and ratio.ratio is None and ratio.reasons == ("both at most 1 on average",)
    assert comparison.spread("17.0", "qr100", "wal_bytes_per_op") is None
    assert comparison.spread("16.3", "l.i1", "wal_bytes_per_op") is not None


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> ComparedCells:
    return compared_cells([make_run(tmp_path_factory.mktemp("cells") / "r", repeats=8)])


@given(st.lists(st.tuples(st.floats(-0.1, 0.1), st.floats(0.001, 0.02), st.booleans()), min_size=2, max_size=4))
@example([(0.05, 0.005, True), (0.012, 0.0125, False)])
def test_no_interval_of_a_certain_sign_contains_1(cells: ComparedCells, tests: list[tuple[float, float, bool]]) -> None:
    rates = [ratio for ratio in measured_ratios.measured(cells) if ratio.metric.name == "rate_per_s"]
    measured = [
        replace(rate, pooled=Estimate(mean, sd, 8), blank=replace(rate.blank, reasons=("not comparable",) * withheld))
        for rate, (mean, sd, withheld) in zip(rates, tests, strict=False)
    ]
    for ratio in verdicts.judged(cells, measured):
        low, high = ratio.bounds or (0.0, 0.0)
        assert ratio.verdict not in ("slower", "faster") or not low <= 1 <= high


def test_runs_under_two_kernels_compare_the_kernels(tmp_path: Path) -> None:
    newer = {**ENVIRONMENT, "kernel": {"release": "6.18.1"}}
    runs = [make_run(tmp_path / "a", builds=("16.3",)), make_run(tmp_path / "b", builds=("16.3",), environment=newer)]
    comparison = compare(runs)
    assert list(comparison.names) == ["6.12.58", "6.18.1"]
    assert rate(comparison, "l.i0", "6.18.1").verdict == "withheld"
