"""A figure of a subject against its base's: the metrics that are compared, the ratio, its interval and verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["faster", "slower", "same", "no slower", "no faster", "undecided", "withheld", "none"]
Unit = Literal["machine", "boot"]
CHANGED: tuple[Verdict, ...] = ("faster", "slower")
KNOWN: tuple[Verdict, ...] = (*CHANGED, "same")  # more pairs add nothing but precision
ANSWERS: tuple[Verdict, ...] = (*KNOWN, "no slower", "no faster")
UNCLEAR: tuple[Verdict, ...] = ("no slower", "no faster", "undecided")
# How a verdict is shown: as an arrow (better, worse), or by its sign.
SIGNS: dict[Verdict, str] = {
    "faster": "better", "slower": "worse", "same": "=", "withheld": "?", "none": " ", **dict.fromkeys(UNCLEAR, "~"),
}  # fmt: skip
RATE, TIME = "rate_per_s", "time_s"
PRIMARY_METRICS = (RATE, TIME)  # a step has one of them
# These have verdicts, too; all other metrics are causes.
CPU = "server_cpu_us_per_op"
INSTRUCTIONS = "instructions_per_op"
COSTS: dict[str, dict[Verdict, str]] = {  # nothing takes longer by them: there is more of them, or less
    name: {"faster": "less", "slower": "more", "no slower": "no more", "no faster": "no less"}
    for name in (CPU, INSTRUCTIONS)
}
DELETE_PLAN = "delete_plan_us"  # per DELETE
# Quantiles of the response time of the statements that the primary metric counts, and the longest one.
LATENCIES = {"latency_p50_us": "p50", "latency_p95_us": "p95", "latency_p99_us": "p99", "latency_max_us": "longest"}
# Metrics with verdicts besides the primary ones, and the family in which each is judged.
FAMILIES = {name: name for name in (CPU, INSTRUCTIONS, DELETE_PLAN)} | dict.fromkeys(LATENCIES, "latency")
DURATIONS = frozenset({TIME, "user_s", "system_s", "floor_s"})  # figures that are shown with a unit of time
MIN_PAIRS = 3  # fewer give no verdict, even if there is an interval


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that is compared, of which `more` or `less` is better."""

    name: str
    title: str
    better: Literal["more", "less"] = "more"


@dataclass(frozen=True, slots=True)
class UnitEffect:
    """Differences between machines, or between boots of one machine (`unit`), in a ratio with pairs from several.

    `ratios` are each unit's mean; `tau` is the scatter of the units' log ratios beyond the scatter of their pairs;
    `disagrees` names units that differ significantly from the others, by the margin or more.
    """

    ratios: dict[str, float]
    tau: float
    disagrees: tuple[str, ...] = ()
    unit: Unit = "machine"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One subject against its base (a control against its original) in one metric of one step.

    `low` and `high` bound it with 95% confidence. `verdict` is the user's view: `slower` for less throughput and for
    more CPU per operation, too (printed as `more`: see `COSTS`); `none` is for a single pair, nothing to judge, or a
    cause, which has no verdict. `flagged` marks a cause that differs by the margin or more, tested among all causes.
    `reasons`: why the verdict was withheld, or why there is no ratio. `differs`: whether the side of 1 is certain,
    always with `faster` and `slower`, and sometimes with `same`. `among` is the number of ratios among which less is
    certain than the interval alone shows. `more_pairs` would decide an `undecided`, `no slower` or `no faster` ratio
    with 80% power. `joint` are the bounds if it is `faster` or `slower`: at most 5% of those quoted are wrong, although
    only these are quoted.

    `visible_effect` is the smallest effect, as a fraction, that these pairs detect with 80% power. `noise_floor` is how
    far the base strays from itself in this step and metric, if there was an A/A control. `left_out`: the pairs that are
    not part of it, and why. `machines` is set for pairs from several machines, or from three boots or more of one: the
    interval then covers machines, or boots of this one.
    """

    step: str
    subject: str
    metric: str
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    verdict: Verdict
    control: str = ""
    reasons: tuple[str, ...] = ()
    more_pairs: int | None = None
    better: bool | None = None  # the side of 1 on which the ratio is, as the user sees it
    noise_floor: float | None = None
    left_out: tuple[str, ...] = ()
    flagged: bool = False
    visible_effect: float | None = None
    machines: UnitEffect | None = None
    differs: bool = False
    among: int | None = None
    joint: tuple[float, float] | None = None

    @property
    def sign(self) -> str:
        """`better` or `worse`, which are shown as arrows, or the sign of the verdict: see `SIGNS`."""
        if self.flagged:
            return "better" if self.better else "worse"
        return SIGNS[self.verdict]

    @property
    def remarks(self) -> tuple[str, ...]:
        """The reason why the verdict was withheld, and which pairs are left out."""
        return (*self.reasons, *self.left_out)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The interval to show: joint bounds if faster or slower; None for a single pair."""
        return self.joint or (None if self.low is None or self.high is None else (self.low, self.high))

    @property
    def effect(self) -> str:
        """`-3.1% [-4.4, -1.7]`; `?` without an interval."""
        if self.ratio is None or self.bounds is None:
            return "?"
        low, high = self.bounds
        return f"{self.ratio - 1:+.1%} [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]"

    @property
    def verdict_text(self) -> str:
        """The verdict: `slower`, for a cost `more`; `same, a little slower`; `undecided among 10, +3 pairs`"""
        words = COSTS.get(self.metric, {})
        if self.flagged:
            return "flagged"
        if self.verdict == "none":
            return ""
        among = f" among {self.among}" if self.among else ""
        more = f", +{self.more_pairs} pair{'s' if self.more_pairs != 1 else ''}" if self.more_pairs else ""
        if self.verdict == "same" and self.differs:
            sign: Verdict = "faster" if self.better else "slower"
            more = f", a little {words.get(sign, sign)}"
        return f"{words.get(self.verdict, self.verdict)}{among}{more}"
