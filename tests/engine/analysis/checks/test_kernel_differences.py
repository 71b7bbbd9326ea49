"""Kernels in a comparison: named apart, judged only where kernel and nothing else differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.analysis.answer.compare import compare
from engine.core.kernel import GuestMachine, Kernel
from engine.core.model import Cell
from engine.results.comparison import Comparison
from tests.support.journal import ENVIRONMENT, make_run

MACHINE = GuestMachine("kvm", 4, 4096, "image", 1024, "qemu 9.2.4")
OLD = Kernel("6.1", "6.1.170", "nixpkgs", "/k/6.1", "/k/6.1/bzImage", "d1", "c1", options={"HZ": "250", "PREEMPT": "n"})
NEW = Kernel("6.12", "6.12.87", "nixpkgs", "/k/6.12", "/k/6.12/bzImage", "d2", "c2", options={"HZ": "1000"})


def of_cell(cell: Cell) -> dict[str, Any]:
    """A guest's own facts: kernels see memory and disks differently."""
    release = {"6.1": "6.1.170", "6.12": "6.12.87"}.get(cell.subject.kernel, "6.12.58")
    memory = {**ENVIRONMENT["memory"], "total_bytes": 2**32 + len(release)}
    return {**ENVIRONMENT, "kernel": {"release": release}, "memory": memory}


def run_under(path: Path, **entries: Any) -> Comparison:
    under = entries.pop("under", ("6.1", "6.12"))
    planned: dict[str, Any] = {"kernels": (OLD, NEW), "guest": MACHINE, "repeats": 4, **entries}
    return compare([make_run(path, builds=("16.3",), under=under, environments=of_cell, **planned)])


def rate(comparison: Comparison) -> Any:
    return next(ratio for ratio in comparison.ratios if ratio.step == "qr100" and ratio.metric == "rate_per_s")


def test_kernels_alike_in_all_else_are_judged(tmp_path: Path) -> None:
    comparison = run_under(tmp_path / "run")
    assert list(comparison.names) == ["6.1", "6.12"] and comparison.base == "6.1"
    assert (rate(comparison).verdict, rate(comparison).pairs, rate(comparison).reasons) == ("same", 4, ())
    said = {check.what: (check.ok, check.text) for check in comparison.remarks.comparability}
    assert said["kernel"] == (True, "6.1.170 vs 6.12.87; compared on purpose")
    assert said["guest"] == (True, "kvm, 4 CPUs, 4096 MB, image, 9p, qemu 9.2.4")
    assert said["provenance"] == (True, "nixpkgs; CFS vs EEVDF")
    assert said["configuration"] == (True, "HZ 250 vs 1000")


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"guest": replace(MACHINE, accelerator="tcg")}, "emulated guests (no KVM)"),
        ({"under": ("host", "6.12")}, "host against a guest"),
        ({"kernels": (replace(OLD, provenance="distro"), NEW)}, "kernels of unlike provenance: distro and nixpkgs"),
    ],
)
def test_what_is_no_question_of_the_kernel_gets_no_verdict(
    tmp_path: Path, entries: dict[str, Any], reason: str
) -> None:
    ratio = rate(run_under(tmp_path / "run", **entries))
    assert ratio.verdict == "withheld" and ratio.ratio is not None
    assert any(line.startswith(reason) for line in ratio.reasons)


def test_one_label_must_be_one_kernel_in_all_runs(tmp_path: Path) -> None:
    newer = replace(NEW, release="6.12.90", digest="d3")
    paths = [
        make_run(tmp_path / name, builds=("16.3",), under=("6.1", "6.12"), kernels=(OLD, kernel), guest=MACHINE,
                 environments=of_cell, tunables=tunables)
        for name, kernel, tunables in (("a", NEW, ()), ("b", newer, (("nr_migrate", "8"),)))
    ]  # fmt: skip
    reasons = rate(compare(paths)).reasons
    assert "kernel 6.12 is not the same in all runs: 6.12.87 and 6.12.90" in reasons
    assert "settings of the kernel (--sched) are not the same in all runs" in reasons
