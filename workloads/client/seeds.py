"""Seeds of random streams: derived from a stream's purpose, never from the clock."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(plan_seed: int, *names: str | int) -> np.random.Generator:
    """The generator of one purpose, such as (seed, step, repeat, client, role): the same with every server build."""
    key = "/".join(str(part) for part in (plan_seed, *names))
    digest = hashlib.sha256(key.encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
