"""The limit of a process's address space (`ulimit -v`), which servers and clients inherit."""

from __future__ import annotations

import resource
from collections.abc import Iterable

from engine.core.errors import UserError
from engine.core.format import size

PROGRAM_BYTES = 512 << 20  # of Python with its numeric libraries, or of a server beside its shared memory


def check_address_space(shared_buffers: Iterable[int] = ()) -> None:
    """Raise UserError if bench, or a server with shared buffers of one of these sizes (bytes), does not fit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    buffers = max(shared_buffers, default=0)
    needed = PROGRAM_BYTES + buffers
    if limit < needed:
        what = f"a server with shared_buffers of {size(buffers)}" if buffers else "bench"
        raise UserError(
            f"the address space of each process is limited to {size(limit)}, and {what} needs {size(needed)}: "
            "raise the limit (ulimit -v unlimited)"
        )
