"""The modules of the product without a test file: `tests/engine/core/test_text.py` for `engine/core/text.py`.

    python -m tests.mirror

`tests/mirror.toml` names the test file of each module that is tested in another; nothing else may stand in it.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PACKAGES = ("engine", "tui", "workloads", "probes")


def complaints(home: Path) -> Iterator[str]:
    """Complaints about a source tree, as lines."""
    named: dict[str, str] = tomllib.loads((home / "tests" / "mirror.toml").read_text())
    for module in modules(home):
        tests = named.pop(module, None)
        test = own_tests(module)
        if (home / test).is_file():
            if tests is not None:
                yield f"{module} has {test}: take it out of tests/mirror.toml"
        elif tests is None:
            yield f"{module}: no {test}, and tests/mirror.toml names no other"
        elif not (home / tests).is_file():
            yield f"{module}: tests/mirror.toml names {tests}, which does not exist"
    yield from (f"{module}: in tests/mirror.toml, but no module" for module in named)


def modules(home: Path) -> list[str]:
    """Paths of all modules but those that Python names itself."""
    paths = (path for package in PACKAGES for path in (home / package).rglob("*.py"))
    return sorted(str(path.relative_to(home)) for path in paths if not path.name.startswith("__"))


def own_tests(module: str) -> str:
    """The test file of a module's name."""
    path = Path("tests", module)
    return str(path.with_name(f"test_{path.name}"))


if __name__ == "__main__":
    wrong = list(complaints(Path(__file__).parents[1]))
    print(*wrong, sep="\n", file=sys.stderr) if wrong else None
    sys.exit(1 if wrong else 0)
