"""Comparability of cells: the checks, their findings, and the consequences for cells that are not comparable.

Different workloads are refused outright. If the machine changed between the two cells of a pair, the pair is left out.
Any other difference that was not the subject (binaries behind a label, settings behind a name, work, probes) leaves the
numbers visible and withholds the verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from engine.analysis.cells.compared_cells import ComparedCells, Pair
from engine.analysis.cells.run_results import CellResult, Environment, RunResult, StepResult
from engine.analysis.checks import kernel_differences
from engine.analysis.checks.setting_differences import IMPORTANT, differences
from engine.core.errors import UserError
from engine.core.model import PROBED, Subject, config_key
from engine.core.record import converted
from engine.host.drift import BUSY_LIMIT, CLIENT, GAUGES, STEADY_GOVERNORS, TEMPERATURES, Gauge, drift, number, value
from engine.journal.totals import RoleTotals
from engine.results.comparison import Check
from engine.results.section import setting_text

# Gauges move all the time: they are compared between the cells of a pair, not between runs of different days.
PASSING = {"cpu": ("mhz", "probe_us")}  # as all of `state`
SHOWN: dict[tuple[str, str], tuple[str, str]] = {  # gauge -> its name, its unit
    ("cpu", "probe_us"): ("CPU speed", "us of work"),
    ("cpu", "mhz"): ("CPU clock", "MHz"),
    ("state", "temperature_c"): ("CPU temperature", "C"),
    ("state", "device_temperature_c"): ("disk temperature", "C"),
}
DIFFERENT_PROBES = "different probes"
UNEQUAL = 0.05  # largest difference between amounts of work
UNLIKE_VACUUMS = 0.2  # largest difference between numbers of vacuums
T = TypeVar("T")


def check_workloads(runs: Sequence[RunResult]) -> None:
    """Raise UserError if runs have different workloads: say what differs, and between which runs."""
    first = runs[0]
    for run in runs[1:]:
        ours, theirs = (measured_in(result) for result in (first, run))
        if ours != theirs:
            raise UserError(
                f"{first.name} and {run.name} cannot be compared: measured in {ours} and in {theirs}, unlike loads; "
                "compare each separately: their ratios may stand side by side, rates and figures per operation may not"
            )
        ours, theirs = (result.manifest.route.words for result in (first, run))
        if ours != theirs:
            raise UserError(
                f"{first.name} and {run.name} cannot be compared: clients connect in different ways (over "
                f"{ours}, over {theirs})"
            )
        for name, ours, theirs in _unlike(first.manifest.workload, run.manifest.workload):
            raise UserError(f"{first.name} and {run.name} cannot be compared: different {name} ({ours}, {theirs})")


def measured_in(run: RunResult) -> str:
    """The interleaved parts of a run, and the number of servers, which tells slices apart, too."""
    manifest = run.manifest
    servers = len({cell.subject for cell in manifest.cells})
    besides = [f"{servers} servers side by side"] if manifest.design.sliced else []
    besides += ["external servers"] if manifest.external else []
    design = manifest.design.words
    return f"{design} with {' and '.join(besides)}" if besides else design


def run_reasons(runs: Sequence[RunResult], subject: Subject) -> list[str]:
    """Reasons why cells of one subject from several runs are not comparable: machine, binaries, settings."""
    place = (subject.build, subject.config)
    runs_of = [run for run in runs if any((c.subject.build, c.subject.config) == place for c in run.manifest.cells)]
    reasons: dict[str, None] = {}
    for run in runs_of[1:]:
        # Differences between machines are part of each machine's effect: see `analysis.cells.pooling`.
        first = next(earliest for earliest in runs_of if earliest.machine == run.machine)
        for sentence in drift(_lasting(first.manifest.environment), _lasting(run.manifest.environment)):
            reasons[f"between {first.name} and {run.name} {sentence}"] = None
        first = runs_of[0]
        if digests([first], subject) != digests([run], subject):
            reasons[f"{subject.build} is not the same binary in {first.name} and {run.name}"] = None
        if _settings(first, subject) != _settings(run, subject):
            reasons[f"config {subject.config} has other settings in {run.name} than in {first.name}"] = None
    return list(reasons)


def pair_drift(base: CellResult, other: CellResult, step: str) -> list[str]:
    """Differences of the machine between the two cells of a pair, as they began and as they ended; or its suspension.

    A cell's beginning is never compared with an end: the one is idle and cool, the other is not. In an interleaved step
    only settings count: what outlasts a slice, such as a slower CPU clock, hits both servers alike.
    """
    steady = not all(step in cell.steps and cell.steps[step].slices for cell in (base, other))
    first, second = (base, other) if base.cell.ordinal <= other.cell.ordinal else (other, base)
    moved = dict.fromkeys((*first.suspended, *second.suspended))
    for before, after in ((first.before, second.before), (first.after, second.after)):
        if before and after:
            # Then the kernel is the subject, including its effect on memory and disks.
            unlike = base.cell.subject.kernel != other.cell.subject.kernel
            left_out = dict.fromkeys(("kernel", "memory", "storage") if unlike else ())
            records = (_own(record) | left_out for record in (before, after))
            moved.update(dict.fromkeys(drift(*records, gauges=steady)))
    return list(moved)


def left_out(pairs: Sequence[Pair], step: str) -> list[str]:
    """The reason why each of a subject's pairs is not used for a step; empty if it is.

    Either the machine changed between its cells, or autovacuum came to its servers unlike often, in slices: what a
    statement costs goes with the rows that are dead. Where that is so in most pairs, it is what the builds do.
    """
    drifts = ["; ".join(pair_drift(*pair, step)) for pair in pairs]
    sides = [[cell.steps[step] for cell in pair] for pair in pairs]
    sliced = [place for place, both in enumerate(sides) if not drifts[place] and all(cell.slices for cell in both)]
    counts = {place: [cell.vacuums for cell in sides[place]] for place in sliced}
    unlike = {place: both for place, both in counts.items() if max(both) - min(both) > UNLIKE_VACUUMS * max(both)}
    if 2 * len(unlike) < len(sliced):
        for place, (ours, theirs) in unlike.items():
            drifts[place] = f"unlike work: autovacuum came to the tables {ours} and {theirs} times"
    return drifts


def steady(pairs: Sequence[Pair], step: str) -> list[Pair]:
    """The pairs that are used for a step."""
    return [pair for pair, why in zip(pairs, left_out(pairs, step), strict=True) if not why]


def work_reasons(base: StepResult, other: StepResult, repeat: int) -> list[str]:
    """Differences in the work of a pair: rows written, rows found per query, probes attached."""
    texts: list[str] = []
    for role in ("insert", "delete", "index"):
        ours, theirs = (step.totals.roles.get(role) for step in (base, other))
        for what, words in (("rows", "asked for"), ("rows_actual", "done")):
            one, two = (getattr(part, what) if part else 0 for part in (ours, theirs))
            if abs(one - two) > _tolerated(max(one, two), ours or theirs):
                texts.append(f"{role} rows {words} {one:,} vs {two:,}")
                break
    if base.totals.rows_indexed != other.totals.rows_indexed:
        texts.append(f"rows indexed {base.totals.rows_indexed:,} vs {other.totals.rows_indexed:,}")
    amounts = [step.figures["work"] for step in (base, other)]
    for name in amounts[0].keys() & amounts[1].keys():
        one, two = (amount[name] for amount in amounts)
        if abs(one - two) > UNEQUAL * max(one, two):
            texts.append(f"{name} {one:,.0f} vs {two:,.0f}")
    rates = [_rows_per_query(step) for step in (base, other)]
    if rates[0] is not None and rates[1] is not None and abs(rates[0] - rates[1]) > 0.01 * max(rates[0], rates[1]):
        texts.append(f"rows per query {rates[0]:.2f} vs {rates[1]:.2f}")
    return [f"unequal work in pair {repeat}: {text}" for text in texts]


def probe_reasons(base: StepResult, other: StepResult, repeat: int) -> list[str]:
    if set(base.totals.observers) == set(other.totals.observers):
        return []
    names = [", ".join(sorted(step.totals.observers)) or "none" for step in (base, other)]
    return [f"{DIFFERENT_PROBES} in pair {repeat}: {names[0]} vs {names[1]}"]


def release_of(run: RunResult) -> str:
    return str(value(run.manifest.environment, "kernel", "release") or "host")


def releases_of(run: RunResult) -> Iterable[str]:
    for label in dict.fromkeys(cell.subject.kernel for cell in run.manifest.cells):
        kernel = run.manifest.kernel(label)
        yield kernel.release if kernel else release_of(run)


def of_workload(record: dict[str, Any], member: str, of: type[T]) -> T:
    """A manifest's record of its workload as its type. Raises UserError if it is missing or malformed."""
    return converted(record.get(member), of, f"manifest.json: workload: {member}")


