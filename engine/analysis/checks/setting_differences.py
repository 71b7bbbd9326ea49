"""The settings that differ between subjects, whatever the reason, those known to matter for their steps first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.analysis.cells.compared_cells import ComparedCells
from engine.analysis.cells.run_results import ServerSettings
from engine.core.model import Subject, config_key
from engine.results.section import WORDS, Column, Figure, Section, columns, row

Reason = Literal["config", "default", "version", "initdb", "server"]
REASONS: dict[Reason, str] = {  # in the order in which they are shown
    "config": "config",
    "default": "other default",
    "version": "not in all versions",
    "initdb": "initdb's choice",
    "server": "server's choice",
}
UNRECORDED = "default"  # a value of a run that recorded no defaults
UNSET = "as it was"  # the device, where a config does not set it
_ALL: tuple[str, ...] = ()
_READS = ("query", "point", "range", "aggregate", "scan")
_WRITES = ("load", "write")
# Steps of other kinds, such as transactions, tasks or statements of the user's, may do all of it.
_ONE_THING = frozenset({*_READS, *_WRITES, "index"})
# By setting: the kinds of steps for which it matters.
IMPORTANT: dict[str, tuple[str, ...]] = {
    "autovacuum_max_parallel_workers": _WRITES,
    "autovacuum_vacuum_cost_delay": _WRITES,
    "autovacuum_vacuum_cost_limit": _WRITES,
    "backend_flush_after": _WRITES,
    "block_size": _ALL,
    "checkpoint_completion_target": _WRITES,
    "checkpoint_timeout": _WRITES,
    "data_checksums": _ALL,
    "debug_assertions": _ALL,
    "debug_io_direct": _ALL,
    "default_toast_compression": _WRITES,
    "effective_cache_size": _READS,
    "effective_io_concurrency": (*_READS, "index"),
    "enable_eager_aggregate": _READS,
    "enable_partitionwise_aggregate": _READS,
    "fsync": _WRITES,
    "full_page_writes": _WRITES,
    "hash_mem_multiplier": _READS,
    "huge_pages": _ALL,
    "huge_pages_status": _ALL,
    "io_combine_limit": (*_READS, "index"),
    "io_max_combine_limit": (*_READS, "index"),
    "io_max_concurrency": (*_READS, "index"),
    "io_max_workers": (*_READS, "index"),
    "io_method": _ALL,
    "io_min_workers": (*_READS, "index"),
    "io_workers": (*_READS, "index"),
    "jit": _READS,
    "maintenance_io_concurrency": ("index", "write"),
    "maintenance_work_mem": ("index", "write"),
    "max_locks_per_transaction": _ALL,
    "max_parallel_maintenance_workers": ("index",),
    "max_parallel_workers": (*_READS, "index"),
    "max_parallel_workers_per_gather": _READS,
    "max_wal_size": _WRITES,
    "min_wal_size": _WRITES,
    "plan_cache_mode": _READS,
    "random_page_cost": _READS,
    "shared_buffers": _ALL,
    "shared_preload_libraries": _ALL,
    "synchronous_commit": _WRITES,
    "timing_clock_source": _ALL,
    "track_io_timing": _ALL,
    "wal_buffers": _WRITES,
    "wal_compression": _WRITES,
    "wal_level": (*_WRITES, "index"),
    "wal_segment_size": _WRITES,
    "wal_sync_method": _WRITES,
    "work_mem": (*_READS, "index"),
}
# Settings that initdb has written into the cluster itself and into no file.
OF_INITDB = frozenset({"data_checksums", "wal_segment_size"})
# Of the version itself, set by pgbed, or derived from other settings.
LEFT_OUT = frozenset({
    "cluster_name", "data_directory_mode", "in_hot_standby", "listen_addresses", "log_autoanalyze_min_duration",
    "log_line_prefix", "port",
    "server_version", "server_version_num", "shared_memory_size", "shared_memory_size_in_huge_pages",
    "num_os_semaphores", "unix_socket_directories", "unix_socket_permissions",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that two subjects have different values of, by subject; null where a server does not know it.

    `sources` are pg_settings.source. `matters` are the kinds of steps in this comparison for which it is known to
    matter.
    """

    name: str
    reason: Reason
    values: dict[str, str | None]
    sources: dict[str, str]
    matters: tuple[str, ...] = ()


