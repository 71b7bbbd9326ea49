"""The vocabulary of the project, and the short words and figures of its screens.

`?` explains the entries that are on the screen in front; the manual's glossary is generated from the same tables.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A term and its meaning; `pattern` finds it on a screen, by default the term itself."""

    term: str
    meaning: str
    pattern: str = ""

    def on(self, text: str) -> bool:
        return re.search(self.pattern or rf"(?<![\w%]){re.escape(self.term)}(?![\w%])", text) is not None


# Terms shared by code, command line, journal, screens and manual.
VOCABULARY = (
    Entry("build", "a PostgreSQL server: its version and how it was compiled, such as 17beta1-builtin",
          r"\bbuilds?\b"),
    Entry("config", "a named set of server settings, such as cx9a2_c8r32", r"\bconfigs?\b"),
    Entry("kernel", "a pinned Linux kernel, or host: the one that is running", r"\bkernels?\b"),
    Entry("workload", "a named list of steps"),
    Entry("step", "one part of a workload: l.i0 loads, l.x builds indexes, l.i1 writes, qr100 queries while 100 rows/s "
          "are written", r"\bstep\b|\bl\.(i0|x|i1|i2)\b|\bq[rp]\d+\b"),
    Entry("role", "what a connection does: insert, delete or query", r"\brole\b"),
    Entry("cell", "one build, config, kernel and repeat: one fresh cluster, and all its steps",
          r"\bcells?\b"),
    Entry("run", "all cells of one plan, in one folder", r"\bruns?\b"),
    Entry("base", "the build that others are compared with: the first one, unless --base names another",
          r"\bbase(line)?\b"),
    Entry("interleaved", "servers that are up side by side and take turns in slices: shows smaller differences",
          r"\binterleaved?\b"),
    Entry("slice", "20 ms, unless set otherwise, in which one server works and the clients of the others wait",
          r"\bslices?\b"),
    Entry("block", "a few slices in which every server has had its turn; each block gives one ratio", r"\bblocks?\b"),
    Entry("A/A control", "the base compared with itself: the noise of this machine, below which nothing shows",
          r"\bA/A\b"),
    Entry("primary metric", "the metric of a step that verdicts are first given for"),
    Entry("flagged", "a figure without a verdict that differs by more than chance would explain"),
    Entry("interim analysis", "an analysis of the data before the end of a run, at a level that counts towards 5%",
          r"\binterim anal"),
    Entry("spill-over CPU", "CPU time that a server used during the slices of another", r"\bspill-over\b"),
    Entry("external server", "a server that pgbed did not start", r"\bexternal servers?\b"),
    Entry("remote client", "clients on another host than the server", r"\bremote clients?\b"),
    Entry("stall", "a time in which a role makes (nearly) no progress: under 30% of its median for 2 s or more",
          r"\b[Ss]talls?\b|\bSTALL\b|\bstalled\b"),
)  # fmt: skip

