"""Refusals of a run: one line that names what, where and the remedy; exit code 2; nothing is built or written.

A row is a command line and a part of the line with which it is refused. PG is a build, OLD an older one; a row without
--pg has PG.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.main import main
from engine.core.model import Build
from engine.plan.request import Request
from tests.faults.arguments import TEXTS
from tests.faults.call import Outcome, call, faults
from workloads import workloads
from workloads.api.options import options_of

ROWS = """
--pg 16.33 => unknown build '16.33' (nearest:
--pg mine=/nonexistent --estimate => there is no folder /nonexistent
--pg PG,PG => given twice
--pg '' => no build given
--config cx8 => unknown config 'cx8' (nearest: cx
--config cx8 --estimate => unknown config 'cx8'
--config few.conf --clients 40 => config 'few': max_connections=60 is too low
--config impatient.conf --pg OLD,PG --interleave slices => config 'impatient': lock_timeout=3s would end statements
--steps l.i0,l.i3 => unknown step 'l.i3' (nearest: l.i
--generation g24c => unknown generation 'g24c' (nearest: g24
--scale quik => unknown scale 'quik' (nearest: quick
--workload insrt => unknown workload 'insrt' (nearest: insert
--base 12.1 => unknown base '12.1'
--probes plannr --estimate => unknown probe 'plannr'
--plan none.toml => cannot be read
--pgg 16 => No such option '--pgg' (Did you mean one of: '--pg',
--untill-known => Did you mean '--until-known'? See bench run --help
--beside => No such option '--beside'
--rows 5000 --scale quick => exclude each other
--pg a=/none,b=/none,c=/none,d=/none --repeats 1000 --config cx5,cx7,auto => 12,000 cells are more than a run may have
--set fsync => NAME=VALUE
--set max_connections=50 --clients 40 => --set: max_connections=50 is too low: this plan needs 220 connections
--set work_memm=5 --pg OLD,PG => --set work_memm=5: unknown to OLD, PG (did you mean work_mem?); check
--set io_method=sync --pg OLD => unknown to OLD
--set logical_decoding_work_mem=1MB --pg OLD,PG => unknown to OLD; put it under [from.N] or [until.N] of a .toml file
--set pg_stat_statements.track=all => is not preloaded; add --set shared_preload_libraries=pg_stat_statements
-O resync_round=3 => unknown option 'resync_round' (nearest: resync_rounds)
-O resync_rounds=many => resync_rounds must be a whole number from 0 to 1,000,000,000, not 'many'
-O delete_form=rang => unknown delete form 'rang' (nearest: range)
-O indexes => -O indexes: give NAME=VALUE
-o indexes=1 => -o is now -O; see bench run --help
--until-known --repeats 4 => --until-known plans up to 8 pairs: leave out --repeats
--until-known --minutes 9 => --minutes also ends once every step is decided: leave out --until-known
--until-known --interleave cells => --until-known analyses pairs of slices: use --interleave slices
--until-known --pg OLD,PG --placement free => analyses pairs of slices, which are impossible here: --placement free
--minutes 0 => --minutes
--interleave slices => 2 to 4 servers side by side
--interleave slices --pg OLD,PG --set-each huge_pages=on,off => huge_pages acts on the memory of the whole machine
--interleave slices --pg OLD,PG --slice-ms 5 => --slice-ms
--interleave slices --pg OLD,PG --slice-ms 1001 => --slice-ms
--listen 10.0.0.1 => --listen 10.0.0.1 is for clients over TCP: add --tcp or --client-host
--port 5433 => --port 5433 is for clients over TCP
--ssh-option Port=22 => --ssh-option: add --client-host
--client-host=-oProxyCommand=x => is not a host name
--pg x=postgresql://me@a..b:5432/db => a part between its dots
--workload own --schema s.sql --from-pg-stat-statements host=a..b => 63 characters
--tcp --listen 192.0.2.1 => --listen 192.0.2.1: not an address of this machine
--preset planer-delete => unknown preset 'planer-delete' (nearest: planner-delete, planner-2024-01)
--preset planner-delete --rows 5000 => is a complete plan
--preset select-scaling --workload insert => runs workload pgbench-select, not insert
--preset select-scaling --scale io => unknown scale 'io'
--workload pgbench-select --scale quick => is a preset's
--workload pgbench-select:x => takes no value after its name
--workload pgbench-select --clients 0 => clients must be a list of whole numbers from 1 to 1,024
--workload pgbench-select --clients a => --clients must be a list of whole numbers from 1 to 1,024, not 'a'
--workload pgbench-select --clients 1,2,1 => --clients: 1 is given twice; give each number once
--workload pgbench-select -j 5 -c 2 => --jobs 5: no step has that many clients
--workload pgbench-select --seconds 3 --transactions 5 => exclude each other
--workload pgbench-select --rate -5 => '--rate' / '-R': -5.0 is too small: give a number greater than 0;
--workload pgbench-select -O rate=0 => rate must be a number greater than 0, at most 1,000,000,000, not '0'
--workload pgbench-select --latency-limit 0 => '--latency-limit': 0.0 is too small: give a number greater than 0;
--workload pgbench-select --interleave slices => slices need 2 to 4 servers side by side
--workload pgbench-select --set max_connections=20 => max_connections=20 is too low
--workload pgbench-select -D x => -D x: give NAME=VALUE
--workload pgbench-select -O init_steps=dtx => a step is one of d, t, g, G, v, p, f
--workload pgbench-select -O init_steps=d => pgbench's own scripts need its tables, which t
--workload pgbench-tpcb --rate 100 --pg OLD,PG --interleave slices => --rate: transactions become due while their
--workload pgbench => no script given
--workload pgbench:none.sql => no such file
--workload pgbench:/tmp => script /tmp: a folder; give a file
--workload pgbench:/dev/zero => script /dev/zero: not a regular file; write its content to one first
--workload micro --clients 3 => workload micro has no option --clients
--workload micro --interleave slices => one-shot timings cannot be interleaved
--workload own => no data: give --dump
--workload own --schema s.sql => no statements: give
--workload own --dump x --schema y --statements z => --dump and --schema: choose one
--workload own --rows-from x => --rows-from goes with --schema
--workload own --schema s.sql --statements none.sql => No such file
--workload own --template 'host=h dbname=d password=p' --statements x => put it into ~/.pgpass
--workload own --template nonsense --statements x => give HOST/DB
--workload oltp --tests hot-point => unknown test 'hot-point' (nearest: hot-points
--workload oltp --rows 0 => 0 is too small: give at least 1,000
--margin 5 => '--margin': 5.0 is too large: give at most 0.5, or write 5%;
--clients 4 18.6 => '18.6' belongs to no option: a list has commas, as in --pg 16.3,18.6; see bench run --help
--workload oltp --tables 65 => 65 is too large: give at most 64
--workload oltp --placement free --interleave slices => --placement free
"""
FILES = {
    "s.sql": "",
    "few.conf": "max_connections = 60\n",
    "impatient.conf": "lock_timeout = 3s\nstatement_timeout = 0\n",
}


@pytest.mark.parametrize("row", ROWS.strip().splitlines())
def test_what_cannot_be_run_is_one_line(row: str, build: Callable[[int | str], Build], tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    typed, said = row.replace("OLD", build(12).label).replace("PG", build(16).label).split(" => ")
    words = shlex.split(typed)
    words += [] if "--pg" in words else ["--pg", build(16).label]
    words += [] if "--estimate" in words else ["--dry-run"]
    outcome = call(("run", *words, "--out", "runs", "--allow-concurrent"), tmp_path)
    assert outcome.code == 2 and outcome.stderr.count("\n") == 1 and outcome.stdout == "", outcome
    assert said in outcome.stderr
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_a_page_is_not_the_folder_of_runs(tmp_path: Path) -> None:
    (tmp_path / "page.html").touch()
    outcome = call(("report", "--out", "page.html"), tmp_path)
    assert outcome.code == 2 and "a page is written with --to" in outcome.stderr


@pytest.mark.parametrize("words, new", [
    (("farm", "plan.toml", "--out", "x"), "--out is now --to; see bench farm --help"),
    (("report", "--runs", "x"), "--runs is now --out; see bench report --help"),
    (("trend", "--report", "x"), "--report is now --to; see bench trend --help"),
])  # fmt: skip
def test_an_option_of_old_is_refused_with_the_new_one(words: tuple[str, ...], new: str, tmp_path: Path) -> None:
    assert call(words, tmp_path) == Outcome(words, 2, "", f"bench: {new}\n")


CHOSEN = [
    (known.name, f"-O{option.name}=" if option.rare else f"{option.flag}=")
    for known in workloads()
    for option in (*options_of(Request), *options_of(known.options))
]


@given(st.sampled_from(CHOSEN), st.sampled_from([*TEXTS.values()]) | st.text())
def test_every_option_value_is_accepted_or_refused_in_a_line(
    build: Callable[[int | str], Build], new_folder: Callable[[], Path], chosen: tuple[str, str], value: str
) -> None:
    (workload, option), out = chosen, new_folder() / "never"
    words = ("--pg", build(16).label, "--workload", workload, "--estimate", "--out", str(out), f"{option}{value}")
    done = CliRunner().invoke(main, ["run", *words])
    assert isinstance(done.exception, SystemExit | None), done.exc_info
    assert not [*faults(Outcome(words, done.exit_code, done.stdout, done.stderr))] and not out.exists()
