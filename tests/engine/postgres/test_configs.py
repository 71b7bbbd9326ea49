"""Configs: the named ones are the reference's, files are read as the server would, versions get what they know."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import UserError
from engine.core.format import size_bytes
from engine.core.model import Build, Config
from engine.host.environment import Machine
from engine.postgres import setting_kinds
from engine.postgres.configs import (
    GIB,
    Setting,
    apply,
    catalog,
    each_value,
    known_to,
    overrides,
    quoted,
    resolve,
    scale,
)
from engine.postgres.server import Server
from engine.postgres.serverlog import log_settings
from tests.support.compiled import MAJORS

MACHINE = Machine(memory_bytes=24 * GIB, free_disk_bytes=75 * GIB)
Builds = Callable[[int | str], Build]

# The table of the reference results; None: not set.
REFERENCE: dict[str, tuple[str | None, str | None, str | None, str | None]] = {
    "shared_buffers": ("10GB", "10GB", "10GB", "23GB"),
    "huge_pages": ("off", "off", "off", "off"),
    "max_parallel_workers": ("0", "0", "0", "0"),
    "max_parallel_workers_per_gather": ("0", "0", "0", "0"),
    "synchronous_commit": ("off", "off", "off", "off"),
    "full_page_writes": ("on", "on", "on", "on"),
    "wal_level": ("replica", "replica", "replica", "replica"),
    "wal_sync_method": ("fdatasync", "fdatasync", "fdatasync", "fdatasync"),
    "wal_compression": ("off", "off", "off", "off"),
    "max_wal_size": ("20GB", "40GB", "40GB", "40GB"),
    "min_wal_size": (None, None, "20GB", "20GB"),
    "checkpoint_timeout": (None, None, "1800s", "1800s"),
    "checkpoint_completion_target": (None, None, None, "0.9"),
    "checkpoint_warning": ("1800s", "1800s", "1800s", "1800s"),
    "bgwriter_lru_maxpages": ("2000", "2000", "2000", "2000"),
    "bgwriter_delay": ("100ms", "100ms", "100ms", "100ms"),
    "track_io_timing": ("on", "on", "on", "on"),
    "log_autovacuum_min_duration": (None, "0", "0", "0"),
    "log_checkpoints": (None, "on", "on", "on"),
    "autovacuum_max_workers": (None, None, "4", "4"),
    "autovacuum_naptime": (None, None, "10s", "10s"),
    "autovacuum_vacuum_cost_delay": (None, None, "2ms", "2ms"),
    "autovacuum_vacuum_cost_limit": (None, None, "4000", "4000"),
    "autovacuum_vacuum_scale_factor": (None, None, "0.05", "0.05"),
    "autovacuum_vacuum_insert_scale_factor": (None, None, "0.05", "0.05"),
    "autovacuum_work_mem": (None, None, "256MB", "256MB"),
}
NOT_EVERYWHERE = {("huge_pages", "on"), ("io_method", "io_uring")}
NAMED = ("cx5", "cx7", "cx9a2_bee", "cx9a2_c8r32")


def one(spec: str, build: Build, *texts: str) -> Config:
    (config,) = resolve([spec])
    return apply(config, build, MACHINE, overrides(texts), overrides(texts))


@pytest.mark.parametrize("column, name", list(enumerate(NAMED)))
def test_named_configs_are_the_references(column: int, name: str, build: Builds) -> None:
    expected = {setting: values[column] for setting, values in REFERENCE.items() if values[column] is not None}
    config = one(name, build(16))
    assert dict(config.settings) == expected
    assert (config.dropped, config.origin) == ((), "built in")


def test_the_builtin_locale_config_has_the_settings_of_c8r32(build: Builds) -> None:
    assert one("cx9a2lc_c8r32", build(17)).settings == one("cx9a2_c8r32", build(17)).settings


def test_every_major_version_at_hand_starts_under_a_named_config(
    servers: dict[str, Build], new_folder: Callable[[], Path]
) -> None:
    """Settings without the reference's memory: shared_buffers is small, and all else is as named."""
    one_of_each = {build.major: build for build in servers.values()}
    names = [spec.name for spec in catalog() if not spec.values.items() & NOT_EVERYWHERE]
    for ordinal, build in enumerate(one_of_each.values()):
        config = one(names[-1 - ordinal % len(names)], build, "shared_buffers=64MB")
        with Server(build, config, new_folder()) as server, server.connect("postgres") as connection:
            for name, value in config.settings:
                shown = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
                assert shown is not None and shown[0] != "", f"{name} = {value} on {build.label}"


