"""The scheduler's tunables: which kernels know which, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.errors import UserError
from engine.host import scheduler


def test_each_kernel_has_its_own_tunables_in_its_own_place() -> None:
    old, cfs, eevdf = (scheduler.known(release) for release in ("5.10.262", "6.1.0-50-amd64", "6.12.95"))
    assert str(old["latency_ns"]) == "/proc/sys/kernel/sched_latency_ns"
    assert str(cfs["latency_ns"]) == f"{scheduler.DEBUG}latency_ns"
    assert "base_slice_ns" in eevdf and "base_slice_ns" not in cfs and "latency_ns" not in eevdf


def test_what_a_kernel_does_not_know_is_refused_with_what_it_has() -> None:
    tunables = scheduler.parsed(["base_slice_ns=3000000"])
    scheduler.check(tunables, "6.12.95")
    with pytest.raises(UserError, match=r"Linux 6\.1\.170 does not have it; it has latency_ns, min_granularity_ns"):
        scheduler.check(tunables, "6.1.170")
    for texts, said in (
        (["base_slice=1"], "base_slice: unknown; known: base_slice_ns"),
        (["base_slice_ns"], "give NAME=NUMBER"),
        (["base_slice_ns=-1"], "give NAME=NUMBER"),
        (["base_slice_ns=\u0661"], "give NAME=NUMBER"),
        (["nr_migrate=1", "nr_migrate=2"], "nr_migrate: given twice"),
        (["ext=scx_rusty"], "ext: unknown; known: base_slice_ns"),
    ):
        with pytest.raises(UserError, match=said):
            scheduler.parsed(texts)


def test_missing_scheduler_tunables_explain_what_to_mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    debug = f"{tmp_path}/debug/sched/"
    place = scheduler.TunablePath((0, 1), scheduler.LAST, f"{debug}nr_migrate")
    monkeypatch.setattr(scheduler, "DEBUG", debug)
    monkeypatch.setattr(scheduler, "PLACES", {"nr_migrate": (place,)})
    (tmp_path / "debug").mkdir()
    with pytest.raises(UserError, match="nr_migrate: debugfs is not mounted: mount -t debugfs"):
        scheduler.values([("nr_migrate", "8")])
    Path(debug).mkdir()
    with pytest.raises(UserError, match="nr_migrate: No such file or directory"):
        scheduler.values([("nr_migrate", "8")])
    (Path(debug) / "nr_migrate").write_text("32\n")
    assert scheduler.values([("nr_migrate", "8")]) == {f"{debug}nr_migrate": "32"}


def test_nothing_but_tunables_is_ever_restored(tmp_path: object) -> None:
    file = f"{tmp_path}/file"
    scheduler.restore({file: "1"})
    with pytest.raises(FileNotFoundError):
        open(file)  # noqa: SIM115, PTH123
