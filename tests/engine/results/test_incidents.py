"""Stalls that are one incident, and the one of them that tells most about it."""

from hypothesis import given
from hypothesis import strategies as st

from engine.results.incidents import incidents, ranked

Span = tuple[int, int, int | None]  # client, began, ended


def grouped(*spans: Span) -> list[tuple[Span, ...]]:
    return incidents(spans, lambda span: span)


def test_overlapping_stalls_of_one_client_are_one_incident() -> None:
    insert, delete, later = (1, 10, 15), (1, 12, 20), (1, 30, 40)
    other_client = (2, 11, 14)
    assert grouped(later, delete, other_client, insert) == [(insert, delete), (other_client,), (later,)]


def test_one_that_lasts_takes_in_all_that_begin_after_it() -> None:
    assert grouped((1, 10, None), (1, 50, 60), (1, 70, None)) == [((1, 10, None), (1, 50, 60), (1, 70, None))]


spans = st.tuples(st.integers(1, 2), st.integers(0, 50), st.integers(0, 20)).map(
    lambda drawn: (drawn[0], drawn[1], drawn[1] + drawn[2])
)


@given(st.lists(spans, max_size=12))
def test_every_stall_is_in_exactly_one_incident(stalls: list[Span]) -> None:
    groups = grouped(*stalls)
    assert sorted(stall for group in groups for stall in group) == sorted(stalls)
    assert all(len({client for client, _, _ in group}) == 1 for group in groups)
    for client in (1, 2):
        of_client = [group for group in groups if group[0][0] == client]
        reached = [max(ended or 0 for _, _, ended in group) for group in of_client]
        begun = [group[0][1] for group in of_client]
        assert all(end < begin for end, begin in zip(reached, begun[1:], strict=False))


def test_a_cause_outranks_a_wait_for_another_role() -> None:
    ranks = [("", 0.0), ("unknown", 0.9), ("partner", 1.0), ("client", 0.9), ("io", 0.4), ("stopped", 0.9)]
    assert ranked(ranks, lambda cause: ("insert", *cause)) == ranks[::-1]


def test_who_is_stopped_outranks_who_waits_for_it_longer() -> None:
    waits = ("delete", "wal", 0.9)
    for score, first in ((0.8, "insert"), (0.46, "insert"), (0.44, "delete")):
        stalls = [waits, ("insert", "stopped", score)]
        assert ranked(stalls, lambda stall: stall)[0][0] == first


@given(st.permutations([("query", 0.96), ("zeta", 1.0), ("insert", 1.0), ("delete", 0.4), ("query2", 0.97)]))
def test_roles_go_by_share_and_equal_shares_by_role(stalls: list[tuple[str, float]]) -> None:
    order = ["insert", "query", "query2", "zeta", "delete"]
    assert [role for role, _ in ranked(stalls, lambda stall: (stall[0], "stopped", stall[1]))] == order
