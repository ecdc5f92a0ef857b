"""HTTP/2 at the edge of every lane: clients of others get what HTTP/1.1 gets, and what HTTP/2 alone can do wrong is refused."""

import asyncio
import json
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import httpx
import pytest
from gateway import NODE_BIN, Gateway, Origin, until
from http2 import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS,
                   WINDOW_UPDATE, Frames, call, curl, frame)
from test_listeners import HAPROXY, addresses, certified, free_port, port_of
from test_relay_mutual import Authority

H2LOAD = shutil.which("h2load")
NODE = NODE_BIN / "node"
PROTOCOL_ERROR, INTERNAL_ERROR, CANCEL, ENHANCE_YOUR_CALM = 1, 2, 8, 11


class House:
    """A gateway in plain, by TLS, and at a listener where HTTP/2 is off; before an MCP server and a provider of models."""

    def __init__(self, folder, origin):
        self.folder, self.origin, self.provider = folder, origin, Origin(program="provider.py")
        self.authority = Authority()
        (folder / "ca.pem").write_bytes(self.authority.pem)
        tls = {"certificates": certified(folder, self.authority)}
        (folder / "key").write_text("sk-provider-0123456789")
        (folder / "key").chmod(0o600)
        models = {"kind": "vllm", "url": f"http://127.0.0.1:{self.provider.port}/v1", "key": "file:key"}
        listen = ["127.0.0.1:0", {"address": "127.0.0.1:0", "tls": tls},
                  {"address": "127.0.0.1:0", "http2": False}, {"address": "127.0.0.1:0", "tls": tls, "http2": False},
                  "unix:weir.sock"]
        self.gateway = Gateway(folder, {"web": {"url": origin.url}}, listen=listen, llm={"providers": {"main": models}})

    def __enter__(self):
        self.gateway.start()
        self.port, self.tls, self.off, self.tls_off = map(port_of, addresses(self.gateway, 5)[:4])
        self.gateway.port = self.port
        return self

    def __exit__(self, *_):
        try:
            self.gateway.stop()
        finally:
            self.provider.stop()

    def fields(self, **more):
        return [(name, value) for name, value in self.gateway.headers(**more).items()]

    def request(self, path="/mcp/web", method="POST", authority=None, **more):
        """The fields of a request of HTTP/2."""
        pseudo = [(":method", method), (":scheme", "http"), (":authority", authority or f"127.0.0.1:{self.port}"), (":path", path)]
        return pseudo + self.fields(**more)

    def curl(self, url, *arguments, data=None):
        fields = [part for name, value in self.fields() for part in ("-H", f"{name}: {value}")]
        return curl(*arguments, *fields, *(["--data-binary", "@-"] if data else []), url, data=data)

    def opened(self, settings=b""):
        return Frames(self.port, settings)


@pytest.fixture(scope="module")
def house(origin, tmp_path_factory):
    with House(tmp_path_factory.mktemp("http2"), origin) as house:
        yield house


def told(fields):
    """The fields of an answer that do not differ from call to call."""
    own = ("date", "x-request-id", "connection", "transfer-encoding", "weir-call")
    return sorted((name, value) for name, value in fields if name not in own)


def plain(house, path="/mcp/web"):
    return f"http://127.0.0.1:{house.port}{path}"


def test_a_call_is_the_same_by_both(house):
    for data in (call(text="hello"), call("leak"), call("forbidden", text="x" * 300_000), b"{"):
        by = {version: house.curl(plain(house), flag, data=data)
              for version, flag in (("1.1", "--http1.1"), ("2", "--http2-prior-knowledge"))}
        (one, status, fields, body), (two, *other) = by["1.1"], by["2"]
        assert (one, two) == ("1.1", "2")
        assert (status, told(fields)) == (other[0], told(other[1]))
        strip = lambda body: json.loads(body) if body else None
        first, second = strip(body), strip(other[2])
        for answer in (first, second):
            if isinstance(answer, dict) and "error" in answer:
                answer["error"].pop("data", None)
        assert first == second


