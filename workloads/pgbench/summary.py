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
    result: dict[str, Any] = {}
    scripts: list[dict[str, Any]] = []
    statements: list[dict[str, Any]] = []
    script, listing = 1, False
    for line in text.splitlines():
        if match := SCRIPT.match(line):
            script, listing = int(match.group(1)), False
            scripts.append({"script": match.group(2)})
        elif HEADING.match(line.strip()):
            listing = True
        elif listing and (match := STATEMENT.match(line)):
            if match.group(3) == CLOCK:
                continue
            failures, retries = (*map(int, match.group(2).split()), 0, 0)[:2]
            statements.append(
                {
                    "script": script,
                    "statement": match.group(3),
                    "mean_ms": float(match.group(1)),
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
            _take(line, result)
    return result | ({"scripts": scripts} if scripts else {}) | ({"statements": statements} if statements else {})


def _take(line: str, result: dict[str, Any]) -> None:
    label, colon, value = line.partition(": ")
    number = NUMBER.match(value)
    if colon and label in COUNTS and number:
        result[COUNTS[label]] = int(number.group())
        return
    label, equals, value = line.partition(" = ")
    if equals and label in TIMES and (match := re.match(r"[\d.]+", value)):
        result[TIMES[label]] = float(match.group())
    elif match := LATE.match(line):
        result["late"] = int(match.group(1))
    elif match := LAG.match(line):
        result["lag_mean_ms"], result["lag_max_ms"] = float(match.group(1)), float(match.group(2))
    elif match := TPS.match(line):
        result["tps"] = float(match.group(1))