@pytest.mark.parametrize("name", ["cx9a2_bee", "cx9a2_c8r32", "auto"])
def test_insert_scale_factor_is_left_out_before_13_and_recorded(name: str, build: Builds) -> None:
    setting = "autovacuum_vacuum_insert_scale_factor"
    old, new = one(name, build(12)), one(name, build(14))
    assert old.dropped == (setting,) and setting not in dict(old.settings)
    assert new.dropped == () and dict(new.settings)[setting] == "0.05"


REACHING = re.compile(r"command|librar|conninfo|path|passphrase|file|director|password|target|slot|standby|tablespace")
# Settings that look as if they reached out, and do not: libraries by their paths are left out.
HARMLESS = frozenset({
    "allow_in_place_tablespaces", "autovacuum_worker_slots", "file_copy_method", "file_extend_method",
    "idle_replication_slot_timeout", "local_preload_libraries", "log_temp_files", "max_files_per_process",
    "checkpoint_completion_target", "default_statistics_target", "log_replication_commands", "max_replication_slots",
    "max_repack_replication_slots", "max_slot_wal_keep_size", "md5_password_warnings",
    "password_expiration_warning_threshold", "remove_temp_files_after_crash", "search_path",
    "session_preload_libraries", "shared_preload_libraries", "temp_file_limit",
})  # fmt: skip


def test_every_setting_of_a_server_is_taken_or_left_out(
    servers: dict[str, Build], server: Callable[[int | str], Server]
) -> None:
    names: set[str] = set()
    for build in {build.major: build for build in servers.values() if not build.initdb_args}.values():
        with server(build.label).connect("postgres") as connection:
            names |= {name.lower() for (name,) in connection.execute("SELECT name FROM pg_settings")}
        names |= {name.lower() for name in known_to(build.bin / "postgres")}
    table = setting_kinds.read_kinds()
    assert len(names) > 400 and not names - table.taken - table.reasons.keys()
    taken = {name for name in names if not setting_kinds.refusal(name, "")}
    assert {name for name in taken if REACHING.search(name)} == HARMLESS & names  # 19 may be absent


@pytest.mark.parametrize("name", ["new_command", "wal_library", "spool_directory", "primary_conninfo_2", "x_file"])
def test_a_later_setting_with_outside_effects_is_left_out(name: str) -> None:
    assert setting_kinds.refusal(name, "x") and not setting_kinds.refusal(f"app.{name}", "x")


def test_no_config_of_the_catalog_has_a_setting_that_is_left_out() -> None:
    assert not [item for spec in catalog() for item in spec.settings if setting_kinds.refusal(item.name, item.value)]


def test_a_foreign_config_runs_without_outside_effects(build: Builds, tmp_path: Path) -> None:
    """A config as Debian ships it, with archiving, replication and an application's own setting."""
    (tmp_path / "main.conf").write_text(
        "data_directory = '/var/lib/postgresql/16/main'\nssl = on\nssl_cert_file = '/etc/ssl/certs/snakeoil.pem'\n"
        "lc_time = 'de_DE.UTF-8'\ncluster_name = '16/main'\narchive_mode = on\n"
        f"archive_command = 'touch {tmp_path}/ran'\nsynchronous_standby_names = 'ANY 1 (a, b)'\n"
        "shared_preload_libraries = '/opt/x.so'\napp.tenant = '7'\nauto_explain.log_analyze = on\n"
        f"pgsodium.getkey_script = '{tmp_path}/key'\nvault.getkey_script = '{tmp_path}/key'\n"
        "include_dir = 'conf.d'\ninclude_if_exists = 'absent.conf'\nwork_mem = 8MB\n"
    )
    config = one(str(tmp_path / "main.conf"), build(16))
    assert dict(config.settings) == {"app.tenant": "7", "work_mem": "8MB"}
    assert {setting_kinds.why_dropped(name) for name in config.dropped} == {
        "that pgbed sets itself", "of the machine or cluster that they come from", "that need other servers",
        "that name programs, libraries or folders of elsewhere", "of extensions that are not preloaded",
        "that include no file here",
    }  # fmt: skip


