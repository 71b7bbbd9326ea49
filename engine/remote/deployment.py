"""Deployment of clients to another host: the same programs as here, whatever that host has.

Where both have Nix, and everything is in its store, `nix copy` brings it. Otherwise an archive goes there: Python with
its library and packages, the code of the clients, foreign programs such as pgbench; and of each the shared libraries
and the loader, since the other system's may be older. It needs a shell, `head` and `tar` there, and the same processor.

    python                the script that starts Python; `sh python -m …`
    lib/                  its loader and shared libraries
    home/                 PYTHONHOME
    code/                 engine, workloads, packages
    programs/NAME         the script that starts a foreign program; NAME.d/ has the file and its libraries
"""

from __future__ import annotations

import fnmatch
import io
import os
import re
import struct
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

import workloads
from engine.core.errors import UserError
from workloads.client.process import PYTHON

STORE = Path("/nix/store")
CODE = ("engine", "workloads")
PACKAGES = ("msgspec", "numpy", "psycopg")
PERHAPS = ("psycopg_binary", "psycopg_c", "typing_extensions")  # depending on how psycopg was installed
# Parts of Python and the packages that no client imports.
LEFT_OUT = ("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "f2py",
            "site-packages", "dist-packages", "include", "config-*", "*.a", "*.pyi",
            "sitecustomize.py")  # fmt: skip
LISTED = re.compile(r"^\s*(\S+) => (/\S+) \(0x", re.M)
PT_INTERP, ELF64_LITTLE = 3, b"\x7fELF\x02\x01"
TIMEOUT_S = 60.0
OWN_CONFIGS = ("Include ~/.ssh/config", "Include /etc/ssh/ssh_config")


def in_store(programs: Iterable[Path]) -> list[str] | None:
    """The store paths to copy, or None if something is not in the store."""
    needed = [Path(sys.executable).resolve(), Path(sys.prefix), Path(workloads.__file__), *programs]
    names = {path.parts[3] for path in needed if path.is_relative_to(STORE)}
    return [str(STORE / name) for name in sorted(names)] if all(p.is_relative_to(STORE) for p in needed) else None


def nix_copy(host: str, paths: Sequence[str], options: Sequence[str]) -> str:
    """Copy store paths to the host with Nix over ssh; return why that failed, or ""."""
    command = ["nix", "--extra-experimental-features", "nix-command", "copy", "--no-check-sigs", "--to"]
    try:
        # Nix splits NIX_SSHOPTS at blanks, which options may contain: so they go into a file, before the user's.
        with NamedTemporaryFile("w", prefix="pgbed-ssh-", dir="/tmp") as config:
            config.write("".join(f"{option}\n" for option in (*options, *OWN_CONFIGS)))
            config.flush()
            done = subprocess.run(
                [*command, f"ssh://{host.removeprefix('ssh://')}", *paths],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=60 * TIMEOUT_S,
                env={**os.environ, "NIX_SSHOPTS": f"-F {config.name}"},
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["nix copy failed"])[-1]


def archive(to: IO[bytes], launchers: Iterable[str], programs: Mapping[str, Path]) -> None:
    """Write the archive; `launchers` are the modules that start steps' clients. Raises UserError."""
    with tarfile.open(fileobj=to, mode="w", format=tarfile.GNU_FORMAT) as tar:
        _python(tar, launchers)
        for name, path in programs.items():
            _program(tar, name, path)


def _python(tar: tarfile.TarFile, launchers: Iterable[str]) -> None:
    interpreter, version = Path(sys.executable).resolve(), f"python{sys.version_info[0]}.{sys.version_info[1]}"
    tar.add(interpreter, f"home/bin/{version}", filter=_plain)
    tar.add(sysconfig.get_path("stdlib"), f"home/{sys.platlibdir}/{version}", filter=_wanted)
    root = Path(workloads.__file__).resolve().parents[1]
    for name in CODE:
        tar.add(root / name, f"code/{name}", filter=_wanted)
    for path in sorted({path for place in _modules().values() for path in _installed(place)}):
        tar.add(path.resolve(), f"code/{path.name}", filter=_wanted)
    loader = _loader(interpreter)
    libraries = _libraries(loader, [interpreter, *_loaded(launchers)])
    # Packages find their own libraries next to themselves.
    sites = {place.resolve().parent for place in _modules().values()}
    others = {name: path for name, path in libraries.items() if not any(map(path.resolve().is_relative_to, sites))}
    _add_libraries(tar, "lib", loader, others)
    variables = f'PYTHONHOME="$d/home" PYTHONPATH="$d/code" PYTHONNOUSERSITE=1 PYTHONSAFEPATH=1 {PYTHON}="$d/python"'
    _script(
        tar, "python", f'export {variables}\nexec "$d/lib/ld.so" --library-path "$d/lib" "$d/home/bin/{version}" "$@"'
    )


