"""Tests marked `timing` are run once more where they fail; no other test is.

They look at what real servers do in real time, on a machine that other programs use as well. Each second run is
printed with the failure that caused it, and a session in which more than 1 % of all tests (or more than two, where
there are few) needed one fails.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

MOST, FEW = 0.01, 2  # of the tests of a session; that many in any
FAILURES: list[pytest.TestReport] = []  # that were followed by a second run


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if item.get_closest_marker("timing") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failures = [report for report in reports if report.failed]
    if failures:
        FAILURES.append(failures[0])
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def too_many(tests: int) -> bool:
    """Whether more second runs were needed than a session of so many tests may have."""
    return len(FAILURES) > max(FEW, MOST * tests)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if too_many(session.testscollected) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tests = terminalreporter._session.testscollected if terminalreporter._session else 0
    for report in FAILURES:
        terminalreporter.section(f"run twice: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
    marked = f"{len(FAILURES)} of {tests} tests were run twice, as they meet other programs' work"
    if FAILURES:
        terminalreporter.section(f"{marked}{': too many' if too_many(tests) else ''}")
