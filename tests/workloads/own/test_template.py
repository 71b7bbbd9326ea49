"""A dump of a database that is in use."""

import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

from workloads.own import template


@pytest.mark.parametrize("error", [KeyboardInterrupt, subprocess.TimeoutExpired("pg_dump", 1), OSError("no")])
def test_no_copy_of_the_data_stays_if_it_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def interrupted(*_: Any, **__: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(subprocess, "run", interrupted)
    with pytest.raises((KeyboardInterrupt, ValueError)):
        template.dumped(template.planned("db.example.org/app"), "pg_dump", "pg_restore", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []
