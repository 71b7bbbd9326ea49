"""A test that fails is tried once more when all others have ended, with fixtures of every scope made anew for it.

If it passes then, it is named in a line with its cause. A test that fails twice has failed. So has every failed test of
a process with more than MOST of them, or with --maxfail, without a second try. `python -m tests.support.second_try
LOG...` prints the lines of many processes, and fails if there are more than MOST.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

# On a machine with two CPUs, which ./check keeps busy, up to three tests of four thousand have needed one. Each of them
# looks at real servers in real time, and is to be mended where it breaks: this number is to be lowered.
MOST = 3
SAID = "second try: "
FAILED: dict[pytest.Item, list[pytest.TestReport]] = {}  # at the first try
SAVED = set[pytest.Item]()  # by the second one


def cause(reports: list[pytest.TestReport]) -> str:
    failure = next(report for report in reports if report.failed)
    crash = getattr(failure.longrepr, "reprcrash", None)
    return str(crash.message if crash else failure.longreprtext).strip().partition("\n")[0]


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed, first = any(report.failed for report in reports), item not in FAILED
    if failed and first and not item.config.getoption("maxfail"):
        FAILED[item] = reports
        if terminal := item.config.pluginmanager.get_plugin("terminalreporter"):
            terminal.ensure_newline()
            terminal.write_line(f"failed, to be tried again: {item.nodeid}: {cause(reports)}")
    else:
        record(item, reports)
        if not (failed or first):
            SAVED.add(item)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def record(item: pytest.Item, reports: list[pytest.TestReport]) -> None:
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    again = False
    try:
        result = yield
        again = len(FAILED) <= MOST
    finally:  # also if it is interrupted
        items = list(FAILED)
        for item, nextitem in zip(items, [*items, None][1:], strict=True):
            if again:
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            else:
                record(item, FAILED[item])
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for item, reports in FAILED.items():
        if item in SAVED:
            terminalreporter.write_line(f"{SAID}{item.nodeid}: {cause(reports)}")
            for report in reports:
                terminalreporter.write_line(re.sub("^", "  | ", report.longreprtext, flags=re.MULTILINE))


def main(logs: list[str]) -> int:
    text = "\n".join(Path(log).read_text(errors="replace") for log in logs)
    tries = dict.fromkeys(re.findall(rf"^(?:\S+> )?({SAID}.+)", text, re.MULTILINE))  # a build's log may be there twice
    print(*tries, sep="\n", end="\n" * bool(tries))
    if len(tries) > MOST:
        print(f"{len(tries)} tests needed a second try, more than {MOST}")
    return int(len(tries) > MOST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
