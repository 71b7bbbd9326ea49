"""Blocks of slices: mirrored, balanced, of unlike lengths, and the same again from the same seed."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.model import Subject
from engine.slices.block_order import LONG, SHORT, Block, SliceSeed, blocks, next_rounds, rounds_of, williams

BUILDS = tuple(Subject(name, "auto") for name in ("12.11", "13.9", "14.10", "16.3", "17.0", "18.1"))
COUNTS = st.integers(2, len(BUILDS))
SEED = SliceSeed(1, 1, "qr100")
SEEDS = st.builds(SliceSeed, st.integers(0, 2**63), st.integers(1, 50), st.sampled_from(["qr100", "l.i1"]))


def first(count: int, builds: int, seed: SliceSeed = SEED, slice_ms: float = 50) -> list[Block]:
    """A number of blocks of a number of builds."""
    return list(itertools.islice(blocks(BUILDS[:builds], seed, slice_ms), count))


@given(COUNTS, SEEDS)
def test_the_second_half_of_a_block_is_the_first_in_reverse(builds: int, seed: SliceSeed) -> None:
    for block in first(20, builds, seed):
        assert len(block.order) == 2 * builds
        assert block.order == block.order[::-1]
        assert set(block.order[:builds]) == set(BUILDS[:builds])


@given(COUNTS, SEEDS)
def test_every_build_has_the_same_mean_place_in_each_block(builds: int, seed: SliceSeed) -> None:
    for block in first(20, builds, seed):
        places = Counter[Subject]()
        for place, subject in enumerate(block.order):
            places[subject] += place
        assert set(places.values()) == {2 * builds - 1}


@given(st.integers(3, len(BUILDS)), SEEDS)
def test_every_build_is_in_each_place_equally_often(builds: int, seed: SliceSeed) -> None:
    cycle = builds if builds % 2 == 0 else 2 * builds
    halves = [block.order[:builds] for block in first(2 * cycle, builds, seed)]
    for design in (halves[:cycle], halves[cycle:]):
        assert len(set(design)) == cycle
        followed = Counter(pair for row in design for pair in itertools.pairwise(row))
        assert set(followed) == set(itertools.permutations(BUILDS[:builds], 2))
        assert len(set(followed.values())) == 1
        placed = Counter(pair for row in design for pair in enumerate(row))
        assert set(placed.values()) == {cycle // builds}


def test_the_rows_for_four_are_those_worked_out_by_hand() -> None:
    assert williams(4) == ((0, 1, 3, 2), (1, 2, 0, 3), (2, 3, 1, 0), (3, 0, 2, 1))
    assert williams(3) == ((0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0), (0, 2, 1), (1, 0, 2))


def test_two_builds_run_abba_or_baab_by_a_fair_coin() -> None:
    orders = ["".join("ab"[BUILDS.index(subject)] for subject in block.order) for block in first(2000, 2)]
    counted = Counter(orders)
    assert set(counted) == {"abba", "baab"}
    assert 900 < counted["abba"] < 1100
    changes = sum(before != after for before, after in itertools.pairwise(orders))
    assert 900 < changes < 1100, "a coin remembers nothing: orders neither stick nor alternate"


def test_designs_come_in_another_order_each_time() -> None:
    halves = [block.order[:4] for block in first(80, 4)]
    assert len({tuple(halves[start : start + 4]) for start in range(0, 80, 4)}) > 10


@given(COUNTS, SEEDS, st.floats(20, 1000))
def test_lengths_stay_within_a_fifth_of_what_was_asked_for(builds: int, seed: SliceSeed, slice_ms: float) -> None:
    for block in first(20, builds, seed, slice_ms):
        assert 0.8 * slice_ms * 1e6 - 1 <= block.slice_ns <= 1.2 * slice_ms * 1e6 + 1


def test_lengths_fill_the_whole_range_evenly() -> None:
    lengths_ms = [block.slice_ns / 1e6 for block in first(4000, 2)]
    quarters = Counter(int((length_ms - 40) / 5) for length_ms in lengths_ms)
    assert all(900 < quarters[quarter] < 1100 for quarter in range(4))


@given(COUNTS, SEEDS)
def test_the_same_seed_gives_the_same_blocks(builds: int, seed: SliceSeed) -> None:
    assert first(30, builds, seed) == first(30, builds, seed)
    assert [block.ordinal for block in first(30, builds, seed)] == list(range(30))


@pytest.mark.parametrize("other", [SliceSeed(2, 1, "qr100"), SliceSeed(1, 2, "qr100"), SliceSeed(1, 1, "qr500")])
def test_each_plan_repeat_and_step_has_blocks_of_its_own(other: SliceSeed) -> None:
    assert first(30, 2, other) != first(30, 2)


def test_the_blocks_of_a_seed_never_change() -> None:
    """Or a plan would say one thing and a resumed run do another."""
    blocks = [("".join("ab"[BUILDS.index(build)] for build in block.order), block.slice_ns) for block in first(3, 2)]
    assert blocks == [("abba", 52767784), ("baab", 52259998), ("abba", 53110007)]


@pytest.mark.parametrize("subjects", [(), BUILDS[:1], (BUILDS[0], BUILDS[0])])
def test_nothing_to_take_turns_is_refused(subjects: tuple[Subject, ...]) -> None:
    with pytest.raises(ValueError, match="two or more subjects"):
        blocks(subjects, SEED, 50)


@given(COUNTS, SEEDS, st.integers(1, 10_000))
def test_rounds_vary_as_lengths_do_and_are_never_none(builds: int, seed: SliceSeed, rounds: int) -> None:
    for block in first(20, builds, seed):
        drawn = rounds_of(block, rounds, 50)
        assert drawn >= 1 and abs(drawn - rounds * block.slice_ns / 50e6) <= 0.5


def test_rounds_double_or_halve_for_slices_off_by_two() -> None:
    lengths = {24.9: 36, 25.0: 18, 50.0: 18, 100.0: 18, 100.1: 9}
    assert {length: next_rounds(18, length, 0.0, 50) for length in lengths} == lengths
    assert next_rounds(18, 60, 0.051, 50) == 36, "ragged"
    assert next_rounds(18, 60, 0.05, 50) == 18
    assert next_rounds(18, 101, 0.03, 50) == 18, "halved, it would be ragged"
    assert next_rounds(1, 5000, 0.0, 50) == 1


@given(st.integers(1, 1000), st.floats(0.01, 1000), st.floats(0, 2), st.integers(20, 250))
def test_rounds_come_to_rest(rounds: int, round_ms: float, ragged_rounds: float, slice_ms: int) -> None:
    """Rounds that take as long each time, while clients come apart by as many rounds."""

    def following(rounds: int) -> int:
        return next_rounds(rounds, rounds * round_ms, min(1, ragged_rounds / rounds), slice_ms)

    for _ in range(40):
        rounds = following(rounds)
    assert following(rounds) == rounds
    assert rounds * round_ms >= SHORT * slice_ms
    assert ragged_rounds > 0 or rounds == 1 or rounds * round_ms <= LONG * slice_ms
