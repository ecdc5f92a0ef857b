"""What a connection costs the gateway in memory while nothing is asked on it."""

import contextlib
import re
import socket
import time
from pathlib import Path

import pytest
from gateway import WAIT_S, Sockets, until
from test_listeners import Secured

COUNT, WARM_UP = 1000, 200
# rustls keeps a read buffer of 4 KB and the state of the session for each connection by TLS.
# `bench/idle_connections.py` measures the same with 10,000.
BYTES_MAX = {"plain": 8 << 10, "TLS": 15 << 10}
# The gateway gives back the buffers that nobody needed for two seconds.
SETTLED_S = 3
REQUEST = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"


def rss_bytes(gateway):
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) << 10


def settled(gateway):
    """The resident memory once it has not changed for a while."""
    last, since, deadline = rss_bytes(gateway), time.monotonic(), time.monotonic() + WAIT_S
    while time.monotonic() < min(since + SETTLED_S, deadline):
        time.sleep(0.1)
        now = rss_bytes(gateway)
        if now != last:
            last, since = now, time.monotonic()
    return last


def connect(port, context):
    """A connection on which one request was answered. Of TLS no more than the socket is kept on this side."""
    stream = socket.create_connection(("127.0.0.1", port), WAIT_S)
    if context:
        stream = context.wrap_socket(stream, server_hostname="localhost")
    stream.sendall(REQUEST)
    answer = stream.recv(4096)
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    return socket.socket(fileno=stream.detach())


def bytes_each(gateway, port, context, count):
    """How much the gateway grows by, for each of so many idle connections."""
    with contextlib.ExitStack() as first:
        for _ in range(WARM_UP):
            first.enter_context(connect(port, context))
    until(lambda: not Sockets(gateway.process.pid).accepted, "the first are closed")
    before = settled(gateway)
    with contextlib.ExitStack() as idle:
        for _ in range(count):
            idle.enter_context(connect(port, context))
        after = settled(gateway)
        assert len(Sockets(gateway.process.pid).accepted) == count
    return (after - before) / count


def gateway_for(folder, origin, count):
    return Secured(folder, origin, limits={"connections_max": count + WARM_UP,
                                           "strangers_connections_max": count + WARM_UP})


@pytest.mark.parametrize("kind", BYTES_MAX)
def test_an_idle_connection_holds_little_memory(origin, tmp_path, kind):
    running = gateway_for(tmp_path, origin, COUNT)
    try:
        ports = {"plain": (running.gateway.port, None), "TLS": (running.port, running.context())}
        found = bytes_each(running.gateway, *ports[kind], COUNT)
        print(f"{kind}: {found:.0f} bytes a connection")
        assert 0 < found <= BYTES_MAX[kind], f"{found:.0f} bytes a connection"
    finally:
        running.gateway.stop()
