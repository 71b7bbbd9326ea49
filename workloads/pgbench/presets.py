"""Questions that are asked again and again, as named plans: numbers of clients, settings, and what was published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    """A named plan. `settings` go on top of every config; `question` is what it answers.

    `published` is a table that it can be set beside: `source` says of what, `names` its columns, `rates` its rows by
    the number of clients. They are of other machines: only their ratios say something here.
    """

    name: str
    question: str
    clients: tuple[int, ...]
    settings: tuple[str, ...]
    source: str
    names: tuple[str, ...]
    rates: Mapping[int, tuple[int, ...]]

    def record(self, workload: str, steps: list[str]) -> dict[str, Any]:
        """Its row among the named plans that there are."""
        rates = {str(clients): list(row) for clients, row in self.rates.items()}
        return {
            "preset": self.name,
            "workload": workload,
            "question": self.question,
            "steps": steps,
            "probes": [],
            "published": {"source": self.source, "names": list(self.names), "rates": rates},
        }


# A report to the kernel list. One process of pgbench on a Unix socket, scale 10: all of it fits into shared_buffers, so
# that nothing but processes and their scheduling is measured.
SELECT_SCALING = Preset(
    name="select-scaling",
    question="what does the kernel make of read-only throughput as the number of clients rises?",
    clients=(1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40, 50),
    settings=("shared_buffers=256MB",),
    source=(
        "May 2008, AMD X2 4600+, median of 3; on a quad-core 2.6.24.4 had two modes at 10 and 15 clients (10,902 and "
        "30,330 tx/s)"
    ),
    names=("2.6.9", "2.6.22", "2.6.24", "2.6.25"),
    rates={
        1: (11173, 11052, 10526, 10700),
        2: (18035, 16352, 14447, 10370),
        3: (19365, 15414, 17784, 9403),
        4: (18975, 14290, 16832, 8882),
        5: (18652, 14211, 16356, 8527),
        6: (17830, 13291, 16763, 9473),
        8: (15837, 12374, 15343, 9093),
        10: (14829, 11218, 10732, 9057),
        15: (14053, 11116, 7460, 7113),
        20: (13713, 11412, 7171, 7017),
        30: (13454, 11191, 7049, 6896),
        40: (13103, 11062, 7001, 6820),
        50: (12311, 11255, 6915, 6797),
    },
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in (SELECT_SCALING,)}
