"""A server that says it is of a version that nobody has yet: 18.6 with other words for some of its features."""

from __future__ import annotations

import shutil
from pathlib import Path

VERSION = "20.6"
# In the programs, of one length: version and major version, a setting, and the event of who sleeps.
WORDS = {
    b"18.6": VERSION.encode(),
    b"-18\0": b"-20\0",  # the end of its own name and, with it, the major version
    b"autovacuum_work_mem": b"autovacuum_room_mem",
    b"\0PgSleep\0": b"\0PgSnore\0",
}
# In the definition of pg_stat_database; what 19 has besides 18 is missing without that.
COLUMN, RENAMED = "AS checksum_failures,", "AS checksum_faults,"
NEW_VIEW = "\nCREATE VIEW pg_stat_teleport AS SELECT 1 AS jumps;\n"


def install(real: Path, folder: Path) -> Path:
    """Such an install made of a prebuilt 18.6."""
    real, one = real.resolve(), folder / "20"
    shutil.copytree(real / "share", one / "share", copy_function=shutil.copy)
    (one / "lib").symlink_to(real / "lib")
    (one / "bin").mkdir()
    for program in (real / "bin").iterdir():
        content = program.read_bytes()
        for old, new in WORDS.items():
            assert len(old) == len(new)
            content = content.replace(old, new)
        (one / "bin" / program.name).write_bytes(content)
        (one / "bin" / program.name).chmod(0o755)
    for path in one.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else path.stat().st_mode | 0o644)
    views = one / "share" / "postgresql" / "system_views.sql"
    text = views.read_text()
    assert COLUMN in text
    views.write_text(text.replace(COLUMN, RENAMED) + NEW_VIEW)
    catalog = one / "share" / "postgresql" / "postgres.bki"
    catalog.write_bytes(catalog.read_bytes().replace(b"# PostgreSQL 18", b"# PostgreSQL 20", 1))
    sample = one / "share" / "postgresql" / "postgresql.conf.sample"
    sample.write_text(sample.read_text().replace("autovacuum_work_mem", "autovacuum_room_mem"))
    return one
