"""SQL of the Insert Benchmark: tables, indexes and the shapes of its statements. Text only, no connection."""

from __future__ import annotations

from workloads.insert.steps import Generation

SEQUENCE_CACHE = 1000
QUERY_ROWS = 10
AUTOVACUUM = "autovacuum_enabled"
INSERT_COLUMNS = ("dateandtime", "cashregisterid", "customerid", "productid", "price", "data")


def table_name(client: int) -> str:
    """The table of client 1, 2, ...; all connections of the client use only this one."""
    return f"pi{client}"


def create_table(generation: Generation, table: str) -> list[str]:
    """Statements that make an empty table."""
    return [
        f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} (transactionid bigserial NOT NULL, dateandtime timestamp without time zone, "
        "cashregisterid integer NOT NULL, customerid integer NOT NULL, productid integer NOT NULL, "
        f"price {generation.price_type} NOT NULL, data varchar(4000), PRIMARY KEY (transactionid))",
        f"ALTER SEQUENCE {table}_transactionid_seq CACHE {SEQUENCE_CACHE}",
    ]


def create_indexes(generation: Generation, table: str, count: int = 3) -> list[str]:
    return [
        f"CREATE INDEX {table}_{name} ON {table} ({', '.join(columns)})" for name, columns in generation.indexes[:count]
    ]


def drop_indexes(generation: Generation, table: str, count: int = 3) -> str:
    return f"DROP INDEX IF EXISTS {', '.join(f'{table}_{name}' for name, _ in generation.indexes[:count])}"


def insert_head(table: str) -> str:
    return f"INSERT INTO {table} ({','.join(INSERT_COLUMNS)}) VALUES "


def delete_template(form: str, table: str, rows: int) -> str:
    """A delete statement of the `range` or `subselect` form with `%(lo)d` (and `%(hi)d`) to fill in.

    Both remove the `rows` rows with the smallest keys from `lo` on; the range form only if no key is missing.
    """
    if form == "range":
        return f"DELETE FROM {table} WHERE transactionid >= %(lo)d AND transactionid < %(hi)d"
    return (
        f"DELETE FROM {table} WHERE transactionid IN (SELECT transactionid FROM {table} "
        f"WHERE transactionid >= %(lo)d ORDER BY transactionid ASC LIMIT {rows})"
    )


def min_key(table: str) -> str:
    return f"SELECT min(transactionid) FROM {table}"


def max_key(table: str) -> str:
    return f"SELECT max(transactionid) FROM {table}"


def range_query(generation: Generation, table: str, kind: int, start: str) -> str:
    """Range query 0 (market), 1 (register) or 2 (pdc) from `start` on: an index-only scan of that index.

    `register` is strict, so the greatest register finds nothing.
    """
    columns = generation.indexes[kind][1]
    comparison = ">" if columns[0] == "cashregisterid" else ">="
    return (
        f"SELECT {','.join(columns)} FROM {table} WHERE {columns[0]} {comparison} {start} "
        f"ORDER BY {','.join(columns)} LIMIT {QUERY_ROWS}"
    )


def prepare_range(generation: Generation, table: str, kind: int) -> str:
    """PREPARE of a range query; executed as `EXECUTE <kind>(<start>)`. Real prices need a real parameter."""
    name, columns = generation.indexes[kind]
    parameter = generation.price_type if columns[0] == "price" else "int"
    parameter = "int" if parameter == "integer" else parameter
    return f"PREPARE {name}({parameter}) AS {range_query(generation, table, kind, '$1')}"


def point_query(table: str, keys: str) -> str:
    return f"SELECT transactionid,productid,data FROM {table} WHERE transactionid IN ({keys})"


def prepare_point(table: str, wide_keys: bool) -> str:
    """PREPARE of the point query. Keys are `int`, as in the reference, unless they pass 2**31 (`wide_keys`)."""
    types = ",".join(["bigint" if wide_keys else "int"] * QUERY_ROWS)
    return f"PREPARE point({types}) AS {point_query(table, ','.join(f'${n + 1}' for n in range(QUERY_ROWS)))}"
