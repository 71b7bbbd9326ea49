"""A repository of PostgreSQL's shape whose builds run a server that is there, slowed down by a loop in each commit.

Each commit's `src/backend/spin` is how many times around for each message that a backend receives. All that the recipe
makes of the real source is shown by the server that ./check compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.smalltree import commit, git

CONFIGURE = """\
#!/bin/sh
PACKAGE_NAME='PostgreSQL'
PACKAGE_VERSION='{version}'
for argument; do case $argument in --prefix=*) echo "prefix = ${{argument#*=}}" > config.mk ;; esac; done
"""
# A build's programs are those of the server that is there; `postgres` loads the loop first.
MAKEFILE = """\
include config.mk
all: spin.so postgres
spin.so: src/backend/spin.c src/backend/spin
\t$(CC) -O1 -shared -fPIC -DSPIN=`cat src/backend/spin` -o $@ src/backend/spin.c
postgres: src/backend/postgres.c
\t$(CC) $(CFLAGS) -g -DSPIN_SO='"$(prefix)/lib/spin.so"' -DREAL='"{server}/bin/postgres"' -o $@ $<
install: all
\tmkdir -p $(prefix)/bin $(prefix)/lib $(prefix)/share
\tcp spin.so $(prefix)/lib
\tfor path in {server}/bin/*; do name=$${{path##*/}}; \
\t  printf '#!/bin/sh\\nexec %s "$$@"\\n' "$$path" > $(prefix)/bin/$$name; chmod 755 $(prefix)/bin/$$name; done
\trm $(prefix)/bin/postgres
\tcp postgres $(prefix)/bin
"""
POSTGRES = """\
#include <stdlib.h>
#include <sys/sdt.h>
#include <unistd.h>
#define SEEN __attribute__((noinline, used))
static SEEN int get_actual_variable_endpoint(void) { return 1; }
SEEN int pg_plan_query(void) { return 2; }
SEEN int raw_parser(void) { return 3; }
SEEN int standard_planner(void) { return get_actual_variable_endpoint(); }

int main(int argc, char **argv)
{
    DTRACE_PROBE(postgresql, query__start);
    setenv("LD_PRELOAD", SPIN_SO, 1);
    argv[0] = REAL;
    execv(REAL, argv);
    return 127;
}
"""
SPIN = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>

ssize_t recv(int socket, void *buffer, size_t size, int flags)
{
    static ssize_t (*real)(int, void *, size_t, int);
    if (!real)
        real = (ssize_t (*)(int, void *, size_t, int)) dlsym(RTLD_NEXT, "recv");
    ssize_t got = real(socket, buffer, size, flags);
    static int received;
    if (SPIN < 0 && ++received > -(SPIN))
        abort();
    if (got > 0)
        for (volatile long i = 0; i < SPIN; i++)
            ;
    return got;
}
"""


def make_history(path: Path, server: Path, version: str, spins: Sequence[int | None]) -> list[str]:
    """A commit for each number of loops, its hash; None is one that does not compile.

    With a number below 0 server processes abort after so many messages.
    """
    (path / "src" / "backend").mkdir(parents=True)
    (path / "contrib").mkdir()
    (path / "contrib" / "Makefile").write_text("all install:\n")
    (path / "configure").write_text(CONFIGURE.format(version=version))
    (path / "configure").chmod(0o755)
    (path / "Makefile").write_text(MAKEFILE.format(server=server))
    (path / "src/backend/postgres.c").write_text(POSTGRES)
    git(path, "init", "--quiet", "--initial-branch=main")
    commits = []
    for number, spin in enumerate(spins):
        (path / "src/backend/spin.c").write_text(SPIN if spin is not None else SPIN.replace("got > 0", "nothing"))
        (path / "src/backend/spin").write_text(f"{spin or 0}\n")
        (path / "src/backend/number").write_text(f"{number}\n")
        commits.append(commit(path, f"Change {number}"))
    return commits
