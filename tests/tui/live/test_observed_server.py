"""The table of a server that is only watched: what fits, what is cut, what is not visible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.view.observed_server import ObservedRole, ObservedServer
from tui.glyphs import SETS
from tui.live.observed_server import ROLE_ROWS, states, table
from tui.marks import Line, width

SHOP = ObservedRole("shop", "", 40, 12, 7, 1, 0, 2.25, "Lock:transactionid", 1234.5, 10.0, 0.52)
SERVER = ObservedServer(
    by="application",
    version="17.6",
    address="host=db1",
    notes=("the role is no member of pg_monitor",),
    total=SHOP,
    roles=(SHOP,),
    vacuums=("orders scanning heap 34%",),
    rates={
        "commits": 1200.0, "rollbacks": 0.0, "inserted": 10.0, "updated": 3.0, "deleted": 0.0, "wal_bytes": 3 << 20,
    },
    hit_share=0.991,
)  # fmt: skip


def text(lines: list[Line]) -> list[str]:
    return ["".join(words for words, _ in line).rstrip() for line in lines]


def test_rates_of_roles_are_shown_where_they_are_known() -> None:
    by_application, by_user = (
        text(table(replace(SERVER, by=by), 80, tall=False, stalled=["shop"], glyphs=SETS["ascii"]))
        for by in ("application", "user")
    )
    assert by_application == [
        " application                  conns active in trans  age s wait",
        "!shop                            40     12        1    2.2 transactionid",
        " not visible: the role is no member of pg_monitor",
    ]
    assert by_user[0] == " user                 conns active in trans calls/s ms/call  age s wait"
    assert by_user[1] == "!shop                    40     12        1    1234    0.52    2.2 transactionid"


@pytest.mark.parametrize("columns", [72, 80, 100, 160])
@pytest.mark.parametrize("by", ["application", "user", "query"])
def test_every_row_fits_and_roles_without_room_are_counted(by: str, columns: int) -> None:
    long = replace(SHOP, name="9" * 60, text="SELECT " + "x" * 60, wait="LWLock:" + "W" * 40)
    server = replace(SERVER, by=by, roles=(long,) * 30, notes=("n" * 200,))
    for tall in (False, True):
        lines = table(server, columns, tall=tall, stalled=[], glyphs=SETS["ascii"])
        assert max(map(width, lines)) <= columns
    assert (
        f"and {30 - ROLE_ROWS} more, with {40 * (30 - ROLE_ROWS)} conn"
        in text(table(server, 160, tall=False, stalled=[], glyphs=SETS["ascii"]))[0]
    )


def test_what_a_role_may_not_see_is_a_dash() -> None:
    unseen = replace(SHOP, connections=3, active=0, idle_in_transaction=0, unseen=3, wait="", oldest_s=0.0)
    lines = text(table(replace(SERVER, roles=(unseen,)), 80, tall=False, stalled=[], glyphs=SETS["ascii"]))
    assert lines[1].split() == ["shop", "3", "-", "-", "-"]


def test_what_the_server_does_is_one_line() -> None:
    assert text([states(SERVER, [(" ckpt none ", "dim")])]) == [
        " ckpt none  vacuum orders scanning heap 34%  tx/s 1200  rows/s +10 ~3 -0  hit 99.1%  wal 3 MB/s"
    ]