def test_http2_is_agreed_on_by_tls_and_can_be_off(house):
    ca = ("--cacert", house.folder / "ca.pem")
    for port, flag, version in ((house.tls, "--http2", "2"), (house.tls, "--http1.1", "1.1"), (house.tls_off, "--http2", "1.1")):
        got = house.curl(f"https://localhost:{port}/mcp/web", flag, *ca, data=call(text="by tls"))
        assert got[:2] == (version, 200) and b"by tls" in got[3]
    # Where it is off, the preface is a request that HTTP/1.1 does not have.
    with socket.create_connection(("127.0.0.1", house.off), 10) as stream:
        stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert stream.recv(65536).startswith(b"HTTP/1.1 505 ")
    unix = ("--unix-socket", house.folder / "weir.sock", "--http2-prior-knowledge")
    got = house.curl("http://localhost/mcp/web", *unix, data=call(text="by a socket"))
    assert got[:2] == ("2", 200) and b"by a socket" in got[3]


def test_a_preface_in_pieces(house):
    with socket.create_connection(("127.0.0.1", house.port), 10) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS):
            stream.sendall(bytes([byte]))
            time.sleep(0.002)
        assert stream.recv(65536)[3] == SETTINGS
    # What begins as the preface does may be something else.
    with socket.create_connection(("127.0.0.1", house.port), 10) as stream:
        stream.sendall(b"P")
        time.sleep(0.05)
        stream.sendall(b"OST /nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
        assert stream.recv(65536).startswith(b"HTTP/1.1 404 ")


def test_a_model_streams_the_same_by_both(house):
    ask = json.dumps({"model": "main/say", "stream": True, "messages": [{"role": "user", "content": "hello"}]}).encode()
    url = plain(house, "/v1/chat/completions")
    one = house.curl(url, "--http1.1", data=ask)
    two = house.curl(url, "--http2-prior-knowledge", data=ask)
    assert (one[0], two[0]) == ("1.1", "2") and one[1] == two[1] == 200
    assert one[3] == two[3] and one[3].count(b"data: ") > 2
    assert told(one[2]) == told(two[2])


def test_events_come_one_by_one(house):
    """Progress of a call, over two seconds: the first comes while the call runs."""
    connection = house.opened()
    connection.headers(1, house.request(), END_HEADERS)
    connection.data(1, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                                   "params": {"name": "stream", "arguments": {}, "_meta": {"progressToken": "p"}}}).encode())
    began, got = time.monotonic(), b""
    for kind, flags, stream, content in connection.frames():
        if kind == DATA:
            got += content
            if b"progress" in got:
                break
    assert time.monotonic() - began < 5 and got.count(b"streamed") == 0
    # A stream that is taken back is a client that is gone.
    before = house.origin.seen().get("gone stream", 0)
    connection.send(frame(RST_STREAM, 0, 1, CANCEL.to_bytes(4, "big")))
    until(lambda: house.origin.seen().get("gone stream", 0) > before, "the server sees that nobody reads")
    # The others of its connection go on.
    connection.headers(3, house.request(), END_HEADERS)
    connection.data(3, call(text="after"))
    assert b"after" in connection.answer(3)[1]
    connection.close()


def test_a_call_that_waits_is_cut_by_a_reset(house):
    connection = house.opened()
    connection.headers(1, house.request(x_request_id="reset-1"), END_HEADERS)
    connection.data(1, call("never"))
    until(lambda: house.origin.seen().get("tools/call never"), "the call is there")
    connection.send(frame(RST_STREAM, 0, 1, CANCEL.to_bytes(4, "big")))
    until(lambda: any(record.get("end") == "cut" or "cut" in json.dumps(record) for record in house.gateway.records()[-5:]),
          "the call is recorded as cut")
    connection.close()


def test_many_at_once_on_one_connection(house):
    async def all_of_them():
        async with httpx.AsyncClient(http1=False, http2=True, timeout=60) as client:
            ask = lambda i: client.post(plain(house), headers=house.gateway.headers(), content=call(id=i, text=f"number {i}"))
            return await asyncio.gather(*[ask(i) for i in range(200)])
    answers = asyncio.run(all_of_them())
    assert {answer.http_version for answer in answers} == {"HTTP/2"}
    for i, answer in enumerate(answers):
        assert answer.status_code == 200 and answer.json()["id"] == i and f"number {i}" in answer.text


