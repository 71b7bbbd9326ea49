"""Flame graphs of a run's stacks: one self-contained page, drawn by the library d3-flame-graph.

In a differential graph the width of a frame is its part of the second profile (or, by a button, of the first), and its
colour how much that part has changed; frames that changed by no more than chance are grey
(`analysis.causes.stack_changes`). The first profile's samples are scaled before: to the same number of statements where
both are known, which shows that a statement became dearer; otherwise to the same number of samples, which shows shares
only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from math import log
from pathlib import Path
from string import Template
from typing import Any

from engine.analysis.causes import function_costs, stack_changes
from engine.analysis.causes.stack_changes import RENAMED, CellStacks
from engine.analysis.cells import run_results
from engine.analysis.cells.run_results import CellResult, RunResult
from engine.core.errors import unknown
from engine.core.model import Subject
from engine.core.text import Visible, visible, visible_json, visible_record
from engine.journal.manifest import read_manifest
from engine.report.policy import policy
from engine.results.flame import FlameGraph, FunctionChange, Sampled
from engine.tracing import stacks
from probes.folding import WAIT_FRAMES
from workloads.api.base import role_kind

LIBRARY = ("d3-selection.min.js", "d3-flamegraph.min.js", "d3-flamegraph-colorMapper.min.js")
STYLE = "d3-flamegraph.css"

MAIN_LOOP = "PostgresMain"
MARKED = "Functions with a figure cost so much more or less CPU time per operation, in all processes of the server"
GREY = "Grey: no significant change; one in 20 of the coloured frames has not changed either"

Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Profile:
    """The samples of one role in one step: folded line -> count. `statements` is None when they were not counted.

    With `offcpu` they are microseconds off the CPU. `cells` has the same by cell.
    """

    name: str
    folded: Mapping[str, int]
    statements: int | None = None
    label: str = ""  # its name without the run's
    offcpu: bool = False
    cells: tuple[CellStacks, ...] = ()

    @property
    def samples(self) -> int:
        return sum(self.folded.values())


def labels(run: Path) -> dict[str, Subject]:
    """The names accepted for a run: its comparison's, and `16.3`, for the first of that build, or `16.3/cx7`."""
    named: dict[str, Subject] = {}
    for subject, name in read_manifest(run).names.items():
        of_build = subject.name
        for label in (name, of_build, f"{of_build}/{subject.config}", *(() if subject.control else (subject.build,))):
            named.setdefault(label, subject)
    return named


def subject_of(run: Path, label: str | None) -> Subject:
    """The subject of a label, or the run's base for None. Raises UserError for an unknown label."""
    known = labels(run)
    wanted = label or read_manifest(run).design.base
    if wanted not in known:
        raise unknown(f"build in {run.name}", wanted, known)
    return known[wanted]


def most_sampled(
    run: Path, subject: Subject, step: str | None, role: str | None, cell: str | None = None, *, offcpu: bool = False
) -> tuple[str, str]:
    """The step and role with the most samples of a subject or of one cell, among those that are given."""
    samples: Counter[tuple[str, str]] = Counter()
    for (owner, named, worker), paths in stacks.recorded(run, stacks.FOLDERS[offcpu]).items():
        kind = role_kind(worker)
        if owner == subject and step in (None, named):
            counted = [path for path in paths if role in (None, worker, kind) and cell in (None, path.parents[1].name)]
            samples[named, role or kind] += sum(sum(stacks.parse(path).values()) for path in counted)
    return max(samples, key=samples.__getitem__, default=(step or "", role or ""))


def slowest(run: Path, base: Subject, other: Subject, *, offcpu: bool = False) -> str | None:
    """The step with stacks of both in which one subject of a run is slower than another by most; None without one."""
    from engine.analysis.answer.compare import compare

    names = read_manifest(run).names
    comparison = compare([run], names.get(base))
    sampled = {(subject, step) for subject, step, _ in stacks.recorded(run, stacks.FOLDERS[offcpu])}
    steps = [step for step in comparison.steps if {(base, step), (other, step)} <= sampled]
    rates = [comparison.ratio(names.get(other, ""), step, comparison.primary_metric(step)) for step in steps]
    slower = {rate.step: abs(log(rate.ratio or 1)) for rate in rates if rate and rate.verdict == "slower"}
    return max(slower, key=slower.__getitem__, default=None)


def subject_of_cell(run: Path, cell: str) -> Subject:
    return next(planned.subject for planned in read_manifest(run).cells if planned.id == cell)


