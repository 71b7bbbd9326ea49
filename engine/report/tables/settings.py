"""The settings that differ between subjects, those that are known to matter first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.results.comparison import Comparison
from engine.results.section import WORDS, Column, Section, columns, row
from engine.results.setting_difference import REASONS, SettingDifference


def differences(comparison: Comparison) -> Iterable[Section]:
    """Yield the section: a row each, but settings that some servers do not know, and others leave alone, together."""
    rows = []
    gathered: dict[str, list[str]] = {}  # by the servers that do not know it
    for each in comparison.settings:
        names = _names(comparison, each)
        if each.reason == "version" and not each.matters and set(each.sources.values()) == {"default"}:
            without = dict.fromkeys(names[subject] for subject, value in each.values.items() if value is None)
            gathered.setdefault(", ".join(without), []).append(each.name)
        else:
            rows.append(row(each.name, REASONS[each.reason], each.text(names)))
    for servers, settings in gathered.items():
        unknown = f"unknown to {servers}: {', '.join(settings)}"
        rows.append(row(f"{len(settings)} more", REASONS["version"], unknown))
    yield Section("settings", "Settings that differ", columns("setting", "by", Column("where", WORDS)), tuple(rows))


def _names(comparison: Comparison, difference: SettingDifference) -> Mapping[str, str]:
    """By subject: the name of its build, or of its config, if the value depends on that alone."""
    for part in ("build", "config"):
        names = {name: str(getattr(comparison.subject(name), part)) for name in difference.values}
        values = {(names[subject], value) for subject, value in difference.values.items()}
        if len(values) == len(set(names.values())):
            return names
    return {name: name for name in difference.values}
