"""Seeds of random streams: derived from a stream's purpose, never from the clock."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(plan_seed: int, *names: str | int) -> np.random.Generator:
    """The generator of one purpose, for example (seed, step, repeat, client, role).

    Purposes that differ in any part are independent; the same purpose gives the same numbers with every server build,
    which makes a pair of cells comparable.
    """
    key = "/".join(str(part) for part in (plan_seed, *names))
    digest = hashlib.sha256(key.encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
