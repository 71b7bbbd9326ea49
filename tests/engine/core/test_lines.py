"""Lines between processes: how a stream is cut, and the power of a peer that is gone, silent or hostile."""

from __future__ import annotations

import itertools
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import lines
from engine.core.lines import Fault, LineBuffer, LineChannel, LineError, decoded, encoded

MAX = 32
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Pieces of `data`, cut at some places."""
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@contextmanager
def connected(max_bytes: int = MAX) -> Iterator[tuple[LineChannel, socket.socket]]:
    """One end as lines, the other bare."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        yield LineChannel(near.fileno(), near.fileno(), max_bytes), far


@given(st.lists(st.binary(max_size=MAX).filter(lambda line: b"\n" not in line)), st.binary(max_size=MAX), st.data())
def test_lines_are_the_same_however_the_stream_is_cut(lines: list[bytes], rest: bytes, data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + rest.replace(b"\n", b" ")
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    buffer = LineBuffer(MAX)
    assert [line for piece in cut(stream, places) for line in buffer.feed(piece)] == lines


@given(st.integers(MAX + 1, 4 * MAX), st.booleans(), st.lists(st.integers(0, 4 * MAX), max_size=8))
def test_a_line_that_is_too_long_is_refused(size: int, ends: bool, places: list[int]) -> None:
    buffer = LineBuffer(MAX)
    with pytest.raises(LineError) as caught:
        for piece in cut(b"x" * size + b"\n" * ends, places):
            buffer.feed(piece)
    assert caught.value.fault is Fault.TOO_LONG


@pytest.mark.slow
@given(st.dictionaries(st.text(), JSON))
def test_a_record_is_one_line_and_comes_back(record: dict[str, Any]) -> None:
    line = encoded(record)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert decoded(line[:-1]) == record


@pytest.mark.parametrize(
    "line", [b"", b"[]", b"1", b"{", b"\xff", b'{"a": NaN}', b'{"a": 1}\x00', '{"a": 1}'.encode("utf-16"), b"[" * 10**6]
)
def test_anything_but_a_json_object_is_refused(line: bytes) -> None:
    with pytest.raises(LineError) as caught:
        decoded(line)
    assert caught.value.fault is Fault.MALFORMED and len(str(caught.value)) < 500


@given(st.binary())
def test_no_bytes_raise_anything_else(line: bytes) -> None:
    try:
        assert isinstance(decoded(line), dict)
    except LineError as error:
        assert error.fault is Fault.MALFORMED


def test_half_a_line_of_a_dead_peer_is_not_a_line() -> None:
    with connected() as (near, far):
        far.sendall(b"one\ntwo\nhalf")
        far.close()
        assert (near.receive(5), near.receive(5)) == (b"one", b"two")
        with pytest.raises(LineError) as caught:
            near.receive(5)
        assert caught.value.fault is Fault.ENDED and near.ended
        assert near.waiting() == []


def test_a_silent_peer_is_distinguished_from_a_dead_one() -> None:
    with connected() as (near, far):
        far.sendall(b"ha")
        with pytest.raises(LineError, match="it has sent nothing for 0 s") as caught:
            near.receive(0)
        assert caught.value.fault is Fault.SILENT and not near.ended
        far.sendall(b"lf\n")
        assert near.receive(5) == b"half"


def test_a_slow_peer_does_not_postpone_the_timeout() -> None:
    with connected(max_bytes=1 << 20) as (near, far):
        done = threading.Event()

        def drip() -> None:
            while not done.wait(0.001):
                far.sendall(b".")

        peer = threading.Thread(target=drip)
        peer.start()
        try:
            with pytest.raises(LineError) as caught:
                near.receive(0.1)
            assert caught.value.fault is Fault.SILENT
        finally:
            done.set()
            peer.join()


def test_without_waiting_only_what_has_come_is_taken() -> None:
    with connected() as (near, far):
        assert near.waiting() == []
        far.sendall(b"one\ntwo\nth")
        assert near.waiting() == [b"one", b"two"]
        far.sendall(b"ree\n")
        assert near.waiting() == [b"three"]
        far.sendall(b"x" * (MAX + 1))
        with pytest.raises(LineError) as caught:
            near.waiting()
        assert caught.value.fault is Fault.TOO_LONG


def test_a_peer_that_reads_nothing_is_silent() -> None:
    with connected() as (near, far):
        with pytest.raises(LineError, match="it has taken nothing for 0 s") as caught:
            near.write(b"x" * (16 << 20), 0)
        assert caught.value.fault is Fault.SILENT
        far.close()
        with pytest.raises(LineError) as caught:
            near.send({"more": 1}, 5)
        assert caught.value.fault is Fault.ENDED


def test_a_large_record_arrives_whole_over_a_pair_of_pipes() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    record = {"text": "x" * (4 << 20)}
    sender = threading.Thread(target=LineChannel(writing=writing).send, args=(record, 20))
    sender.start()
    try:
        assert decoded(LineChannel(reading).receive(20)) == record
    finally:
        sender.join()
        os.close(reading)
        os.close(writing)


def test_descriptors_beyond_what_select_takes_are_served() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
    try:
        with connected() as (near, far):
            high = os.dup2(near.reading, 2000)
            try:
                far.sendall(b"here\n")
                assert LineChannel(high).receive(5) == b"here"
            finally:
                os.close(high)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, most))


@pytest.mark.slow
def test_it_needs_nothing_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "lines.py").write_bytes(Path(lines.__file__).read_bytes())
    subprocess.run([sys.executable, "-I", "-S", str(tmp_path / "lines.py")], check=True)
