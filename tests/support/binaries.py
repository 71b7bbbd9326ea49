"""Servers' binaries as far as attaching goes: sections of real ones of every major version, in binaries.json.

label -> functions: name -> [T exported or t static, first 8 bytes], and the USDT probes that are used.
"""

from __future__ import annotations

import json
from pathlib import Path

from probes.elf import Elf, Segment, Symbol

RECORDED = json.loads((Path(__file__).parent / "binaries.json").read_text())
LABELS = tuple(RECORDED)


def major(label: str) -> int:
    return int(label.split(".")[0])


def binary(label: str, *, stripped: bool = False, without: tuple[str, ...] = ()) -> Elf:
    """A binary with the symbols, first instructions and USDT sites of a real one."""
    record = RECORDED[label]
    kept = {name: entry for name, entry in record["functions"].items() if name not in without}
    code, functions, exported = b"", [], []
    for name, (scope, first) in kept.items():
        symbol = Symbol(name, 0x1000 + len(code), 8)
        code += bytes.fromhex(first)
        functions.append(symbol)
        if scope == "T":
            exported.append(symbol)
    return Elf(
        path=f"/servers/{label}/bin/postgres",
        machine="x86_64",
        build_id="",
        segments=(Segment(0, 0x1000, len(code)),),
        functions=() if stripped else tuple(functions),
        exported=tuple(exported),
        usdt=frozenset(f"postgresql:{name}" for name in record["usdt"]),
        data=code,
    )
