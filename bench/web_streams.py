"""The slow half of `web_lane.py`: a site whose answers never end and which echoes WebSocket messages, what the gateway holds in memory for 1,000 of
these answers, and how soon a stop ends 5,000."""

import asyncio
import base64
import hashlib
import http.client
import json
import selectors
import socket
import ssl
import sys
import threading
import time

import bench

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
# What is due, in MB and milliseconds.
MEMORY_DUE, STOP_ANSWER_MS, STOP_CLOSED_MS = {"plain": 100, "inside of TLS": 160}, 100, 1_000
EVENT = b"data: the gauge was read\n\n"
SETTLE_S, STREAM_S = 4, 8


class Slow:
    """Listens plain and with TLS: every GET is a stream of an event a second, every WebSocket an echo."""

    def __init__(self, certificate, key):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.streams = set()
        self.port, self.secured_port, self.socket_port = (self.listen(tls) for tls in (None, context, None))
        asyncio.run_coroutine_threadsafe(self.tick(), self.loop)

    def listen(self, tls):
        starting = asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=tls, backlog=4096)
        server = asyncio.run_coroutine_threadsafe(starting, self.loop).result()
        return server.sockets[0].getsockname()[1]

    async def tick(self):
        piece = f"{len(EVENT):x}\r\n".encode() + EVENT + b"\r\n"
        while True:
            await asyncio.sleep(1)
            for writer in list(self.streams):
                writer.write(piece)

    async def serve(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            key = next((line.split(b":", 1)[1].strip() for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:")), None)
            if key:
                return await self.echo(reader, writer, key)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            self.streams.add(writer)
            await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.streams.discard(writer)
            writer.close()

    @staticmethod
    async def echo(reader, writer, key):
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: " + accept + b"\r\n\r\n")
        while True:
            first, length = await reader.readexactly(2)
            mask, words = await reader.readexactly(4), await reader.readexactly(length & 0x7F)
            writer.write(bytes([first, len(words)]) + bytes(byte ^ mask[at % 4] for at, byte in enumerate(words)))


def request(gateway, slow, how, key):
    """An open socket on which a stream was asked for."""
    proof = f"proxy-authorization: Bearer {key}\r\n"
    sock = socket.create_connection(("127.0.0.1", gateway["proxy"]), 30)
    if how == "plain":
        host = f"localhost:{slow.port}"
        sock.sendall(f"GET http://{host}/ HTTP/1.1\r\nhost: {host}\r\n{proof}\r\n".encode())
        return sock
    host = f"localhost:{slow.secured_port}"
    sock.sendall(f"CONNECT {host} HTTP/1.1\r\nhost: {host}\r\n{proof}\r\n".encode())
    if b" 200 " not in sock.recv(4096):
        sys.exit("web_lane: no tunnel for a slow stream")
    sock = ssl.create_default_context(cafile=gateway["ca"]).wrap_socket(sock, server_hostname="localhost")
    sock.sendall(f"GET / HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
    return sock


def listen(socks, seconds, until_closed=False):
    """Reads all for so long. Gives how many bytes each gave, and for those that ended, after how many seconds."""
    selector, heard, ended, began = selectors.DefaultSelector(), dict.fromkeys(socks, 0), {}, time.monotonic()
    last_byte = 0.0
    for sock in socks:
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ)
    while time.monotonic() - began < seconds and not (until_closed and len(ended) == len(socks)):
        for found, _ in selector.select(0.05):
            try:
                data = found.fileobj.recv(65_536)
            except (ssl.SSLWantReadError, BlockingIOError):
                continue
            except OSError:
                data = b""
            if data:
                heard[found.fileobj] += len(data)
                last_byte = time.monotonic() - began
            else:
                ended[found.fileobj] = time.monotonic() - began
                selector.unregister(found.fileobj)
    selector.close()
    return heard, ended, last_byte


def close(socks):
    for sock in socks:
        sock.close()


def memory(gateway, slow, count, key):
    """The gateway's memory with so many slow streams, plain and looked into."""
    lines = [f"| {count:,} streams of an event a second | memory (RSS), MB | due, at most |", "|---|--:|--:|"]
    for how, due in MEMORY_DUE.items():
        before = bench.rss_mb(gateway["process"])
        socks = [request(gateway, slow, how, key) for _ in range(count)]
        heard, ended, _ = listen(socks, STREAM_S)
        if ended or min(heard.values()) == 0:
            sys.exit(f"web_lane: of {count} slow streams {len(ended)} ended, {sum(not n for n in heard.values())} said nothing")
        lines.append(f"| {how}; {before:.1f} before them | {bench.rss_mb(gateway['process']):.1f} | {due} |")
        close(socks)
        time.sleep(SETTLE_S)
    return lines


class Operator(http.client.HTTPConnection):
    """The operator's socket."""

    def __init__(self, path):
        super().__init__("localhost")
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def stop(gateway, slow, count, key):
    """A stop of everything with so many streams open: when it is answered, when the last byte comes, when all are closed."""
    socks = [request(gateway, slow, "plain", key) for _ in range(count)]
    listen(socks, 3)
    operator, answer_ms = Operator(gateway["socket"]), []

    def ask():
        began = time.perf_counter()
        operator.request("PUT", "/stops", json.dumps({"stop": ["all"]}), {"content-type": "application/json"})
        answer = operator.getresponse()
        answer.read()
        answer_ms.append((time.perf_counter() - began) * 1e3)
        if answer.status != 200:
            sys.exit(f"web_lane: the stop was answered {answer.status}")
    asking = threading.Thread(target=ask)
    asking.start()
    _, ended, last_byte = listen(socks, 10, until_closed=True)
    asking.join()
    close(socks)
    operator.request("DELETE", "/stops")
    operator.getresponse().read()
    if len(ended) != count:
        sys.exit(f"web_lane: the stop left {count - len(ended)} of {count} streams open")
    return [f"| a stop with {count:,} streams | ms | due, at most |", "|---|--:|--:|", f"| it is answered | {answer_ms[0]:.0f} | {STOP_ANSWER_MS} |",
            f"| the last byte reaches a client | {last_byte * 1e3:.0f} | {STOP_ANSWER_MS} |",
            f"| all are closed | {max(ended.values()) * 1e3:.0f} | {STOP_CLOSED_MS} |"]
