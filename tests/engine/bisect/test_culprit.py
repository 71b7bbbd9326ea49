"""The report of a search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.bisect.culprit import Culprit
from engine.builds.commit_log import Commit
from engine.results.ratio import Ratio

COMMITS = tuple(Commit(letter * 40, f"Change {letter}") for letter in "abc")
SLOWER = Ratio("qr100", "found", "rate_per_s", 0.9, 0.88, 0.92, 3, "slower")
FOUND = Culprit(
    commits=COMMITS[1:2], parent=COMMITS[0], step="qr100", sure=0.97, message="Change b", ends="ends",
    ratio=SLOWER, judgements=4, run="r", flame="", mended=(), unjudged={}, folder=Path("/runs/bisect"),
)  # fmt: skip


def test_a_commit_is_shown_with_the_comparison_with_its_parent() -> None:
    slower = list(FOUND.lines())
    assert f"qr100 became slower with commit {'b' * 40}" in slower and FOUND.confirmed
    assert "against its parent aaaaaaaaaaaa: -10.0% [-12.0, -8.0] (3 pairs), slower" in slower
    withheld = replace(FOUND, ratio=replace(SLOWER, verdict="withheld"))
    assert not withheld.confirmed and any("does not confirm it" in line for line in withheld.lines())
    assert withheld.record()["ratio"]["verdict"] == "withheld"


def test_skipped_commits_are_listed_with_the_reason() -> None:
    why = "cannot be compared: client CPU-bound (≥ 90% of a core) with tried: query"
    lines = list(replace(FOUND, commits=COMMITS[1:], unjudged={COMMITS[1].text: why}).lines())
    assert "qr100 became slower with one of these; those before the last could not be measured:" in lines
    assert f"  {COMMITS[1].text} ({why})" in lines and f"  {COMMITS[2].text}" in lines
    assert not any("do not build" in line for line in lines)
