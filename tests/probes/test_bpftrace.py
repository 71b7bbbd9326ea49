"""Limits of foreign programs and files: time, output, processes, control characters."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from probes import bpftrace, elf, folding
from probes.errors import ProbeError, visible
from tests.support.observing import gone
from tests.support.programs import PLANNER, PUSH, Compile


@pytest.mark.slow
def test_output_without_end_is_cut_off() -> None:
    assert len(bpftrace.output(["/bin/sh", "-c", "while :; do echo more; done"])) == bpftrace.OUTPUT_BYTES


@pytest.mark.slow
def test_a_program_that_hangs_is_ended_with_its_children() -> None:
    pid = int(bpftrace.output(["/bin/sh", "-c", "sleep 1000 & echo $!; wait"], timeout_s=3.0))
    assert gone({pid})


@pytest.mark.slow
def test_a_program_that_is_not_there_or_not_bpftrace_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="does not run"):
        bpftrace.version(tmp_path / "bpftrace")
    program = tmp_path / "other"
    program.write_text("#!/bin/sh\necho another program\n")
    program.chmod(0o755)
    with pytest.raises(ProbeError, match="prints no version"):
        bpftrace.version(program)


def test_foreign_text_is_one_line_without_control_characters() -> None:
    assert visible("plain äß") == "plain äß"
    assert visible("a\x1b[2J\nb\u202e") == "a\\x1b[2J\\nb\\u202e"
    assert len(visible("x" * 5000)) == 1000
    assert str(ProbeError("no \x07 file")) == "no \\x07 file"


@pytest.mark.slow
def test_names_of_functions_are_visible(compile_c: Compile) -> None:
    program = compile_c("server", PLANNER + "void xx_escape_xx(void) { }", *PUSH, "-DSTART=", "-DDONE=")
    program.write_bytes(program.read_bytes().replace(b"xx_escape_xx", b"\x1b]0;escape_\x07"))
    names = {folding.plain_name(symbol.name) for symbol in elf.read(program).functions}
    assert "\\x1b]0:escape_\\x07" in names
    assert all(name.isprintable() and ";" not in name for name in names)


@pytest.mark.slow
def test_tables_of_symbols_without_end_are_refused(compile_c: Compile) -> None:
    program = compile_c("server", PLANNER, *PUSH, "-DSTART=", "-DDONE=")
    data = bytearray(program.read_bytes())
    sections, size, count = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58)
    for at in range(sections, sections + size * count, size):
        if struct.unpack_from("<I", data, at + 4)[0] == 2:  # .symtab
            struct.pack_into("<Q", data, at + 32, 1 << 40)
    program.write_bytes(data)
    with pytest.raises(ProbeError, match="symbol tables are larger than 64 MiB"):
        elf.read(program)
