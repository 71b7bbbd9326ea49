"""Query statements: drawn and rendered in blocks, handed out one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workloads.insert import ddl
from workloads.insert.row_values import CENTS, CUSTOMERS, MAX_PRICE, PRODUCTS, REGISTERS, draw_cents
from workloads.insert.steps import Generation

BLOCK_QUERIES = 512
LOOKUP_QUERIES = 100  # point queries between two lookups of the greatest key
WIDE_KEY = 2**31 - 2**24  # keys from here on may pass 2**31 before the step ends

KINDS = 3
CARDINALITY = {"productid": PRODUCTS, "cashregisterid": REGISTERS, "price": MAX_PRICE}


def range_prepares(generation: Generation, table: str) -> list[str]:
    return [ddl.prepare_range(generation, table, kind) for kind in range(KINDS)]


def range_blocks(generation: Generation, generator: np.random.Generator) -> Callable[[], list[bytes]]:
    """Make a function that draws the next block of range queries: kind uniform, then that kind's start value.

    There are few distinct queries (11 500, or 202 000 with prices in cents), so all texts are made in advance, and only
    their numbers are drawn.
    """
    real_price = generation.price_type == "real"
    columns = [columns[0] for _, columns in generation.indexes]
    texts: list[bytes] = []
    firsts: list[int] = []
    for kind, column in enumerate(columns):
        name = generation.indexes[kind][0].encode()
        firsts.append(len(texts))
        if real_price and column == "price":
            texts += [b"EXECUTE %b(%d.%02d)" % (name, cents // 100, cents % 100) for cents in range(CENTS)]
        else:
            texts += [b"EXECUTE %b(%d)" % (name, value) for value in range(CARDINALITY[column])]
    statements = np.array(texts, dtype=object)
    first = np.array(firsts)
    cardinality = np.array([CARDINALITY[column] for column in columns])
    is_cents = np.array([real_price and column == "price" for column in columns])

    def draw() -> list[bytes]:
        kinds = generator.integers(0, KINDS, BLOCK_QUERIES)
        values = (generator.random(BLOCK_QUERIES) * cardinality[kinds]).astype(np.int64)
        if real_price:  # by the same formula as the rows' prices
            cents = draw_cents(generator, generator.integers(0, CUSTOMERS, BLOCK_QUERIES, dtype=np.uint32))
            values = np.where(is_cents[kinds], cents, values)
        block: list[bytes] = statements[first[kinds] + values].tolist()
        return block

    return draw


def point_statements(generator: np.random.Generator) -> Callable[[int, int], bytes]:
    """Make a function that returns the next point query for the keys [lo, hi): ten keys, uniform and independent."""
    template = f"EXECUTE point({','.join(['%d'] * ddl.QUERY_ROWS)})".encode()
    width = ddl.QUERY_ROWS
    shares: list[list[float]] = []

    def statement(lo: int, hi: int) -> bytes:
        nonlocal shares
        if not shares:
            shares = generator.random((BLOCK_QUERIES, width)).tolist()
        span = max(1, hi - lo)
        return template % tuple([lo + int(share * span) for share in shares.pop()])

    return statement
