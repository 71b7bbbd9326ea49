"""A minimal ELF reader for attach points and address names: symbols, USDT notes, segments.

64-bit little-endian files only. Has no dependencies, because the privileged helper reads binaries with it.
Formats: System V ABI, chapter 4 and 5; notes of <sys/sdt.h>: https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from probes.errors import ProbeError, visible

Data = bytes | mmap.mmap
MACHINES = {62: "x86_64", 183: "aarch64"}
_SHT_SYMTAB, _SHT_NOTE, _SHT_DYNSYM = 2, 7, 11
_PT_LOAD = 1
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_SDT_TYPE = 3
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")
TABLES_MAX_BYTES = 64 * 1024 * 1024  # of symbols and notes in one file; a server's take less than 1 MiB
KEPT = 32  # files: a server's binary and its libraries, for some builds


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A mapped part of the file: `size` bytes at `offset` in the file, at virtual `address`."""

    offset: int
    address: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Elf:
    """A program or library: functions of .symtab and of .dynsym (`exported`), `usdt` probes as provider:name."""

    path: str
    machine: str
    build_id: str
    segments: tuple[Segment, ...]
    functions: tuple[Symbol, ...]
    exported: tuple[Symbol, ...]
    usdt: frozenset[str]
    data: Data

    def bytes_at(self, address: int, count: int) -> bytes:
        for segment in self.segments:
            if segment.address <= address < segment.address + segment.size:
                start = segment.offset + address - segment.address
                return self.data[start : start + count]
        return b""

    def address_of(self, offset: int) -> int | None:
        """Virtual address of a file offset; None if it is not mapped."""
        for segment in self.segments:
            if segment.offset <= offset < segment.offset + segment.size:
                return segment.address + offset - segment.offset
        return None


def read(path: Path) -> Elf:
    """Read an ELF file, cached while it is unchanged. Raises ProbeError for anything else (a wrapper script, say)."""
    try:
        status = path.stat()
        return _read(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
    except OSError as error:
        raise ProbeError(f"probes: {path}: {error.strerror}; give the postgres binary") from None


@lru_cache(maxsize=KEPT)
def _read(path: Path, _identity: tuple[int, ...]) -> Elf:
    with path.open("rb") as file:
        # Mapped, since debugging information may be hundreds of megabytes that are never read.
        data: Data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
    if data[:4] != b"\x7fELF":
        seen = "a wrapper script was found" if data[:2] == b"#!" else "something else was found"
        raise ProbeError(f"probes: {path} is not an ELF executable; give the real postgres binary ({seen})")
    if data[4:6] != b"\x02\x01":
        raise ProbeError(f"probes: {path} is not a 64-bit little-endian ELF file; only those can be probed")
    try:
        return _parse(str(path), data)
    except (struct.error, IndexError, ValueError, OverflowError):
        raise ProbeError(f"probes: {path}: the ELF file is damaged or cut off; give the real postgres binary") from None


def _parse(path: str, data: Data) -> Elf:
    machine = struct.unpack_from("<H", data, 18)[0]
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phentsize, phnum, shentsize, shnum = struct.unpack_from("<HHHH", data, 54)
    segments = tuple(
        Segment(offset, address, size)
        for kind, _, offset, address, _, size, _, _ in (
            _SEGMENT.unpack_from(data, phoff + i * phentsize) for i in range(phnum)
        )
        if kind == _PT_LOAD
    )
    headers = [_SECTION.unpack_from(data, shoff + i * shentsize) for i in range(shnum)]
    tables: dict[int, tuple[Symbol, ...]] = {}
    usdt: set[str] = set()
    build_id = ""
    wanted = [header for header in headers if header[1] in (_SHT_SYMTAB, _SHT_DYNSYM, _SHT_NOTE)]
    linked = [headers[header[6]] for header in wanted if header[1] != _SHT_NOTE]
    if sum(header[5] for header in (*wanted, *linked)) > TABLES_MAX_BYTES:
        raise ProbeError(f"probes: {path}: its symbol tables are larger than {TABLES_MAX_BYTES >> 20} MiB; strip some")
    for header in wanted:
        kind, offset, size, link = header[1], header[4], header[5], header[6]
        if kind in (_SHT_SYMTAB, _SHT_DYNSYM):
            tables[kind] = tuple(_functions(data[offset : offset + size], data, headers[link][4], headers[link][5]))
        else:
            for owner, note, text in _notes(data[offset : offset + size]):
                if owner == b"GNU" and note == _SDT_TYPE:
                    build_id = text[:64].hex()
                elif owner == b"stapsdt" and note == _SDT_TYPE:
                    provider, name = text[24:].split(b"\0")[:2]  # after three addresses
                    usdt.add(f"{provider.decode(errors='replace')}:{name.decode(errors='replace')}")
    return Elf(
        path,
        MACHINES.get(machine, f"machine {machine}"),
        build_id,
        segments,
        tables.get(_SHT_SYMTAB, ()),
        tables.get(_SHT_DYNSYM, ()),
        frozenset(usdt),
        data,
    )


def _functions(table: bytes, data: Data, strings: int, strings_size: int) -> Iterator[Symbol]:
    text = data[strings : strings + strings_size]
    for name, info, _, section, address, size in _SYMBOL.iter_unpack(table[: len(table) // 24 * 24]):
        if info & 15 in (_STT_FUNC, _STT_GNU_IFUNC) and section and address:
            spelling = text[name : text.index(b"\0", name)].decode(errors="replace")
            yield Symbol(visible(spelling), address, size)


def _notes(section: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    at = 0
    while at + _NOTE.size <= len(section):
        name_size, text_size, kind = _NOTE.unpack_from(section, at)
        at += _NOTE.size
        name = section[at : at + name_size].rstrip(b"\0")
        at += -(-name_size // 4) * 4
        yield name, kind, section[at : at + text_size]
        at += -(-text_size // 4) * 4
