"""An application of eight tables on two servers, of which one was planted to plan a join differently."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.core.model import Build
from engine.postgres.server import Server
from tests.support.benchcall import Bench
from tests.support.toy import computing

APP = Path(__file__).parents[2] / "workloads" / "own" / "app"
OLD, NEW = 14, 17
# As if the new server's settings had changed what its planner may choose.
PLANTED = """
DO $$ BEGIN
  IF current_setting('server_version_num')::int >= 170000 THEN
    EXECUTE format('ALTER DATABASE %I SET enable_hashjoin = off', current_database());
    EXECUTE format('ALTER DATABASE %I SET enable_mergejoin = off', current_database());
    ALTER TABLE orders ALTER customer_id SET STATISTICS 7;
  END IF;
END $$;
"""
# Contents that a dump of the field has besides tables and rows.
BESIDES = r"""\restrict abc
CREATE DATABASE shop WITH TEMPLATE = template0 ENCODING = 'UTF8' LOCALE = 'en_US.UTF-8';
\connect shop
SET transaction_timeout = 0;
CREATE SCHEMA app;
CREATE TABLE app.noted (id int, note text);
CREATE PROCEDURE app.note(IN i int) LANGUAGE sql BEGIN ATOMIC
 INSERT INTO app.noted SELECT CASE WHEN i > 0 THEN CASE i WHEN 1 THEN 2 END ELSE 3 END, 'x';
 DELETE FROM app.noted WHERE id = 99;
