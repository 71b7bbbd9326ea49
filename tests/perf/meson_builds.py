"""Whether a build by Meson is compiled as one by configure is: `python -m tests.perf.meson_builds PREFIX PREFIX`.

Compares what `pg_config` says of the two installs: version, libraries' folders, and the flags that decide which code is
made. Exit code 1 if they differ.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = ("-O", "-f", "-m", "-std")
NO_CODE = {"-fpch-deps"}  # of Meson's, for precompiled headers


def described(prefix: Path) -> dict[str, str | list[str]]:
    printed = subprocess.run([prefix / "bin" / "pg_config"], capture_output=True, text=True, check=True).stdout
    told = dict(line.replace(str(prefix), "").split(" = ", 1) for line in printed.splitlines() if " = " in line)
    flags = {flag for flag in told["CFLAGS"].split() if flag.startswith(CODE)}
    return {"VERSION": told["VERSION"], "PKGLIBDIR": told["PKGLIBDIR"], "code": sorted(flags - NO_CODE)}


def main(one: str, other: str) -> int:
    ours, theirs = (described(Path(prefix).resolve()) for prefix in (one, other))
    for name, value in ours.items():
        print(f"{name}: {value}" if value == theirs[name] else f"{name} DIFFERS: {value} and {theirs[name]}")
    return int(ours != theirs)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
