"""The input of bpftrace from a probe's script: attach points, the watched processes, the stack rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

from probes import timing
from probes.attach_points import Attachment
from probes.errors import ProbeError
from probes.table import BY_ID, Probe

SERVER, CLIENT, LAUNCHER = 1, 2, 4
SAFE_PATH = re.compile(r"/[A-Za-z0-9_./+@=-]+")
SAFE_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
PLACEHOLDER = re.compile(r"\{\{([A-Z_]+)\}\}")
# bpftrace 0.17 and 0.23 infer a map's type from its first use in program order, which is a read.
TYPES = {
    **{"@sp": "1", "@since": "nsecs", "@inside": "nsecs", "@phase": "1"},
    **{"@first": "1", "@last": "1", "@dead": "1", "@died": "nsecs", "@forgotten": "1", "@printing": "1"},
}
FORGOTTEN_MAX = 300  # threads whose buckets are kept; events between print and emptying are lost to them
# The second keys of maps by thread and part, by probe; maps of more keys are emptied with each print.
PARTS = {"sched": (0, 1, 2, 4, 8), "phases": (1, 2, 3, 4), "offcpu": (0, 1, 2, 3, 4)}
COMMENT = re.compile(r"//[^\n]*")
MAP_KEY = re.compile(r"(@[a-z_]+)\[([^\]]*)\]")
# An attach point stands at the beginning of a line, or after a comma behind another one.
POINT = re.compile(r"^(BEGIN|END|(?:tracepoint|uprobe|uretprobe|usdt|profile|interval):\S+)", re.MULTILINE)
# Excludes setuid programs, whose code addresses are a secret that protects them. `uid` and `gid` are the starter's.
NO_MORE_RIGHTS = " && ".join(f"((struct task_struct *)curtask)->cred->e{one}.val == {one}" for one in ("uid", "gid"))
PHASES = (("Parse", "parse"), ("Analyze and rewrite", "analyze"), ("Plan", "plan_start"), ("Execute", "execute"))
RAW_STACKS = (0, 18)
# If the stack rule has not been verified, every start replaces the previous one.
FLAT_STACK = "(uint64)65536"


def source(name: str) -> str:
    return (files("probes") / name).read_text(encoding="utf-8")


def script(
    probe: str,
    groups: Mapping[int, int],
    *,
    binary: str = "",
    attachments: Mapping[str, tuple[Attachment, ...]] | None = None,
    machine: str = "x86_64",
    tracking: bool = True,
    owner: int = 0,
    bpftrace: tuple[int, int] = (0, 17),
    cpus: int = 1,
) -> str:
    """Render a probe's script, ready to run.

    `groups` are the initial threads: tid -> SERVER, CLIENT or LAUNCHER. Without `tracking` (tracepoints cannot be
    read) every server that runs the binary is counted. An `owner` other than root: only that user's processes are
    read, even if a thread's number has been reused by another user's. `bpftrace` is the version that the script is
    for, `cpus` how many the machine has. Raises ProbeError for a path or symbol that a script cannot hold.
    """
    points = attachments or {}
    entry = BY_ID[probe]
    values = {event.name.upper(): _points(event.name, binary, points) for event in entry.events}
    stacked = machine == "x86_64"
    ends = points.get("plan_end", ())
    values |= {
        "GROUPS": "\n  ".join(f"@g[{tid}] = {group}; @group[{tid}] = {group};" for tid, group in sorted(groups.items()))
        or "@g[0] = 0; @group[0] = 0;",
        "ASLEEP": _asleep(groups) if probe == "sched" else "",
        "EMPTY": _emptying(entry) if tracking else "",
        "TRACKING": _tracking(entry) if tracking else "",
        "SERVER": ("@g[tid] == 1" if tracking else "1") + (f" && uid == {owner}" if owner else ""),
        "SAMPLED": "(@g[tid] == 1 || @g[tid] == 2)" + (f" && uid == {owner} && {NO_MORE_RIGHTS}" if owner else ""),
        "STACKED": "@g[tid] == 1" + (f" && uid == {owner} && {NO_MORE_RIGHTS}" if owner else ""),
        "SP": 'reg("sp")' if stacked else FLAT_STACK,
        # Bytes by which the stack pointer is higher at the end than at the start: the return address.
        "PLAN_POPPED": "8" if stacked and ends and ends[0].at_return else "0",
        # Addresses, not names. Before raw stacks, BPFTRACE_NO_USER_SYMBOLS did this; newer versions ignore it.
        "USER_STACK": "ustack(raw)" if bpftrace >= RAW_STACKS else "ustack",
        "USER_LEAF": "ustack(raw, 1)" if bpftrace >= RAW_STACKS else "ustack(1)",
        "LEAF_HZ": str(timing.leaf_hz(cpus)),
        "LEAVES_PER_STACK": str(timing.leaf_hz(cpus) // timing.STACKS_HZ),
    }
    if probe == "phases":
        blocks = (
            _fill(source("phase.bt"), values | {"NAME": name, "START": values[event.upper()], "PHASE": str(number)})
            for number, (name, event) in enumerate(PHASES, 1)
        )
        values["PHASES"] = "\n".join(blocks).rstrip()
    maps = source("frame.bt") + _texts(entry) + (source("groups.bt") + source("forget.bt") if tracking else "")
    printed = _printed(entry)
    scratch = {"@g", *(name for name, _ in MAP_KEY.findall(COMMENT.sub("", maps)))} - set(printed)
    peaks = [field.source for field in entry.fields if field.kind in ("peak", "stacks", "leaves", "waits")]
    values |= {
        "TYPES": _types(maps),
        "PRINT": " ".join([*(f"print({name});" for name in printed), *(f"clear({name});" for name in peaks)]),
        "CLEAR": " ".join(f"clear({name});" for name in sorted(scratch)),
    }
    header, _, body = _own(entry).partition("\n\n")
    values["PROBES"] = _fill(_without_unattached(body, values), values)
    text = f"{header}\n\n{_fill(source('frame.bt'), values)}"
    return re.sub(r"^ +\n", "", text, flags=re.MULTILINE)


def attach_points(rendered: str) -> tuple[str, ...]:
    points: list[str] = []
    for line in rendered.splitlines():
        if POINT.match(line):
            points += re.split(r",\s*", re.split(r" [/{]", line)[0].rstrip(","))
    return tuple(point.strip() for point in points)


def _points(event: str, binary: str, points: Mapping[str, tuple[Attachment, ...]]) -> str:
    if points.get(event) and not SAFE_PATH.fullmatch(binary):
        raise ProbeError(f"probes: {binary}: the path holds characters that a bpftrace script cannot; move the server")
    for attachment in points.get(event, ()):
        if not SAFE_SYMBOL.fullmatch(attachment.symbol):
            raise ProbeError(f"probes: {attachment.symbol!r} is no name that a bpftrace script can hold")
    return ", ".join(attachment.point(binary) for attachment in points.get(event, ()))


def _asleep(groups: Mapping[int, int]) -> str:
    """Assume threads asleep until seen otherwise; the first frame, which is only a baseline, corrects it."""
    watched = [tid for tid, group in sorted(groups.items()) if group != LAUNCHER] or [0]
    return "\n  ".join(f"@off[{tid}] = nsecs; @state[{tid}] = (uint64)1;" for tid in watched)


def _printed(probe: Probe) -> tuple[str, ...]:
    """Maps that a tick prints: open intervals first, histograms last, since they may be emptied right after."""
    begun = [name for field in probe.fields for name in (field.since, field.since_part) if name]
    ended = sorted(probe.fields, key=lambda field: field.kind == "histogram")
    return tuple(dict.fromkeys(["@group", *begun, *(field.source for field in ended)]))


def _own(probe: Probe) -> str:
    return source(probe.script).replace("{{PLANNING}}\n", source("planning.bt"))


def _texts(probe: Probe) -> str:
    return _own(probe) + (source("phase.bt") if probe.id == "phases" else "")


def _types(texts: str) -> str:
    """Give key 0 of each scratch map a typed value and delete it again; thread 0 does not exist."""
    lines = []
    for name, kind in TYPES.items():
        if f"{name}[" in texts:
            value = "nsecs" if kind == "nsecs" else "(uint64)1"
            lines.append(f"{name}[0] = {value}; delete({name}[0]);")
    return "\n  ".join(lines)


def _tracking(probe: Probe) -> str:
    keys = {(name, key.count(",")) for name, key in MAP_KEY.findall(COMMENT.sub("", _texts(probe)))}
    # Peaks are emptied with each print: what bpftrace itself deletes, nothing else should.
    others = {"@g", "@max_us", *_histograms(probe)}
    by_thread = {name for name, commas in keys if commas == 0} - others | {"@group"}
    lines = [f"delete({name}[$gone]);" for name in sorted(by_thread)]
    for name, commas in sorted(keys):
        lines += [f"delete({name}[$gone, {part}]);" for part in PARTS.get(probe.id, ()) if commas == 1]
    forget = source("forget.bt").replace("{{DELETIONS}}", "\n    ".join(lines)).rstrip("\n")
    return source("groups.bt").replace("{{FORGET}}", forget.replace("\n", "\n  "))


def _emptying(probe: Probe) -> str:
    """Script part that empties histograms with many exited threads: scripts cannot delete single threads there."""
    if not _histograms(probe):
        return ""
    clears = " ".join(f"clear({name});" for name in _histograms(probe))
    return f'if (@forgotten[0] > {FORGOTTEN_MAX}) {{ {clears} @forgotten[0] = 0; printf("emptied %llu\\n", nsecs); }}'


def _histograms(probe: Probe) -> tuple[str, ...]:
    return tuple(field.source for field in probe.fields if field.kind == "histogram")


def _without_unattached(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        if not value and re.search(rf"^\{{\{{{name}\}}\}} /", text, re.MULTILINE):
            text = re.sub(rf"(^//[^\n]*\n)*^\{{\{{{name}\}}\}} /.*?^\}}\n\n?", "", text, flags=re.MULTILINE | re.DOTALL)
    return text


def _fill(text: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda match: values[match.group(1)].rstrip("\n"), text)