def profile(
    run: Path,
    subject: Subject,
    step: str,
    role: str,
    cell: str | None = None,
    known: RunResult | None = None,
    *,
    offcpu: bool = False,
) -> Profile:
    """The samples on (or off) the CPU, over all repeats of a subject or in one cell of it.

    `known` are the run's results. Raises UserError without samples.
    """
    probe = stacks.FOLDERS[offcpu]
    by_cell = stacks.read_by_cell(run, subject, step, role, cell, probe)
    sampled = {
        path.parents[1].name
        for (owner, named, _), paths in stacks.recorded(run, probe).items()
        for path in paths
        if (owner, named) == (subject, step) and cell in (None, path.parents[1].name)
    }
    result = known or run_results.load(run)
    cells = [
        CellStacks(under_main_loop(by_cell.get(cell.cell.id, {})), _statements(cell, step, role) or None)
        for cell in result.cells
        if cell.cell.id in sampled
    ]
    name = result.manifest.names.get(subject, subject.name)
    return profile_of(f"{name} ({run.name})", cells, name, offcpu=offcpu)


def profile_of(name: str, cells: Sequence[CellStacks], label: str = "", *, offcpu: bool = False) -> Profile:
    """The profile of all these cells; its statements are known if all of theirs are."""
    folded: Counter[str] = Counter()
    for cell in cells:
        folded.update(cell.folded)
    counts = [cell.statements for cell in cells if cell.statements]
    statements = sum(counts) if len(counts) == len(cells) else None
    return Profile(name, folded, statements, label, offcpu, tuple(cells))


def under_main_loop(folded: Mapping[str, int]) -> dict[str, int]:
    """The same stacks, after the kind of a wait, from the main loop on: the way there differs by version."""

    def below(frames: list[str]) -> list[str]:
        if MAIN_LOOP not in frames:
            return frames
        kind = frames[:1] if frames[0] in WAIT_FRAMES.values() else []
        return kind + frames[frames.index(MAIN_LOOP) :]

    return _refolded(folded, below)


def under_one_name(folded: Mapping[str, int]) -> dict[str, int]:
    """The same stacks with functions named as in later versions."""

    def renamed(old: list[str]) -> list[str]:
        frames: list[str] = []
        for name in old:
            # Where a function was split in two, only one of them is kept.
            if name not in RENAMED or frames[-1:] != [RENAMED[name]]:
                frames.append(RENAMED.get(name, name))
        return frames

    return _refolded(folded, renamed)


def _refolded(folded: Mapping[str, int], changed: Callable[[list[str]], list[str]]) -> dict[str, int]:
    refolded: Counter[str] = Counter()
    for line, count in folded.items():
        refolded[";".join(changed(line.split(";")))] += count
    return refolded


def _statements(cell: CellResult, step: str, role: str) -> int:
    """Statements the role has finished; 0 if the cell is unfinished, or the role is not a client's."""
    if step not in cell.steps:
        return 0
    totals = cell.steps[step].totals
    # All workers of a kind go by its word, as when stacks are read; `query` is also the first worker's name.
    role_totals = totals.of_kind(role) or [of_role for name, of_role in totals.roles.items() if name == role]
    return sum(one.statements for one in role_totals)


def counted(profile: Profile) -> str:
    if profile.offcpu:
        return f"{profile.samples / 1e6:.3f} s off the CPU"
    return f"{profile.samples} samples on CPU"


def tree(folded: Mapping[str, int]) -> Node:
    """The nested form: a node's `value` counts all its samples. Kernel functions are marked as such."""
    return _tree({line: (float(count), 0.0) for line, count in folded.items()})


def difference(base: Profile, new: Profile) -> tuple[Node, Node, str]:
    """The nested forms as wide as the second and as the first profile, and how the two were made comparable.

    A node's `change` is what changed in it alone, second less first, in samples of the profile that sets the width;
    `certain`: it and its callees changed by more than chance.
    """
    certain = changed(base, new, stack_changes.frames)
    factor, text = scale(base, new)
    before, after = Counter(under_one_name(base.folded)), Counter(under_one_name(new.folded))
    lines = {*before, *after}
    as_new = {line: (float(after[line]), after[line] - before[line] * factor) for line in lines}
    as_base = {line: (float(before[line]), after[line] / factor - before[line]) for line in lines}
    return _tree(as_new, certain), _tree(as_base, certain), text


def changed(base: Profile, new: Profile, of: Callable[[Mapping[str, int]], Counter[str]]) -> frozenset[str]:
    """Frames or functions, named as in later versions, that changed by more than chance."""
    before, after = (
        [replace(cell, folded=under_one_name(cell.folded)) for cell in side.cells]
        or [CellStacks(under_one_name(side.folded), side.statements)]
        for side in (base, new)
    )
    return stack_changes.changed(before, after, of, timed=new.offcpu)


def function_changes(run: Path, base: Subject, other: Subject, step: str) -> tuple[FunctionChange, ...]:
    """The functions of two subjects of a run that cost more or less for certain; none of or against a control."""
    from engine.analysis.answer.compare import compared_cells

    names = read_manifest(run).names
    if base.control or other.control:
        return ()
    cells = replace(compared_cells([run], names.get(base, base.name)), steps=(step,))
    changes = function_costs.function_costs(cells)
    return next((costs.changes for costs in changes if costs.subject == cells.names.get(other)), ())