def checks(cells: ComparedCells, subject: Subject) -> tuple[Check, ...]:
    """All checks of a subject against its baseline, with their findings; those that failed come first."""
    base, name = cells.baseline_of(subject), cells.names[subject]
    pairs = cells.pairs(subject)
    sides = [cell for cell in cells.cells if cell.cell.subject in (base, subject)]
    results = [
        *_kernel(sides, base, subject),
        *kernel_differences.checks(cells.runs, base, subject),
        _binaries(cells.runs, (base, subject)),
        *_compared_settings(cells.runs, base, subject),
        *_further_settings(cells, base, subject),
        *_machine(pairs),
        *_gauges(sides),
        *_busy(sides),
        *_probes(pairs, subject),
        *_work(cells.steps, pairs),
    ]
    return tuple(Check(name, what, ok, text) for what, ok, text in sorted(results, key=lambda check: check[1]))


CheckResult = tuple[str, bool, str]  # the check, whether it is as it should be, in words


def _kernel(cells: Sequence[CellResult], base: Subject, subject: Subject) -> Iterable[CheckResult]:
    def releases(of: Subject) -> list[str]:
        values = {
            value(record, "kernel", "release") for c in cells if c.cell.subject == of for record in c.environments
        }
        return sorted(str(release) for release in values if release)

    ours, theirs = releases(base), releases(subject)
    if ours and theirs and base.kernel != subject.kernel:
        yield "kernel", True, f"{', '.join(ours)} vs {', '.join(theirs)}; compared on purpose"
    elif ours and theirs:
        both = sorted({*ours, *theirs})
        yield "kernel", len(both) == 1, ", ".join(both)


