"""Is a function named that costs a little more? The same build twice, one with a loop planted after each message.

    PGBED_SERVERS=... python -m tests.perf.functions_planted [--build 16.3-prebuilt] [--sizes 0,0.5,1]
        [--seconds 30] [--repeats 5] [BENCH OPTIONS]

Needs root: stacks are sampled by bpftrace. Both servers run with a library (planted.c) whose function `spin` runs after
each message. For each size a run of `bench` compares a server in which it does nothing with one in which it takes that
many percent of the server's CPU time per query; how long an iteration takes is measured first, in a process that loads
the library and receives messages as a backend does. 0 is two equal servers.

Printed are, for each size and step: the truth, what `compare` says of `spin`, and what else it names. Exit code 1 if
equal servers name anything, if a size is not named in any step, or if an interval of `spin` does not hold the truth.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.builds import resolve
from engine.core.model import Build
from tests.support import scripted
from tests.support.planted import Planted

STEPS = ("--rows", "100000", "--rows-written", "20000", "--steps", "l.i0,l.x,qr100,qp100")
MESSAGES, PROBED = 20_000, 20_000  # messages received, iterations after each, to see how long one takes
FUNCTION = "spin"
WIDER = 0.25  # of the truth: a server's caches are not those of a process that only loops


def iteration_ns(library: Path, folder: Path) -> float:
    """CPU time of one iteration of the loop."""
    planted = Planted(folder / "measured")
    os.environ["PGBED_PLANTED"] = str(folder / "measured")
    recv = ctypes.CDLL(str(library)).recv
    ours, theirs = socket.socketpair()
    buffer = ctypes.create_string_buffer(1)

    def received_ns(iterations: int) -> int:
        planted.set(iterations)
        used_ns = 0
        for _ in range(MESSAGES):
            theirs.send(b"x")
            began_ns = time.thread_time_ns()
            recv(ours.fileno(), buffer, 1, 0)
            used_ns += time.thread_time_ns() - began_ns
        return used_ns

    return (received_ns(PROBED) - received_ns(0)) / MESSAGES / PROBED


def install(real: Build, folder: Path, library: Path, iterations: int) -> Path:
    """An install whose server has the library preloaded; its other programs and files are the real one's."""
    words = f"LD_PRELOAD={library} PGBED_PLANTED={folder / 'planted'}"
    script = f'#!/bin/sh\nexport {words}\nexec {real.bin / "postgres"} "$@"\n'
    scripted.install(Path(real.prefix), folder, "postgres", script)
    Planted(folder / "planted").set(iterations)
    return folder


def compared(builds: Sequence[Path], out: Path, options: Sequence[str]) -> dict[str, Any]:
    named = ",".join(f"{path.name}={path}" for path in builds)
    command = [sys.executable, "-m", "engine"]
    plan = ("--pg", named, *STEPS, "--interleave", "slices", "--probes", "stacks", "--plain", *options)
    subprocess.run([*command, *plan, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    compare = [*command, "compare", "--json", "--out", str(out)]
    found: dict[str, Any] = json.loads(subprocess.run(compare, check=True, capture_output=True).stdout)
    return found


def server_us(comparison: dict[str, Any], step: str) -> float:
    own = [
        cell["server_cpu_us_per_op"]
        for cell in comparison["cells"]
        if (cell["step"], cell["subject"]) == (step, comparison["base"])
    ]
    return float(sum(own) / len(own))


def judged(comparison: dict[str, Any], size: float, truth_us: float) -> bool:
    """Prints what is said of each step; whether it is true."""
    good, named = bool(comparison["functions"]), 0
    for costs in comparison["functions"]:
        if size and not costs["step"].startswith("q"):  # where an operation is a row, a message has many
            continue
        spin = next((each for each in costs["changes"] if each["name"] == FUNCTION), None)
        others = [each["name"] for each in costs["changes"] if each["name"] != FUNCTION]
        said = "not named"
        if spin is not None:
            named += 1
            said = f"{spin['change_us']:+.2f} [{spin['low_us']:.2f}, {spin['high_us']:.2f}]"
            good &= spin["low_us"] * (1 - WIDER) <= truth_us <= spin["high_us"] * (1 + WIDER)
        percent = 100 * truth_us / server_us(comparison, costs["step"])
        print(
            f"{size:>5.2f}% {costs['step']:<6} truth {truth_us:.2f} us ({percent:.2f}%): {said}; "
            f"{costs['base_samples']:,}+{costs['samples']:,} samples, {costs['tested']} functions, others: {others}",
            flush=True,
        )
        good &= bool(size) or not costs["changes"]
    return good and (named > 0 or not size)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--build", default="16.3-prebuilt")
    parser.add_argument("--sizes", default="0,0.5,1")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    asked, more = parser.parse_known_args()  # what is none of these is for bench
    real = resolve.local_build(asked.build, Path(os.environ["PGBED_SERVERS"]) / asked.build)
    options = ("--query-seconds", str(asked.seconds), "--repeats", str(asked.repeats), *more)
    good = True
    with tempfile.TemporaryDirectory(prefix="pgbed-functions-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        library, source = folder / "planted.so", Path(__file__).with_name("planted.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
        each_ns = iteration_ns(library, folder)
        plain = install(real, folder / "plain", library, 0)
        first = compared([plain, install(real, folder / "alike", library, 0)], folder / "first", options)
        whole_us = server_us(first, "qr100")
        print(f"{whole_us:.1f} us of server CPU per query in qr100, {each_ns:.2f} ns for an iteration", flush=True)
        for number, size in enumerate(map(float, asked.sizes.split(","))):
            iterations = round(size / 100 * whole_us * 1000 / each_ns)
            if not size:
                good = judged(first, size, 0.0) and good
                continue
            slowed = install(real, folder / f"slowed{number}", library, iterations)
            found = compared([plain, slowed], folder / str(number), options)
            good = judged(found, size, iterations * each_ns / 1000) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