NODE_CLIENT = """
const http2 = require("http2");
const [url, ca, key, body] = process.argv.slice(1);
const client = http2.connect(url, { ca: require("fs").readFileSync(ca) });
client.on("error", (error) => { console.error(error); process.exit(1); });
const request = client.request({ ":method": "POST", ":path": "/mcp/web", authorization: "Bearer " + key,
  "content-type": "application/json", accept: "application/json, text/event-stream" });
let text = "";
request.on("response", (fields) => { text += fields[":status"] + " "; });
request.on("data", (data) => { text += data; });
request.on("end", () => { console.log(text); client.close(); });
request.end(body);
"""


def test_node_and_h2load(house):
    arguments = [f"https://localhost:{house.tls}", house.folder / "ca.pem", house.gateway.keys["dev"], call(text="of node").decode()]
    node = shutil.which("node") or NODE
    done = subprocess.run([str(node), "-e", NODE_CLIENT, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("200 ") and "of node" in done.stdout, done
    if not H2LOAD:
        pytest.skip("h2load is not installed")
    body = house.folder / "body"
    body.write_bytes(call(text="x" * 2000))
    fields = [part for name, value in house.fields() for part in ("-H", f"{name}: {value}")]
    done = subprocess.run([H2LOAD, "-n", "2000", "-c", "4", "-m", "32", "-d", body, *fields, plain(house)],
                          capture_output=True, text=True, timeout=120)
    assert "2000 succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout, done.stdout + done.stderr


MUST_NOT = {
    "upper case": [("X-Upper", "a")],
    "connection": [("connection", "x-a")],
    "keep-alive": [("keep-alive", "timeout=5")],
    "proxy-connection": [("proxy-connection", "close")],
    "upgrade": [("upgrade", "websocket")],
    "te": [("te", "gzip")],
    "transfer-encoding": [("transfer-encoding", "chunked")],
    "a second authority": [(":authority", "other.example")],
    "another host": [("host", "other.example")],
    "two hosts": [("host", "SAME"), ("host", "SAME")],
    "a pseudo-field that is late": [("x-a", "b"), (":path", "/other")],
    "an unknown pseudo-field": [(":route", "x")],
    "CR LF in a value": [("x-a", "b\r\nx-evil: 1")],
    "LF in a value": [("x-a", "b\nx-evil: 1")],
    "NUL in a value": [("x-a", "b\0c")],
    "CR LF in a name": [("x-a\r\nx-evil", "1")],
    "a colon in a name": [("x:a", "1")],
    "a space in a name": [("x a", "1")],
    "an empty name": [("", "1")],
    "a length that is short": [("content-length", "3")],
    "a length that is long": [("content-length", "3000")],
    "two lengths": [("content-length", "SIZE"), ("content-length", "1")],
    "a length that is no number": [("content-length", "+5")],
    "a value that begins with a space": [("x-a", " b")],
}


def refused(got):
    """Whether a stream was refused, and not answered by what stands behind the edge."""
    if got[0] in ("reset", "goaway", "closed"):
        return True
    return got[0][":status"] in ("400", "431", "501")


@pytest.mark.parametrize("what", MUST_NOT)
def test_what_http11_must_not_say_is_refused(house, what):
    body, same = call(text="must not"), f"127.0.0.1:{house.port}"
    more = [(name, value.replace("SAME", same).replace("SIZE", str(len(body)))) for name, value in MUST_NOT[what]]
    before = house.origin.seen().get("tools/call echo", 0)
    connection = house.opened()
    connection.headers(1, house.request() + more, END_HEADERS)
    try:
        connection.data(1, body)
    except OSError:
        pass
    assert refused(connection.answer(1)), what
    connection.close()
    assert house.origin.seen().get("tools/call echo", 0) == before


PSEUDO = {
    "a path with a space": {":path": "/mcp/web HTTP/1.1"},
    "a path with CR LF": {":path": "/mcp/web HTTP/1.1\r\nx-evil: 1\r\n\r\n"},
    "no path": {":path": None},
    "an empty path": {":path": ""},
    "a path that is no path": {":path": "mcp/web"},
    "an asterisk": {":path": "*"},
    "no method": {":method": None},
    "a method with a space": {":method": "POST /x HTTP/1.1"},
    "CONNECT": {":method": "CONNECT", ":scheme": None, ":path": None},
    "extended CONNECT": {":method": "CONNECT", ":protocol": "websocket"},
    "another scheme": {":scheme": "ftp"},
    "no authority": {":authority": None},
    "an empty authority": {":authority": ""},
    "a user in the authority": {":authority": "me@127.0.0.1"},
    "an authority with a path": {":authority": "127.0.0.1/x"},
    "an authority with a space": {":authority": "127.0.0.1 x"},
}


@pytest.mark.parametrize("what", PSEUDO)
def test_a_pseudo_field_that_lies_is_refused(house, what):
    asked = dict(house.request())
    head = {name: asked.pop(name) for name in (":method", ":scheme", ":authority", ":path")} | PSEUDO[what]
    fields = [(name, value) for name, value in [*head.items(), *asked.items()] if value is not None]
    before = house.origin.seen().get("tools/call echo", 0)
    connection = house.opened()
    connection.headers(1, fields, END_HEADERS)
    try:
        connection.data(1, call(text="must not"))
    except OSError:
        pass
    got = connection.answer(1)
    assert refused(got), (what, got)
    if what == "CONNECT":
        assert got[0][":status"] == "501" and b"http.unsupported" in got[1]
    connection.close()
    assert house.origin.seen().get("tools/call echo", 0) == before


def test_a_head_that_is_too_large(house):
    for count, size in ((3, 20_000), (150, 10)):
        connection = house.opened()
        block = connection.encoder.encode(house.request() + [(f"x-{i}", "a" * size) for i in range(count)], huffman=False)
        parts = [block[i:i + 16_000] for i in range(0, len(block), 16_000)]
        kinds = [HEADERS] + [CONTINUATION] * (len(parts) - 1)
        for i, (kind, part) in enumerate(zip(kinds, parts)):
            last = END_HEADERS if i == len(parts) - 1 else 0
            connection.send(frame(kind, last | (END_STREAM if kind == HEADERS else 0), 1, part))
        got = connection.answer(1)
        assert got[0][":status"] == "431", got
        connection.close()


def flooded(house, what, seconds=20):
    """Sends until the gateway ends the connection: the code that it says."""
    connection = house.opened()
    got = {}

    def read():
        try:
            for kind, _, _, content in connection.frames(seconds):
                if kind == GOAWAY:
                    got["code"] = int.from_bytes(content[4:8], "big")
        except (OSError, TimeoutError):
            pass
        got["ended"] = True

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        what(connection, lambda: "ended" in got)
    except OSError:
        pass
    reader.join(seconds)
    assert got.get("ended"), "the connection goes on"
    connection.close()
    return got.get("code")


def repeated(data, count=200_000):
    def send(connection, is_over):
        for _ in range(count // 100):
            if is_over():
                return
            connection.send(data * 100)
    return send


def rapid_reset(house):
    def send(connection, is_over):
        for i in range(20_000):
            if is_over():
                return
            block = connection.encoder.encode(house.request(), huffman=False)
            id = 2 * i + 1
            connection.send(frame(HEADERS, END_HEADERS, id, block) + frame(RST_STREAM, 0, id, CANCEL.to_bytes(4, "big")))
    return send


def test_floods_end_the_connection(house):
    memory = house.gateway.rss_peak_kb()
    floods = {
        "settings": repeated(frame(SETTINGS)),
        "settings that say much": repeated(frame(SETTINGS, body=struct.pack(">HL", 4, 65_535) * 50)),
        "pings": repeated(frame(PING, body=b"12345678")),
        "priorities": repeated(frame(PRIORITY, 0, 1, b"\0\0\0\0\x10")),
        "unknown frames": repeated(frame(0x42, 0, 0, b"")),
        "rapid reset": rapid_reset(house),
    }

    def continuation(connection, is_over):
        connection.send(frame(HEADERS, 0, 1, connection.encoder.encode(house.request(), huffman=False)))
        repeated(frame(CONTINUATION, 0, 1, b""))(connection, is_over)

    def large_continuation(connection, is_over):
        connection.send(frame(HEADERS, 0, 1, connection.encoder.encode(house.request(), huffman=False)))
        field = connection.encoder.encode([("x-a", "b" * 15_000)], huffman=False)
        repeated(frame(CONTINUATION, 0, 1, field), 20_000)(connection, is_over)

    def empty_data(connection, is_over):
        connection.headers(1, house.request(), END_HEADERS)
        repeated(frame(DATA, 0, 1, b""))(connection, is_over)

    floods |= {"continuation": continuation, "large continuation": large_continuation, "empty data": empty_data}
    for name, flood in floods.items():
        code = flooded(house, flood)
        assert code in (None, PROTOCOL_ERROR, ENHANCE_YOUR_CALM), (name, code)
    assert house.gateway.rss_peak_kb() - memory < 48 << 10
    assert b"still here" in house.curl(plain(house), "--http2-prior-knowledge", data=call(text="still here"))[3]


def test_streams_have_a_bound(house):
    """A thousand streams whose bodies do not come: 128 are kept, the others are refused; memory stays."""
    memory = house.gateway.rss_peak_kb()
    connections = [house.opened() for _ in range(8)]
    for connection in connections:
        for i in range(125):
            connection.headers(2 * i + 1, house.request(), END_HEADERS)
            connection.data(2 * i + 1, b'{"jsonrpc"', 0)
    assert house.gateway.rss_peak_kb() - memory < 96 << 10
    for i in range(125, 135):
        connections[0].headers(2 * i + 1, house.request(), END_HEADERS)
    assert connections[0].answer(2 * 134 + 1) == ("reset", 7)
    # None of them is in the way of others.
    assert b"meanwhile" in house.curl(plain(house), "--http2-prior-knowledge", data=call(text="meanwhile"))[3]
    for connection in connections:
        connection.close()
    connection = house.opened()
    connection.headers(1, house.request(), END_HEADERS)
    connection.data(1, call(text="afterwards"))
    assert b"afterwards" in connection.answer(1)[1]
    connection.close()


def test_a_window_of_nothing_holds_nothing_back(house):
    """A client that takes nothing has its answers kept in bounds, and others theirs."""
    memory = house.gateway.rss_peak_kb()
    nothing = struct.pack(">HL", 4, 0)
    connections = [house.opened(nothing) for _ in range(4)]
    for connection in connections:
        for i in range(100):
            connection.headers(2 * i + 1, house.request(), END_HEADERS)
            connection.data(2 * i + 1, call(id=i, text="y" * 500))
    connection = house.opened()
    connection.headers(1, house.request(), END_HEADERS)
    connection.data(1, call(text="others"))
    assert b"others" in connection.answer(1)[1]
    assert house.gateway.rss_peak_kb() - memory < 96 << 10
    # The window opens, and what was held comes.
    first = connections[0]
    first.send(frame(WINDOW_UPDATE, 0, 1, (1 << 20).to_bytes(4, "big")))
    got = first.answer(1)
    assert got[0][":status"] == "200" and b"y" * 500 in got[1]
    for connection in [*connections, connection]:
        connection.close()


def test_a_drain_says_goaway_and_lets_calls_end(house, tmp_path, origin):
    with Gateway(tmp_path / "drain", {"web": {"url": origin.url}}) as gateway:
        idle, busy = Frames(gateway.port), Frames(gateway.port)
        fields = [(":method", "POST"), (":scheme", "http"), (":authority", f"127.0.0.1:{gateway.port}"), (":path", "/mcp/web"),
                  *gateway.headers().items()]
        busy.headers(1, fields, END_HEADERS)
        # An answer says that what was sent before it is there.
        for connection in (idle, busy):
            connection.headers(3, [*fields[:3], (":path", "/health/live")])
            assert connection.answer(3)[0][":status"] == "405"
        began = time.monotonic()
        gateway.process.send_signal(signal.SIGTERM)
        goaways = [int.from_bytes(content[4:8], "big") for kind, _, _, content in idle.frames(10) if kind == GOAWAY]
        assert goaways and set(goaways) == {0} and time.monotonic() - began < 5
        busy.data(1, call(text="to the end"))
        assert b"to the end" in busy.answer(1)[1]
        idle.close(), busy.close()
        gateway.process.wait(20)


def test_a_client_that_says_nothing_is_not_waited_for(tmp_path, origin):
    with Gateway(tmp_path / "slow", {"web": {"url": origin.url}}, limits={"head_ms": 1000}) as gateway:
        silent = socket.create_connection(("127.0.0.1", gateway.port), 10)
        half = Frames(gateway.port)
        # A head that never ends.
        half.send(frame(HEADERS, 0, 1, b"\x83"))
        preface = socket.create_connection(("127.0.0.1", gateway.port), 10)
        preface.sendall(b"PRI * HTTP/2.0\r\n")
        for connection in (silent, preface):
            connection.settimeout(10)
            assert connection.recv(65536)[9:] in (b"", connection.recv(0)) or connection.recv(65536) == b""
        assert half.answer(1, 10)[0] in ("closed", "goaway")
        for connection in (silent, half, preface):
            connection.close()


HAPROXY_CFG = """defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend plain
  bind 127.0.0.1:{plain} proto h2
  http-request deny deny_status 403 if !{{ req.ver -m beg 2 }}
  default_backend web
frontend tls
  bind 127.0.0.1:{tls} ssl crt {folder}/both.pem alpn h2,http/1.1
  http-request deny deny_status 403 if !{{ req.ver -m beg 2 }}
  default_backend web
backend web
  server web 127.0.0.1:{web}
"""


def test_http2_towards_servers(tmp_path, origin):
    """HAProxy before an MCP server, with listeners that take HTTP/2 alone: by prior knowledge, and by TLS."""
    authority = Authority()
    certified(tmp_path, authority, "haproxy")
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    (tmp_path / "both.pem").write_bytes((tmp_path / "haproxy.crt").read_bytes() + (tmp_path / "haproxy.pem").read_bytes())
    plain, tls = free_port(), free_port()
    (tmp_path / "haproxy.cfg").write_text(HAPROXY_CFG.format(plain=plain, tls=tls, web=origin.port, folder=tmp_path))
    proxy = subprocess.Popen([HAPROXY, "-f", tmp_path / "haproxy.cfg", "-db"], stderr=subprocess.DEVNULL)
    try:
        until(lambda: reached(plain) and reached(tls), "HAProxy listens")
        servers = {"plain": {"url": f"http://127.0.0.1:{plain}/mcp", "http2": True},
                   "tls": {"url": f"https://localhost:{tls}/mcp", "http2": True, "ca": f"file:{tmp_path}/ca.pem"},
                   "older": {"url": f"https://localhost:{tls}/mcp", "ca": f"file:{tmp_path}/ca.pem"}}
        with Gateway(tmp_path / "weir", servers) as gateway:
            for name in ("plain", "tls"):
                for i in range(5):
                    answer = gateway.post(name, json.loads(call(id=i, text=f"{name} {i}")))
                    assert answer.status == 200 and f"{name} {i}" in answer.body.decode(), answer.body
                large = gateway.post(name, json.loads(call(text="z" * 1_000_000)))
                assert large.status == 200 and len(large.body) > 1_000_000
            older = gateway.post("older", json.loads(call()))
            assert "error" in older.json(), older.body
            sockets = f"dst {'127.0.0.1'}:{plain}"
            shown = subprocess.run(["ss", "-Htn", "state", "established", sockets], capture_output=True, text=True).stdout
            assert len(shown.splitlines()) <= 2, shown
    finally:
        proxy.kill()
        proxy.wait()


def reached(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
