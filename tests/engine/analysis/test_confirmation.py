"""What a second run confirms of a first one's claims: runs of chosen rates, judged by the real comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.analysis import confirmation
from engine.analysis.compare import compare
from engine.core.errors import UserError
from engine.core.model import Manifest
from engine.journal.manifest import read_manifest
from engine.results.confirmation import ConfirmedStep
from tests.support.journal import make_run, plan_run

FIRST = {("17.0", "l.i1"): 0.9, ("17.0", "qr100"): 1.2, ("17.0", "l.i0"): 0.8}
SECOND = {("17.0", "l.i1"): 0.91, ("17.0", "qr100"): 1.0, ("17.0", "l.i0"): 1.1, ("17.0", "l.x"): 0.5}


def both(tmp_path: Path, *, digest: str = "d0") -> tuple[tuple[ConfirmedStep, ...], Manifest, Manifest]:
    first = make_run(tmp_path / "first", effects=FIRST, repeats=6)
    second = make_run(tmp_path / "second", effects=SECOND, repeats=6, seed=2, digest=digest)
    named = confirmation.named(compare([first]))
    judged = confirmation.again(second, "16.3", named)
    return confirmation.confirmed(named, judged), read_manifest(first), read_manifest(second)


def test_a_step_is_confirmed_if_the_second_run_names_it_in_the_same_direction(tmp_path: Path) -> None:
    steps, *_ = both(tmp_path)
    assert {step.step: step.confirmed for step in steps} == {"l.i0": False, "l.i1": True, "qr100": False}
    seconds = {step.step: step.second.verdict for step in steps if step.second}
    assert seconds == {"l.i0": "faster", "l.i1": "slower", "qr100": "same"}


def test_only_what_was_named_is_judged(tmp_path: Path) -> None:
    """Of the steps nothing else, and of other builds not that step: what is corrected for is what is read."""
    builds = ("16.3", "17.0", "18.0")
    first = compare([make_run(tmp_path / "first", builds=builds, effects=FIRST, repeats=6)])
    named = confirmation.named(first)
    judged = confirmation.again(make_run(tmp_path / "second", builds=builds, effects=SECOND), "16.3", named)
    of_run = {(ratio.subject, ratio.step, ratio.metric) for ratio in judged.ratios}
    assert of_run == {(ratio.subject, ratio.step, ratio.metric) for ratio in named}
    assert {subject for subject, *_ in of_run} == {"17.0"} and judged.steps == ("l.i0", "l.i1", "qr100")


def test_a_step_that_the_second_run_lacks_is_not_confirmed(tmp_path: Path) -> None:
    named = confirmation.named(compare([make_run(tmp_path / "first", effects=FIRST, repeats=6)]))
    other = compare([make_run(tmp_path / "other", builds=("16.3", "18.0"))])
    assert {(step.confirmed, step.second) for step in confirmation.confirmed(named, other)} == {(False, None)}


def test_another_binary_of_the_same_name_is_said(tmp_path: Path) -> None:
    _, first, second = both(tmp_path, digest="d1")
    assert confirmation.differences(first, first) == ()
    assert confirmation.differences(first, second) == (
        "16.3 is not the binary that first measured",
        "17.0 is not the binary that first measured",
    )


def test_a_config_of_the_same_name_with_other_settings_is_said(tmp_path: Path) -> None:
    first = plan_run(tmp_path / "first")
    changed = replace(first.configs["auto/17.0"], settings=(("shared_buffers", "2GB"), ("jit", "off")))
    second = replace(first, configs=first.configs | {"auto/17.0": changed})
    (text,) = confirmation.differences(first, second)
    assert text.endswith("than in first: jit off instead of unset, shared_buffers 2GB instead of 1GB")


def test_only_the_steps_of_both_runs_must_be_alike(tmp_path: Path) -> None:
    run = make_run(tmp_path / "first")
    second = make_run(tmp_path / "second")
    path = second / "manifest.json"
    record = json.loads(path.read_text())
    del record["workload"]["steps"][0]
    path.write_text(json.dumps(record))
    confirmation.check_workloads(run, second)
    record["workload"]["steps"][0]["rows_per_client"] = 7
    path.write_text(json.dumps(record))
    with pytest.raises(UserError, match=r"rows per client of l\.x is \S+ in the one and 7 in the other"):
        confirmation.check_workloads(run, second)
