"""An explanation of each metric in one sentence, shown for the line at the cursor."""

from engine.results.cell_step import SLA, STALLS
from engine.results.comparison import ComparedSubject, Comparison
from engine.results.ratio import RATE, TIME
from tui.compare.comparison_table import OPS, SHORT, RowKey

# `{op}` is a row, a query or a transaction, depending on how the step counts.
MEANINGS = {
    RATE: "how many were done per second; more is better",
    TIME: "how long it took; less is better",
    "server_cpu_us_per_op": "CPU time of all server processes for each {op}, in us; less is better",
    "instructions_per_op": "instructions that all server processes executed for each {op}; less is better",
    "client_cpu_us_per_op": "CPU time of the clients for each {op}, in us: the cost of putting on the load",
    "ctx_switches_per_op": "how often a server process left its CPU for each {op}",
    "runq_us_per_op": "how long server processes that could work waited for a CPU for each {op}, in us",
    "plan_us_per_op": "time spent planning statements for each {op}, in us",
    "delete_plan_us": "time spent planning each DELETE, in us; less is better",
    "wal_bytes_per_op": "bytes of write-ahead log for each {op}",
    "read_kb_per_op": "kB that server processes had read from the device for each {op}",
    "reads_per_op": "reads of data for each {op}, each of one page or many, from the page cache or the device (18 on)",
    "pages_read_per_op": "pages of 8 kB that were read for each {op}, from the page cache or the device",
    "read_us_per_op": "time that reading took for each {op}, in us, from the page cache or the device",
    "written_kb_per_op": "kB that server processes dirtied in the page cache for each {op}",
    "device_written_kb_per_op": "kB that the device wrote for each {op}, for whomever",
    "heap_bytes": "size of the tables at the end of the step",
    "index_bytes": "size of the indexes at the end of the step",
    "user_s": "CPU time outside the kernel of the programs that were timed",
    "system_s": "CPU time in the kernel of the programs that were timed",
    "memory_bytes": "peak memory of the programs that were timed",
    STALLS: "seconds in which a connection stood still although it had work, and in how many cells",
    SLA: "the share of the asked-for insert rate that was reached, and in how many cells it was enough",
}


def meaning(comparison: Comparison, row: RowKey) -> str:
    """Explain a line's figure in a sentence."""
    text = MEANINGS.get(row.metric, "")
    unit = comparison.units.get(row.step, SHORT[RATE]).removesuffix("/s")
    op = {"xact": "transaction"}.get(OPS.get(unit, ""), OPS.get(unit, "operation"))
    return text.format(op=op)


def label(subject: ComparedSubject) -> str:
    """A subject's name as `bench flame` expects it."""
    return f"{subject.subject.name}/{subject.config}"
