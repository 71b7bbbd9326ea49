"""Scripts as bpftrace gets them: right attach points for each server version, compared with golden files.

After a wanted change: PGBED_WRITE_GOLDEN=1 pytest tests/probes/test_script_text.py, and read the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from probes import attach_points, script_text
from probes.errors import ProbeError
from probes.table import BY_ID, SCRIPTED
from tests.support.binaries import LABELS, binary, major

GOLDEN = Path(__file__).parent / "golden"
KERNEL = (6, 18)
GROUPS = {100: script_text.SERVER, 101: script_text.SERVER, 200: script_text.CLIENT, 300: script_text.LAUNCHER}


def rendered(probe: str, label: str, **more: Any) -> str:
    elf = binary(label)
    points = attach_points.resolve_all(elf, BY_ID[probe].events, major(label), kernel=KERNEL)
    return script_text.script(probe, GROUPS, binary=elf.path, attachments=points, machine=elf.machine, **more)


@pytest.mark.parametrize("label", LABELS)
def test_every_version_has_the_right_attach_points(label: str) -> None:
    text = ""
    for probe in SCRIPTED:
        if BY_ID[probe].events:
            text += f"{probe}\n" + "".join(
                f"  {point}\n" for point in script_text.attach_points(rendered(probe, label))
            )
    golden = GOLDEN / f"{label}.points"
    if os.environ.get("PGBED_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("probe", SCRIPTED)
@pytest.mark.parametrize("label", LABELS)
def test_nothing_is_left_to_fill_in_and_the_old_dialect_is_kept(probe: str, label: str) -> None:
    text = rendered(probe, label)
    assert "{{" not in text
    code = re.sub(r"//[^\n]*", "", text)
    assert "args." not in code and "config" not in code and "for (" not in code
    assert code.count("BEGIN {") == code.count("END {") == 1
    assert all(re.fullmatch(r"@\w+\[[^\]]+\]", one) for one in re.findall(r"delete\(([^)]*)\)", code))


@pytest.mark.parametrize("probe", SCRIPTED)
def test_all_that_a_probe_reads_is_printed_by_its_script(probe: str) -> None:
    text = rendered(probe, "16.3-prebuilt")
    for field in BY_ID[probe].fields:
        for name in filter(None, (field.source, field.since, field.since_part)):
            assert f"print({name})" in text


@pytest.mark.parametrize("probe", SCRIPTED)
def test_only_dead_entries_are_deleted_and_not_while_printing(probe: str) -> None:
    text = rendered(probe, "16.3-prebuilt")
    printed = set(re.findall(r"print\((@\w+)\)", text))
    histograms = {field.source for field in BY_ID[probe].fields if field.kind == "histogram"}
    forgetting = re.findall(r"@printing\[0\] == 0\) \{.*?\n  \}\n", text, re.DOTALL)
    assert len(forgetting) == 2
    for one in forgetting:
        # A thread's buckets cannot be deleted: whole histograms are emptied, by bpftrace itself.
        deleted = set(re.findall(r"delete\((@\w+)\[", one))
        assert printed - {"@stacks", "@leaves", "@max_us"} - histograms <= deleted and not histograms & deleted
        text = text.replace(one, "")
    begin = text[: text.index("ready")]
    assert not printed & set(re.findall(r"delete\((@\w+)\[", text.removeprefix(begin)))
    interval = text[text.index("interval:s:1") : text.index("END {")]
    assert interval.index("@printing[0] = 1") < interval.index("print(@group)")
    cleared = re.search(r"@forgotten\[0\] > \d+\) \{(.*?)\}", interval)
    assert histograms == (set(re.findall(r"clear\((@\w+)\)", cleared[1])) if cleared else set())
    assert interval.index("clear(@printing)") > interval.rindex("print(") and interval.count("clear(@printing)") == 1


def test_without_tracepoints_every_server_is_counted() -> None:
    text = rendered("planner", "16.3-prebuilt", tracking=False)
    assert "tracepoint:" not in text
    assert "/1/" in text


def test_the_rule_of_the_stack_is_only_for_where_it_was_verified() -> None:
    elf = binary("16.3-prebuilt")
    points = attach_points.resolve_all(elf, BY_ID["planner"].events, 16, kernel=KERNEL)
    text = script_text.script("planner", GROUPS, binary=elf.path, attachments=points, machine="aarch64")
    assert 'reg("sp")' not in text


def test_user_stacks_are_addresses_in_every_version() -> None:
    assert "ustack, kstack" in script_text.script("stacks", GROUPS)
    assert "ustack(raw), kstack" in script_text.script("stacks", GROUPS, bpftrace=(0, 27))
    assert "ustack(raw, 1), kstack(1)" in script_text.script("stacks", GROUPS, bpftrace=(0, 27))


@pytest.mark.parametrize(("cpus", "hz", "one_in"), [(2, 495, 5), (16, 495, 5), (64, 99, 1)])
def test_many_cpus_are_sampled_less_often(cpus: int, hz: int, one_in: int) -> None:
    text = script_text.script("stacks", GROUPS, cpus=cpus)
    assert f"profile:hz:{hz} /" in text and f"rand % {one_in} == 0" in text and hz // one_in == 99


def test_a_usdt_pair_begins_and_ends_at_the_same_depth() -> None:
    assert 'reg("sp") - 8/' in rendered("planner", "16.3-prebuilt")
    assert 'reg("sp") - 0/' in rendered("planner", "17.11")


def test_an_optional_event_that_is_nowhere_leaves_no_trace() -> None:
    elf = binary("16.3-prebuilt", without=("FlushErrorState",))
    points = attach_points.resolve_all(elf, BY_ID["planner"].events, 16, kernel=KERNEL)
    text = script_text.script("planner", GROUPS, binary=elf.path, attachments=points)
    assert "error has been caught" not in text and "{{" not in text
    assert text.count("uprobe:") == 1


@pytest.mark.parametrize(
    "path", ["relative/postgres", "/a b/postgres", '/a"/postgres', "/a\n/postgres", "/a{/p", "/a,b"]
)
def test_a_path_that_could_change_the_script_is_refused(path: str) -> None:
    points = attach_points.resolve_all(binary("16.3-prebuilt"), BY_ID["planner"].events, 16, kernel=KERNEL)
    with pytest.raises(ProbeError, match="path"):
        script_text.script("planner", GROUPS, binary=path, attachments=points)
