"""Causes of a server's plans besides the data: settings of the planner, and statistics targets of columns."""

from __future__ import annotations

from psycopg.pq import abc

from workloads.client.connection import execute

SETTINGS = """
SELECT name, current_setting(name) FROM pg_settings
WHERE category LIKE 'Query Tuning%' OR name IN ('work_mem', 'hash_mem_multiplier', 'max_parallel_workers',
  'max_parallel_workers_per_gather', 'jit', 'temp_buffers')
ORDER BY name
"""
TARGETS = """
SELECT format('statistics target of %I.%I.%I', n.nspname, c.relname, a.attname), a.attstattarget::text
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE coalesce(a.attstattarget, -1) >= 0 AND a.attnum > 0 AND NOT a.attisdropped
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
UNION ALL
SELECT format('options of %I.%I.%I', n.nspname, c.relname, a.attname), a.attoptions::text
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE a.attoptions IS NOT NULL AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY 1 LIMIT 1000
"""


def record(connection: abc.PGconn) -> dict[str, str]:
    """Settings by name, and `statistics target of SCHEMA.TABLE.COLUMN` and `options of …` where these are set."""
    settings = {}
    for sql in (SETTINGS, TARGETS):
        result = execute(connection, sql.encode())
        for row in range(result.ntuples):
            name, value = (result.get_value(row, column) or b"" for column in (0, 1))
            settings[name.decode(errors="replace")] = value.decode(errors="replace")
    return settings
