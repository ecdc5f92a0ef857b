"""The sealed relay as its users have it: two processes, clients that we did not write, an origin."""

import http.client
import json
import shutil
import socket
import subprocess
import threading

import httpx2
import pytest
from gateway import WAIT_S, until
from relay import Origin, Pair, Process, ask, claims, free_port, keygen, settled, weir

CANARY = "canary-7f3a91c2"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with Pair(tmp_path_factory.mktemp("pair")) as running:
        yield running


# What passes.


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"])
def test_each_method_arrives_as_it_was(pair, method):
    body = f"{method} {CANARY}".encode() if method not in ("GET", "OPTIONS") else None
    status, fields, data = ask(pair.port, method, f"/echo?m={method}&x=%2F", body, {"x-thing": "Straße".encode()})
    assert status == 200 and data == (body or b"nothing")
    assert ("x-method", method) in fields
    assert [value for name, value in fields if name == "set-cookie"] == ["a=1", "b=2"]
    seen = next(s for s in reversed(pair.origin.seen) if s[1] == f"/echo?m={method}&x=%2F")
    headers = {name.lower(): value for name, value in seen[2].items()}
    assert seen[3] == (body or b"") and headers["host"] == "api.example"
    assert headers["x-thing"].encode("latin-1") == "Straße".encode()


def test_head_has_the_length_and_no_body(pair):
    status, fields, data = ask(pair.port, "HEAD", "/echo")
    assert status == 200 and data == b"" and ("content-length", "7") in fields
    # The connection is whole: the next request on it is answered.
    connection = http.client.HTTPConnection("127.0.0.1", pair.port, timeout=WAIT_S)
    for method in ("HEAD", "GET", "HEAD", "GET"):
        connection.request(method, "/echo", headers={"host": "api.example"})
        answer = connection.getresponse()
        assert answer.read() == (b"nothing" if method == "GET" else b"")
    connection.close()


