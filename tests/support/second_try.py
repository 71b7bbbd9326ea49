"""A test that fails is tried once more when all others have ended, by the process that pytest was called as, with
fixtures of every scope made anew for it.

If it passes then, it is named in a line with its cause. A test that fails twice has failed. So has every failed test of
a call of pytest, with however many workers, that has more than MOST of them, or --maxfail, without a second try.
`python -m tests.support.second_try LOG...` prints the lines of many calls, and fails if there are more than MOST.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterable
from itertools import zip_longest
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

__all__ = [
    "pytest_report_teststatus",
    "pytest_runtest_logreport",
    "pytest_runtest_protocol",
    "pytest_runtestloop",
    "pytest_terminal_summary",
]  # hooks

MOST = 1  # in a call of pytest, and in a whole check: a test that breaks on a busy machine is to be mended
SAID = "second try: "
AGAIN = "again"  # the outcome that is reported of a test that fails at the first try
FAILED: dict[str, list[pytest.TestReport]] = {}  # at the first try
SAVED = set[str]()  # by the second one


def cause(reports: list[pytest.TestReport]) -> str:
    failure = next(report for report in reports if report.failed)
    crash = getattr(failure.longrepr, "reprcrash", None)
    return str(crash.message if crash else failure.longreprtext).strip().partition("\n")[0]


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed = any(report.failed for report in reports)
    if item.nodeid in FAILED:
        SAVED.update([] if failed else [item.nodeid])
    elif failed and not item.config.getoption("maxfail"):
        for report in reports:
            vars(report).update(outcome=AGAIN, first=report.outcome)
    record(item.session, reports)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def record(session: pytest.Session, reports: Iterable[pytest.TestReport]) -> None:
    for report in reports:
        session.config.hook.pytest_runtest_logreport(report=report)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if str(report.outcome) == AGAIN:
        FAILED.setdefault(report.nodeid, []).append(report)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return ("", "", "") if str(report.outcome) == AGAIN else None


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    if hasattr(session.config, "workerinput"):
        return (yield)
    again = False
    try:
        result = yield
        again = len(FAILED) <= MOST
    finally:  # also if it is interrupted
        for reports in FAILED.values():
            for report in reports:
                vars(report).update(outcome=vars(report).pop("first"))
            if not again:
                record(session, reports)
        if again and FAILED:
            try_again(session)
    return result


def try_again(session: pytest.Session) -> None:
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    assert terminal
    terminal.ensure_newline()
    for name, reports in FAILED.items():
        terminal.write_line(f"failed, is tried again: {name}: {cause(reports)}")
    tests = session.testscollected
    items = session.items or session.perform_collect([f"{session.config.rootpath}/{name}" for name in FAILED])
    session.testscollected = tests
    items = [item for item in items if item.nodeid in FAILED]
    for item, nextitem in zip_longest(items, items[1:]):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name in sorted(FAILED.keys() & SAVED):
        terminalreporter.write_line(f"{SAID}{name}: {cause(FAILED[name])}")
        for report in FAILED[name]:
            terminalreporter.write_line(re.sub("^", "  | ", report.longreprtext, flags=re.MULTILINE))


def main(logs: list[str]) -> int:
    text = "\n".join(Path(log).read_text(errors="replace") for log in logs)
    tries = dict.fromkeys(re.findall(rf"^(?:\S+> )?({SAID}.+)", text, re.MULTILINE))  # a build's log may be there twice
    print(*tries, sep="\n", end="\n" * bool(tries))
    if len(tries) > MOST:
        print(f"{len(tries)} tests needed a second try; at most {MOST} may")
    return int(len(tries) > MOST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
