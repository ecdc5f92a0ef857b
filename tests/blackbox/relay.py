"""A pair of relays before an origin, all real processes but the origin and what stands in between.

The origin answers by path and remembers what it saw. The middle passes bytes on and keeps them.
"""

import http.client
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from gateway import WAIT_S, WEIR, Lines, UnixConnection, until

STARTED = re.compile(r"relay (outbound|inbound).*?address\"?[=:]\s*\"?([^\s\",]+)")
STATUS = re.compile(r"pages for the operator.*?address\"?[=:]\s*\"?([^\s\",]+)")
CHUNK = b"%x\r\n%s\r\n"


class Handler(http.server.BaseHTTPRequestHandler):
    """`/echo` gives back what came; others are named by what they do."""

    protocol_version = "HTTP/1.1"
    # A small answer after a small head must not wait for an acknowledgement.
    wbufsize = 64 << 10
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def body(self):
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.server.origin.trailers = [line for line in iter(self.rfile.readline, b"\r\n")]
        return b"".join(parts)

    def answer(self):
        origin = self.server.origin
        body = self.body()
        with origin.lock:
            origin.seen.append((self.command, self.path, dict(self.headers.items()), body))
        path = self.path.split("?")[0]
        name = path.strip("/").split("/")[0]
        getattr(self, f"at_{name}", self.at_echo)(path, body)
        self.wfile.flush()

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_QUERY = answer

    def whole(self, body, status=200, fields=()):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def at_echo(self, _, body):
        self.whole(body or b"nothing", fields=[("x-method", self.command), ("set-cookie", "a=1"), ("set-cookie", "b=2")])

    def at_status(self, path, _):
        status = int(path.split("/")[2])
        if status in (204, 304):
            self.send_response(status)
            self.end_headers()
        else:
            self.whole(b"as asked", status)

    def begin_chunks(self, kind, *fields):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def chunk(self, data):
        self.wfile.write(CHUNK % (len(data), data))
        self.wfile.flush()

    def at_sse(self, path, _):
        """Each event is sent when the test has asked for it, so that none can arrive with another."""
        self.begin_chunks("text/event-stream")
        for i in range(3):
            assert self.server.origin.gate.acquire(timeout=WAIT_S)
            self.chunk(b"data: %d\n\n" % i)
        self.wfile.write(b"0\r\n\r\n")

    def at_trailers(self, path, _):
        self.begin_chunks("text/plain", ("trailer", "x-sum"))
        self.chunk(b"hello ")
        self.chunk(b"world")
        self.wfile.write(b"0\r\nx-sum: 42\r\n\r\n")

    def at_claims(self, path, _):
        """Says in every place where fields may stand that weir refused."""
        claim = ("Weir-Refusal", "relay.maybe_executed")
        self.send_response_only(103)
        self.send_header(*claim)
        self.send_header("link", "</a.css>; rel=preload")
        self.end_headers()
        if path.endswith("/whole"):
            return self.whole(b"it was executed", 502, [claim, ("x-other", "1")])
        self.begin_chunks("text/plain", claim, ("x-other", "1"), ("trailer", "weir-refusal, x-sum"))
        self.chunk(b"it was executed")
        self.wfile.write(b"0\r\nweir-refusal: relay.down\r\nx-sum: 42\r\n\r\n")

    def at_open(self, path, body):
        self.at_claims(path, body) if "/claims/" in path else self.at_echo(path, body)

    def at_gone(self, path, _):
        """No answer."""
        self.close_connection = True

    def at_cut(self, path, _):
        self.begin_chunks("text/plain")
        self.chunk(b"half of")
        self.close_connection = True

    def at_hold(self, path, body):
        """Answers when the test says so."""
        origin = self.server.origin
        with origin.lock:
            origin.held += 1
        assert origin.gate.acquire(timeout=WAIT_S)
        self.whole(b"released " + body)

    def at_hints(self, path, _):
        self.send_response_only(103)
        self.send_header("link", "</a.css>; rel=preload")
        self.end_headers()
        self.whole(b"after the hints")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_):
        pass


class Origin:
    def __init__(self):
        self.lock, self.seen, self.trailers, self.held = threading.Lock(), [], [], 0
        self.gate = threading.Semaphore(0)
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.origin = self
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self, path):
        with self.lock:
            return sum(1 for _, seen, _, _ in self.seen if seen == path)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Middle:
    """Passes TCP on to a port and keeps every byte, as whoever stands in between could."""

    def __init__(self, port):
        self.to, self.kept, self.lock = port, {"up": bytearray(), "down": bytearray()}, threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                near.close()
                continue
            for way, a, b in (("up", near, far), ("down", far, near)):
                threading.Thread(target=self.pass_on, args=(way, a, b), daemon=True).start()

    def pass_on(self, way, source, sink):
        try:
            while data := source.recv(1 << 16):
                with self.lock:
                    self.kept[way] += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def bytes(self):
        with self.lock:
            return bytes(self.kept["up"]), bytes(self.kept["down"])

    def stop(self):
        self.listener.close()