def marked(node: Node, effects: Mapping[str, str]) -> Node:
    """The tree with the effect of each certain function beside its name."""
    mark = {"mark": effects[node["name"]]} if node["name"] in effects else {}
    return {**node, "children": [marked(child, effects) for child in node["children"]], **mark}


def scale(base: Profile, new: Profile) -> tuple[float, str]:
    """The factor for the first profile's samples, and the quantity that it makes equal."""
    if base.statements and new.statements:
        return new.statements / base.statements, "per statement"
    unit = "time off the CPU" if new.offcpu else "samples"
    return new.samples / base.samples, f"as shares of all {unit}"


def graph(
    step: str, role: str, base: Profile, new: Profile | None = None, changes: tuple[FunctionChange, ...] = ()
) -> FlameGraph:
    alike = new is not None and new.label == base.label  # from two runs
    sides = [
        Sampled(profile.name if alike else profile.label or profile.name, profile.samples, profile.statements)
        for profile in (base, new)
        if profile is not None
    ]
    factor, how = scale(base, new) if new is not None else (1.0, "")
    before = Counter(under_one_name(base.folded) if new is not None else base.folded)
    after = Counter(under_one_name(new.folded)) if new is not None else Counter[str]()
    lines = tuple((text, before[text], after[text]) for text in sorted({*before, *after}))
    other = sides[1] if new is not None else None
    certain, own_change = (
        tuple(sorted(changed(base, new, of))) if new is not None else ()
        for of in (stack_changes.frames, stack_changes.functions)
    )
    return FlameGraph(
        step, role, sides[0], other, factor, how, is_flat(base, new), lines, base.offcpu, certain, own_change, changes
    )


def is_flat(*profiles: Profile | None) -> bool:
    """Whether no stack is deeper than its innermost function; kernel stacks, always complete, do not count."""
    aside = set(WAIT_FRAMES.values())
    lines = (line.split(";") for profile in profiles if profile for line in profile.folded)
    return all(sum(not name.endswith("_[k]") and name not in aside for name in names) <= 1 for names in lines)


def page(
    step: str, role: str, new: Profile, base: Profile | None = None, changes: Sequence[FunctionChange] = ()
) -> Visible:
    scripts = [*map(vendored, LIBRARY), _own("flame.js")]
    if base is None:
        title = f"{role} in {step}: {new.name}"
        note = counted(new)
        graphs = [{"label": new.name, "tree": tree(new.folded)}]
    else:
        as_new, as_base, how = difference(base, new)
        effects = {change.name: change.effect for change in changes}
        title = f"{role} in {step}: {new.name} against {base.name}"
        note = (
            f"{counted(new)} against {counted(base)}, compared {how}. Red takes more than in {base.name}, blue "
            f"less; the paler, the less has changed. {GREY}{f'. {MARKED}' if changes else ''}"
        )
        graphs = [
            {"label": f"as wide as in {new.name}; orange is new", "tree": marked(as_new, effects)},
            {"label": f"as wide as in {base.name}; orange has at least doubled", "tree": marked(as_base, effects)},
        ]
    if is_flat(new, base):
        note += ". Only the innermost functions are known: these binaries keep no frame pointers"
    # "<" would let a name in the data end the script.
    record = {"offcpu": new.offcpu, "differential": base is not None, "graphs": graphs}
    data = visible_json(visible_record(record)).replace("<", "\\u003c")
    text = Template(_own("flame.html")).substitute(
        policy=policy(scripts),
        title=escape(visible(title)),
        note=escape(visible(note)),
        style=vendored(STYLE),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
        data=data,
    )
    return Visible(text)


def _own(name: str) -> str:
    return files("engine.report").joinpath(name).read_text(encoding="utf-8")


def vendored(name: str) -> str:
    """A file of a library that pages bring along; see `vendor/README.md`."""
    return _own(f"vendor/{name}")


def _tree(
    lines: Mapping[str, tuple[float, float]], certain: Collection[str] | None = None, name: str = "all", path: str = ""
) -> Node:
    """The node of stacks (count, change) that continue below it; the empty one ends in it. `certain` frames changed."""
    below: dict[str, dict[str, tuple[float, float]]] = {}
    for line, change in sorted(lines.items()):
        if line:
            child, _, rest = line.partition(";")
            below.setdefault(child, {})[rest] = change
    value = sum(count for count, _ in lines.values())
    before = f"{path};" if path else ""
    node: Node = {
        "name": name,
        "value": round(value, 2) if value % 1 else int(value),
        "children": [_tree(nodes, certain, child, f"{before}{child}") for child, nodes in below.items()],
    }
    if certain is not None:
        node |= {"change": round(lines.get("", (0, 0))[1], 2), "certain": path in certain}
    if name.endswith("_[k]"):
        node["libtype"] = "kernel"
    return node
