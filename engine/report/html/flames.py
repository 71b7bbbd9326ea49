"""The flame graphs of a report: stacks of each step and role, of the base and of changes against it.

Stacks sampled on the CPUs come first, then time off them, where the probe `offcpu` was on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.analysis.causes import stack_changes
from engine.analysis.cells import run_results
from engine.core.errors import UserError
from engine.journal.totals import role_place
from engine.report import flame
from engine.report.flame import Node, Profile
from engine.results.comparison import Comparison
from engine.results.flame import effect
from engine.tracing import stacks

LEAST = 0.002  # of all samples: narrower frames could not be seen and are left out
NAMED = 40  # functions in the table behind a graph
SAMPLES, OFF_CPU = "samples", "us off the CPU"  # units of widths
SERVER_ROLES = ("server",)  # in addition to the connections'


def flames(comparison: Comparison) -> dict[str, list[dict[str, Any]]]:
    """Flame graphs by step: a title, a note and trees of `engine.report.flame` for each."""
    graphs_of: dict[str, list[dict[str, Any]]] = {}
    folders = [Path(folder) for folder in comparison.measured.folders.values()]
    for offcpu in (False, True):
        try:
            there = {run: stacks.recorded(run, stacks.FOLDERS[offcpu]) for run in folders if _has_stacks(run, offcpu)}
        except UserError:  # nothing is opened for cells whose names cannot be file names
            return graphs_of
        for step, graphs in _flames(comparison, there, offcpu) if there else ():
            graphs_of.setdefault(step, []).extend(graphs)
    return graphs_of


def _flames(comparison: Comparison, there: Any, offcpu: bool) -> Iterable[tuple[str, Iterable[dict[str, Any]]]]:
    known = {run: run_results.load(run) for run in there}
    for step in comparison.steps:
        connections = {role for cell in comparison.cells if cell.step == step for role in cell.roles}
        recorded = {role for files in there.values() for _, named, role in files if named == step}
        for role in sorted(recorded & {*connections, *SERVER_ROLES}, key=role_place):
            profiles = {
                subject.name: profile
                for subject in comparison.subjects
                if (profile := _profile(there, known, subject.subject, subject.name, step, role, offcpu)) is not None
            }
            yield step, _drawn(comparison, profiles, step, role)


def _has_stacks(run: Path, offcpu: bool) -> bool:
    return any(run.glob(f"cells/*/{stacks.FOLDERS[offcpu]}/*{stacks.SUFFIX}"))


def _profile(there: Any, known: Any, subject: Any, name: str, step: str, role: str, offcpu: bool) -> Profile | None:
    profiles = [
        flame.profile(run, subject, step, role, known=known[run], offcpu=offcpu)
        for run, files in there.items()
        if (subject, step, role) in files
    ]
    cells = [cell for profile in profiles for cell in profile.cells]
    return flame.profile_of(name, cells, name, offcpu=offcpu) if any(cell.folded for cell in cells) else None


def _drawn(comparison: Comparison, profiles: dict[str, Profile], step: str, role: str) -> Iterable[dict[str, Any]]:
    for name, profile in profiles.items():
        base = profiles.get(comparison.baseline_of(name))
        unit = OFF_CPU if profile.offcpu else SAMPLES
        head = f"{role}, off the CPU" if profile.offcpu else role
        if name == comparison.base or base is None:
            graphs = [{"label": name, "tree": pruned(flame.tree(profile.folded))}]
            yield {"role": role, "title": f"{head}: {name}", "differential": False, "graphs": graphs, "unit": unit,
                   "functions": functions(profile, None),
                   "note": f"n = {flame.counted(profile)}{_only(profile)}"}  # fmt: skip
            continue
        as_new, as_base, how = flame.difference(base, profile)
        effects = {
            row.name: effect(row.values[-1])
            for section in comparison.section("functions")
            for row in section.of(step, name)[1:]
            if not profile.offcpu
        }
        yield {
            "role": role,
            "title": f"{head}: {name} against {base.name}",
            "differential": True,
            "unit": unit,
            "note": f"n = {_amount(profile)} against {_amount(base)}, compared {how}; red takes more than in "
                    f"{base.name}, blue less. {flame.GREY}{f'. {flame.MARKED}' if effects else ''}"
                    f"{_only(profile, base)}",
            "functions": functions(base, profile, effects),
            "graphs": [
                {"label": f"as wide as in {name}", "tree": flame.marked(pruned(as_new), effects)},
                {"label": f"as wide as in {base.name}", "tree": flame.marked(pruned(as_base), effects)},
            ],
        }  # fmt: skip


def _amount(profile: Profile) -> str:
    return flame.counted(profile).removesuffix(" on CPU")


def functions(base: Profile, new: Profile | None, effects: Mapping[str, str] | None = None) -> list[list[Any]]:
    """Functions by own samples: [name, base's, the other's, `more` or `less` if certain]; certain ones first.

    The change per operation replaces it where it is known.
    """
    samples = [stack_changes.functions(side.folded if side else {}) for side in (base, new)]
    if new is None:
        return [[name, count, None, ""] for name, count in sorted(samples[0].items(), key=_most)[:NAMED]]
    samples = [stack_changes.functions(flame.under_one_name(side.folded)) for side in (base, new)]
    scale, certain = flame.scale(base, new)[0], flame.changed(base, new, stack_changes.functions)
    words = {name: "more" if samples[1][name] > samples[0][name] * scale else "less" for name in certain}
    words |= effects or {}
    most = {name: max(samples[0][name], samples[1][name]) for name in (*samples[0], *samples[1])}
    ordered = sorted(most.items(), key=lambda item: (item[0] not in words, *_most(item)))
    return [[name, samples[0][name], samples[1][name], words.get(name, "")] for name, _ in ordered[:NAMED]]


def _most(named: tuple[str, int]) -> tuple[int, str]:
    return -named[1], named[0]


def _only(*profiles: Profile) -> str:
    return "; only the innermost functions are known: no frame pointers" if flame.is_flat(*profiles) else ""


def pruned(tree: Node) -> Node:
    """The tree without frames too narrow to be seen; their change counts as their parent's."""
    return _pruned(tree, LEAST * float(tree["value"]))


def _pruned(node: Node, least: float) -> Node:
    kept = {**node, "children": [_pruned(child, least) for child in node["children"] if child["value"] >= least]}
    if "change" in node:
        left_out = sum(_changes(child) for child in node["children"] if child["value"] < least)
        kept["change"] = round(node["change"] + left_out, 2)
    return kept


def _changes(node: Node) -> float:
    change: float = node["change"]
    return change + sum(map(_changes, node["children"]))