def section(cells: ComparedCells, settings: Sequence[SettingDifference]) -> Section:
    """A row each, but settings that some servers do not know, and others leave alone, share one."""
    rows = []
    gathered: dict[str, list[str]] = {}  # by the servers that do not know it
    for setting in settings:
        names = _owners(cells, setting)
        if setting.reason == "version" and not setting.matters and set(setting.sources.values()) == {"default"}:
            without = dict.fromkeys(names[subject] for subject, value in setting.values.items() if value is None)
            gathered.setdefault(", ".join(without), []).append(setting.name)
        else:
            by = {names[subject]: value for subject, value in setting.values.items()}
            rows.append(row(setting.name, REASONS[setting.reason], Figure(None, by=by)))
    for servers, more in gathered.items():
        unknown = f"unknown to {servers}: {', '.join(more)}"
        rows.append(row(f"{len(more)} more", REASONS["version"], unknown))
    return Section("settings", "Settings that differ", columns("setting", "by", Column("where", WORDS)), tuple(rows))


def _owners(cells: ComparedCells, difference: SettingDifference) -> Mapping[str, str]:
    """Owners by subject: the name of its build, or of its config, if the value depends on that alone."""
    subjects = {name: subject for subject, name in cells.names.items() if name in difference.values}
    for part in ("build", "config"):
        names = {name: str(getattr(subject, part)) for name, subject in subjects.items()}
        values = {(names[subject], value) for subject, value in difference.values.items()}
        if len(values) == len(set(names.values())):
            return names
    return {name: name for name in difference.values}


def differences(cells: ComparedCells) -> tuple[SettingDifference, ...]:
    by_subject: dict[Subject, ServerSettings] = {}
    for cell in cells.cells:
        if cell.settings.values and not cell.cell.subject.control:
            by_subject.setdefault(cell.cell.subject, cell.settings)
    settings_of = {cells.names[subject]: settings for subject, settings in by_subject.items()}
    judged = (step for cell in cells.cells for step in cell.steps.values() if step.totals.primary_metric is not None)
    kinds = dict.fromkeys(step.kind for step in judged)
    names = {name for settings in settings_of.values() for name in settings.values} - LEFT_OUT
    compared = [
        SettingDifference(
            name,
            _reason(name, values, settings_of, _configured(cells)),
            values,
            {
                subject: settings.sources.get(name, "default")
                for subject, settings in settings_of.items()
                if values[subject] is not None
            },
            tuple(kind for kind in kinds if _matters(name, kind)),
        )
        for name in names
        if len(set((values := {subject: _value(name, settings) for subject, settings in settings_of.items()}).values()))
        > 1
    ]
    compared += _of_devices(cells, tuple(settings_of), tuple(kinds))
    order = list(REASONS)
    return tuple(sorted(compared, key=lambda one: (not one.matters, order.index(one.reason), one.name)))


def _of_devices(cells: ComparedCells, subjects: Sequence[str], kinds: tuple[str, ...]) -> Iterable[SettingDifference]:
    """Settings of the device and of memory by config, which matter for all steps."""
    devices: dict[str, dict[str, str]] = {name: {} for name in subjects}
    for run in cells.runs:
        for subject, name in cells.names.items():
            config = run.manifest.configs.get(config_key(subject.config, subject.build))
            if name in devices and config is not None and config.device:
                devices[name] = dict(config.device)
    for setting in sorted({setting for values_of in devices.values() for setting in values_of}):
        values: dict[str, str | None] = {name: values_of.get(setting, UNSET) for name, values_of in devices.items()}
        if len(set(values.values())) > 1:
            yield SettingDifference(f"device {setting}", "config", values, dict.fromkeys(values, "config"), kinds)


def _matters(name: str, kind: str) -> bool:
    return name in IMPORTANT and (kind in (IMPORTANT[name] or (kind,)) or kind not in _ONE_THING)


def _value(name: str, settings: ServerSettings) -> str | None:
    return settings.values.get(name, None if settings.defaults else UNRECORDED)


def _configured(cells: ComparedCells) -> frozenset[str]:
    """Names that a config or --set gives a value."""
    configs = (
        run.manifest.configs.get(config_key(subject.config, subject.build))
        for run in cells.runs
        for subject in cells.names
    )
    return frozenset(name for config in configs if config is not None for name, _ in config.settings)


def _reason(
    name: str, values: Mapping[str, str | None], settings_of: Mapping[str, ServerSettings], configured: frozenset[str]
) -> Reason:
    if name in configured:
        return "config"
    if None in values.values():
        return "version"
    if name in OF_INITDB:
        return "initdb"
    sources = {settings.sources.get(name, "default") for settings in settings_of.values()}
    if sources == {"default"}:  # a server may choose the value of a default such as -1
        built_in = {settings.defaults.get(name, UNRECORDED) for settings in settings_of.values()}
        return "default" if len(built_in) > 1 else "server"
    return "initdb" if sources <= {"default", "configuration file"} else "server"
