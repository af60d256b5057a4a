"""Lines with a size limit, over real pipes, files and the streams of a process."""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.protocols import frames
from sideband.protocols.frames import (
    CONGESTED_BYTES,
    MAX_FRAME_BYTES,
    ConnectionLost,
    Frame,
    LineBuffer,
    LineTransport,
    Oversized,
    PipeReader,
    standard_streams,
)
from tests.loopback import over_sockets
from tests.piped import piped
from tests.waiting import until

# Answers each frame with its length, and prints where it must not disturb.
ECHO = """
import asyncio
from sideband.protocols.frames import Oversized, standard_streams

async def main():
    async with standard_streams(limit=LIMIT) as transport:
        print("not a frame")
        while frames := await transport.receive():
            for frame in frames:
                transport.send(b"too long" if isinstance(frame, Oversized) else b"%d" % len(frame))

asyncio.run(main())
"""


def echo(limit: int = 100) -> list[str]:
    return [sys.executable, "-W", "error", "-c", ECHO.replace("LIMIT", str(limit))]


@contextmanager
def standing_for_ours(source: IO[bytes], sink: IO[bytes]) -> Iterator[None]:
    """These files are the standard input and output of this process."""
    kept = os.dup(0), os.dup(1)
    os.dup2(source.fileno(), 0)
    os.dup2(sink.fileno(), 1)
    try:
        yield
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


def fed(buffer: LineBuffer, *pieces: bytes) -> list[Frame]:
    return [frame for piece in pieces for frame in buffer.feed(piece)] + buffer.end()


# Lines.


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param([b"a\nb\n"], [b"a", b"b"], id="several-in-one-piece"),
        pytest.param([b"a", b"b", b"\n", b"c\n"], [b"ab", b"c"], id="one-in-several-pieces"),
        pytest.param([b"\n \n\r\na\n\n"], [b"a"], id="blank-lines-are-skipped"),
        pytest.param([b"a\r\nb\r\n"], [b"a", b"b"], id="line-ends-of-windows"),
        pytest.param([b"a\nb"], [b"a", b"b"], id="the-last-line-needs-no-end"),
        pytest.param([b"12345\n"], [b"12345"], id="exactly-the-limit"),
        pytest.param([b"123456\na\n"], [Oversized(5), b"a"], id="over-the-limit"),
        pytest.param([b"123", b"456", b"789", b"\na\n"], [Oversized(5), b"a"], id="over-the-limit-in-pieces"),
        pytest.param([b"123456"], [Oversized(5)], id="over-the-limit-at-the-end"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_a_stream_is_split_into_lines(pieces: list[bytes], expected: list[Frame]) -> None:
    assert fed(LineBuffer(5), *pieces) == expected


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(0, 200)))
def test_it_does_not_matter_how_a_stream_is_cut(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"\n".join(lines)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    assert fed(LineBuffer(8), *pieces) == fed(LineBuffer(8), stream)


# Transports.


@over_sockets
async def test_frames_go_both_ways_until_the_end_of_the_stream() -> None:
    async with piped() as (transport, far):
        far.write(b"one", b"two")
        assert await transport.receive() == [b"one", b"two"]
        transport.send(b"three")
        await transport.drain()
        assert await far.reader.readline() == b"three\n"
        far.writer.write(b"four")
        await far.hang_up()
        assert await transport.receive() == [b"four"]
        assert await transport.receive() == []


@over_sockets
async def test_what_waits_is_sent_before_the_connection_is_closed() -> None:
    async with piped() as (transport, far):
        many = b"x" * CONGESTED_BYTES
        transport.send(many)
        closing = asyncio.ensure_future(transport.close())
        assert await far.reader.readexactly(len(many) + 1) == many + b"\n"
        await closing
        transport.send(b"too late")
        assert await far.reader.read() == b""
        with pytest.raises(ConnectionLost):
            await transport.drain()
        await transport.close()


@over_sockets
async def test_a_frame_leaves_at_once_and_those_that_follow_it_leave_together() -> None:
    (read_end, write_end), sent = os.pipe(), [b"%d" % number for number in range(30_000)]
    leaving, protocol = await asyncio.get_running_loop().connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(write_end, "wb", buffering=0)
    )
    writer = asyncio.StreamWriter(leaving, protocol, None, asyncio.get_running_loop())
    transport = LineTransport(asyncio.StreamReader(), writer)
    with os.fdopen(read_end, "rb", buffering=0) as far:
        for frame in sent[:3]:
            transport.send(frame)
        assert far.read(100) == b"0\n"
        await asyncio.sleep(0)
        assert far.read(100) == b"1\n2\n"
        for frame in sent:
            transport.send(frame)
        closing = asyncio.ensure_future(transport.close())
        assert await asyncio.to_thread(far.readall) == b"".join(frame + b"\n" for frame in sent)
        await closing


@over_sockets
async def test_a_peer_that_has_stopped_reading_cannot_delay_the_end_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "CLOSE_SECONDS", 0.01)
    async with piped() as (transport, far):
        far.reader.set_exception(ConnectionError())  # nothing is read from here on
        far.reader._transport.pause_reading()  # type: ignore[attr-defined]  # the only way to be so slow
        transport.send(b"x" * CONGESTED_BYTES)
        await transport.close()


@over_sockets
async def test_a_slow_reader_congests_the_transport_until_it_reads() -> None:
    async with piped() as (transport, far):
        frame = b"x" * 1023
        sent = 0
        while not transport.is_congested:
            transport.send(frame)
            sent += 1
        assert sent * 1024 > CONGESTED_BYTES
        draining = asyncio.ensure_future(transport.drain())
        while not draining.done():
            assert await far.reader.readline() == frame + b"\n"
            sent -= 1
        assert sent * 1024 < CONGESTED_BYTES


