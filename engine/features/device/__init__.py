"""Device: settings of the block device under a cluster and of memory, as part of a config, while a cell runs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import UserError
from engine.core.model import Config, Manifest
from engine.features.feature import Feature, Nothing
from engine.host import kernel_settings
from engine.host.kernel_settings import Knob, Settings
from engine.host.machine_counters import device_of

if TYPE_CHECKING:
    from engine.builds.nix import Progress
    from engine.plan.prepare import Draft
    from engine.plan.request import Request

MEMORY = {
    "transparent_hugepage": Path("/sys/kernel/mm/transparent_hugepage/enabled"),
    "nr_hugepages": Path("/proc/sys/vm/nr_hugepages"),
}
KNOBS = {
    "read_ahead_kb": Knob("storage", "read_ahead_kb", range(65537)),
    "transparent_hugepage": Knob("memory", "transparent_huge_pages", words=("always", "madvise", "never")),
    "nr_hugepages": Knob("memory", "huge_pages", range((1 << 24) + 1)),
}


class DeviceFeature(Feature):
    name, knobs = "device", KNOBS

    def check(self, request: Request, options: Nothing) -> None:
        from engine.postgres import configs

        for spec in configs.resolve(request.configs) if request.in_guests else ():
            if spec.device:
                raise UserError(f"config '{spec.name}' sets devices or memory of this machine: not with --kernel")

    def prepare(self, draft: Draft, options: Nothing) -> Generator[str, None, Nothing]:
        for config in {config.name: config for config in draft.configs.values() if config.device}.values():
            kernel_settings.check(_settings(config, draft.out))
            values = ", ".join(f"{name}={value}" for name, value in config.device)
            yield f"config {config.name}: {values} while a cell runs"
        return Nothing()

    def check_resumed(self, part: Nothing, manifest: Manifest, run: Path, progress: Progress) -> None:
        from engine.postgres import configs

        for config in manifest.configs.values():
            configs.check_device(config.device, f"config '{config.name}' of the run")
            kernel_settings.check(_settings(config, run))

    def around_cells(self, part: Nothing, config: Config, run: Path) -> AbstractContextManager[None]:
        return kernel_settings.changed(_settings(config, run))


def _settings(config: Config, path: Path) -> Settings:
    """The files of a config's settings, of the device under a path. Raises UserError for a path without one."""
    return {name: (MEMORY.get(name) or _of_device(name, path), value) for name, value in config.device if name in KNOBS}


def _of_device(name: str, path: Path) -> Path:
    device = device_of(next(parent for parent in (path, *path.parents) if parent.exists()))
    if device is None:
        raise UserError(f"{name}: {path} is not on a block device that can be tuned")
    return Path("/sys/block", device, "queue", name)


FEATURE = DeviceFeature()