def _binaries(runs: Sequence[RunResult], subjects: Sequence[Subject]) -> CheckResult:
    for subject in subjects:
        if len(digests(runs, subject)) > 1:
            return "binaries", False, f"{subject.build} is not the same in all runs"
    # Source trees recorded no version before: such a run may be of any.
    engines = sorted({run.manifest.origin.engine for run in runs} - {"uninstalled"})
    if len(engines) > 1:
        return "binaries", False, f"measured by pgbed {' and '.join(engines)}"
    return "binaries", True, "the same in all cells" if len(runs) == 1 else "the same in all runs"


def _compared_settings(runs: Sequence[RunResult], base: Subject, subject: Subject) -> Iterable[CheckResult]:
    known = ([_settings(run, side) for side in (base, subject)] for run in runs)
    both = next(((dict(ours), dict(theirs)) for ours, theirs in known if ours is not None and theirs is not None), None)
    if both is None:
        return
    ours, theirs = both
    names = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
    shown = ", ".join(f"{name} {ours.get(name, 'unset')} vs {theirs.get(name, 'unset')}" for name in names)
    text = f"{len(names)} differ: {shown}"
    if not names:
        yield "settings", True, "the same"
    elif runs[0].manifest.external is not None:
        yield "settings", False, f"{text}; pgbed sets none on external servers"
    elif base.config != subject.config:
        yield "settings", True, f"{text}; compared on purpose"
    else:  # A setting that one of the versions does not know is left out there, and cannot be the same.
        yield "settings", all((name in ours) != (name in theirs) for name in names), text


def _further_settings(cells: ComparedCells, base: Subject, subject: Subject) -> Iterable[CheckResult]:
    """Settings that no config sets, but versions, initdb or servers do: the important ones by name."""
    texts = {
        difference.name: f"{difference.name} {setting_text(ours)} vs {setting_text(theirs)}"
        for difference in differences(cells)
        for ours, theirs in [(difference.values.get(cells.names[side]) for side in (base, subject))]
        if difference.reason != "config" and ours != theirs
    }
    named = [text for name, text in texts.items() if name in IMPORTANT]
    if named:
        more = f"{len(texts) - len(named)} more" if len(named) < len(texts) else ""
        yield "defaults", True, f"{len(texts)} differ: {', '.join(filter(None, (*named, more)))}"


def _machine(pairs: Sequence[Pair]) -> Iterable[CheckResult]:
    moved = [
        f"pair {base.cell.repeat}: {text}"
        for base, other in pairs
        for step in base.steps
        for text in pair_drift(base, other, step)
    ]
    for sentence in dict.fromkeys(moved):
        yield "machine", False, sentence
    if pairs and not moved:
        yield "machine", True, f"unchanged in {len(pairs)} pair{'' if len(pairs) == 1 else 's'}"


def _gauges(cells: Sequence[CellResult]) -> Iterable[CheckResult]:
    """The change of each gauge; temperatures, which a load moves, separately as cells began and as they ended."""
    before, after = ([record for cell in cells if (record := getattr(cell, side))] for side in ("before", "after"))
    for gauge in GAUGES:
        if (gauge.section, gauge.key) not in SHOWN:
            continue
        name, unit = SHOWN[gauge.section, gauge.key]
        sides = (before, after) if gauge.key in TEMPERATURES else ([*before, *after],)
        spans = [span for records in sides if (span := _span(gauge, records)) is not None]
        texts = [" to ".join(dict.fromkeys((f"{low:.0f}", f"{high:.0f}"))) for low, high, _ in spans]
        if len(spans) > 1:
            yield name, all(ok for *_, ok in spans), f"{texts[0]} {unit} before cells, {texts[1]} after"
        elif spans:
            yield name, spans[0][2], f"{texts[0]} {unit}"