@pytest.mark.parametrize("major", MAJORS)
def test_unknown_settings_are_left_out_and_the_server_starts(major: int, build: Builds, cell_dir: Path) -> None:
    fragment = cell_dir / "mine.conf"
    fragment.write_text(
        "shared_buffers = 64MB\n"
        "no_such_setting = 1\n"
        "summarize_wal = off  # 17\n"
        "wal_consistency_checking = ''  # a developer's setting, which --describe-config does not list\n"
        "pg_stat_statements.track = all\n"
        "port = 1\n"
        "app.tenant = '7'\n"
    )
    config = one(str(fragment), build(major))
    missing = {"no_such_setting", "pg_stat_statements.track", "port"} | ({"summarize_wal"} if major < 17 else set())
    assert set(config.dropped) == missing
    assert (
        set(dict(config.settings))
        == {"shared_buffers", "wal_consistency_checking", "summarize_wal", "app.tenant"} - missing
    )
    assert (config.name, config.origin) == ("mine", str(fragment))
    with Server(build(major), config, cell_dir / "cell") as server, server.connect("postgres") as connection:
        assert connection.execute("SHOW shared_buffers").fetchone() == ("64MB",)
        assert connection.execute("SHOW app.tenant").fetchone() == ("7",)


def test_settings_of_a_preloaded_library_are_kept(build: Builds, tmp_path: Path) -> None:
    fragment = tmp_path / "mine.conf"
    fragment.write_text(
        "shared_preload_libraries = 'auto_explain, pg_stat_statements'\nauto_explain.log_analyze = on\n"
    )
    assert dict(one(str(fragment), build(16)).settings)["auto_explain.log_analyze"] == "on"


@pytest.mark.parametrize("text, said", [
    ("work_mem=8XB", 'invalid value for parameter "work_mem": "8XB"'),
    ("max_connections=0", "outside the valid range"),
])  # fmt: skip
def test_a_refused_value_is_an_error_before_the_run(text: str, said: str, build: Builds) -> None:
    with pytest.raises(UserError, match=said) as caught:
        one("cx5", build(16), text)
    assert str(caught.value).startswith(f"--set {text}: config 'cx5' on ")
    with pytest.raises(UserError, match=r"^config 'cx5' on "):
        apply(resolve(["cx5"])[0], build(16), MACHINE, overrides([text]))
    typed = text.partition("=")[0], "1"  # as it was before it was stretched for interleaved servers
    with pytest.raises(UserError, match=f"^--set {'='.join(typed)}: config 'cx5' on "):
        apply(resolve(["cx5"])[0], build(16), MACHINE, overrides([text]), [typed])
    assert "configuration file" not in str(caught.value)  # the throw-away one of this check is no help


def test_overrides_win_over_scaling_and_are_told(build: Builds) -> None:
    config = one("auto", build(16), "max_wal_size=3GB", "Work_Mem = 8MB")
    settings = dict(config.settings)
    assert (settings["max_wal_size"], settings["work_mem"], settings["shared_buffers"]) == ("3GB", "8MB", "14336MB")
    assert config.origin == "scaled to this machine, with max_wal_size=3GB, work_mem=8MB"


