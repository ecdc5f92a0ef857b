"""HTTP/2 by hand: frames as the test wants them, by the libraries of python-hyper, and curl."""

import json
import re
import socket
import ssl
import subprocess
import time

from hpack import Decoder, Encoder
from hyperframe.frame import Frame

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
WAIT_S = 20


def frame(kind, flags=0, stream=0, body=b""):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


class Frames:
    """A connection on which a test says what it wants."""

    def __init__(self, port, settings=b"", tls=None):
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.encoder, self.decoder, self.buffer = Encoder(), Decoder(), b""
        self.encoder.huffman = False
        self.send(PREFACE + frame(SETTINGS, body=settings))

    def send(self, data):
        self.socket.sendall(data)

    def headers(self, stream, fields, flags=END_HEADERS | END_STREAM):
        self.send(frame(HEADERS, flags, stream, self.encoder.encode(fields, huffman=False)))

    def data(self, stream, body, flags=END_STREAM):
        self.send(frame(DATA, flags, stream, body))

    def frames(self, seconds=WAIT_S):
        """What comes, frame by frame, until the connection ends; settings and pings are answered."""
        end = time.monotonic() + seconds
        while True:
            while len(self.buffer) >= 9:
                head, length = Frame.parse_frame_header(memoryview(self.buffer[:9]))
                if len(self.buffer) < 9 + length:
                    break
                head.parse_body(memoryview(self.buffer[9:9 + length]))
                kind, flags, body = self.buffer[3], self.buffer[4], self.buffer[9:9 + length]
                if kind == HEADERS:  # All of them are decoded: one depends on those before.
                    body = [(str(name), str(value)) for name, value in self.decoder.decode(body)]
                self.buffer = self.buffer[9 + length:]
                if kind in (SETTINGS, PING) and not flags & ACK:
                    self.acknowledge(kind, body)
                yield kind, flags, head.stream_id, body
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no end within {seconds} s")
            self.socket.settimeout(left)
            try:
                more = self.socket.recv(65536)
            except (ConnectionError, ssl.SSLError):
                return
            if not more:
                return
            self.buffer += more

    def acknowledge(self, kind, body):
        try:
            self.send(frame(kind, ACK, body=body if kind == PING else b""))
        except OSError:
            pass  # What came before the end is still to be read.

    def answer(self, stream, seconds=WAIT_S):
        """What becomes of a stream: ("reset", code), ("goaway", code), ("closed", None), or its fields and body."""
        fields, trailers, body = None, None, b""
        try:
            for kind, flags, id, content in self.frames(seconds):
                if kind == GOAWAY and int.from_bytes(content[4:8], "big"):
                    return "goaway", int.from_bytes(content[4:8], "big")
                if id != stream:
                    continue
                if kind == RST_STREAM:
                    return "reset", int.from_bytes(content, "big")
                if kind == HEADERS:
                    fields, trailers = (fields, content) if fields and fields[0] != (":status", "100") else (content, trailers)
                if kind == DATA:
                    body += content
                    self.send(frame(WINDOW_UPDATE, 0, 0, len(content).to_bytes(4, "big")) if content else b"")
                if kind in (HEADERS, DATA) and flags & END_STREAM:
                    return dict(fields), body, dict(trailers or [])
        except (BrokenPipeError, ConnectionError):
            pass
        return "closed", None

    def close(self):
        self.socket.close()


def curl(*arguments, data=None):
    """Runs curl: the version of HTTP that it spoke, the status, the fields, the body."""
    command = ["curl", "--silent", "--show-error", "--max-time", "30", "--include",
               "--write-out", "\n%{http_version} %{http_code}", *map(str, arguments)]
    done = subprocess.run(command, input=data, capture_output=True, timeout=60)
    assert done.returncode == 0, f"{command}: {done.returncode} {done.stderr.decode()} {done.stdout[:500]}"
    text, _, last = done.stdout.rpartition(b"\n")
    version, status = last.decode().split()
    head, _, body = text.partition(b"\r\n\r\n")
    while re.match(rb"HTTP/[0-9.]+ 1[0-9][0-9]", head):
        head, _, body = body.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")[1:]
    fields = [tuple(line.split(": ", 1)) if ": " in line else (line.rstrip(":"), "") for line in lines]
    return version, int(status), [(name.lower(), value) for name, value in fields], body


def call(tool="echo", id=7, **arguments):
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                       "params": {"name": tool, "arguments": arguments}}).encode()
