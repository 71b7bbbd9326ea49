"""What the figures and short words on the screens mean: `?` explains those that are on the screen in front."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A word as it is shown, and its meaning. `pattern` finds it on a screen where that is not the word itself."""

    word: str
    meaning: str
    pattern: str = ""

    def on(self, text: str) -> bool:
        """Whether it is on a screen with this text."""
        return re.search(self.pattern or rf"(?<![\w%]){re.escape(self.word)}(?![\w%])", text) is not None


GLOSSARY = (
    # rates and what is compared
    Entry("ops/s", "operations per second: rows of an insert or delete, queries of a query connection",
          r"\b(ops|ins|rows|queries|q|tps|upd|del)/s\b|\brate/s\b"),
    Entry("us/op", "microseconds of CPU that one operation (a row or a query) cost, here of the server",
          r"\bus/(op|row|query)\b"),
    Entry("base", "the build that others are compared with, the first one named; its figure of the same step",
          r"\bbase\b"),
    Entry("med60", "median of the rate over the last 60 seconds, so that one stall does not move it",
          r"\bmed60\b|\bmedian\b"),
    Entry("0.950, 95% CI", "ratio to the base, then the interval that holds the true one in 95 of 100 such runs; "
          "▼ is worse: less done, or more cost",
          r"95% CI|[▲▼] ?\d|\d\.\d{3} \d?\.\d+-\d"),
    Entry("margin", "the smallest difference that is called faster or slower; within it two builds are the same"),
    Entry("8 more pairs", "how many more pairs of cells would probably settle whether there is a difference",
          r"\d+ more pairs?"),
    Entry("pair", "one cell of the base and one of another build, run next to each other", r"\bpairs?\b"),
    Entry("ABBA", "the order of cells: base, other, other, base; slow drift of the machine then cancels out"),
    Entry("CV", "coefficient of variation: how far repeats of one cell differ, as a share of their mean",
          r"\bCV\b|\bvary by\b"),
    Entry("bimodal", "repeats fall into two groups with a gap between, such as two plans: no mean stands for both"),
    Entry("A/A", "the base compared with itself: the noise of this machine, below which nothing can be seen"),
    Entry("inconclusive", "neither a difference nor sameness is certain enough among all steps"),
    Entry("withheld", "no verdict, because cells are not comparable: the machine drifted, or the work was unequal"),
    Entry("drift", "the machine changed between cells: clock, temperature, other load", r"\bdrift(ed)?\b"),
    # the run
    Entry("cell", "one build under one config, once: a fresh cluster and all steps", r"\bcells?\b"),
    Entry("repeat", "how often each cell is run; a verdict needs 3", r"\brepeats?\b|\brep\b|\br\d/\d"),
    Entry("slices", "servers are up side by side and driven in turns of some milliseconds: sees smaller differences",
          r"\bslices?\b"),
    Entry("block", "some slices in which each server had its turn once; each gives one ratio", r"\bblocks?\b"),
    Entry("step", "one part of a workload: l.i0 loads, l.x builds indexes, l.i1 writes, qr100 queries while 100 rows/s "
          "are written", r"\bstep\b|\bl\.(i0|x|i1|i2)\b|\bq[rp]\d+\b"),
    Entry("SLA", "share of the wanted insert rate that a query step kept up; below 95 % its result does not count",
          r"\bSLA\b|\bsla\b"),
    Entry("ETA", "when the step will have ended, at its rate so far"),
    Entry("probed", "a cell with probes attached, which cost something themselves; see Probes"),
    # a second of Live
    Entry("p50, p99", "half, and 99 of 100, of the responses of the last second were faster than this (ms)",
          r"\bp50\b|\bp99\b"),
    Entry("max ms", "the longest response, in milliseconds, of the last second"),
    Entry("age s", "how long the statement in flight has been running now, in seconds"),
    Entry("in flight", "sent and not answered yet: how long each role has waited so far"),
    Entry("cpu%", "of one CPU, used by the role's backend (server: by all its processes)", r"\bcpu ?%"),
    Entry("runq%", "share of the time that a process was ready to run and waited for a CPU",
          r"\brunq us\b|\brunq ?%|\brun[ -]queue\b|\brunq\b"),
    Entry("wait", "what the backend waited for when looked at (pg_stat_activity); ClientRead: its client",
          r"\bwait +p50|\bwait[- ]event|\bClientRead\b"),
    Entry("x10", "in place of a pid: so many connections, or processes of the server", r" x\d+ "),
    Entry("unseen", "share of the server's CPU time of processes that had ended before they were looked at",
          r"\bunseen\b"),
    Entry("ckpt", "checkpoints: how many in this step, when the last one was", r"\bckpt\b|\bcheckpoints?\b"),
    Entry("avac", "autovacuum: how often in this step, when last", r"\bavac\b|\bautovacuum\b"),
    Entry("dev r w", "megabytes a second that the device of the data read and wrote", r"\bdev r\b"),
    Entry("io wait", "share of the time in which somebody on this machine waited for a disk",
          r"\bio wait\b|waiting for I/O"),
    Entry("host busy", "share of the CPUs of this machine in use, whoever uses them", r"\bhost( \d+%)? busy\b"),
    Entry("screen % cpu", "what this interface itself costs, of one CPU", r"screen +\d"),
    Entry("(0.934 ↗ so far)", "ratio to the base at the same point of the step, its trend; the line behind: the base",
          r"\(\d\.\d{3} \S so far|\(\d\.\d{3}\)"),
    Entry("c v m", "below the chart: a checkpoint and how long it took, an autovacuum, a mark of yours",
          r"(?m)^ {7}.*[╵'].*[cvm]"),
    Entry("run queue", "how many of the server's processes were ready to run and waited for a CPU",
          r"run queue +[\d(,]"),
    Entry("waits", "a letter for what a role's backends waited for most of the time of a column; c: they ran",
          r"(?m)^waits "),
    # stalls and their causes
    Entry("stall", "a time in which a role made (nearly) no progress: under 30 % of its median for 2 s or more",
          r"\b[Ss]talls?\b|\bSTALL\b|\bstalled\b"),
    Entry("depth", "the rate within a stall, of what is usual: 0 % is a standstill"),
    Entry("not done", "operations that the stall cost, at the rate that is usual"),
    Entry("0.75 of a cause", "how well the evidence fits this cause: 1 explains the whole stall",
          r"(?m)^ *\d\. [01]\.\d\d "),
    # per operation, in Compare
    Entry("wal B", "bytes of write-ahead log that one operation wrote", r"\bwal B/"),
    Entry("plan us", "microseconds of planning that one operation took", r"\bplan us\b"),
    Entry("dirty kB", "memory written and not yet on the disk, per operation", r"\bdirty\b"),
    Entry("dev kB", "kilobytes that the device wrote for one operation", r"\bdev kB\b"),
    Entry("switch", "context switches: how often a backend gave up its CPU, per operation", r"\bswitch\b"),
    Entry("a → b", "the base's figure, then the other's", r"\d (→|->) \d"),
    # Launch
    Entry("preflight", "what of this machine disturbs a measurement: ok, ? worth knowing, x blocks the start"),
    Entry("smallest visible effect", "the smallest difference that this plan can tell from noise on this machine"),
    Entry("until known", "the run ends as soon as every step has its verdict, not after a number of repeats"),
    Entry("[+]", "a step that is run because a chosen one needs it", r"\[\+\]"),
    # Probes
    Entry("uprobes", "stops at a function of the server's program; costs some microseconds each time"),
    Entry("BPF", "programs in the kernel that count there, so that little is handed out"),
    Entry("needs", "what a probe has to find on this machine", r"\bneeds +state\b"),
    Entry("events/s", "how often a second the probe was hit: what it costs grows with that"),
)  # fmt: skip


def words_on(text: str) -> tuple[Entry, ...]:
    """The entries of what is on a screen with this text, in the order of the table."""
    return tuple(entry for entry in GLOSSARY if entry.on(text))