END;
CREATE RULE twice AS ON INSERT TO app.noted DO ( NOTIFY a; NOTIFY b; );
COPY app.noted FROM stdin;
1\tCOMMENT ON TABLE nothing IS 'x';
\.
CREATE FUNCTION app.f() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END; $$;
CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION app.f();
CREATE PUBLICATION live;
ALTER PUBLICATION live OWNER TO postgres;
ALTER PUBLICATION live ADD TABLE ONLY app.noted;
COMMENT ON SCHEMA public IS 'standard public schema';
ALTER TABLE app.noted ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON app.noted TO reader USING (true);
GRANT SELECT ON app.noted TO reader;
""".replace("\n", "\r\n").replace("\\t", "\t")
LEFT_OUT = (
    "left out of app.sql: 1 database property, 1 setting, 1 event trigger, 3 publications, 1 comment, 2 policies, "
    "1 privilege"
)
STATEMENTS = f"""
-- name: sales_by_region
SELECT r.name, count(*) FROM regions r JOIN customers c ON c.region_id = r.id JOIN orders o ON o.customer_id = c.id
GROUP BY r.name;
-- name: only_new
SELECT any_value(id) FROM regions;
-- name: version
SELECT version();
-- name: outlasts_slices
{computing(100)};
"""


@pytest.fixture(scope="module")
def labels(build: Callable[[int | str], Build]) -> tuple[str, str]:
    return build(OLD).label, build(NEW).label


@pytest.fixture(scope="module")
def bench(new_folder: Callable[[], Path], labels: tuple[str, str]) -> Iterator[Bench]:
    bench = Bench((folder := new_folder()) / "runs")
    parts = [BESIDES, (APP / "schema.sql").read_text(), (APP / "rows.sql").read_text(), PLANTED]
    (dump := folder / "app.sql").write_text("\ufeff" + "".join(parts), newline="")
    (statements := folder / "statements.sql").write_text(STATEMENTS)
    done = bench("run", "--pg", ",".join(labels), "--workload", "own", "--dump", str(dump), "--repeats", "1",
                 "--statements", str(statements), "--seconds", "1", "--slice-ms", "20",
                 "--set", "shared_buffers=32MB", "--check-results",
                 "--plain")  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert LEFT_OUT in " ".join((done.stdout + done.stderr).split())
    yield bench
    bench.stop()


def test_the_planted_plan_change_precedes_the_ratios(bench: Bench, labels: tuple[str, str]) -> None:
    text = bench("compare", "--all").stdout
    before = text[: text.index("Throughput")]
    assert text.startswith("Not the same results, or none: only_new, version.\n")
    old, new = labels
    assert f"? only_new fails: {old}: 42883 function any_value(integer) does not exist; {new}: no error" in before
    assert f"? version returns other values with {new} and {old}, in 5 rows each" in before
    assert "plan changed: sales_by_region: Hash Join became Nested Loop on " in before
    settings = "enable_hashjoin on became off, enable_mergejoin on became off"
    assert settings in " ".join(text.split())
    assert "statistics target of public.orders.customer_id as default became 7" in " ".join(text.split())
    assert "One execution, its planning apart" in text


def test_a_statement_that_outlasts_slices_has_its_own_time(bench: Bench) -> None:
    cells = json.loads(bench("compare", "--json").stdout)["cells"]
    assert not any(cell["times_s"] for cell in cells if cell["step"] == "version")
    assert set(bench.bound("outlasts_slices")) == {1}, "the servers have the same CPU"
    for cell in (cell for cell in cells if cell["step"] == "outlasts_slices"):
        assert len(cell["times_s"]) == cell["ops"] > 1
        assert cell["slices"] > len(cell["times_s"]) and cell["rate_per_s"] == pytest.approx(
            cell["ops"] / sum(cell["times_s"]), rel=0.1
        )


def test_plans_stand_side_by_side(bench: Bench) -> None:
    text = bench("compare", "--plan", "sales_by_region").stdout
    assert any(line.startswith("≠") and "Hash Join" in line and "Nested Loop" in line for line in text.splitlines())
    (change,) = json.loads(bench("compare", "--plan", "sales_by_region", "--json").stdout)
    assert change["title"].startswith("Plans of sales_by_region ") and any(row["name"] for row in change["rows"])
    refused = bench("compare", "--plan", "sales_by_regoin")
    assert refused.returncode == 2 and "nearest: sales_by_region" in refused.stderr


@pytest.mark.parametrize(
    ("dump", "statements", "why"),
    [
        ("CREATE EXTENSION postgis;", "-- name: a\nSELECT 1", "the data needs the extension postgis, which "),
        ("-- PostgreSQL database dump\n-- Dumped from database version 17.2\n-- PostgreSQL database dump complete\n",
         "-- name: a\nSELECT 1", "the data was dumped from PostgreSQL 17, newer than "),
        ("SELECT 1;", "-- name: a\nSELECT :x", "a: parameter :x has no rule"),
        ("\\! touch /tmp/pgbed-never\n", "-- name: a\nSELECT 1", "\\! is a command of psql"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_refused_before_anything_is(
    new_folder: Callable[[], Path], labels: tuple[str, str], dump: str, statements: str, why: str
) -> None:
    bench = Bench((folder := new_folder()) / "runs")
    (folder / "a.sql").write_text(dump)
    (folder / "s.sql").write_text(statements)
    done = bench("run", "--pg", ",".join(labels), "--workload", "own", "--dump", str(folder / "a.sql"), "--statements",
                 str(folder / "s.sql"), "--plain")  # fmt: skip
    assert done.returncode == 2 and why in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not list(bench.out.glob("*/manifest.json"))


def test_a_templates_dump_is_made_for_a_run_not_a_dry_one(
    bench: Bench, labels: tuple[str, str], server: Callable[[int | str], Server], new_folder: Callable[[], Path]
) -> None:
    (statements := new_folder() / "s.sql").write_text("-- name: a\nSELECT 1")
    done = bench("run", "--pg", ",".join(labels), "--workload", "own", "--template", server(OLD).dsn(), "--statements",
                 str(statements), "--dry-run", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    manifest = json.loads(done.stdout)["manifest"]
    path = Path(manifest["workload"]["data"]["path"])
    assert path.parent == bench.out / ".data" / manifest["run"] and manifest["workload"]["data"]["major"] == OLD
    assert not path.parent.exists()