def _span(gauge: Gauge, records: Sequence[Environment]) -> tuple[float, float, bool] | None:
    """The lowest and highest value of a gauge, and whether that is acceptable; None without any."""
    values = [reading for record in records if (reading := number(record, gauge.section, gauge.key)) is not None]
    if not values or min(values) <= 0:
        return None
    governors = {value(record, "cpu", "governor") for record in records}
    idle = gauge.key == "mhz" and not governors <= set(STEADY_GOVERNORS)
    return min(values), max(values), idle or not gauge.exceeds(min(values), max(values))


def _busy(cells: Sequence[CellResult]) -> Iterable[CheckResult]:
    shares = [number(record, "state", "busy_share") for cell in cells for record in cell.environments]
    known = [share for share in shares if share is not None]
    if known:
        yield "other load", max(known) <= BUSY_LIMIT, f"at most {max(known):.0%} of the CPUs"


def _probes(pairs: Sequence[Pair], subject: Subject) -> Iterable[CheckResult]:
    probes: dict[str, set[str]] = {}  # by step
    for base, other in pairs:
        for name in base.steps.keys() & other.steps.keys():
            for step in (base.steps[name], other.steps[name]):
                probes.setdefault(name, set()).add(" ".join(sorted(step.totals.observers)) or "none")
    text = ", ".join(sorted(set().union(*probes.values())))
    if subject.control == PROBED and probes:
        yield "probes", True, f"{text}; their cost is compared"
    elif probes:
        yield "probes", all(len(names) == 1 for names in probes.values()), text


def _work(steps: Sequence[str], pairs: Sequence[Pair]) -> Iterable[CheckResult]:
    unequal = dict.fromkeys(
        f"{step}: {reason}"
        for step in steps
        for base, other in pairs
        if step in base.steps and step in other.steps
        for reason in work_reasons(base.steps[step], other.steps[step], base.cell.repeat)
    )
    if pairs:
        yield "work", not unequal, "; ".join(unequal) or "equal in all pairs"


def _tolerated(rows: int, role: RoleTotals | None) -> float:
    """The number of rows that may be missing: undrained streams lose their queue of eight and one in flight each."""
    per_statement = role.rows / role.statements if role and role.statements else 0.0
    return max(0.005 * rows, 10 * per_statement)


def _unlike(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Differences of two workloads: (what, ours, theirs); keys that only one has are ignored."""
    for key in ("name", "clients"):
        if key in ours and key in theirs and ours[key] != theirs[key]:
            yield {"name": "workload"}.get(key, key), str(ours[key]), str(theirs[key])
    # As in effect: the same whether it was requested or is the workload's own default.
    identities = [of_workload(part, "identity", dict[str, Any]) for part in (ours, theirs)]
    for key in identities[0]:
        if key in identities[1] and identities[0][key] != identities[1][key]:
            values = [str(identity[key] or "default") for identity in identities]
            yield key.replace("_", " "), values[0], values[1]
    steps = ours.get("steps", []), theirs.get("steps", [])
    names = [[step["name"] for step in part] for part in steps]
    if names[0] != names[1]:
        yield "steps", " ".join(names[0]), " ".join(names[1])
    for step, other in zip(*steps, strict=False):
        for key in step:
            if key in other and step[key] != other[key]:
                yield f"{key.replace('_', ' ')} of {step['name']}", str(step[key]), str(other[key])


def _own(environment: Environment) -> Environment:
    """Leave out what others do on the machine: that is noise, which shows in the interval, and a finding of its own."""
    state, client = environment.get("state") or {}, environment.get(CLIENT)
    quiet = {**environment, "state": {key: value for key, value in state.items() if key != "busy_share"}}
    if client and isinstance(client.get("state"), dict):
        quiet[CLIENT] = {**client, "state": {**client["state"], "busy_share": None}}
    return quiet


def _lasting(environment: Environment) -> Environment:
    lasting = {
        section: {key: value for key, value in record.items() if key not in PASSING.get(section, ())}
        for section, record in environment.items()
        if isinstance(record, dict) and record and section not in ("state", CLIENT)
    }
    client = environment.get(CLIENT)
    return lasting | ({CLIENT: _lasting(client)} if client else {})


def digests(runs: Iterable[RunResult], subject: Subject) -> set[str]:
    return {build.digest for run in runs for build in run.manifest.builds if build.label == subject.build}


def _settings(run: RunResult, subject: Subject) -> tuple[tuple[str, str], ...] | None:
    config = run.manifest.configs.get(config_key(subject.config, subject.build))
    return (*config.settings, *((f"device {name}", value) for name, value in config.device)) if config else None


def _rows_per_query(step: StepResult) -> float | None:
    roles = step.totals.of_kind("query")
    statements = sum(role.statements for role in roles)
    return sum(role.rows_actual for role in roles) / statements if statements >= 1000 else None
