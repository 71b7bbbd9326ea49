"""Messages of pg_restore: which of its errors lose something."""

import pytest

from workloads.own.restore import failure

SETS = """pg_restore: while INITIALIZING:
pg_restore: error: could not execute query: ERROR:  unrecognized configuration parameter "transaction_timeout"
Command was: SET transaction_timeout = 0;

"""
ROWS = """pg_restore: from TOC entry 3; 0 7 TABLE DATA t postgres
pg_restore: error: COPY failed for table "t": ERROR:  unrecognized configuration parameter "app.tenant"
CONTEXT:  PL/pgSQL function tenant() line 1 at RETURN
"""
SCHEMA = """pg_restore: from TOC entry 6; 2615 16393 SCHEMA ext postgres
pg_restore: error: could not execute query: ERROR:  schema "ext" already exists
Command was: CREATE SCHEMA ext;


"""
CHECK = """pg_restore: error: could not execute query: ERROR:  unrecognized configuration parameter "app.tenant"
Command was: CREATE INDEX i ON public.t USING btree (public.tenant());
"""


def ignored(count: int) -> str:
    return f"pg_restore: warning: errors ignored on restore: {count}\n"


@pytest.mark.parametrize(
    ("printed", "code", "why"),
    [
        ("", 0, ""),
        (SETS + ignored(1), 1, ""),
        (SETS * 5 + ignored(1), 1, ""),
        (SETS + SCHEMA + ignored(2), 1, ""),
        (SETS + ROWS + ignored(2), 1, 'COPY failed for table "t": ERROR:  unrecognized configuration parameter'),
        (SETS + CHECK + ignored(2), 1, 'unrecognized configuration parameter "app.tenant"'),
        (CHECK + ROWS + ignored(2), 1, "(and 1 more error)"),
        (SETS + "pg_restore: pg_rest\nore: error: relation is gone\n" + ignored(2), 1, "ended with code 1: "),
        ("", 1, "ended with code 1"),
        ("", -9, "ended with code -9"),
    ],
)
def test_only_unknown_settings_and_existing_schemas_pass(printed: str, code: int, why: str) -> None:
    reason = failure(printed, code)
    assert why in reason and bool(reason) == bool(why) and "\n" not in reason
