"""A run whose every word was chosen to harm who reads it: escape sequences, markup, reversed text, broken lines."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from engine.core.model import config_key

EVIL = "\x1b[2J\x1b]0;owned\x07[/red][bold]\u202e\x9b\nnext\r"
# Values that would be refused, or mean another run.
KEPT = ("schema", "created", "kind", "arm", "run", "interleave", "stop", "counters")


def poison(run: Path) -> Path:
    """Rewrites a run's manifest, journal and tags, and the name of its folder; returns where it is now."""
    manifest = json.loads((run / "manifest.json").read_text())
    names = {build["label"]: build["label"] + EVIL for build in manifest["builds"]}
    names |= {cell["id"]: cell["id"] + EVIL for cell in manifest["cells"]}
    for subject in [cell["subject"] for cell in manifest["cells"]]:
        names[config_key(subject["config"], subject["build"])] = config_key(subject["config"], subject["build"] + EVIL)
    (run / "manifest.json").write_text(json.dumps(_poisoned(manifest, names)))
    (run / "tags.json").write_text(json.dumps({"tags": ["noisy" + EVIL]}))
    with sqlite3.connect(run / "journal.db") as journal:
        journal.execute("UPDATE attempt SET cell = cell || ?, reason = ?", (EVIL, EVIL))
        journal.execute("UPDATE role_second SET wait_event = 'IO:' || ?", (EVIL,))
        journal.execute("UPDATE event SET role = role || ? WHERE kind <> 'stall'", (EVIL,))
        for id, data in journal.execute("SELECT id, data FROM event").fetchall():
            journal.execute("UPDATE event SET data = ? WHERE id = ?", (json.dumps(_words(json.loads(data))), id))
    return run.rename(run.with_name(f"{run.name}[red]\x1b[2J\u202e"))


def _poisoned(value: Any, names: dict[str, str], key: str = "") -> Any:
    if key == "route":  # addresses and hosts that are none are refused
        return value
    if isinstance(value, dict):
        return {names.get(name, name): _poisoned(part, names, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_poisoned(item, names, key) for item in value]
    if not isinstance(value, str) or key in KEPT:
        return value
    return names.get(value, value if key in ("config", "kernel", "name", "base", "workload") else value + EVIL)


def _words(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: part if name in ("role", "kind") else _words(part) for name, part in value.items()}
    return (
        [_words(item) for item in value]
        if isinstance(value, list)
        else value + EVIL
        if isinstance(value, str)
        else value
    )
