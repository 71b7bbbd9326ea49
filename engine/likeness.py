"""What was looked at to see whether the cells of two subjects are of one kind: each check with what was found.

`engine.origins` says what withholds a verdict. Here stands all of it, what was found alike too, so that a reader sees
what has been looked at, and how far the machine moved without being called changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine import origins
from engine.comparison import Check, Comparison, Pair, pairs
from engine.drift import BUSY_LIMIT, GAUGES, STEADY_GOVERNORS
from engine.model import Subject, config_key
from engine.results import CellResult, RunResult

SHOWN: dict[tuple[str, str], tuple[str, str]] = {  # gauge -> its name, its unit
    ("cpu", "probe_us"): ("CPU speed", "us of work"),
    ("cpu", "mhz"): ("CPU clock", "MHz"),
    ("state", "temperature_c"): ("CPU temperature", "C"),
    ("state", "device_temperature_c"): ("disk temperature", "C"),
}


def checks(comparison: Comparison, subject: Subject) -> tuple[Check, ...]:
    """All checks of a subject against what it is compared with; those that failed come first."""
    base = comparison.opposite(subject)
    mates = pairs(comparison.cells, base, subject)
    sides = [cell for cell in comparison.cells if cell.cell.subject in (base, subject)]
    found = [
        _kernel(sides, base, subject),
        _binaries(comparison.runs, (base, subject)),
        _settings(comparison.runs, base, subject),
        *_machine(mates),
        *_gauges(sides),
        _busy(sides),
        _observers(mates),
        _work(comparison.steps, mates),
    ]
    return tuple(sorted((check for check in found if check is not None), key=lambda check: check.ok))


def _kernel(cells: Sequence[CellResult], base: Subject, subject: Subject) -> Check | None:
    def releases(of: Subject) -> list[str]:
        found = {
            _value(record, "kernel", "release") for c in cells if c.cell.subject == of for record in c.environments
        }
        return sorted(str(release) for release in found if release)

    ours, theirs = releases(base), releases(subject)
    if not ours or not theirs:
        return None
    if base.kernel != subject.kernel:
        return Check("kernel", True, f"{', '.join(ours)} against {', '.join(theirs)}, which is compared")
    both = sorted({*ours, *theirs})
    return Check("kernel", len(both) == 1, ", ".join(both))


def _binaries(runs: Sequence[RunResult], subjects: Sequence[Subject]) -> Check | None:
    for label in dict.fromkeys(subject.build for subject in subjects):
        digests = {
            build["digest"] for run in runs for build in run.manifest.get("builds", ()) if build["label"] == label
        }
        if len(digests) > 1:
            return Check("binaries", False, f"{label} is not the same in all runs")
    engines = sorted({str(run.manifest.get("engine")) for run in runs})
    if len(engines) > 1:
        return Check("binaries", False, f"measured by pgbed {' and '.join(engines)}")
    return Check("binaries", True, "the same in all cells" if len(runs) == 1 else "the same in all runs")


def _settings(runs: Sequence[RunResult], base: Subject, subject: Subject) -> Check | None:
    for run in runs:
        configs = run.manifest.get("configs", {})
        ours, theirs = (configs.get(config_key(side.config, side.build)) for side in (base, subject))
        if ours is None or theirs is None:
            continue
        first, second = dict(ours["settings"]), dict(theirs["settings"])
        names = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
        if not names:
            return Check("settings", True, "the same")
        text = f"{len(names)} differ: {', '.join(names)}"
        if base.config != subject.config:
            return Check("settings", True, f"{text}; they are compared")
        # A setting that one of the versions does not know is left out there, and cannot be the same.
        return Check("settings", all((name in first) != (name in second) for name in names), text)
    return None


def _machine(mates: Sequence[Pair]) -> list[Check]:
    moved = dict.fromkeys(sentence for base, other in mates for sentence in origins.pair_reasons(base, other))
    if moved:
        return [Check("machine", False, sentence) for sentence in moved]
    return [Check("machine", True, f"unchanged in {len(mates)} pair{'' if len(mates) == 1 else 's'}")] if mates else []


def _gauges(cells: Sequence[CellResult]) -> Iterable[Check]:
    records = [record for cell in cells for record in cell.environments]
    for gauge in GAUGES:
        values = [value for record in records if (value := _number(record, gauge.section, gauge.key)) is not None]
        if (gauge.section, gauge.key) not in SHOWN or not values or min(values) <= 0:
            continue
        name, unit = SHOWN[gauge.section, gauge.key]
        low, high = min(values), max(values)
        idle = gauge.key == "mhz" and any(
            _value(record, "cpu", "governor") not in STEADY_GOVERNORS for record in records
        )
        span = f"{low:.0f}" if f"{low:.0f}" == f"{high:.0f}" else f"{low:.0f} to {high:.0f}"
        yield Check(name, idle or not gauge.exceeds(low, high), f"{span} {unit}")


def _busy(cells: Sequence[CellResult]) -> Check | None:
    shares = [_number(record, "state", "busy_share") for cell in cells for record in cell.environments]
    known = [share for share in shares if share is not None]
    return Check("others' load", max(known) <= BUSY_LIMIT, f"at most {max(known):.0%} of the CPUs") if known else None


def _observers(mates: Sequence[Pair]) -> Check | None:
    found = {
        name: {" ".join(sorted(cell.steps[name].totals.observers)) or "none" for cell in pair}
        for pair in mates
        for name in pair[0].steps
        if name in pair[1].steps
    }
    everything = sorted(set().union(*found.values()))
    return Check("probes", all(len(names) == 1 for names in found.values()), ", ".join(everything)) if found else None


def _work(steps: Sequence[str], mates: Sequence[Pair]) -> Check | None:
    unequal = dict.fromkeys(
        f"{step}: {reason}"
        for step in steps
        for base, other in mates
        if step in base.steps and step in other.steps
        for reason in origins.work_reasons(base.steps[step], other.steps[step], base.cell.repeat)
    )
    return Check("work", not unequal, "; ".join(unequal) or "equal in all pairs") if mates else None


def _value(record: dict[str, object], section: str, key: str) -> object:
    part = record.get(section)
    return part.get(key) if isinstance(part, dict) else None


def _number(record: dict[str, object], section: str, key: str) -> float | None:
    value = _value(record, section, key)
    return float(value) if isinstance(value, int | float) else None