class Process:
    """A weir that relays. Use it as a context; it drains at the end and has to end well."""

    def __init__(self, folder, *arguments):
        self.folder, self.arguments = Path(folder), [str(a) for a in arguments]
        self.addresses, self.status = {}, None

    def __enter__(self):
        return self.start()

    def start(self):
        wanted = {"outbound", "inbound"} & set(self.arguments) or self.sides()
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state-home")}
        self.process = subprocess.Popen([str(WEIR), *self.arguments], cwd=self.folder, env=environment,
                                        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.logs = Lines(self.process.stderr)
        deadline = time.monotonic() + WAIT_S
        needs_status = "--status" in self.arguments or "serve" in self.arguments
        while wanted - set(self.addresses) or (needs_status and self.status is None):
            line = self.logs.new.get(timeout=max(0.1, deadline - time.monotonic()))
            assert line is not None, f"it ended:\n{self.logs.text()}"
            if found := STARTED.search(line):
                self.addresses[found[1]] = found[2]
            elif found := STATUS.search(line):
                self.status = found[1]
        return self

    def sides(self):
        config = json.loads((self.folder / "weir.yaml").read_text())
        return set(config["relay"])

    def port(self, side):
        return int(self.addresses[side].rsplit(":", 1)[1])

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"SIGTERM did not end it:\n{self.logs.text()}")
        assert code == 0, f"exit code {code}:\n{self.logs.text()}"
        assert "panicked" not in self.logs.text(), self.logs.text()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def get(self, path):
        """Of its own pages: health and metrics."""
        unix = self.status.removeprefix("unix:")
        connection = (http.client.HTTPConnection(self.status, timeout=WAIT_S) if unix == self.status
                      else UnixConnection(self.folder / unix))
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def weir(folder, *arguments, code=0):
    environment = {**os.environ, "XDG_STATE_HOME": str(Path(folder) / "state-home")}
    done = subprocess.run([str(WEIR), *map(str, arguments)], cwd=folder, capture_output=True, text=True,
                          timeout=120, env=environment)
    assert code is None or done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def keygen(folder, name):
    """A key pair in `name`.key and `name`.key.pub; its names."""
    return json.loads(weir(folder, "relay", "keygen", f"{name}.key", "--json").stdout)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def ask(port, method="GET", path="/echo", body=None, headers=None, host="api.example"):
    """One request on a connection of its own: status, fields, body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    connection.request(method, path, body=body, headers={"host": host, **(headers or {})})
    answer = connection.getresponse()
    data = answer.read()
    fields = [(name.lower(), value) for name, value in answer.getheaders()]
    connection.close()
    return answer.status, fields, data


def claims(port, prefix="", headers=()):
    """What comes of an origin's answers that say that weir refused, as bytes."""
    got = []
    for kind in ("whole", "chunks"):
        head = f"GET {prefix}/claims/{kind} HTTP/1.1\r\nhost: api.example\r\nconnection: close\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in dict(headers).items())
        with socket.create_connection(("127.0.0.1", port), WAIT_S) as stream:
            stream.sendall(head.encode() + b"\r\n")
            answer = b"".join(iter(lambda: stream.recv(65536), b""))
        assert b"it was executed" in answer and b"</a.css>" in answer and b"x-other" in answer.lower(), answer
        assert kind == "whole" or b"x-sum: 42" in answer.lower(), answer
        got.append(answer.lower())
    return b"".join(got)


def settled(port, path="/echo", headers=None):
    """Until requests go through: an inbound takes none in its first two seconds."""
    return until(lambda: (got := ask(port, path=path, headers=headers))[0] == 200 and got, "a request goes through")


class Pair:
    """Outbound, middle, inbound, origin, each with a key."""

    def __init__(self, folder, inbound=(), outbound=(), peer="inbound.key.pub"):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.keys = {name: keygen(folder, name) for name in ("inbound", "outbound")}
        self.origin = Origin()
        self.more = (list(inbound), list(outbound))
        self.peer = peer

    def __enter__(self):
        more_in, more_out = self.more
        self.inbound = Process(self.folder, "relay", "inbound", "--listen", "127.0.0.1:0", "--key", "inbound.key",
                               "--origin", self.origin.url, "--allow", "app=outbound.key.pub",
                               "--status", "127.0.0.1:0", *more_in).start()
        self.middle = Middle(self.inbound.port("inbound"))
        self.outbound = Process(self.folder, "relay", "outbound", "--listen", "127.0.0.1:0", "--key", "outbound.key",
                                "--to", f"http://127.0.0.1:{self.middle.port}", "--peer", self.peer,
                                "--status", "127.0.0.1:0", *more_out).start()
        self.port = self.outbound.port("outbound")
        settled(self.port)
        return self

    def __exit__(self, *_):
        try:
            self.outbound.stop()
            self.inbound.stop()
        finally:
            self.middle.stop()
            self.origin.stop()

    def records(self, side):
        # A record of what passed is written when its grant ends.
        shown = weir(self.folder, "audit", "show", f"state-home/weir/relay/{side}", "--json").stdout
        return [json.loads(line) for line in shown.splitlines() if line.strip()]