@over_sockets
async def test_waiting_for_a_reader_that_goes_away_ends() -> None:
    async with piped() as (transport, far):
        while not transport.is_congested:
            transport.send(b"x" * 65_536)
        draining = asyncio.ensure_future(transport.drain())
        await asyncio.sleep(0)
        far.reader._transport.close()  # type: ignore[attr-defined]  # the far end of this pipe
        with pytest.raises(ConnectionLost):
            await draining
        with pytest.raises(ConnectionLost):
            await transport.drain()
        await transport.close()


@over_sockets
async def test_a_failing_stream_is_the_end_of_the_stream() -> None:
    async with piped() as (transport, _far):
        reader = asyncio.StreamReader()
        reader.set_exception(ConnectionResetError())
        assert await LineTransport(reader, transport._writer).receive() == []


@over_sockets
async def test_a_line_of_60_megabytes_is_never_in_memory_as_a_whole() -> None:
    async with piped() as (transport, far):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        async def write() -> None:
            piece = b"x" * 2**20
            for _ in range(60):
                far.writer.write(piece)
                await far.writer.drain()
            far.write(b"", b"after")

        writing = asyncio.ensure_future(write())
        received: list[Frame] = []
        while received[-1:] != [b"after"]:
            received += await transport.receive()
        await writing
        assert received == [Oversized(MAX_FRAME_BYTES), b"after"]
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert kilobytes < 30 * 1024


# Standard streams.


def test_standard_streams_carry_nothing_but_frames() -> None:
    done = subprocess.run(echo(), input=b"one\n" + b"x" * 101 + b"\nthree", capture_output=True, check=True)
    assert done.stdout == b"3\ntoo long\n5\n"
    assert done.stderr == b"not a frame\n"


def test_standard_streams_may_be_files(tmp_path: Path) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"".join(b"%d\n" % number for number in range(100_000)))
    with source.open("rb") as stdin, sink.open("wb") as stdout:
        done = subprocess.run(echo(), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, check=True)
    assert sink.read_bytes() == b"".join(b"%d\n" % len(b"%d" % number) for number in range(100_000))
    assert done.stderr == b"not a frame\n"


@over_sockets
async def test_inside_the_streams_print_writes_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"one\ntwo\n")
    with source.open("rb") as stdin, sink.open("wb") as stdout, standing_for_ours(stdin, stdout):
        print("before")  # noqa: T201
        async with standard_streams() as transport:
            print("inside")  # noqa: T201
            assert await transport.receive() == [b"one", b"two"]
            assert await transport.receive() == []
            transport.send(b"three")
        print("after")  # noqa: T201
        await until(lambda: sink.read_bytes() == b"three\n")
    assert capsys.readouterr() == ("before\nafter\n", "inside\n")


@over_sockets
async def test_standard_streams_over_pipes_are_closed_on_leaving() -> None:
    (read_end, write_end), (out_read_end, out_write_end) = os.pipe(), os.pipe()
    with os.fdopen(write_end, "wb", buffering=0) as user, os.fdopen(out_read_end, "rb", buffering=0) as shown:
        with (
            os.fdopen(read_end, "rb") as stdin,
            os.fdopen(out_write_end, "wb") as stdout,
            standing_for_ours(stdin, stdout),
        ):
            async with standard_streams() as transport:
                user.write(b"one\n")
                assert await transport.receive() == [b"one"]
                transport.send(b"two")
        assert shown.read() == b"two\n"
        with pytest.raises(BrokenPipeError):
            user.write(b"three\n")


@over_sockets
async def test_a_terminal_that_goes_away_is_the_end_of_the_stream() -> None:
    user, terminal = os.openpty()
    reader = asyncio.StreamReader()
    # Reading from this side fails when the other one is closed.
    arriving = PipeReader(user, reader)
    os.write(terminal, b"one\n")
    assert await reader.readline() == b"one\r\n"
    os.close(terminal)
    assert await reader.read() == b""
    assert arriving.is_closing()
    arriving.resume_reading()
    arriving.close()


@over_sockets
async def test_a_pipe_that_another_process_has_emptied_is_waited_for() -> None:
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader()
    arriving = PipeReader(read_end, reader)
    os.write(write_end, b"taken\n")
    os.read(read_end, 100)
    arriving._read()
    os.write(write_end, b"one\n")
    os.close(write_end)
    assert await reader.read() == b"one\n"


def test_standard_streams_may_lead_nowhere() -> None:
    done = subprocess.run(
        echo(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=30, check=True
    )
    assert done.stderr == b"not a frame\n"


def test_standard_streams_may_be_a_terminal() -> None:
    master, terminal = os.openpty()
    with os.fdopen(master, "r+b", buffering=0) as user:
        with os.fdopen(terminal, "r+b", buffering=0) as stream:
            process = subprocess.Popen(echo(), stdin=stream, stdout=stream, stderr=subprocess.DEVNULL)
        user.write(b"hello\n\x04")
        shown = b""
        while not shown.endswith(b"5\r\n"):
            shown += user.read(100)
        assert process.wait(30) == 0


def test_leaving_early_ends_the_copying_of_a_file_quietly(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(b"x\n" * 10_000_000)
    program = ECHO.replace("LIMIT", "100").replace("while frames :=", "if frames :=")
    with source.open("rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], stdin=stdin, capture_output=True, check=True
        )
    assert done.stderr == b"not a frame\n"
    assert done.stdout.startswith(b"1\n1\n")
