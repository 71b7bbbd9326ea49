"""`python -m tests.faults`: the fault campaign. Prints cases tried, held and failed; exits with 1 for failures."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.faults import arguments, kills, records
from tests.faults.call import Case
from tests.support.journal import make_run

Part = Callable[[Path, int, float], Iterator[Case]]  # of a folder, a seed and a share of the whole


def of_arguments(folder: Path, seed: int, share: float) -> Iterator[Case]:
    """Bad arguments."""
    arguments.furnish(folder)
    make_run(folder / "runs" / "made", repeats=1)
    return _sampled(arguments.cases(folder, _label(), "made"), seed, share)


def of_hostile(folder: Path, seed: int, share: float) -> Iterator[Case]:
    """Hostile records."""
    return _sampled(records.hostile(records.template(folder)), seed, share / 5)


def of_manifests(folder: Path, seed: int, share: float) -> Iterator[Case]:
    """Fuzzed manifests."""
    return records.manifests(records.template(folder), max(20, round(600 * share)), seed)


def of_journals(folder: Path, seed: int, share: float) -> Iterator[Case]:
    """Damaged journals."""
    return records.journals(records.template(folder), max(20, round(900 * share)), seed)


def of_kills(folder: Path, seed: int, share: float) -> Iterator[Case]:
    """Killed processes."""
    return kills.cases(folder, _label(), max(2, round(40 * share)), seed)


PARTS: Mapping[str, Part] = {
    "arguments": of_arguments, "hostile": of_hostile, "manifests": of_manifests, "journals": of_journals,
    "kills": of_kills,
}  # fmt: skip


def failures(part: str, seed: int, share: float, only: str = "") -> Iterator[tuple[str, list[str]]]:
    """Tries a part; for each case its name and its faults."""
    with tempfile.TemporaryDirectory(prefix="pgbed-faults-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for case in PARTS[part](folder, seed, share):
            if only in case.name:
                try:
                    yield case.name, list(case.attempt())
                except Exception as error:
                    yield case.name, [f"{type(error).__name__}: {error}"]


def _label() -> str:
    """A server that is here already: PGBED_SERVERS is what the tests have."""
    return min(prefix.name for prefix in Path(os.environ["PGBED_SERVERS"]).iterdir() if prefix.name.startswith("16"))


def _sampled(cases: Iterator[Case], seed: int, share: float) -> Iterator[Case]:
    chance = random.Random(seed)
    return (case for case in cases if share >= 1 or chance.random() < share)


def main() -> int:
    """Tries all parts, or those named."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts [default: all]")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="to repeat what was tried")
    parser.add_argument("--share", type=float, default=1.0, help="how much of each part, from 0 to 1")
    parser.add_argument("--only", default="", help="only cases whose name holds this text")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # which cleans up as Ctrl-C does
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    tried = failed = 0
    for part in asked.parts or PARTS:
        begun, before = time.monotonic(), (tried, failed)
        for name, faults in failures(part, asked.seed, asked.share, asked.only):
            tried += 1
            failed += bool(faults)
            if faults:
                print(f"FAILED {part}: {name}: {'; '.join(faults)[:300]!r}", flush=True)
        counts = tried - before[0], failed - before[1]
        print(f"{part}: tried {counts[0]}, held {counts[0] - counts[1]}, failed {counts[1]}, "
              f"{time.monotonic() - begun:.0f} s", flush=True)  # fmt: skip
    print(f"tried {tried}, held {tried - failed}, failed {failed} (seed {asked.seed})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
