"""Attach points in small binaries that are compiled here, and in recorded parts of real servers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from probes import attach_points, elf
from probes.errors import ProbeError
from probes.table import BY_ID, ENDPOINT_START, PLAN_END, PLAN_START, STATEMENT_END, Candidate, ServerEvent
from tests.support.binaries import LABELS, binary, major
from tests.support.programs import ENDBR, PUSH, Compile

OLD, NEW = (6, 1), (6, 18)
FUNCTION = 'void pg_plan_query(void) { __asm__ volatile(""); }\n'
MAIN = "int main(void) { return 0; }\n"


def asm(name: str, code: str, scope: str = "globl") -> str:
    """A function of exactly these instructions."""
    lines = (
        ".text",
        f".{scope} {name}",
        f".type {name},@function",
        f"{name}: {code}",
        "ret",
        f".size {name}, .-{name}",
    )
    return '__asm__("' + "\\n".join(lines) + '\\n");\n'


def points(attachments: tuple[attach_points.Attachment, ...]) -> list[tuple[str, str]]:
    return [(one.kind, one.symbol) for one in attachments]


@pytest.mark.slow
@pytest.mark.parametrize("pie", ["-pie", "-no-pie"])
def test_a_function_with_a_cheap_first_instruction_is_taken(compile_c: Compile, pie: str) -> None:
    flags = (*PUSH, pie, "-fPIE" if pie == "-pie" else "-fno-pie")
    file = elf.read(compile_c("server", FUNCTION + MAIN, *flags))
    (point,) = attach_points.resolve(file, PLAN_START, 16, kernel=NEW)
    assert (point.kind, point.symbol, point.slow, point.instruction) == ("function", "pg_plan_query", False, "push")
    symbol = attach_points.find(file, "pg_plan_query")
    assert symbol is not None and file.bytes_at(symbol.address, 1) == b"\x55"
    assert file.machine == "x86_64" and len(file.build_id) in (0, 40)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "instruction", "slow_old", "slow_new"),
    [
        ("push %rbp", "push", False, False),
        ("push %r15", "push", False, False),
        ("nop", "nop", False, False),
        ("jmp 1f; 1: nop", "jmp", False, False),
        ("call 1f; 1: pop %rax", "call", False, False),
        (".byte 0x0f,0x1f,0x44,0,0", "nop5", True, False),
        ("endbr64", "endbr64", True, True),
        ("sub $8, %rsp", "sub", True, True),
        ("mov %rdi, %rax", "mov", True, True),
        ("xor %eax, %eax", "xor", True, True),
        ("cmpl $0, 8(%rdi)", "cmp", True, True),
        ("test %edi, %edi", "test", True, True),
        ("lea 8(%rdi), %rax", "lea", True, True),
    ],
)
def test_the_first_instruction_says_what_a_hit_costs(
    compile_c: Compile, code: str, instruction: str, slow_old: bool, slow_new: bool
) -> None:
    file = elf.read(compile_c("server", asm("pg_plan_query", code) + MAIN))
    symbol = attach_points.find(file, "pg_plan_query")
    assert symbol is not None
    first = file.bytes_at(symbol.address, 8)
    assert attach_points.entry(first, "x86_64", OLD) == (instruction, slow_old)
    assert attach_points.entry(first, "x86_64", NEW) == (instruction, slow_new)


@pytest.mark.slow
def test_only_slow_entries_are_refused_unless_wished(compile_c: Compile) -> None:
    file = elf.read(compile_c("server", FUNCTION + MAIN, *ENDBR))
    with pytest.raises(ProbeError, match=r"pg_plan_query starts with 'endbr64'.*--allow-slow-probes"):
        attach_points.resolve(file, PLAN_START, 16, kernel=NEW)
    (point,) = attach_points.resolve(file, PLAN_START, 16, kernel=NEW, allow_slow=True)
    assert point.slow


@pytest.mark.slow
def test_a_file_is_read_once_until_it_changes(compile_c: Compile) -> None:
    program = compile_c("server", FUNCTION + MAIN)
    first = elf.read(program)
    assert elf.read(program) is first
    os.utime(program, ns=(0, 0))
    assert elf.read(program) is not first


@pytest.mark.slow
def test_the_next_candidate_is_taken_when_the_first_is_slow(compile_c: Compile) -> None:
    source = asm("ReadyForQuery", "sub $8, %rsp; add $8, %rsp") + asm("PortalDrop", "push %rbx; pop %rbx") + MAIN
    file = elf.read(compile_c("server", source))
    assert points(attach_points.resolve(file, STATEMENT_END, 16, kernel=NEW)) == [("function", "PortalDrop")]


@pytest.mark.slow
def test_usdt_goes_first_and_needs_no_test(compile_c: Compile) -> None:
    source = (
        FUNCTION
        + 'void f(void) { SITE("postgresql", "query__plan__start"); SITE("postgresql", "query__plan__done"); }\n'
        + 'void g(void) { SITE("other", "query__parse__start"); }\n'
        + MAIN
    )
    file = elf.read(compile_c("server", source, *ENDBR))
    assert points(attach_points.resolve(file, PLAN_START, 16, kernel=OLD)) == [("usdt", "query__plan__start")]
    assert points(attach_points.resolve(file, PLAN_END, 16, kernel=OLD)) == [("usdt", "query__plan__done")]
    assert file.usdt == {"postgresql:query__plan__start", "postgresql:query__plan__done", "other:query__parse__start"}
    with pytest.raises(ProbeError, match="'parse'"):
        attach_points.resolve(file, BY_ID["phases"].events[0], 16, kernel=NEW)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        (("f.isra.0",), "f.isra.0"),
        (("f.part.3.isra.1", "f.cold"), "f.part.3.isra.1"),
        (("f.constprop.0", "f"), "f"),
        (("f.cold.7",), None),
        (("f_2", "of"), None),
        (("f.lto_priv.0",), "f.lto_priv.0"),
    ],
)
def test_clones_of_static_functions_need_their_exact_spelling(
    compile_c: Compile, spelled: tuple[str, ...], expected: str | None
) -> None:
    source = "".join(asm(name, "push %rbp; pop %rbp", "local") for name in spelled)
    symbol = attach_points.find(elf.read(compile_c("server", source + MAIN)), "f")
    assert (symbol.name if symbol else None) == expected


@pytest.mark.slow
def test_a_stripped_binary_has_its_exported_functions_only(compile_c: Compile) -> None:
    strip = shutil.which("strip")
    assert strip, "no strip on PATH; install binutils"
    static = asm("get_actual_variable_endpoint", "push %rbp; pop %rbp", "local")
    program = compile_c("server", FUNCTION + static + MAIN, *PUSH, "-rdynamic")
    assert attach_points.resolve(elf.read(program), ENDPOINT_START, 16, kernel=NEW)
    subprocess.run([strip, "--strip-all", str(program)], check=True)
    file = elf.read(program)
    assert not file.functions
    assert points(attach_points.resolve(file, PLAN_START, 16, kernel=NEW)) == [("function", "pg_plan_query")]
    with pytest.raises(ProbeError, match=r"no attach point for 'endpoint_start' .*--enable-dtrace or keep the symbol"):
        attach_points.resolve(file, ENDPOINT_START, 16, kernel=NEW)


def test_a_candidate_counts_only_when_all_of_it_is_there() -> None:
    event = ServerEvent("x", (Candidate(functions=("PortalRun", "gone")), Candidate(functions=("PortalDrop",))))
    file = binary("16.3-prebuilt")
    assert points(attach_points.resolve(file, event, 16, kernel=NEW)) == [("function", "PortalDrop")]


@pytest.mark.parametrize("label", LABELS)
def test_no_server_that_was_read_needs_a_slow_entry(label: str) -> None:
    for probe in BY_ID.values():
        attached = attach_points.resolve_all(binary(label), probe.events, major(label), kernel=OLD)
        assert not any(one.slow for event, several in attached.items() if event != "caught" for one in several)


def test_a_wrapper_script_is_told_from_a_binary(tmp_path: Path) -> None:
    script = tmp_path / "postgres"
    script.write_text("#!/bin/sh\nexec /elsewhere/postgres\n")
    with pytest.raises(ProbeError, match=r"is not an ELF executable; .* \(a wrapper script was found\)"):
        elf.read(script)


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 70, b"\x7fELF\x01\x01" + b"\0" * 60]
)
def test_what_is_no_whole_binary_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "postgres"
    file.write_bytes(content)
    with pytest.raises(ProbeError, match=str(file)) as refused:
        elf.read(file)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_binary_that_is_cut_off_is_refused(compile_c: Compile) -> None:
    program = compile_c("server", FUNCTION + MAIN)
    os.truncate(program, 3000)
    with pytest.raises(ProbeError, match="damaged or cut off"):
        elf.read(program)


@pytest.mark.slow
def test_frame_pointers_are_noticed(compile_c: Compile) -> None:
    body = " ".join(f"x ^= x << {n % 13} ^ f({n});" for n in range(120))
    source = (
        f'int f(int);\nint big(int x) {{ {body} return x; }}\nint f(int n) {{ __asm__ volatile(""); return n; }}\n'
        + MAIN
    )
    flags = ("-O1", "-fno-inline", "-fcf-protection=none")
    assert attach_points.keeps_frame_pointers(elf.read(compile_c("with", source, *flags, "-fno-omit-frame-pointer")))
    assert not attach_points.keeps_frame_pointers(
        elf.read(compile_c("without", source, *flags, "-fomit-frame-pointer"))
    )
