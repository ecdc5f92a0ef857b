"""Clients by the thousand that send slowly, stop within a TLS handshake, or never read: a good agent is served beside
them, memory is bounded, and every place is free afterwards."""

import re
import resource
import socket
import ssl
import threading
import time

import pytest
from gateway import WAIT_S, Sockets, until
from test_listeners import Secured

# Of each kind, where the process may open as many files: the gateway has as many sockets again, in a process of its own.
EACH_MAX, FILES_BESIDE = 1000, 500
KINDS = 5
# Bytes that one connection may add to the gateway: its task, what came of its request, its answer, its TLS.
BYTES_EACH = 40 << 10
LIMIT_MS = 8000
# Requests that are sent at once and whose answers nobody reads: more than the two sockets hold, which are made small.
UNREAD, SEGMENT_BYTES, BUFFER_BYTES = 1000, 536, 4096
TOOL = {"name": "echo", "arguments": {"text": "hello"}}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": TOOL}


def each():
    """How many of each kind: what the soft bound on open files allows."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return min(EACH_MAX, (files - FILES_BESIDE) // KINDS)


def client_hello(context):
    """The first bytes of a client's handshake."""
    came, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(came, sent, server_hostname="localhost").do_handshake()
    return sent.read()


class Flood:
    """Connections that are opened and then go on as slowly as they may."""

    def __init__(self):
        self.slow, self.silent, self.unread = [], [], []

    def open(self, count, port, data, into, small=False):
        for _ in range(count):
            stream = socket.socket()
            if small:
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            stream.settimeout(WAIT_S)
            stream.connect(("127.0.0.1", port))
            stream.setblocking(False)
            try:
                stream.send(data)
            except BlockingIOError:
                pass
            into.append(stream)

    def secured(self, count, port, data, context):
        for _ in range(count):
            stream = socket.create_connection(("127.0.0.1", port), WAIT_S)
            stream = context.wrap_socket(stream, server_hostname="localhost")
            stream.sendall(data)
            self.slow.append(stream)

    def drip(self):
        """One byte more of each slow one. Gives how many the gateway has not ended yet."""
        open_ones = 0
        for stream in self.slow:
            try:
                stream.send(b"x")
                open_ones += 1
            except OSError:
                pass
        return open_ones

    def close(self):
        for stream in self.slow + self.silent + self.unread:
            stream.close()


class Agent:
    """A good agent that calls on a connection of its own until it is told to stop."""

    def __init__(self, gateway, connect):
        self.calls, self.slowest_s, self.failed, self.stopping = 0, 0.0, [], False
        self.gateway, self.connection = gateway, connect()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping:
            begun = time.monotonic()
            try:
                answer = self.gateway.post("web", CALL, connection=self.connection)
                assert "result" in answer.json(), answer.body
            except Exception as error:
                self.failed.append(repr(error))
                return
            self.calls += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun)

    def stop(self):
        self.stopping = True
        self.thread.join()
        self.connection.close()


def agents_failed(agents):
    return [why for agent in agents for why in agent.failed]


def gauge(gateway):
    """Connections open now on the listeners of agents."""
    return int(re.search(rb"^weir_connections (\d+)$", gateway.operator("/metrics").body, re.M)[1])


@pytest.fixture
def flooded(origin, tmp_path):
    limits = {"connections_max": 8 * EACH_MAX, "strangers_connections_max": 8 * EACH_MAX, "head_ms": LIMIT_MS,
              "body_ms": LIMIT_MS}
    running = Secured(tmp_path, origin, limits=limits)
    yield running
    running.gateway.stop()


def test_a_good_agent_is_served_beside_thousands_of_bad_clients(flooded):
    gateway, count = flooded.gateway, each()
    assert count >= 100, "ulimit -n is too low for a flood"
    plain, secured, context = gateway.port, flooded.port, flooded.context()
    hello = client_hello(context)
    head = b"POST /mcp/web HTTP/1.1\r\nhost: localhost\r\nx-slow: "
    key = gateway.keys["dev"].encode()
    body = (b"POST /mcp/web HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer " + key
            + b"\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n"
            b"content-length: 100000\r\n\r\n{")
    unread = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n" * UNREAD
    agents = [Agent(gateway, connect) for connect in 2 * [gateway.connect, flooded.connect]]
    until(lambda: all(agent.calls > 5 for agent in agents), "the agents call")
    at_rest, sockets_at_rest = gateway.rss_peak_kb(), Sockets(gateway.process.pid).all
    flood = Flood()
    try:
        flood.open(count, plain, head, flood.slow)
        flood.open(count, plain, body, flood.slow)
        flood.secured(count // 4, secured, head, context)
        flood.open(count, secured, hello[:-1], flood.silent)
        flood.open(count, secured, hello, flood.silent)
        flood.open(count // 2, plain, unread, flood.unread, small=True)
        opened = len(flood.slow) + len(flood.silent) + len(flood.unread)
        together = len(Sockets(gateway.process.pid).accepted)
        assert together > opened // 2, f"only {together} of {opened} at once"
        until(lambda: len(Sockets(gateway.process.pid).unwritten()) >= len(flood.unread), "answers wait to be read")
        # Whoever is slow is ended by the gateway, however often a byte comes, and so is whoever stops in a handshake.
        until(lambda: time.sleep(0.2) or flood.drip() == 0, "all that is slow was ended", LIMIT_MS / 1000 + WAIT_S)
        stay = len(flood.unread) + len(agents)
        until(lambda: len(Sockets(gateway.process.pid).accepted) <= stay, "handshakes that stopped were ended")
        beside = [agent.calls for agent in agents]
        until(lambda: all(agent.calls > before for agent, before in zip(agents, beside)) or agents_failed(agents),
              "the agents go on")
    finally:
        flood.close()
        for agent in agents:
            agent.stop()
    assert not agents_failed(agents), agents_failed(agents)
    grown_kb = gateway.rss_peak_kb() - at_rest
    assert grown_kb * 1024 < opened * BYTES_EACH, f"{opened} connections: {grown_kb} KB more"
    until(lambda: gauge(gateway) == 0, "all places are free")
    until(lambda: not Sockets(gateway.process.pid).accepted, "no socket of a client is left")
    assert Sockets(gateway.process.pid).all <= sockets_at_rest
    print(f"{opened} connections, {together} at once, {sum(agent.calls for agent in agents)} calls, the slowest "
          f"{max(agent.slowest_s for agent in agents):.2f} s, {grown_kb} KB more")