@pytest.mark.parametrize("text, said", [
    ("work_mem", "must be NAME=VALUE"), ("=3", "must be NAME=VALUE"), ("port=5433", "that pgbed sets itself"),
    ("archive_command=false", "archive_command=false: settings that name programs"),
    ("block_size=16384", "no file can set"),
    ("shared_preload_libraries=auto_explain, /tmp/x.so", "name programs, libraries"),
])  # fmt: skip
def test_bad_overrides_are_refused(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        overrides([text])


def test_an_unknown_config_gets_the_nearest_names() -> None:
    with pytest.raises(UserError, match=r"unknown config 'cx9a2_c8' \(nearest: .*cx9a2_c8r32"):
        resolve(["cx9a2_c8"])


@pytest.mark.parametrize("text, said", [
    ("work_mem = 4MB\n= 3\n", r"mine.conf:2: not a line of the form NAME = VALUE$"),
    ("work_mem 4MB 5MB\n", r"mine.conf:1: not a line"),
    ("\n\ninclude 'other.conf'\n", r"mine.conf:3: include is not supported"),
    ("include_if_exists = mine.conf\n", r"mine.conf:1: .*put the settings of .*/mine.conf into it"),
    ("include_dir = .\n", r"mine.conf:1: .*put the settings of mine.conf into it"),
    ("include_dir = '/root/\0'\n", r"mine.conf:1: include_dir is not supported"),
])  # fmt: skip
def test_a_bad_line_is_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.conf").write_text(text)
    with pytest.raises(UserError, match=said):
        resolve([str(tmp_path / "mine.conf")])


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.conf cannot be read: No such file"):
        resolve([str(tmp_path / "absent.conf")])
    with pytest.raises(UserError, match=r"cannot be read: a folder; give a file"):
        resolve([f"{tmp_path}/"])
    (tmp_path / "latin.conf").write_bytes(b"# caf\xe9\n")
    with pytest.raises(UserError, match="not UTF-8"):
        resolve([str(tmp_path / "latin.conf")])


def test_two_configs_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.conf").write_text("work_mem = 4MB\n")
    with pytest.raises(UserError, match="'mine' is given twice"):
        resolve([str(tmp_path / "a/mine.conf"), str(tmp_path / "b/mine.conf")])
    (tmp_path / "cx5.conf").write_text("work_mem = 4MB\n")
    with pytest.raises(UserError, match="like a built-in config"):
        resolve([str(tmp_path / "cx5.conf")])


def test_a_toml_file_may_extend_a_named_config(build: Builds, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'description = "cx5 with io"\nextends = "auto"\n'
        '[settings]\ntrack_wal_io_timing = true\nmax_wal_size = "5GB"\nshared_preload_libraries = "auto_explain"\n'
        "auto_explain.log_min_duration = 100\n"
        "[from.16]\nio_combine_limit = 8\nvacuum_buffer_usage_limit = 512\n"
    )
    settings = dict(one(str(tmp_path / "mine.toml"), build(16)).settings)
    assert settings["track_wal_io_timing"] == "on" and settings["max_wal_size"] == "5GB"
    assert settings["shared_buffers"] == "14336MB" and settings["auto_explain.log_min_duration"] == "100"
    assert settings["vacuum_buffer_usage_limit"] == "512"
    assert one(str(tmp_path / "mine.toml"), build(16)).dropped == ("io_combine_limit",)
    assert "vacuum_buffer_usage_limit" in one(str(tmp_path / "mine.toml"), build(14)).dropped


def test_settings_may_end_with_a_major_version(build: Builds, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        "[settings]\njit = 'on'\n[until.14]\njit = 'off'\n[until.9]\nwork_mem = '8MB'\n"
    )
    assert dict(one(str(tmp_path / "mine.toml"), build(14)).settings) == {"jit": "off"}
    assert dict(one(str(tmp_path / "mine.toml"), build(16)).settings) == {"jit": "on"}


def test_workers_are_set_by_the_names_of_18_and_19() -> None:
    (spec,) = resolve(["cx10c"])
    old, new = ({name: value for name, value in spec.of(major).items() if name.startswith("io_")} for major in (18, 19))
    assert old == {"io_method": "worker", "io_workers": "16"}
    assert new == {"io_method": "worker", "io_min_workers": "16", "io_max_workers": "16"}


def test_the_defaults_of_18_leave_to_pgbed_what_it_sets_for_all() -> None:
    (spec,) = resolve(["defaults-18"])
    assert spec.of(18) == {} and spec.of(19)["io_min_workers"] == spec.of(19)["io_max_workers"] == "3"
    assert not spec.values.keys() & log_settings(19, {}, lambda: ()).keys()


def test_each_value_of_a_setting_makes_a_config_named_by_it(build: Builds) -> None:
    small, large = each_value(resolve(["cx5"]), "Shared_Buffers=64MB, 1GB")
    assert [small.name, large.name] == ["shared_buffers=64MB", "shared_buffers=1GB"]
    assert dict(apply(large, build(16), MACHINE).settings)["shared_buffers"] == "1GB"
    assert [spec.name for spec in each_value(resolve(["cx5", "cx7"]), "jit=on,off")] == [
        "cx5 jit=on", "cx5 jit=off", "cx7 jit=on", "cx7 jit=off",
    ]  # fmt: skip


@pytest.mark.parametrize("text, said", [
    ("jit", "must be NAME=VALUE,"), ("jit=on", "must be NAME=VALUE,"), ("jit=on,", "must be NAME=VALUE,"),
    ("jit=on,on", "on is given twice"), ("port=1,2", "--set-each port=1: settings that pgbed sets itself"),
    ("=1,2", "must be"),
    ("jit=\udc80,on", "the value is not UTF-8 text"),
])  # fmt: skip
def test_bad_values_of_a_setting_are_refused(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        each_value(resolve(["cx5"]), text)


@pytest.mark.parametrize("text, said", [
    ("[until.x]\nwork_mem = 1\n", r"\[until\.x\] .* must name a major version"),
    ("until = 3\n", r"must hold tables such as \[until\.13\]"),
    ("work_mem = '4MB'\n", r"unknown key 'work_mem'.*\[settings\]"),
    ("extends = 'cx99'\n", "mine.toml: extends: unknown config 'cx99'"),
    ("[settings\n", r"mine\.toml:1: "),
    ("[settings]\nwork_mem = [1]\n", "must be text, a number, true or false"),
    ('[settings]\nwork_mem = "1\\u0000"\n', "must be text, a number, true or false"),
    ("[settings]\n'a b' = 1\n", "'a b' is not a valid name of a setting"),
    ("[from.x]\nwork_mem = 1\n", "must name a major version"),
    ("settings = 3\n", "must be a table"),
])  # fmt: skip
def test_a_bad_toml_file_is_explained(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(UserError, match=said):
        resolve([str(tmp_path / "mine.toml")])


def test_auto_is_scaled_or_is_the_servers_own(build: Builds, tmp_path: Path) -> None:
    (tmp_path / "mine.conf").write_text("plan_cache_mode = auto\n")
    assert one(str(tmp_path / "mine.conf"), build(16)).settings == (("plan_cache_mode", "auto"),)
    (tmp_path / "mine.conf").write_text("work_mem = auto\n")
    with pytest.raises(UserError, match='invalid value for parameter "work_mem": "auto"'):
        one(str(tmp_path / "mine.conf"), build(16))


@given(
    st.text(st.characters(exclude_characters="\x00\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", exclude_categories=["Cs"]))
)
def test_a_value_survives_being_written_and_read(value: str) -> None:
    from engine.postgres.configs import _parse_conf

    assert _parse_conf(f"  Some_Name = {quoted(value)}  # {value!r}".replace("\n", " "), Path("x")) == (
        Setting("some_name", value),
    )


@pytest.mark.parametrize("line, value", [
    ("a = 1", "1"), ("a 1", "1"), ("a=1#c", "1"), ("a = 'x''y'", "x'y"), (r"a = 'x\'y\\z'", r"x'y\z"),
    ("a = '#'", "#"), ("a.b = -0.5", "-0.5"), ("\ta\t=\ton\t# c", "on"), ("a = ''", ""),
    ("# x\fb = 2\u2028c = 3\r\na = 1\r\n", "1"),
])  # fmt: skip
def test_lines_are_read_as_the_server_reads_them(line: str, value: str) -> None:
    from engine.postgres.configs import _parse_conf

    assert _parse_conf(line, Path("x"))[0][1] == value


def test_auto_is_sane_on_known_machines() -> None:
    laptop = scale(Machine(4 * GIB, 100 * GIB))
    assert laptop == {"shared_buffers": "1024MB", "max_wal_size": "4GB", "min_wal_size": "2048MB"}
    assert scale(Machine(24 * GIB, 75 * GIB)) == {
        "shared_buffers": "14336MB", "max_wal_size": "16GB", "min_wal_size": "8192MB",
    }  # fmt: skip
    assert scale(Machine(32 * GIB, 500 * GIB))["max_wal_size"] == "32GB"
    assert scale(Machine(256 * GIB, 4000 * GIB))["max_wal_size"] == "40GB"


@given(st.floats(0.2, 2048), st.floats(0.1, 20_000))
def test_auto_keeps_within_memory_and_disk(memory_gib: float, free_gib: float) -> None:
    machine = Machine(int(memory_gib * GIB), int(free_gib * GIB))
    values = {name: size_bytes(value, "MB") for name, value in scale(machine).items()}
    assert 128 << 20 <= values["shared_buffers"] <= max(0.63 * machine.memory_bytes, 128 << 20) + GIB / 4
    assert GIB <= values["max_wal_size"] <= max(machine.free_disk_bytes / 4, GIB)
    assert values["min_wal_size"] * 2 == values["max_wal_size"]


@given(st.floats(0.5, 512), st.floats(0, 0.005))
def test_auto_is_the_same_when_memory_differs_by_little(memory_gib: float, less: float) -> None:
    gib = round(memory_gib * 2) / 2
    machine = Machine(int(gib * GIB), 1000 * GIB)
    assert scale(machine) == scale(replace(machine, memory_bytes=int(gib * GIB * (1 - less * min(1, 16 / gib)))))


@pytest.mark.parametrize(
    "text", ["extends = ['cx5']", "extends = 3", "from = 3", "from = [1]", "[from.x]", "settings = 3"]
)
def test_a_config_whose_parts_are_of_a_wrong_kind_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(UserError):
        resolve([str(tmp_path / "mine.toml")])


def test_a_config_that_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mine.conf")
    (tmp_path / "large.conf").write_bytes(b"#" * (2 << 20))
    for path in ("/dev/zero", str(tmp_path / "mine.conf"), str(tmp_path / "large.conf"), "/" + "x" * 300, "x" * 5000):
        with pytest.raises(UserError):
            resolve([path])