@pytest.mark.parametrize("status", [201, 204, 301, 304, 404, 418, 500, 503, 599])
def test_the_origins_status_is_its_own(pair, status):
    got, _, data = ask(pair.port, path=f"/status/{status}")
    assert got == status and data == (b"" if status in (204, 304) else b"as asked")


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 5_000_003])
def test_bodies_of_every_size(pair, size):
    body = bytes(i % 251 for i in range(997)) * (size // 997 + 1)
    body = body[:size]
    status, _, data = ask(pair.port, "POST", "/echo", body)
    assert status == 200 and data == (body or b"nothing")


def test_a_chunked_upload_and_its_answer(pair):
    pieces = [bytes([i]) * (i * 700 + 1) for i in range(90)]
    connection = http.client.HTTPConnection("127.0.0.1", pair.port, timeout=WAIT_S)
    connection.request("POST", "/echo", body=iter(pieces), headers={"host": "api.example"}, encode_chunked=True)
    answer = connection.getresponse()
    assert answer.status == 200 and answer.read() == b"".join(pieces)
    connection.close()


def raw(pair, text):
    stream = socket.create_connection(("127.0.0.1", pair.port), WAIT_S)
    stream.sendall(text)
    return stream


def read_until(stream, what):
    got = b""
    while what not in got:
        data = stream.recv(65536)
        assert data, f"it ended with {got!r}"
        got += data
    return got


def test_trailers_pass_both_ways(pair):
    stream = raw(pair, b"POST /trailers HTTP/1.1\r\nhost: api.example\r\ntransfer-encoding: chunked\r\n"
                       b"trailer: x-up\r\n\r\n3\r\nabc\r\n0\r\nx-up: yes\r\n\r\n")
    got = read_until(stream, b"x-sum: 42").lower()
    assert b"200" in got.split(b"\r\n")[0] and b"hello " in got and b"world" in got
    assert [line.lower().strip() for line in pair.origin.trailers] == [b"x-up: yes"]


def test_an_origin_cannot_say_that_weir_refused(pair):
    assert b"weir-refusal" not in claims(pair.port).replace(b"trailer: weir-refusal", b"")


def test_events_arrive_one_by_one(pair):
    connection = http.client.HTTPConnection("127.0.0.1", pair.port, timeout=WAIT_S)
    connection.request("GET", "/sse", headers={"host": "api.example"})
    answer = connection.getresponse()
    assert answer.getheader("content-type") == "text/event-stream"
    for i in range(3):
        pair.origin.gate.release()
        assert answer.readline() == b"data: %d\n" % i
        assert answer.readline() == b"\n"
    assert answer.read() == b""
    connection.close()


def test_a_client_that_waits_to_be_asked_for_its_body(pair):
    stream = raw(pair, b"POST /echo HTTP/1.1\r\nhost: api.example\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n")
    assert read_until(stream, b"\r\n\r\n").startswith(b"HTTP/1.1 100")
    stream.sendall(b"hello")
    got = read_until(stream, b"hello")
    assert b"HTTP/1.1 200" in got


def test_informational_answers_pass(pair):
    stream = raw(pair, b"GET /hints HTTP/1.1\r\nhost: api.example\r\n\r\n")
    got = read_until(stream, b"after the hints")
    assert got.startswith(b"HTTP/1.1 103") and b"preload" in got and b"HTTP/1.1 200" in got


def test_a_cut_answer_never_ends_cleanly(pair):
    connection = http.client.HTTPConnection("127.0.0.1", pair.port, timeout=WAIT_S)
    connection.request("GET", "/cut", headers={"host": "api.example"})
    answer = connection.getresponse()
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        answer.read()


def test_httpx(pair):
    with httpx2.Client(base_url=f"http://127.0.0.1:{pair.port}", timeout=WAIT_S) as client:
        for i in range(50):
            answer = client.post(f"/echo?i={i}", json={"i": i}, headers={"host": "api.example"})
            assert answer.status_code == 200 and answer.json() == {"i": i}
        with client.stream("GET", "/trailers", headers={"host": "api.example"}) as answer:
            assert answer.read() == b"hello world"


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl(pair, tmp_path):
    (tmp_path / "body").write_bytes(b"x" * 300_000)
    command = ["curl", "-sS", "--fail", "-H", "Host: api.example", "--data-binary", f"@{tmp_path}/body",
               "-o", str(tmp_path / "out"), f"http://127.0.0.1:{pair.port}/echo"]
    subprocess.run(command, check=True, timeout=60)
    assert (tmp_path / "out").read_bytes() == b"x" * 300_000


def test_many_at_once(pair):
    wrong = []

    def client(n):
        connection = http.client.HTTPConnection("127.0.0.1", pair.port, timeout=60)
        for i in range(40):
            body = f"{n}/{i} ".encode() * 600
            connection.request("POST", "/echo", body=body, headers={"host": "api.example"})
            answer = connection.getresponse()
            data = answer.read()
            if answer.status != 200 or data != body:
                wrong.append((n, i, answer.status, data[:80]))

    threads = [threading.Thread(target=client, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]


# What does not.


@pytest.mark.parametrize("head", [
    b"CONNECT api.example:443 HTTP/1.1\r\nhost: api.example:443\r\n\r\n",
    b"GET /echo HTTP/1.1\r\nhost: api.example\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
])
def test_tunnels_are_refused(pair, head):
    got = read_until(raw(pair, head), b"\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 501"), got


@pytest.mark.parametrize("head", [
    b"POST /smuggled HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /smuggled HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    b"POST /smuggled HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"GET /smuggled HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    b"GET /smuggled HTTP/1.1\r\nhost: a\r\nx: 1\r\n y: 2\r\n\r\n",
    b"GET /smuggled HTTP/1.1\nhost: a\n\n",
])
def test_what_two_readers_could_read_in_two_ways_is_refused(pair, head):
    got = read_until(raw(pair, head), b"\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 4") or got.startswith(b"HTTP/1.1 5"), got
    assert pair.origin.count("/smuggled") == 0


def test_nothing_of_a_request_or_answer_is_seen_in_between(pair):
    ask(pair.port, "POST", f"/echo/{CANARY}?q={CANARY}", CANARY.encode() * 50,
        {"cookie": f"c={CANARY}", f"x-{CANARY}": "1", "authorization": f"Bearer {CANARY}"}, host=f"{CANARY}.example")
    ask(pair.port, path="/status/418")
    up, down = pair.middle.bytes()
    assert len(up) > 5_000 and len(down) > 5_000
    for seen in (up.lower(), down.lower()):
        for text in (CANARY, "set-cookie", "x-method", "api.example", "as asked", "http/1.1 418"):
            assert text.encode() not in seen, text
    assert b"POST /.well-known/shr/1 HTTP/1.1\r\n" in up


def test_a_replayed_message_is_not_executed_again(pair):
    body = b"once"
    before = len(pair.middle.bytes()[0])
    ask(pair.port, "POST", "/once", body)
    up = pair.middle.bytes()[0][before:]
    start = up.rindex(b"POST /.well-known/shr/1")
    message = up[start:]
    with socket.create_connection(("127.0.0.1", pair.inbound.port("inbound")), WAIT_S) as stream:
        stream.sendall(message)
        got = stream.recv(65536)
    assert got.startswith(b"HTTP/1.1 200"), got  # A sealed refusal looks like any other answer.
    assert pair.origin.count("/once") == 1


def test_an_inbound_answers_nothing_but_sealed_messages(pair):
    port = pair.inbound.port("inbound")
    for method, path in (("GET", "/echo"), ("POST", "/echo"), ("GET", "/"), ("POST", "/.well-known/shr/1")):
        status, _, _ = ask(port, method, path, b"plain" if method == "POST" else None)
        assert 400 <= status < 500, (method, path, status)
    assert all(seen[1] != "/" for seen in pair.origin.seen)


# Who may.


def test_another_key_than_the_pinned_one_is_refused(pair, tmp_path):
    other = keygen(tmp_path, "other")
    for name in ("outbound.key", "outbound.key.pub"):
        shutil.copy(pair.folder / name, tmp_path / name)
    arguments = ["relay", "outbound", "--listen", "127.0.0.1:0", "--key", "outbound.key", "--peer", other["pin"],
                 "--to", f"http://127.0.0.1:{pair.inbound.port('inbound')}"]
    with Process(tmp_path, *arguments) as outbound:
        status, _, _ = ask(outbound.port("outbound"), "POST", "/pinned", b"secret")
        assert status in (502, 503)
    assert pair.origin.count("/pinned") == 0


def test_an_outbound_that_is_not_allowed_is_refused(pair, tmp_path):
    keygen(tmp_path, "stranger")
    arguments = ["relay", "outbound", "--listen", "127.0.0.1:0", "--key", "stranger.key", "--peer",
                 pair.keys["inbound"]["pin"], "--to", f"http://127.0.0.1:{pair.inbound.port('inbound')}"]
    with Process(tmp_path, *arguments) as outbound:
        status, _, _ = ask(outbound.port("outbound"), "GET", "/stranger")
        assert status in (502, 503)
        until(lambda: "handshakes were refused" in pair.inbound.logs.text(), "the operator is told")
    assert pair.origin.count("/stranger") == 0


@pytest.mark.parametrize("suite", ["chacha20-poly1305", "aes-256-gcm-siv"])
def test_other_suites_a_pin_a_psk_a_token_and_padding(tmp_path, suite):
    weir(tmp_path, "relay", "keygen", "--psk", "pair.psk")
    (tmp_path / "token").write_text("0123456789abcdef0123456789abcdef\n")
    both = ["--psk", "pair.psk", "--join-token", "token", "--padding"]
    weir(tmp_path, "relay", "keygen", "--tickets", "tickets")
    with Pair(tmp_path, inbound=[*both, "--ticket-keys", "tickets"], outbound=[*both, "--suite", suite]) as pair:
        for size in (0, 10, 70_000):
            assert ask(pair.port, "POST", "/echo", b"p" * size)[2] == (b"p" * size or b"nothing")


def test_a_psk_on_one_side_only_is_refused(tmp_path):
    origin = Origin()
    keygen(tmp_path, "inbound"), keygen(tmp_path, "outbound")
    weir(tmp_path, "relay", "keygen", "--psk", "pair.psk")
    with Process(tmp_path, "relay", "inbound", "--listen", "127.0.0.1:0", "--key", "inbound.key", "--origin",
                 origin.url, "--allow", "outbound.key.pub", "--status", "127.0.0.1:0") as inbound:
        until(lambda: inbound.get("/health")[0] == 200, "ready")
        with Process(tmp_path, "relay", "outbound", "--listen", "127.0.0.1:0", "--key", "outbound.key", "--peer",
                     "inbound.key.pub", "--psk", "pair.psk", "--to",
                     f"http://127.0.0.1:{inbound.port('inbound')}") as outbound:
            assert ask(outbound.port("outbound"))[0] in (502, 503)
    assert origin.seen == []
    origin.stop()


# What happens when something ends.


def test_an_inbound_that_was_restarted(tmp_path):
    origin, port = Origin(), free_port()
    keygen(tmp_path, "inbound"), keygen(tmp_path, "outbound")
    arguments = ["relay", "inbound", "--listen", f"127.0.0.1:{port}", "--key", "inbound.key", "--origin", origin.url,
                 "--allow", "app=outbound.key.pub"]
    inbound = Process(tmp_path, *arguments).start()
    with Process(tmp_path, "relay", "outbound", "--listen", "127.0.0.1:0", "--key", "outbound.key", "--peer",
                 "inbound.key.pub", "--to", f"http://127.0.0.1:{port}") as outbound:
        settled(outbound.port("outbound"))
        inbound.kill()
        inbound = Process(tmp_path, *arguments).start()
        # The session's ticket cannot be opened any more: a new handshake, and no failed GET but for the first seconds.
        settled(outbound.port("outbound"), "/after")
        assert ask(outbound.port("outbound"), "POST", "/echo", b"again")[2] == b"again"
        inbound.stop()
        status, _, _ = ask(outbound.port("outbound"), "POST", "/lost", b"x")
        assert status in (502, 503) and origin.count("/lost") == 0
    origin.stop()


@pytest.mark.parametrize("side", ["outbound", "inbound"])
def test_a_drain_lets_what_is_in_flight_end(tmp_path, side):
    with Pair(tmp_path) as pair:
        got = []
        threads = [threading.Thread(target=lambda n=n: got.append(ask(pair.port, "POST", "/hold", b"%d" % n)))
                   for n in range(6)]
        for thread in threads:
            thread.start()
        until(lambda: pair.origin.held == 6, "six requests at the origin")
        process = getattr(pair, side)
        process.process.terminate()
        until(lambda: "draining" in process.logs.text(), "it drains")
        for _ in threads:
            pair.origin.gate.release()
        for thread in threads:
            thread.join(WAIT_S)
        assert sorted(data for _, _, data in got) == [b"released %d" % n for n in range(6)]
        assert all(status == 200 for status, _, _ in got)


# What can be looked at.


def test_health_metrics_and_records(tmp_path):
    with Pair(tmp_path) as pair:
        for i in range(10):
            ask(pair.port, "POST", "/echo", b"%d" % i)
        for side, process in (("outbound", pair.outbound), ("inbound", pair.inbound)):
            status, text = process.get("/health")
            assert status == 200 and json.loads(text)["relay"] == {side: "ready"}, text
            page = process.get("/metrics")[1]
            values = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
                      for line in page.splitlines() if line and not line.startswith("#")}
            assert values[f'weir_relay_events_total{{side="{side}",event="passages"}}'] >= 10
            assert values[f'weir_relay_bytes_total{{side="{side}",way="sealed"}}'] > 0
            assert values[f'weir_relay_ready{{side="{side}"}}'] == 1
    for side, agent, server in (("outbound", "local", "peer"), ("inbound", "app", "origin")):
        weir(tmp_path, "audit", "verify", f"state-home/weir/relay/{side}")
        text = json.dumps(pair.records(side))
        assert "relay:pass" in text and agent in text and server in text
        # What was sealed is nobody's, the log's neither.
        assert "/echo" not in text and "api.example" not in text


def test_an_inbound_says_when_it_is_ready(tmp_path):
    origin = Origin()
    keygen(tmp_path, "inbound"), keygen(tmp_path, "outbound")
    with Process(tmp_path, "relay", "inbound", "--listen", "127.0.0.1:0", "--key", "inbound.key", "--origin",
                 origin.url, "--allow", "outbound.key.pub", "--status", "127.0.0.1:0") as inbound:
        with Process(tmp_path, "relay", "outbound", "--listen", "127.0.0.1:0", "--key", "outbound.key", "--peer",
                     "inbound.key.pub", "--to", f"http://127.0.0.1:{inbound.port('inbound')}") as outbound:
            until(lambda: inbound.get("/health")[0] == 200, "ready")
            # From now on: what one waits for is what the other takes.
            assert ask(outbound.port("outbound"), "POST", "/ready", b"x")[0] == 200
    assert origin.count("/ready") == 1
    origin.stop()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("api.example", timeout=WAIT_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WAIT_S)
        self.sock.connect(str(self.path))


def test_a_unix_socket_is_for_this_user_alone(pair, tmp_path):
    for name in ("outbound.key", "inbound.key.pub"):
        shutil.copy(pair.folder / name, tmp_path / name)
    path = tmp_path / "relay.sock"
    arguments = ["relay", "outbound", "--listen", f"unix:{path}", "--key", "outbound.key", "--peer",
                 "inbound.key.pub", "--to", f"http://127.0.0.1:{pair.inbound.port('inbound')}"]
    with Process(tmp_path, *arguments):
        assert path.stat().st_mode & 0o777 == 0o600
        connection = UnixConnection(path)
        for i in range(3):
            connection.request("POST", "/echo", b"by a socket %d" % i)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"by a socket %d" % i)
        connection.close()
