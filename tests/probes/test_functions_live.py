"""A function planted in a real server is named: from bpftrace's samples in slices to the certain differences."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis.causes import function_costs
from engine.analysis.causes.function_costs import CellSamples, PairWindows, estimates, pair_windows
from engine.analysis.statistics.inference import ALPHA
from engine.core.model import Build
from engine.journal.rows import ProbeFrame, SliceRow
from engine.slices.block_order import SliceSeed
from engine.slices.conductor import Slice
from engine.tracing.step_frames import LEAF_HZ, ProbedStep
from probes import folding
from probes.session import ProbeSession, State, Target
from tests.support.interleaved_servers import interleaved, query_step, servers_up
from tests.support.observing import Helper
from tests.support.planted import preloaded

pytestmark = pytest.mark.outside

LOOP = 100_000  # iterations after each message: some tens of microseconds
ROWS, SLICE_MS, FRAMES, PARTS = 2000, 20.0, 8, 4  # frames: of a second, or longer beside other work


def samples_of(slices: Sequence[Slice], rows: Sequence[ProbeFrame]) -> CellSamples:
    """What was sampled of a server, as the journal would have it."""
    kept = [
        SliceRow(1, **{name: value for name, value in each._asdict().items() if name not in ("side", "turn")})
        for each in slices
    ]
    return CellSamples(function_costs.frames_of(rows, (), ""), *function_costs.progress(kept), LEAF_HZ, False)


def in_parts(sides: Sequence[CellSamples], names: Sequence[str]) -> list[PairWindows]:
    """The frames of one pair of clusters dealt out to as many parts as a verdict needs pairs."""
    cut = [[replace(side, frames=list(side.within())[part::PARTS]) for side in sides] for part in range(PARTS)]
    return [windows for base, other in cut if (windows := pair_windows(base, other, names)) is not None]


def test_a_function_planted_in_a_real_server_is_named_and_no_other_costs_as_much_more(
    build: Callable[[int | str], Build], helpers: tuple[Helper, ...], new_folder: Callable[[], Path]
) -> None:
    folder = new_folder()
    library, source = folder / "planted.so", Path(__file__).parents[1] / "perf" / "planted.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    sides = [preloaded(build(16), folder / name, library) for name in ("plain", "slowed")]
    sides[1][1].set(LOOP)
    with ExitStack() as stack:
        servers = stack.enter_context(servers_up([each for each, _ in sides], ROWS))
        spaces = [folding.space(Path(f"/proc/{each.pid}/maps").read_text(), complete=False) for each in servers]
        duet = stack.enter_context(interleaved(servers, query_step(ROWS), SLICE_MS, SliceSeed(1, 1, "planted")))
        targets = [Target(each.pid, Path(f"/proc/{each.pid}/exe").readlink(), each.build.major) for each in servers]
        sessions = [stack.enter_context(ProbeSession(each, "stacks", command=helpers[0])) for each in targets]
        assert all(each.wait_baseline() for each in sessions), [each.messages for each in sessions]
        steps = [ProbedStep(1, 1, {}, (), busy=True) for _ in servers]
        rows: list[list[ProbeFrame]] = [[] for _ in servers]
        while min(map(len, rows)) < FRAMES and not any(each.state is State.FAILED for each in sessions):
            duet.drive(0.5)
            for own, step, session, known in zip(rows, steps, sessions, spaces, strict=True):
                own += [row for frame in session.poll() for row in step.add(frame, "", known)]
    found = [samples_of([each for each in duet.slices if each.side == side], own) for side, own in enumerate(rows)]
    names = sorted({name for side in found for _, _, counts in side.frames for name in counts})
    pairs = in_parts(found, names)
    assert len(pairs) == PARTS
    made = estimates(pairs)
    # Each on its own: beside other work the parts of one pair scatter more than pairs of a measurement.
    likely = (made.samples >= function_costs.LEAST) & (made.p <= ALPHA)
    more = {name: made.other[at] - made.base[at] for at, name in enumerate(names) if likely[at]}
    assert max(more, key=lambda name: abs(more[name]), default="") == "spin" and more["spin"] > 0, (more, made.p)
