"""Query statements: drawn and put into text in blocks, handed out one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workloads.insert import schema
from workloads.insert.rows import CUSTOMERS, MAX_PRICE, PRODUCTS, REGISTERS, draw_cents
from workloads.insert.steps import Generation

BLOCK_QUERIES = 512
LOOKUP_QUERIES = 100  # point queries between two lookups of the greatest key
WIDE_KEY = 2**31 - 2**24  # keys from here on may pass 2**31 before the step ends

KINDS = 3
CARDINALITY = {"productid": PRODUCTS, "cashregisterid": REGISTERS, "price": MAX_PRICE}


def range_prepares(generation: Generation, table: str, protocol: str) -> list[str]:
    """What to send once per connection before range queries."""
    if protocol == "simple":
        return []
    return [schema.prepare_range(generation, table, kind) for kind in range(KINDS)]


def range_blocks(
    generation: Generation, table: str, protocol: str, generator: np.random.Generator
) -> Callable[[], list[bytes]]:
    """A function that draws the next block of range queries: kind uniform, then the start value of that kind."""
    columns = [columns[0] for _, columns in generation.indexes]
    templates = [
        (
            schema.range_query(generation, table, kind, "%s")
            if protocol == "simple"
            else f"EXECUTE {generation.indexes[kind][0]}(%s)"
        )
        for kind in range(KINDS)
    ]
    real_price = generation.price_type == "real"

    def draw() -> list[bytes]:
        kinds = generator.integers(0, KINDS, BLOCK_QUERIES)
        shares = generator.random(BLOCK_QUERIES)
        values = np.empty(BLOCK_QUERIES, dtype=np.int64)
        texts: list[str] = []
        for kind, column in enumerate(columns):
            values[kinds == kind] = (shares[kinds == kind] * CARDINALITY[column]).astype(np.int64)
        if real_price:  # from the same formula as the rows' prices
            cents = draw_cents(generator, generator.integers(0, CUSTOMERS, BLOCK_QUERIES, dtype=np.uint32))
            prices = {kind for kind, column in enumerate(columns) if column == "price"}
            for kind, value, cent in zip(kinds.tolist(), values.tolist(), cents.tolist(), strict=True):
                texts.append(f"{cent // 100}.{cent % 100:02d}" if kind in prices else str(value))
        else:
            texts = [str(value) for value in values.tolist()]
        return [(templates[kind] % text).encode() for kind, text in zip(kinds.tolist(), texts, strict=True)]

    return draw


def point_prepares(table: str, protocol: str, max_key: int) -> list[str]:
    """What to send once per connection before point queries."""
    return [] if protocol == "simple" else [schema.prepare_point(table, max_key >= WIDE_KEY)]


def point_statements(table: str, protocol: str, generator: np.random.Generator) -> Callable[[int, int], bytes]:
    """A function that gives the next point query for the keys [lo, hi): ten keys, uniform and independent.

    The uniform numbers are drawn in blocks; the bounds are applied when the query is made, as the low key moves.
    """
    keys = ",".join(["%d"] * schema.QUERY_ROWS)
    template = (schema.point_query(table, keys) if protocol == "simple" else f"EXECUTE point({keys})").encode()
    width = schema.QUERY_ROWS
    shares: list[list[float]] = []

    def statement(lo: int, hi: int) -> bytes:
        nonlocal shares
        if not shares:
            shares = generator.random((BLOCK_QUERIES, width)).tolist()
        span = max(1, hi - lo)
        return template % tuple([lo + int(share * span) for share in shares.pop()])

    return statement
