"""Prerequisites of a plan on this machine: fetched, installed or refused before anything is built."""

from __future__ import annotations

from pathlib import Path

from engine.builds import nix
from engine.builds.nix import Progress
from engine.core.kernel import HOST
from engine.features import with_options
from engine.guest import tools
from engine.plan.request import Request
from engine.system import packages
from engine.tracing import selection
from engine.tracing.selection import Selection
from probes.requirements import BPF


def provide(request: Request, probes: Selection, progress: Progress, roots: Path) -> None:
    """Fetch or install what the plan needs regardless of its builds. Raises UserError if that is impossible."""
    if any(choice.probe in BPF for choice in probes.choices):
        _provide_bpftrace(progress, roots)
    if HOST in request.kernels:
        selection.admit(probes, ())
    if request.in_guests:
        selection.admit(probes, (), selection.in_guest())
        tools.provide(progress)
        tools.find(progress, roots)
    for feature, options in with_options(request.features):
        feature.provide(options, progress)


def _provide_bpftrace(progress: Progress, roots: Path) -> None:
    nix.fetch_bpftrace(progress, roots)
    if selection.facts().bpftrace is None:
        packages.install({"bpftrace": "bpftrace"}, progress)