# Figures, units and signs, as shown.
FIGURES = (
    # rates and comparisons
    Entry("ops/s", "operations per second: rows of an insert or delete, queries of a query connection",
          r"\b(ops|ins|rows|queries|q|tps|upd|del)/s\b|\brate/s\b"),
    Entry("us/op", "microseconds of CPU that one operation (a row or a query) cost, here of the server",
          r"\bus/(op|row|query)\b"),
    Entry("med60", "median of the rate over the last 60 seconds, so that one stall does not move it",
          r"\bmed60\b|\bmedian\b"),
    Entry("0.950, 95% CI", "ratio to the base, then the interval that holds the true one in 95 of 100 such runs; "
          "▼ is worse: less done, or more cost",
          r"95% CI|[▲▼] ?\d|\d\.\d{3} \d?\.\d+-\d"),
    Entry("margin", "the smallest difference that matters; two builds within it are the same"),
    Entry("8 more pairs", "more pairs that would decide it with a probability of 80%",
          r"\d+ more pairs?"),
    Entry("pair", "a cell of the base and one of another build: at the same time in slices, else in turn",
          r"\bpairs?\b"),
    Entry("ABBA", "the order base, other, other, base, in which slow drift of the machine cancels out"),
    Entry("CV", "coefficient of variation: how far repeats of one cell differ, as a share of their mean",
          r"\bCV\b|\bvary by\b"),
    Entry("bimodal", "repeats fall into two groups, as with two query plans: no mean describes both"),
    Entry("slower, faster", "a significant difference; the interval shows its size", r"\b(slow|fast)er\b"),
    Entry("same", "shown to be within the margin", r"\bsame\b"),
    Entry("no slower", "shown not to be slower by the margin or more; no faster: likewise", r"\bno (slow|fast)er\b"),
    Entry("group", "steps of one kind, which together have one ratio and verdict", r"\b[Gg]roups? of steps\b"),
    Entry("undecided", "nothing is significant after correction for the number of steps"),
    Entry("withheld", "no verdict, because the cells are not comparable: the machine drifted, or the work was unequal"),
    Entry("drift", "a change of the machine between cells: clock, temperature, other load", r"\bdrift(ed)?\b"),
    # the run
    Entry("repeat", "how many times each cell is run; a verdict needs 3", r"\brepeats?\b|\brep\b|\br\d/\d"),
    Entry("SLA", "share of the target insert rate that a query step kept up; below 95% its result does not count",
          r"\bSLA\b|\bsla\b"),
    Entry("ETA", "when the step will end, at its rate so far"),
    Entry("probed", "a cell that was measured with probes, which cost something themselves; see Probes"),
    # the latest second on Live
    Entry("p50, p99", "half, and 99%, of the responses of the last second were faster than this (ms)",
          r"\bp50\b|\bp99\b"),
    Entry("max ms", "the longest response of the last second, in milliseconds"),
    Entry("age s", "how long the statement in flight has been running, in seconds"),
    Entry("in flight", "a statement sent but not answered: how long each role has waited so far"),
    Entry("cpu%", "share of one CPU used by the role's backend (server: by all its processes)", r"\bcpu ?%"),
    Entry("runq%", "share of the time in which a process was ready to run but waited for a CPU",
          r"\brunq us\b|\brunq ?%|\brun[ -]queue\b|\brunq\b"),
    Entry("wait", "what the backend waited for when sampled (pg_stat_activity); ClientRead: its client",
          r"\bwait +p50|\bwait[- ]event|\bClientRead\b"),
    Entry("! ?", "before a line of the log: a stall, and what else can disturb a step, such as a wait for a lock",
          r"(?m)^ \d\d:\d\d:\d\d [!?] "),
    Entry("x10", "in place of a pid: the number of connections, or of processes of the server", r" x\d+ "),
    Entry("unseen", "share of the server's CPU time used by processes that ended before they were sampled",
          r"\bunseen\b"),
    Entry("ckpt", "checkpoints: how many in this step, and when the last one was", r"\bckpt\b|\bcheckpoints?\b"),
    Entry("avac", "autovacuum: how many in this step, and when the last one was", r"\bavac\b|\bautovacuum\b"),
    Entry("dev r w", "megabytes per second read from and written to the device that holds the data", r"\bdev r\b"),
    Entry("io wait", "share of the time in which any process on this machine waited for a disk",
          r"\bio wait\b|waiting for I/O"),
    Entry("host busy", "share of this machine's CPUs that is in use, by any process", r"\bhost( \d+%)? busy\b"),
    Entry("(0.934 ↗ so far)",
          "ratio to the base at this point of the step, and its trend; the line behind: the base",
          r"\(\d\.\d{3} \S so far|\(\d\.\d{3}\)"),
    Entry("c v m", "below the chart: a checkpoint and how long it took, an autovacuum, a mark of yours",
          r"(?m)^ {7}.*[╵'].*[cvm]"),
    Entry("run queue", "how many of the server's processes were ready to run and waited for a CPU",
          r"run queue +[\d(,]"),
    Entry("waits", "a letter for the main wait of a role's backends in each column; c: they ran",
          r"(?m)^waits "),
    # stalls and their causes
    Entry("depth", "the rate within a stall, as a share of the usual one: 0% is a standstill"),
    Entry("not done", "operations that the stall cost, at the usual rate"),
    Entry("0.75 of a cause", "how well the evidence fits this cause: 1 explains the whole stall",
          r"(?m)^ *\d\. [01]\.\d\d "),
    # per operation, in Compare
    Entry("wal B", "bytes of write-ahead log written per operation", r"\bwal B/"),
    Entry("plan us", "microseconds of planning per operation", r"\bplan us\b"),
    Entry("dirty kB", "memory written but not yet on disk, per operation", r"\bdirty\b"),
    Entry("dev kB", "kilobytes that the device wrote per operation", r"\bdev kB\b"),
    Entry("switch", "context switches: how often a backend gave up its CPU, per operation", r"\bswitch\b"),
    Entry("a → b", "the base's figure, then the other's", r"\d (→|->) \d"),
    # Launch
    Entry("preflight", "conditions that would disturb a measurement: ok, ? worth knowing, x blocks the start"),
    Entry("smallest visible effect", "the smallest difference that this plan can tell from noise on this machine"),
    Entry("until known", "the run ends once every step has a verdict, not after a fixed number of repeats"),
    Entry("[+]", "a step that runs because a chosen one needs it", r"\[\+\]"),
    # Probes
    Entry("uprobes", "stops at a function of the server's program; costs some microseconds each time"),
    Entry("BPF", "programs that count inside the kernel, so that little data leaves it"),
    Entry("needs", "what a probe has to find on this machine", r"\bneeds +state\b"),
    Entry("events/s", "how often per second the probe fired; its cost grows with that"),
)  # fmt: skip
GLOSSARY = (*FIGURES, *VOCABULARY)


def words_on(text: str) -> tuple[Entry, ...]:
    return tuple(entry for entry in GLOSSARY if entry.on(text))
