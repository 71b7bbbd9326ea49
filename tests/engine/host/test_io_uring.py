"""Permission of a server to use io_uring, by this kernel, and by other kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.host import io_uring
from engine.system.account import Account

SERVER = Account("postgres", 105, 109, False)


@pytest.mark.parametrize(
    ("disabled", "group", "said"),
    [("2", "-1", "kernel.io_uring_disabled is 2"), ("1", "-1", "disabled is 1"), ("1", "109", ""), ("0", "-1", "")],
)
def test_the_kernels_settings_forbid_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, disabled: str, group: str, said: str
) -> None:
    for name, value in (("DISABLED", disabled), ("GROUP", group)):
        (tmp_path / name).write_text(f"{value}\n")
        monkeypatch.setattr(io_uring, name, tmp_path / name)
    reason = io_uring.refusal(SERVER)
    assert said in reason if said else "kernel.io_uring_disabled" not in reason
    assert not said or "sysctl kernel.io_uring_disabled=0" in reason


def test_a_kernel_without_the_settings_is_asked_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("DISABLED", "GROUP"):
        monkeypatch.setattr(io_uring, name, tmp_path / "none")
    monkeypatch.setattr(io_uring, "IO_URING_SETUP", 100_000)  # no system call
    assert io_uring.refusal(SERVER) == "this kernel has no io_uring"
