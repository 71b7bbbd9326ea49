"""The slices of a step as lines: places of dots, running ratio and others' work, and the words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.results.sliced_step import MachineSecond, SlicedBlock, SlicedCheck, SlicedPair, SlicedSide
from tui.compare import slices_chart
from tui.glyphs import SETS, Glyphs
from tui.marks import Line, width

SIDE = SlicedSide(8000.0, 100.0, 2.0, 0.003)


def block(number: int, ratio: float | None, running: float | None = 0.95) -> SlicedBlock:
    return SlicedBlock(number, number * 0.2, 0.2, "ABBA", SIDE, SIDE, ratio, running, 0.5, 0.0)


def pair(*ratios: float | None, **changed: object) -> SlicedPair:
    """A pair with these blocks, of 0.2 s each, on a machine of 2 CPUs of which others use half a one."""
    blocks = tuple(block(number, ratio) for number, ratio in enumerate(ratios))
    seconds = tuple(MachineSecond(float(second), 1.0, 1.6, 0.5, 0.0) for second in range(max(1, len(ratios) // 5)))
    plain = SlicedPair(
        "r", 1, "17.0", "16.3", "001", "002", 0.95, 0.93, 0.97, 0.951, 0.003, 0.002, "", 2, blocks, seconds
    )
    return replace(plain, **changed)  # type: ignore[arg-type]


def text(lines: list[Line]) -> list[str]:
    return ["".join(part for part, _ in spans) for spans in lines]


@given(st.lists(st.one_of(st.none(), st.floats(0.01, 100)), max_size=80), st.integers(1, 200), st.integers(1, 40))
@pytest.mark.parametrize("glyphs", SETS.values(), ids=SETS)
def test_the_charts_fill_their_room_and_no_more(
    glyphs: Glyphs, ratios: list[float | None], cells: int, rows: int
) -> None:
    shown = pair(*ratios)
    for drawn in (slices_chart.ratios(shown, cells, rows, glyphs), slices_chart.others(shown, cells, rows, glyphs)):
        if len(drawn) == rows > 1:
            assert {width(line) for line in drawn} == {slices_chart.LABEL_CELLS + cells}
    low, high = slices_chart.scale(shown)
    assert low < 1 < high and low < 0.95 < high


def test_dots_stand_at_their_blocks_beside_the_running_ratio() -> None:
    shown = pair(0.9, 1.0, 0.9, 0.96)
    drawn = text(slices_chart.ratios(shown, 8, 13, SETS["ascii"]))
    low, high = slices_chart.scale(shown)
    assert (low, high) == pytest.approx((0.88, 1.02)), "round ones"
    assert drawn[0].split() == ["1.020"] and drawn[-1].split() == ["0.880"]
    (one,) = [line for line in drawn if line.startswith(" 1.000")]
    assert one.count("o") == 1 and "-" in one
    (bottom,) = [line for line in drawn if line.count("o") == 2]
    assert bottom.index("o") < one.index("o") < bottom.rindex("o")
    (line,) = [row for row in drawn if "=" in row]
    assert line[7:].startswith("======="), "from the first block to the last"
    assert 0.88 + (12 - drawn.index(line)) / 12 * 0.14 == pytest.approx(0.95, abs=0.006)


def test_a_block_is_four_dots_of_braille_where_there_is_room() -> None:
    def dots(count: int) -> int:
        shown = pair(*[0.9, 1.1] * count)
        shown = replace(shown, blocks=tuple(replace(block, running=None) for block in shown.blocks))
        drawn = "".join(text(slices_chart.ratios(shown, 20, 8, SETS["braille"])))
        return sum((ord(sign) - 0x2800).bit_count() for sign in drawn if 0x2800 < ord(sign) < 0x2900)

    assert 12 <= dots(2) <= 16, "some fall on one another"
    assert dots(30) <= 60


def test_a_wild_block_does_not_flatten_the_others() -> None:
    shown = pair(*[0.95, 0.97] * 20, 5.0)
    assert slices_chart.scale(shown)[1] < 1.1
    assert "o" in text(slices_chart.ratios(shown, 40, 10, SETS["ascii"]))[0]


def test_foreign_load_is_drawn_to_the_machines_cpus() -> None:
    shown = pair(*[0.95] * 40)
    drawn = text(slices_chart.others(shown, 16, 4, SETS["ascii"]))
    assert drawn[0].split() == ["2"] and drawn[-1].split() == ["0", "#" * 16], "half of one of two CPUs is a quarter"
    assert slices_chart.heading(shown) == "others on this machine: 0.50 of 2 CPUs on average"
    stolen = replace(shown, machine=(MachineSecond(0, 1, 1, 0.2, 0.25), MachineSecond(1, 3, 1, 0.6, 0.25)), cpus=None)
    assert slices_chart.heading(stolen) == (
        "others on this machine: 0.50 CPUs on average, 0.25 stolen by the hypervisor"
    )
    unknown = replace(shown, machine=())
    assert "not sampled" in text(slices_chart.others(unknown, 16, 4, SETS["ascii"]))[0]
    assert slices_chart.heading(unknown) == "others on this machine"


def test_the_summary_has_ratio_interval_check_and_leak() -> None:
    came_to, trust = text(slices_chart.summary(pair(*[0.95] * 40), SlicedCheck("17.0", 1.04, 8, False), 130))
    assert came_to == " ratio 0.950 0.930-0.970  typical 0.951  40 blocks, for these two clusters"
    assert trust == (" self-check: errors 1.04 x the computed ones (8 ratios); CPU in the other's slices 0.3%, 0.2%")
    strayed = slices_chart.summary(pair(0.95), SlicedCheck("17.0", 1.6, 8, True), 80)
    assert {spans[0][1] for spans in strayed[1:]} == {"warning"}
    few = replace(pair(0.95), low=None, high=None, typical=None, base_spill_over_share=None)
    came_to, trust = text(slices_chart.summary(few, None, 80))
    assert came_to == " ratio 0.950  1 blocks, for these two clusters"
    assert trust == " self-check: too few blocks to tell; CPU in the other's slices -, 0.2%"
    assert "no ratio" in text(slices_chart.summary(replace(few, ratio=None), None, 80))[0]
    assert "no block is whole" in text(slices_chart.ratios(pair(), 20, 4, SETS["ascii"]))[0]


def test_nothing_of_the_summary_is_cut_and_the_legend_has_room() -> None:
    why = "the CPU's clock changed from 3400 to 2000 MHz; its governor changed; memory was short; others were busy"
    gone = replace(pair(0.95), left_out=why)
    lines = text(slices_chart.summary(gone, SlicedCheck("17.0", 1.04, 8, False), 80))
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines[1:]).split()) == f"left out of the comparison: {why}"
    for glyphs in SETS.values():
        legend = slices_chart.legend(glyphs)
        assert width(legend) <= 80 and "at the edge: off scale" in text([legend])[0]
