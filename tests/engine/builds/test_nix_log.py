"""Nix's internal-json, read: its activities, a builder's lines, and the reason for a failure."""

from __future__ import annotations

import pytest

from engine.builds.nix_log import BUILD, NixLog, last_words
from tests.support.nixevents import built, copied, error, event, printed, stopped, waiting

STORE = "/nix/store/" + "a" * 32
DRV = f"{STORE}-postgresql-16.3.drv"
LOCKS = f"waiting for lock on \x1b[33;1m'{STORE}-postgresql-18.6-dev', '{STORE}-postgresql-18.6'\x1b[0m"
MACHINE = f"waiting for a machine to build '\x1b[33;1m{DRV}\x1b[0m'"


def log_of(*lines: bytes) -> NixLog:
    log = NixLog()
    log.feed(b"".join(lines))
    return log


def test_a_hash_mismatch_becomes_one_line() -> None:
    drv = f"{STORE}-postgresql-16.3.tar.bz2.drv"
    log = log_of(
        built(1, drv),
        error(f"hash mismatch in fixed-output derivation '{drv}':\n  specified: sha256-AA=\n     got:    sha256-BB="),
        error(f"1 dependencies of derivation '{DRV}' failed to build"),
    )
    assert log.explanation("16.3", 102) == (
        "build '16.3': download of postgresql-16.3.tar.bz2 refused, "
        "its hash is sha256-BB= and the pinned one sha256-AA="
    )


@pytest.mark.parametrize(
    "words", [f"builder for '{DRV}' failed with exit code 1", f"Cannot build '{DRV}'.\nReason: builder failed."]
)
def test_a_failure_is_explained_in_the_builders_last_words(words: str) -> None:
    other = f"{STORE}-other.drv"
    log = log_of(
        built(1, DRV),
        built(2, other),
        printed(1, "configure: WARNING: old", "error: in what the builder prints is not Nix's", ""),
        printed(1, "applying \x1b[31mlimit.patch", "1 out of 1 hunk FAILED", "giving up"),
        printed(2, "this one is well"),
        error(words),
        stopped(1),
    )
    message = log.explanation("16.3-limit", 100)
    assert message == "build '16.3-limit' failed: error: in what the builder prints is not Nix's"
    assert log.telling_lines()[1:] == ("applying limit.patch", "1 out of 1 hunk FAILED", "giving up")


def test_a_failure_begins_with_the_compilers_error() -> None:
    compiler = "ccache gcc -Wall -O2 -I../../src/include   -c -o {0}.o {0}.c"
    make = "make: *** [GNUmakefile:11: all-src-recurse] Error 2"
    log = log_of(built(1, DRV), printed(1, *(compiler.format(f"fine{number}") for number in range(50))))
    assert log.last_line == "fine49.c"
    linked = "{}gcc -Wall -O2 -flto=auto -shared -o pgcrypto.so  crypt-blowfish.o -L../../src/port -Wl,--as-needed -lz"
    for ccache in ("", "ccache ", "/usr/bin/ccache /usr/bin/"):
        assert log_of(built(1, DRV), printed(1, linked.format(ccache))).last_line == "linking pgcrypto.so"
    log.feed(
        printed(
            1, "heapam.c:301:27: error: 'flase' undeclared", compiler.format("storage"),
            "make[2]: Leaving directory '/build/source/src'", make,
        )
    )  # fmt: skip
    assert log.telling_lines() == ("heapam.c:301:27: error: 'flase' undeclared", "storage.c", make)
    assert log_of(built(1, DRV), printed(1, *["configure: error: no"] * 20)).telling_lines() == (
        "configure: error: no",
    ) * 12  # fmt: skip
    assert NixLog().telling_lines() == ()


def test_a_failure_without_a_builder_is_explained_in_nixs_words() -> None:
    log = log_of(b"warning: unknown setting 'x'\n", error(f"path '{DRV}' is not valid"))
    assert log.explanation("16.3", 1) == f"build '16.3' failed: path '{DRV}' is not valid"
    assert log_of(b"error: unrecognised flag\n").explanation("16.3", 1) == "build '16.3' failed: unrecognised flag"
    assert len(log_of(built(1, DRV), printed(1, "x" * 5000)).explanation("16.3", 100)) < 400


@pytest.mark.parametrize(
    ("lines", "doing"),
    [
        ((), ""),
        ((built(1, f"{STORE}-postgresql-13.16.drv"), printed(1, "checking")), "building postgresql-13.16"),
        ((built(1, f"{STORE}-postgres-12.11.0.jar.drv"),), "fetching postgres-12.11.0.jar"),
        ((copied(1, f"{STORE}-gcc-14.3.0"),), "fetching gcc-14.3.0"),
        ((built(1, f"{STORE}-one.drv"), built(2, f"{STORE}-two.drv"), stopped(2)), "building one"),
        ((built(1, f"{STORE}-one.drv"), stopped(1)), "building one"),
        ((waiting(1, LOCKS),), "waiting for another build of postgresql-18.6"),
        ((waiting(1, LOCKS), stopped(1), built(2, f"{STORE}-one.drv")), "building one"),
        ((waiting(1, MACHINE),), "waiting for a machine to build postgresql-16.3"),
        ((waiting(1, f"waiting for UID to build '{DRV}'"),), "waiting for UID to build postgresql-16.3"),
        ((event(action="start", id=1, level=4, type=101, text="downloading", fields=["https://x/y"]),), ""),
    ],
)
def test_progress_says_what_nix_does(lines: tuple[bytes, ...], doing: str) -> None:
    assert log_of(*lines).doing == doing


@pytest.mark.parametrize(
    "line",
    [
        "Downloading from central: https://mirror.example/maven2/org/postgres/17.11.0/postgres-17.11.0.jar",
        "trying https://mirror.example/postgres-17.11.0.jar",
    ],
)
def test_progress_of_a_download_says_which_file_and_from_where(line: str) -> None:
    assert (
        log_of(built(1, f"{STORE}-x.jar.drv"), printed(1, line)).last_line == "postgres-17.11.0.jar from mirror.example"
    )


def test_events_may_come_in_pieces_and_their_text_is_for_people() -> None:
    lines = built(1, DRV, "ssh-ng://b") + printed(1, "hello") + error("no") + stopped(1)
    log = NixLog()
    text = "".join(log.feed(lines[i : i + 7]) for i in range(0, len(lines), 7))
    assert text == f"building '{DRV}'\nhello\nerror: no\n"
    (build,) = log.builds()
    assert (build.kind, build.subject, build.builder, build.lines) == (BUILD, DRV, "ssh-ng://b", ["hello"])


@pytest.mark.parametrize(
    "broken",
    [b"@nix {", b"@nix []", b"@nix 1", b"\xff\xfe", b'@nix {"action":"result","type":101,"id":7,"fields":["x"]}',
     b'@nix {"action":"start","type":105,"id":[],"fields":null}', b'@nix {"action":{}}', b'@nix {"action":"stop"}',
     b'@nix {"action":"start","type":105,"id":1,"level":"x","fields":3}'],
)  # fmt: skip
def test_what_is_no_event_stops_nothing(broken: bytes) -> None:
    log = log_of(built(1, DRV), broken + b"\n", printed(1, "goes well"))
    assert log.last_line == "goes well"


def test_the_words_of_other_commands_are_their_first_error() -> None:
    assert last_words("warning: x\nerror: cannot\nerror: again\n") == "cannot"
    assert last_words("") == "it printed nothing" and last_words("something\n") == "something"
