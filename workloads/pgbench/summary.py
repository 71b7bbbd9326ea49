"""pgbench's final report, parsed by labels; blanks and unknown lines are tolerated."""

from __future__ import annotations

import re
from typing import Any

from workloads.pgbench.scripts import CLOCK

# label -> name in the report. Versions print different ones; see the pattern of each.
COUNTS = {
    "number of transactions actually processed": "processed",
    "number of failed transactions": "failed",
    "number of serialization failures": "serialization",
    "number of deadlock failures": "deadlock",
    "number of other failures": "other",
    "number of transactions retried": "retried",
    "total number of retries": "retries",
    "number of transactions skipped": "skipped",
}
TIMES = {
    "latency average": "latency_mean_ms",
    "latency stddev": "latency_stddev_ms",
    "initial connection time": "connect_ms",
    "average connection time": "connect_mean_ms",
}
NUMBER = re.compile(r"\d+")
LATE = re.compile(r"number of transactions above the .* latency limit: (\d+)")
LAG = re.compile(r"rate limit schedule lag: avg ([\d.]+) \(max ([\d.]+)\) ms")
TPS = re.compile(r"tps = ([\d.]+) \((?:without initial connection time|including reconnection times|excluding )")
SCRIPT = re.compile(r"SQL script (\d+): (.*)")
HEADING = re.compile(r"(?:- )?statement latencies in milliseconds")
STATEMENT = re.compile(r"\s+([\d.]+)((?:\s+\d+){0,2})\s+(\S.*)")


def parse(text: str) -> dict[str, Any]:
    """Totals, `statements` (script from 1, text, mean ms, failures, retries); of several, `scripts` (transactions)."""
    found: dict[str, Any] = {}
    scripts: list[dict[str, Any]] = []
    statements: list[dict[str, Any]] = []
    script, listing = 1, False
    for line in text.splitlines():
        if told := SCRIPT.match(line):
            script, listing = int(told.group(1)), False
            scripts.append({"script": told.group(2)})
        elif HEADING.match(line.strip()):
            listing = True
        elif listing and (told := STATEMENT.match(line)):
            if told.group(3) == CLOCK:
                continue
            failures, retries = (*map(int, told.group(2).split()), 0, 0)[:2]
            statements.append(
                {
                    "script": script,
                    "statement": told.group(3),
                    "mean_ms": float(told.group(1)),
                    "failures": failures,
                    "retries": retries,
                }
            )
        elif line.startswith(" - "):
            part = re.match(r" - (?:number of transactions actually processed: )?(\d+)(?: transactions)? \(", line)
            if part and scripts:
                scripts[-1].setdefault("transactions", int(part.group(1)))
        else:
            listing = False
            _take(line, found)
    return found | ({"scripts": scripts} if scripts else {}) | ({"statements": statements} if statements else {})


def _take(line: str, found: dict[str, Any]) -> None:
    label, colon, value = line.partition(": ")
    number = NUMBER.match(value)
    if colon and label in COUNTS and number:
        found[COUNTS[label]] = int(number.group())
        return
    label, equals, value = line.partition(" = ")
    if equals and label in TIMES and (told := re.match(r"[\d.]+", value)):
        found[TIMES[label]] = float(told.group())
    elif told := LATE.match(line):
        found["late"] = int(told.group(1))
    elif told := LAG.match(line):
        found["lag_mean_ms"], found["lag_max_ms"] = float(told.group(1)), float(told.group(2))
    elif told := TPS.match(line):
        found["tps"] = float(told.group(1))
