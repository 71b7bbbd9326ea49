"""Addresses to names: a real binary's symbols, made-up maps and samples."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import elf, folding
from probes.frames import Stack
from tests.support.programs import PUSH, Compile

SOURCE = """
void standard_planner(void) { __asm__ volatile("nop"); }
void pg_plan_queries(void) { standard_planner(); __asm__ volatile("nop"); }
void exec_simple_query(void) { pg_plan_queries(); __asm__ volatile("nop"); }
int main(void) { exec_simple_query(); return 0; }
"""
BASE = 0x7F0000000000


@pytest.fixture
def binary(compile_c: Compile) -> elf.Elf:
    return elf.read(compile_c("server", SOURCE, *PUSH, "-pie", "-fPIE"))


def maps_of(file: elf.Elf) -> str:
    """Maps as the kernel would show them, all segments executable, and a stack that is not."""
    text = "".join(
        f"{BASE + one.address:x}-{BASE + one.address + one.size:x} r-xp {one.offset:08x} 08:01 7    {file.path}\n"
        for one in file.segments
    )
    return text + "7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0      [stack]\n"


def inside(file: elf.Elf, name: str) -> int:
    symbol = next(symbol for symbol in file.functions if symbol.name == name)
    return BASE + symbol.address + 1


@pytest.mark.slow
def test_addresses_become_a_folded_line(binary: elf.Elf) -> None:
    known = folding.space(maps_of(binary), complete=True)
    names = ("standard_planner", "pg_plan_queries", "exec_simple_query", "main")
    user = tuple(inside(binary, name) for name in names)
    stacks = [Stack(9, user, ("schedule", "do_syscall_64"), 3), Stack(9, user, ("schedule", "do_syscall_64"), 2)]
    folded = folding.fold(stacks, lambda _: "delete", lambda _: known)
    line = "delete;main;exec_simple_query;pg_plan_queries;standard_planner;do_syscall_64_[k];schedule_[k]"
    assert folded == {line: 5}
    assert folding.lines(folded) == f"{line} 5\n"
    assert folding.phase_samples(folded) == {"delete": {"plan": 5}}


@pytest.mark.slow
def test_a_sample_counts_for_the_function_that_ran(binary: elf.Elf) -> None:
    known = folding.space(maps_of(binary), complete=False)
    planner, main = (inside(binary, name) for name in ("standard_planner", "main"))
    leaves = [
        Stack(9, (planner,), (), 3),
        Stack(9, (planner + 1,), (), 2),
        Stack(9, (main,), ("schedule",), 4),
        Stack(7, (), (), 1),
    ]
    counts = folding.functions(leaves, lambda pid: {9: "query", 7: "server"}[pid], lambda _: known)
    assert counts == {"query": {"standard_planner": 5, "schedule_[k]": 4}, "server": {folding.UNKNOWN: 1}}


@pytest.mark.slow
def test_a_stack_ends_at_the_first_address_outside_code(binary: elf.Elf) -> None:
    known = folding.space(maps_of(binary), complete=True)
    user = (inside(binary, "standard_planner"), 0x7FFE00000010, inside(binary, "main"))
    assert folding.frames_of(Stack(9, user, (), 1), known) == ("standard_planner",)
    assert folding.frames_of(Stack(9, (0x10,), (), 1), known) == (folding.UNKNOWN,)


@pytest.mark.slow
def test_only_the_innermost_function_needs_no_frame_pointer(binary: elf.Elf) -> None:
    known = folding.space(maps_of(binary), complete=False)
    user = (inside(binary, "standard_planner"), inside(binary, "main"))
    assert folding.frames_of(Stack(9, user, ("schedule",), 1), known) == ("standard_planner", "schedule_[k]")
    assert "flat profile" in folding.quality(known)


@pytest.mark.slow
def test_a_caller_is_the_function_before_the_return_address(binary: elf.Elf) -> None:
    """A call may be the last instruction of a function: the return address is then the next one's first byte."""
    known = folding.space(maps_of(binary), complete=True)
    symbol = next(symbol for symbol in binary.functions if symbol.name == "pg_plan_queries")
    after = BASE + symbol.address + symbol.size
    user = (inside(binary, "standard_planner"), after)
    assert folding.frames_of(Stack(9, user, (), 1), known) == ("pg_plan_queries", "standard_planner")


@pytest.mark.slow
def test_files_without_a_name_for_an_address_name_themselves(binary: elf.Elf) -> None:
    maps = maps_of(binary) + "7e0000000000-7e0000001000 r-xp 00000000 08:01 9   /gone/libx.so (deleted)\n"
    known = folding.space(maps + "7d0000000000-7d0000001000 r-xp 00000000 00:00 0      [vdso]\n", complete=True)
    user = (0x7D0000000010, 0x7E0000000010)
    assert folding.frames_of(Stack(9, user, (), 1), known) == ("[libx.so]", "[vdso]")


def test_a_process_with_unknown_addresses_keeps_its_kernel_part() -> None:
    assert folding.frames_of(Stack(9, (1, 2), ("schedule",), 1), None) == (folding.UNKNOWN, "schedule_[k]")


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        ("main PostgresMain exec_simple_query pg_parse_query raw_parser base_yyparse", "parse"),
        ("main PostgresMain pg_analyze_and_rewrite_fixedparams parse_analyze_fixedparams", "analyze"),
        ("main PostgresMain parse_analyze_varparams", "analyze"),
        ("main PostgresMain pg_plan_queries pg_plan_query standard_planner", "plan"),
        ("main PostgresMain PortalRun fmgr_sql pg_plan_query standard_planner", "execute"),
        ("main PostgresMain pg_plan_queries standard_planner fmgr_sql PortalRun", "plan"),
        ("main PostgresMain finish_xact_command", "other"),
        ("standard_plannerish", "other"),
    ],
)
def test_the_outermost_phase_counts(frames: str, phase: str) -> None:
    assert folding.phase_of(frames.split()) == phase


@given(st.text(max_size=200))
def test_no_text_of_maps_is_too_odd(text: str) -> None:
    folding.parse_maps(text)


@pytest.mark.slow
def test_functions_of_this_very_process_have_their_names() -> None:
    known = folding.space(Path("/proc/self/maps").read_text(), complete=True)
    for name in ("getpid", "qsort"):
        address = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
        assert address is not None
        assert (known.name(address, caller=False) or "").endswith(name)
