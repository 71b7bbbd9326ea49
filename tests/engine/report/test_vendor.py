"""The libraries that pages bring along are those that were published, and their licences come with them."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from engine.report import flame
from engine.report.html import page

VENDOR = files("engine.report") / "vendor"
DIGESTS = {
    "d3-flamegraph-colorMapper.min.js": "d5c63629e59e04a0d918633cab5ea8b1e2c8c53a8a47d9b3c56f8100784157f3",
    "d3-flamegraph.css": "7d75d68cb662819a37401248863100dd9db351f4bebf3310845d9196fbab7e2a",
    "d3-flamegraph.min.js": "1846f1e636ed1bd2c32fc87d1e24d63aff7e4f18629b4bbd819351f09ea22353",
    "d3-selection.min.js": "45daab9cf677901bcae102f3f23ca2930db3c0fb8ff9e3dbed087d9c4de921ca",
    "d3.min.js": "912111098ea99503a6f4967361d2bbdc9dbf58cf9c678c8e27e5b02d1a07f0c1",
    "plot.umd.min.js": "4358086467740777dd788d6b27a95cebdbaefdd50c730a3060117073bd7134cb",
}


def test_every_library_is_as_it_was_published_and_used() -> None:
    files = {file.name: file.read_bytes() for file in VENDOR.iterdir() if file.name.endswith((".js", ".css"))}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} == DIGESTS
    assert DIGESTS.keys() == {*page.LIBRARY, *flame.LIBRARY, flame.STYLE}


def test_every_licence_is_there() -> None:
    licences = {file.name for file in VENDOR.iterdir() if file.name.startswith("LICENSE")}
    assert licences == {"LICENSE.d3", "LICENSE.plot", "LICENSE.d3-selection", "LICENSE.d3-flame-graph"}
