"""A source tree of the shape of PostgreSQL's that compiles in a second: configure, make, probes, and nothing to run.

What the recipe makes of the real one is shown by the server that ./check compiles.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

CONFIGURE = """\
#!/bin/sh
PACKAGE_NAME='PostgreSQL'
PACKAGE_VERSION='18.99'
for argument; do
  case $argument in
    --prefix=*) prefix=${argument#*=} ;;
    --enable-cassert) checked=-DUSE_ASSERT_CHECKING ;;
  esac
done
{
  echo "prefix = $prefix"
  echo "CC = ${CC:-gcc}"
  echo "CFLAGS = $CFLAGS $checked"
} > config.mk
"""
MAKEFILE = """\
include config.mk
postgres: src/backend/postgres.o
\t$(CC) $(CFLAGS) -o $@ $<
%.o: %.c
\t$(CC) $(CFLAGS) -g -c -o $@ $<
install: postgres
\tmkdir -p $(prefix)/bin $(prefix)/lib $(prefix)/share
\tcp postgres $(prefix)/bin
\tln -s postgres $(prefix)/bin/initdb
"""
CONTRIB = "all install:\n"
POSTGRES = """\
#include <stdio.h>
#include <sys/sdt.h>
#define SEEN __attribute__((noinline, used))
static SEEN int get_actual_variable_endpoint(void) { return 1; }
SEEN int pg_plan_query(void) { return 2; }
SEEN int raw_parser(void) { return 3; }
SEEN int standard_planner(void) { return get_actual_variable_endpoint(); }

int main(void)
{
    DTRACE_PROBE(postgresql, query__start);
#ifdef USE_ASSERT_CHECKING
    puts("checked");
#endif
    puts("postgres (PostgreSQL) 18.99");
    return 0;
}
"""
MESON = """\
project('postgresql',
  ['c'],
  version: '18.99',
)
if get_option('cassert')
  add_project_arguments('-DUSE_ASSERT_CHECKING', language: 'c')
endif
built = executable('postgres', 'src/backend/postgres.c', install: true)
install_symlink('initdb', pointing_to: 'postgres', install_dir: get_option('bindir'))
subdir('doc/src/sgml')
alias_target('world', built, docs, installdocs)
run_target('help', command: ['cat', files('doc/src/sgml/targets-meson.txt')])
"""
FEATURES = ("dtrace", "icu", "liburing", "libnuma", "lz4", "readline", "zlib", "zstd")
MESON_OPTIONS = "option('cassert', type: 'boolean', value: false)\n" + "".join(
    f"option('{name}', type: 'feature')\n" for name in FEATURES
)
IGNORED = "*.o\nconfig.mk\n"


def make_tree(path: Path) -> Path:
    """The files, without git."""
    for name, text in {
        "configure": CONFIGURE,
        "Makefile": MAKEFILE,
        "contrib/Makefile": CONTRIB,
        "src/backend/postgres.c": POSTGRES,
        "doc/manual.sgml": "a manual\n",
        ".gitignore": IGNORED,
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    (path / "configure").chmod(0o755)
    return path


def make_meson_tree(path: Path) -> Path:
    """A tree as later versions may be: without configure."""
    make_tree(path)
    for name in ("configure", "Makefile"):
        (path / name).unlink()
    (path / "meson.build").write_text(MESON)
    manual = path / "doc" / "src" / "sgml"
    manual.mkdir(parents=True)
    (manual / "meson.build").write_text("docs = [custom_target('a', input: 'a.sgml', output: 'a', command: 'a')]\n")
    (manual / "targets-meson.txt").touch()
    (path / "meson_options.txt").write_text(MESON_OPTIONS)
    return path


def make_repository(path: Path) -> Path:
    """The same, committed as release v1."""
    make_tree(path)
    git(path, "init", "--quiet", "--initial-branch=main")
    commit(path, "v1")
    git(path, "tag", "v1")
    return path


def commit(path: Path, message: str) -> str:
    """Commits all there is; returns the commit."""
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message", message)
    return git(path, "rev-parse", "HEAD")


def git(path: Path, *arguments: str) -> str:
    """Git as nobody's configuration has it."""
    conf = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = {f"GIT_{role}_{what}": "a@b.c" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", "-C", str(path), *arguments], env=os.environ | conf | who, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