def _modules() -> dict[str, Path]:
    """Locate each package by Python's import, as a system's own packages list no files. Raises UserError."""
    origins = {name: spec.origin for name in (*PACKAGES, *PERHAPS) if (spec := find_spec(name)) and spec.origin}
    if missing := [name for name in PACKAGES if name not in origins]:
        raise UserError(f"Python's package {missing[0]}, which clients on another host need, cannot be found")
    places = {name: Path(origin) for name, origin in origins.items()}
    return {name: place.parent if place.name == "__init__.py" else place for name, place in places.items()}


def _installed(place: Path) -> list[Path]:
    return [place, *place.parent.glob(f"{place.stem}.libs"), *place.parent.glob(f"{place.stem}-*.dist-info")]


def _program(tar: tarfile.TarFile, name: str, path: Path) -> None:
    """Add a program with its libraries and the files below its prefix that it reads."""
    real = path.resolve()
    loader, place = _loader(real), f"programs/{name}.d"
    tar.add(real, f"{place}/bin/{name}", filter=_plain)
    _add_libraries(tar, f"{place}/lib", loader, _libraries(loader, [real]))
    _script(tar, f"programs/{name}", f'd=$d/{name}.d\nexec "$d/lib/ld.so" --library-path "$d/lib" "$d/bin/{name}" "$@"')


def _add_libraries(tar: tarfile.TarFile, place: str, loader: Path, libraries: Mapping[str, Path]) -> None:
    tar.add(loader.resolve(), f"{place}/ld.so", filter=_plain)
    for name, path in libraries.items():
        tar.add(path.resolve(), f"{place}/{name}", filter=_plain)


def _script(tar: tarfile.TarFile, name: str, body: str) -> None:
    text = f'#!/bin/sh\nd=$(cd "${{0%/*}}" && pwd)\n{body}\n'.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text), 0o700
    tar.addfile(entry, io.BytesIO(text))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode |= 0o600  # so that it can be removed
    return entry


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = entry.name.rpartition("/")[2]
    return None if any(fnmatch.fnmatchcase(name, pattern) for pattern in LEFT_OUT) else _plain(entry)


def _loaded(launchers: Iterable[str]) -> list[Path]:
    """The shared libraries that Python loads for clients and agent, extension modules included."""
    script = (
        f"import {', '.join(('engine.remote.agent', *launchers))}\n"
        "for line in open('/proc/self/maps'):\n"
        "    path = line.split(maxsplit=5)[5:]\n"
        "    if path and '.so' in path[0]: print(path[0].strip())\n"
    )
    output = _told([sys.executable, "-c", script], "the clients' modules")
    paths = [Path(line) for line in dict.fromkeys(output.splitlines())]
    return [path for path in paths if not path.name.startswith("ld")]


def _libraries(loader: Path, files: Sequence[Path]) -> dict[str, Path]:
    libraries: dict[str, Path] = {}
    for file in files:
        output = _told([str(loader), "--list", str(file)], str(file))
        libraries |= {Path(name).name: Path(path) for name, path in LISTED.findall(output)}
    return libraries


def _told(command: Sequence[str], what: str) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S,
            check=False, cwd=Path(workloads.__file__).parents[1],
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"the libraries of {what} cannot be found: {error}") from None
    if done.returncode and "statically linked" not in done.stdout + done.stderr:
        raise UserError(
            f"the libraries of {what} cannot be found: {(done.stderr.strip() or done.stdout.strip())[:200]}"
        )
    return done.stdout


def _loader(program: Path) -> Path:
    """The loader of a program (its PT_INTERP). Raises UserError if it has none."""
    with program.open("rb") as file:
        head = file.read(64)
        if head[:6] == ELF64_LITTLE:
            (table,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
            for number in range(count):
                file.seek(table + number * size)
                kind, _, offset, _, _, length = struct.unpack("<IIQQQQ", file.read(40))
                if kind == PT_INTERP:
                    file.seek(offset)
                    return Path(os.fsdecode(file.read(length).rstrip(b"\0")))
    raise UserError(f"{program} cannot be copied to another host")
