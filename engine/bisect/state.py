"""The state of a search for a commit, in its `bisect.json`: nothing in it is a path, or is executed."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from engine.bisect.ends import LEVELS
from engine.core.errors import UserError
from engine.system.files import is_name, read_plain

FORMAT = 1
MAX_BYTES = 1 << 24


class MeasuredCommit(msgspec.Struct, frozen=True):
    """A measured commit: pairs of log ratios (see `analysis.series.bisection`)."""

    commit: str
    pairs: tuple[tuple[float, float], ...]
    run: str


class PendingRun(msgspec.Struct, frozen=True):
    run: str
    commits: dict[str, str]


class SearchState(msgspec.Struct):
    """The state of a search. `asked` is a digest of all that results depend on; `after` the last commit known good.

    `measured` are the runs of both ends; `step` is the one that is slower, by the log ratios of `ends`. `broken` are
    the commits that cannot be judged, with the reasons.
    """

    format: int
    asked: str
    measured: list[str] = []
    under_way: PendingRun | None = None
    step: str = ""
    ends: tuple[float, ...] = ()
    ends_text: str = ""
    judged: list[MeasuredCommit] = []
    broken: dict[str, str] = {}
    after: str = ""
    mended: list[str] = []


def write(path: Path, state: SearchState) -> None:
    written = path.with_name(f"{path.name}.new")
    written.write_bytes(msgspec.json.format(msgspec.json.encode(state)))
    written.replace(path)


def read(path: Path, digest: str, known: set[str]) -> SearchState:
    """The saved state, or a new one. Raises UserError for a file of another search."""
    try:
        state = msgspec.json.decode(read_plain(path, MAX_BYTES), type=SearchState)
    except FileNotFoundError:
        return SearchState(FORMAT, digest)
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(f"{path}: cannot be read: {error}; --again starts over") from None
    if state.format == FORMAT and state.asked != digest and not state.step:
        return SearchState(FORMAT, digest)  # nothing was known of the ends
    if state.format != FORMAT or state.asked != digest:
        raise UserError(f"{path}: this search was begun with other options; --again starts over, --out starts another")
    named = {judged.commit for judged in state.judged} | set(state.broken) | ({state.after} if state.after else set())
    values = [value for judged in state.judged for pair in judged.pairs for value in pair] + list(state.ends)
    complete = all(len(judged.pairs) > 1 for judged in state.judged) and bool(state.step) == (len(state.ends) > 1)
    complete = complete and len(state.measured) <= len(LEVELS)
    runs = [*state.measured, *([state.under_way.run] if state.under_way else [])]
    if named - known or not complete or not all(map(math.isfinite, values)) or not all(map(is_name, runs)):
        raise UserError(f"{path}: names a commit that is not part of this search; --again starts over")
    return state
