"""The extensions and modules of PostgreSQL's contrib, by the major versions that have them.

Left out: what needs a library that no build is given (`uuid-ossp`, `xml2`, `sslinfo`), and the languages. From 14 on
`pgcrypto` needs OpenSSL, which others' builds have.
"""

from __future__ import annotations

from collections.abc import Mapping

OLDEST, NEWEST = 0, 999
_ALL = (OLDEST, NEWEST)

CONTRIB: Mapping[str, tuple[int, int]] = {  # the first and the last major version
    **dict.fromkeys(
        (
            "amcheck", "auth_delay", "auto_explain", "autoinc", "bloom", "btree_gin", "btree_gist", "citext", "cube",
            "dblink", "dict_int", "dict_xsyn", "earthdistance", "file_fdw", "fuzzystrmatch", "hstore",
            "insert_username", "intagg", "intarray", "isn", "lo", "ltree", "moddatetime", "pageinspect",
            "passwordcheck", "pg_buffercache", "pg_freespacemap", "pg_prewarm", "pg_stat_statements", "pg_trgm",
            "pg_visibility", "pgcrypto", "pgrowlocks", "pgstattuple", "postgres_fdw", "refint", "seg", "tablefunc",
            "tcn", "test_decoding", "tsm_system_rows", "tsm_system_time", "unaccent",
        ),
        _ALL,
    ),
    "adminpack": (OLDEST, 16),
    "old_snapshot": (14, 16),
    "pg_surgery": (14, NEWEST),
    "basebackup_to_shell": (15, NEWEST),
    "basic_archive": (15, NEWEST),
    "pg_walinspect": (15, NEWEST),
    "pg_logicalinspect": (18, NEWEST),
    "pg_overexplain": (18, NEWEST),
    "pg_plan_advice": (19, NEWEST),
    "pg_stash_advice": (19, NEWEST),
}  # fmt: skip


def lacks(name: str, major: int) -> str:
    """The reason why a major version has no such contrib extension; "" if it has."""
    first, last = CONTRIB[name]
    if major < first:
        return f"{name} came with PostgreSQL {first}"
    return f"{name} went with PostgreSQL {last + 1}" if major > last else ""
