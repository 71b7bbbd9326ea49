"""An extension with a PGXS Makefile: a function that counts to its argument, over and over as its source says.

python -m tests.support.smallextension FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

MAKEFILE = """\
EXTENSION = counting
MODULES = counting
DATA = counting--1.0.sql
DOCS = doc/counting.md
PG_CONFIG = pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
"""
SOURCE = """\
#include "postgres.h"
#include "fmgr.h"
PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(counted);
Datum
counted(PG_FUNCTION_ARGS)
{
    volatile int32 sum = 0;
    for (int time = 0; time < TIMES; time++)
        for (sum = 0; sum < PG_GETARG_INT32(0); sum++)
            ;
    PG_RETURN_INT32(sum);
}
"""
SQL = "CREATE FUNCTION counted(int) RETURNS int STRICT LANGUAGE C AS 'MODULE_PATHNAME';\n"


def make_extension(path: Path, times: int = 1, name: str = "counting") -> Path:
    for file, text in {
        "Makefile": MAKEFILE,
        "counting.c": SOURCE.replace("TIMES", str(times)),
        "counting.control": "default_version = '1.0'\nmodule_pathname = '$libdir/counting'\n",
        "counting--1.0.sql": SQL,
        "doc/counting.md": "It counts.\n",
    }.items():
        place = path / file.replace("counting", name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace("counting", name))
    return path


if __name__ == "__main__":
    make_extension(Path(sys.argv[1]))
