"""Labels of `--pg`, taken apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.builds.label import Label, is_external, joined, name_of, parsed
from engine.core.errors import UserError
from workloads.api.lists import comma_list, comma_text


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("16.3", Label("16.3", "label", "16.3")),
        ("17.11:O3", Label("17.11-O3", "label", "17.11", variants=("O3",))),
        (
            "17.11:lto:CFLAGS=-O3 -march=native",
            Label("17.11-lto-O3-march-native", "label", "17.11", variants=("lto", "CFLAGS=-O3 -march=native")),
        ),
        ("16.3+../x=1/fix.patch", Label("16.3-fix", "label", "16.3", patches=("../x=1/fix.patch",))),
        (
            "16.3:O3+a b.diff+/c.patch:cassert",
            Label(
                "16.3-a-b-c-O3-cassert", "label", "16.3", patches=("a b.diff", "/c.patch"), variants=("O3", "cassert")
            ),
        ),
        ("17.11+pgvector", Label("17.11-pgvector", "label", "17.11", extensions=("pgvector",))),
        (
            "old=18.6+mine=~/src/ext+fix.patch+pg_trgm:nofp:layout2",
            Label(
                "old",
                "label",
                "18.6",
                patches=("fix.patch",),
                variants=("nofp", "layout2"),
                extensions=("mine=~/src/ext", "pg_trgm"),
                named=True,
            ),
        ),
        ("18.6:O2+a.patch+b=x.patch", Label("18.6-a-b-x-O2", "label", "18.6", "", ("a.patch", "b=x.patch"), ("O2",))),
        ("fast=17.11:O3", Label("fast", "label", "17.11", variants=("O3",), named=True)),
        ("mine=~/src/postgres", Label("mine", "path", "~/src/postgres", named=True)),
        ("mine=src/16+x:y", Label("mine", "path", "src/16+x:y", named=True)),
        ("mine=./16.3:O3", Label("mine", "path", "./16.3", variants=("O3",), named=True)),
        ("new=git:~/src/pg@HEAD@{1}", Label("new", "revision", "~/src/pg", "HEAD@{1}", named=True)),
        ("new=git:/p@v1~2:O3", Label("new", "revision", "/p", "v1~2", variants=("O3",), named=True)),
    ],
)
def test_what_a_build_is_named_by(text: str, label: Label) -> None:
    assert parsed(text) == label
    assert name_of(text) == label.name


def test_the_folder_of_a_repository_may_have_an_at_sign(tmp_path: Path) -> None:
    for name in ("job", "job@2"):
        (tmp_path / name).mkdir()
    for text, name, revision in (
        ("job@2@v1", "job@2", "v1"),
        ("job@2@HEAD@{1}", "job@2", "HEAD@{1}"),
        ("job@HEAD@{1}", "job", "HEAD@{1}"),
        ("job@@{u}", "job", "@{u}"),
    ):
        label = parsed(f"new=git:{tmp_path}/{text}")
        assert (label.place, label.revision) == (f"{tmp_path}/{name}", revision)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "17.11:O9",
            r"^unknown variant ':O9' \(known: O2, O3, nofp, lto, cassert, jit, meson, layoutN, CFLAGS=FLAGS\)$",
        ),
        ("16.3:O3:", r"^unknown variant ':' \("),
        ("a=", r"^'a=' names no build: NAME=LABEL, NAME=PATH or NAME=git:PATH@REVISION$"),
        ("16.3+v=/x\0", "no name or path holds a null character"),
        ("16.3+", "a patch is named as LABEL"),
        ("git:/p@v1", "needs a name before it: NAME=git:/p@v1"),
        ("new=git:/p", "NAME=git:PATH@REVISION"),
        ("new=git:@v1", "NAME=git:PATH@REVISION"),
        ("new=git:/p@--upload-pack=x", "NAME=git:PATH@REVISION"),
    ],
)
def test_what_names_none_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parsed(text)
    assert name_of(text)


def test_trees_take_extensions_unless_their_name_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "pg").mkdir()
    with_one = parsed(f"mine={tmp_path}/pg:O3+own=~/ext:cassert")
    assert (with_one.place, with_one.extensions) == (f"{tmp_path}/pg", ("own=~/ext",))
    assert with_one.variants == ("O3", "cassert")
    (tmp_path / "pg+own").mkdir()
    assert parsed(f"mine={tmp_path}/pg+own").place == f"{tmp_path}/pg+own"


def test_a_folder_of_that_name_comes_before_a_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parsed("mine=16.3").kind == "label"
    (tmp_path / "16.3").mkdir()
    assert parsed("mine=16.3").kind == "path"


def test_a_connection_string_names_an_external_server() -> None:
    uri, keywords = parsed("prod=postgresql://me@db/shop"), parsed("prod=host=db user=me")
    assert (uri.kind, uri.name, uri.place) == ("server", "prod", "postgresql://me@db/shop")
    assert (keywords.kind, keywords.place) == ("server", "host=db user=me")
    assert not is_external("17.11:CFLAGS=-O3") and not is_external("mine=/opt/pg")


@pytest.mark.parametrize(
    "builds",
    [
        ["a=postgresql://h1,h2/db?target_session_attrs=any", "b=postgresql://h1:5432,10.0.0.2:5433"],
        ["a=host=a,b port=5432,5433 dbname=x", "b=host='x,y' dbname=z"],
        ["a=postgresql:///db?host=h1,h2&port=1,2", "b=postgres://u@h/db"],
        ["a=postgresql://h/db", "16.3"],
        ["a=postgresql://h", "18.6-prebuilt", "17.11:O3"],
        ["16.3", "mine=/opt/a, b", "new=git:~/src@x,y"],
        ["a=host=h dbname=d", "head"],
        ["a=postgresql://h", "mine=/opt/pg", "b=host=h", "fast=17.11:O3", "c=port=1", "new=git:~/src@x"],
    ],
)
def test_a_list_of_builds_keeps_commas_within_quotes(builds: list[str]) -> None:
    assert joined(builds) == tuple(builds)
    assert joined(comma_list(comma_text(builds))) == tuple(builds)
    if not any("/opt/a" in build for build in builds):
        assert joined(comma_list(",".join(builds))) == tuple(builds)


@pytest.mark.slow
@given(st.lists(st.text(min_size=1).filter(lambda text: text == text.strip())))
@example(["'", "'"])
@example(["/o'a", 'b="', '"c'])
def test_a_list_is_read_as_it_was_written(items: list[str]) -> None:
    assert comma_list(comma_text(items)) == items


@pytest.mark.parametrize("text, items", [
    ("a, b,,c", ["a", "b", "c"]), ("", []), (",", []), ("'a,b',c", ["a,b", "c"]), ('"a,b"', ["a,b"]),
    ("/o'brien/x,/d'arc/y", ["/o'brien/x", "/d'arc/y"]), ("a=host='x,y' port=1,b", ["a=host='x,y' port=1", "b"]),
    ("'open,b", ["'open", "b"]),
])  # fmt: skip
def test_quotes_keep_commas(text: str, items: list[str]) -> None:
    assert comma_list(text) == items
