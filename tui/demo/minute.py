"""What the guided minute shows of the packaged recording."""

from tui.demo.guide import Stop

FIRST = ("003-patch-auto-r2", "l.i1")  # the cell and the step that are played first
QUERIES = (FIRST[0], "qr100")

MINUTE = (
    Stop(
        7,
        "Two builds of PostgreSQL under one load, recorded on a small machine. Their servers are up side by side and "
        "are driven in turns of 50 ms, so that what disturbs one disturbs the other. Each has its signs.",
        until="REPLAY",
    ),
    Stop(
        6,
        "A stall: the client has work, and nothing moves. It is marked within two seconds, with its cause. "
        "There are two here: first a backend is stopped from outside, then one has to wait for a lock.",
        ("n",),
        until="STALL",
    ),
    Stop(
        8,
        "The second one. Enter shows all that is known of it: who held the lock, with which statement, for how long.",
        ("n", "enter"),
        until="lock",
    ),
    Stop(
        9,
        "A query step. The ratio so far stands below the chart, with a 95 % interval that holds however often one "
        "looks. It closes while the step runs.",
        ("escape",),
        until="qr100",
        replay=QUERIES,
    ),
    Stop(
        8,
        "Compare: the answer in a sentence, then every ratio with its interval on one axis. The band is the margin "
        "within which two builds are called the same.",
        ("3",),
        until="every cell",
    ),
    Stop(
        7,
        "Every cell is a dot. Beside them is what may be behind a difference, and whether the two can be compared.",
        ("end", "up", "up", "up"),
        until="every cell",
        top=True,
    ),
    Stop(
        7,
        "The blocks of a step, two turns of each server: their ratios over time, and how that of all settles.",
        ("l",),
        until="blocks",
    ),
    Stop(
        6,
        "What the query's backend did on its CPU, as a flame graph: the outermost function is on top, enter zooms. "
        "A frame with ▼ takes more of each query than in the base.",
        ("escape", "f", "enter"),
        until="takes more",
    ),
    Stop(
        6,
        "The same as a list: the functions whose share has changed most.",
        ("v",),
        until="change",
    ),
    Stop(
        6,
        "History holds all runs. Launch (1) starts one of your own: choose two builds, press enter. The guide ends "
        "here, and all keys are yours.",
        ("escape", "5"),
        until="HISTORY",
    ),
)
