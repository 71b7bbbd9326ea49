"""Shared memory that a killed server leaves: its System V segment, and the files of its dynamic segments in /dev/shm.

PostgreSQL removes them at the next start over the same cluster, which a removed cluster never has. The segment's
header names the cluster's folder by device and inode, so that no other cluster's is taken (PGShmemHeader in
storage/pg_shmem.h, dsm_control_header in storage/ipc/dsm.c).
"""

from __future__ import annotations

import ctypes
import struct
from contextlib import suppress
from pathlib import Path

from engine.system.files import read_plain

SHM = Path("/dev/shm")
_MAGIC, _CONTROL_MAGIC = 679834894, 0x9A503D32
# Magic, creator, total, used, control segment, index (before version 19), device, inode.
_HEADER, _OLD_HEADER = struct.Struct("@iiNNIQQ"), struct.Struct("@iiNNIPQQ")
_CONTROL = struct.Struct("=III")  # magic, items, most items
_ITEMS_AT = 16
_ITEM_BYTES = {True: 24, False: 40}  # before version 14, and since
_SHM_RDONLY, _IPC_RMID = 0o10000, 0
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.shmat.restype = ctypes.c_void_p


def is_of(segment: int, data_dir: Path, uid: int) -> bool:
    """Whether a System V segment was made for the cluster in `data_dir` by the user `uid`."""
    header = _header(segment, data_dir) if segment in _attached(uid) else None
    try:
        folder = data_dir.stat()
    except OSError:
        return False
    return header is not None and header[0] == _MAGIC and header[-2:] == (folder.st_dev, folder.st_ino)


def remove_segments(segment: int, data_dir: Path, uid: int) -> None:
    """Remove the System V segment of the cluster in `data_dir` and its dynamic segments, unless still attached."""
    if is_attached(segment, uid) or not is_of(segment, data_dir, uid):
        return
    header = _header(segment, data_dir)
    for handle in _dynamic(header[4], _major(data_dir) < 14) if header else ():
        with suppress(OSError):
            if _path(handle).lstat().st_uid == uid:
                _path(handle).unlink()
    _LIBC.shmctl(segment, _IPC_RMID, None)


def is_attached(segment: int, uid: int) -> bool:
    return _attached(uid).get(segment, 0) > 0


def _attached(uid: int) -> dict[int, int]:
    """Number of attached processes by segment id."""
    try:
        lines = Path("/proc/sysvipc/shm").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    columns = lines[0].split()
    rows = [dict(zip(columns, line.split(), strict=False)) for line in lines[1:]]
    return {int(row["shmid"]): int(row["nattch"]) for row in rows if row["uid"] == str(uid)}


def _header(segment: int, data_dir: Path) -> tuple[int, ...] | None:
    layout = _HEADER if _major(data_dir) >= 19 else _OLD_HEADER
    address = _LIBC.shmat(segment, None, _SHM_RDONLY)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    try:
        return layout.unpack(ctypes.string_at(address, layout.size))
    finally:
        _LIBC.shmdt(ctypes.c_void_p(address))


def _dynamic(control: int, old: bool) -> list[int]:
    """The handles of all dynamic segments; the control segment, which lists the others, comes last."""
    if not control:
        return []
    handles: list[int] = []
    with suppress(OSError, struct.error):
        data = read_plain(_path(control))
        magic, items, most = _CONTROL.unpack_from(data)
        if magic == _CONTROL_MAGIC and items <= most:
            places = range(_ITEMS_AT, _ITEMS_AT + items * _ITEM_BYTES[old], _ITEM_BYTES[old])
            handles += [struct.unpack_from("=I", data, place)[0] for place in places if place + 4 <= len(data)]
    return [*handles, control]


def _path(handle: int) -> Path:
    return SHM / f"PostgreSQL.{handle}"


def _major(data_dir: Path) -> int:
    """The version of a cluster, or the usual one if its file cannot be read."""
    try:
        return int(read_plain(data_dir / "PG_VERSION", 16))
    except (OSError, ValueError):
        return 18
