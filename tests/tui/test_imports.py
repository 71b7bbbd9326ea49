"""Imports: who only watches pays neither for statistics nor for drivers, nor for other screens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from engine.cli.commands import COMMANDS
from tui import MODES

ROOT = Path(__file__).parents[2]
HEAVY = ("psycopg", "numpy", "scipy")


def loaded_by(statements: str, tmp_path: Path) -> set[str]:
    """The modules that a Python has loaded after some statements."""
    report = tmp_path / "modules"
    script = f"{statements}\nimport sys\nopen({str(report)!r}, 'w').write('\\n'.join(sys.modules))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True, capture_output=True)
    return set(report.read_text().split())


def screens_of(modules: set[str]) -> set[str]:
    """The screens, of five, that are among modules."""
    return {mode for mode in MODES if f"tui.{mode}.screen" in modules}


def test_live_loads_no_other_screen_and_nothing_heavy(tmp_path: Path) -> None:
    modules = loaded_by("import tui.app, tui.live.screen", tmp_path)
    assert screens_of(modules) == {"live"}
    assert not {name for name in modules if name.split(".")[0] in HEAVY}
    assert not {name for name in modules if name.split(".")[0] == "probes"}
    assert "engine.results.comparison" not in modules, "a twentieth of the time to the first paint"


def test_no_screen_loads_anything_heavy(tmp_path: Path) -> None:
    modules = loaded_by(
        "import pkgutil, tui\nfrom importlib import import_module\n"
        "[import_module(each.name) for each in pkgutil.walk_packages(tui.__path__, 'tui.') if '__' not in each.name]",
        tmp_path,
    )
    assert screens_of(modules) == {"launch", "live", "compare", "probes", "history"}
    assert not {name for name in modules if name.split(".")[0] in HEAVY}


def test_a_command_that_opens_the_interface_loads_nothing_heavy(tmp_path: Path) -> None:
    modules = loaded_by(
        "import contextlib\nfrom engine.cli.main import main\nwith contextlib.suppress(SystemExit):\n"
        "    main(['watch', '--help'], standalone_mode=False)",
        tmp_path,
    )
    assert "engine.cli.watch" in modules
    assert not {name for name in modules if name.split(".")[0] in (*HEAVY, "textual", "tui")}
    assert not modules & {
        "engine.plan.prepare",
        "engine.postgres.server",
        "engine.analysis.answer.compare",
        "engine.tracing.selection",
    }


def test_the_list_of_commands_loads_none_of_them(tmp_path: Path) -> None:
    call = "from engine.cli.main import main; main(['--help'])"
    modules = loaded_by(f"import contextlib\nwith contextlib.suppress(SystemExit):\n    {call}", tmp_path)
    assert "engine.cli.main" in modules
    assert not modules & {f"engine.cli.{command.place.partition(':')[0]}" for command in COMMANDS.values()}


def test_what_waits_for_an_engine_to_end_loads_nothing_heavy(tmp_path: Path) -> None:
    modules = loaded_by("import engine.run.reaper, engine.slices.conductor", tmp_path)
    assert not {name for name in modules if name.split(".")[0] in HEAVY}
