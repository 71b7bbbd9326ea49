"""Comparisons of external servers: the verdicts that they allow, and the warnings that they require."""

from __future__ import annotations

from engine.analysis.cells.compared_cells import ComparedCells
from engine.core.model import Manifest, config_key

NO_VERDICT = "others may have used these servers (run with --accept-foreign-load for verdicts)"
SETTINGS_NAMED = 8


def unjudged(cells: ComparedCells) -> bool:
    """Whether verdicts are withheld because the user has not accepted that others may have used the servers."""
    manifests = [run.manifest.external for run in cells.runs]
    return any(attached is not None and not attached.accept_foreign_load for attached in manifests)


def findings(cells: ComparedCells) -> list[str]:
    """Warnings to go with the figures, a sentence each; none for pgbed's own servers."""
    attached = [run.manifest for run in cells.runs if run.manifest.external is not None]
    sentences = [sentence for manifest in attached for sentence in _of_run(manifest)]
    if attached and not unjudged(cells):
        sentences.append("verdicts were requested although others may have used these servers meanwhile")
    return sentences


def _of_run(manifest: Manifest) -> list[str]:
    assert manifest.external is not None
    servers = ", ".join(f"{build.label} ({build.server})" for build in manifest.builds)
    sentences = [
        f"external servers: {servers}; not visible from outside: CPU, run queue, memory and stops of "
        "their processes, their machines and devices, their logs (checkpoints, autovacuum, errors)",
        "WAL and statistics of a whole server include the work of its other clients; causes of stalls go by "
        "wait events alone",
    ]
    if not manifest.external.checkpoint:
        sentences.append("no CHECKPOINT was done before steps on any server: on some of them the role may not")
    if manifest.external.scratch_database:
        sentences.append(f"all cells worked in database {manifest.external.scratch_database}, emptied after each")
    base = dict(manifest.configs[config_key(manifest.cells[0].subject.config, manifest.design.base)].settings)
    for build in manifest.builds:
        configured = dict(manifest.configs[config_key(manifest.cells[0].subject.config, build.label)].settings)
        names = sorted(name for name in {*base, *configured} if base.get(name) != configured.get(name))
        if names:
            more = f" and {len(names) - SETTINGS_NAMED} more" if len(names) > SETTINGS_NAMED else ""
            values = ", ".join(
                f"{name} {base.get(name, 'default')} and {configured.get(name, 'default')}"
                for name in names[:SETTINGS_NAMED]
            )
            sentences.append(f"{manifest.design.base} and {build.label} have different settings: {values}{more}")
    return sentences
