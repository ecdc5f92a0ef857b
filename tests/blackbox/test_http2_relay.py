"""HTTP/2 on each side of the relay: applications to the outbound, outbound to inbound, inbound to origin; gRPC with its trailers."""

import json
import shutil
import subprocess
import threading
from concurrent import futures

import grpc
import pytest
from gateway import until
from http2 import END_HEADERS, Frames, curl
from relay import Origin, Process, Middle, ask, keygen, settled, weir
from test_relay_config import write
from test_relay_mutual import Authority, client, server, shown

H2LOAD = shutil.which("h2load")
PREFACE = b"PRI * HTTP/2.0"


class Counted:
    """An origin that speaks gRPC, and nothing else."""

    def __init__(self):
        self.cut = threading.Event()
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        unary, stream, both = (grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler,
                               grpc.stream_stream_rpc_method_handler)
        up = grpc.stream_unary_rpc_method_handler
        handlers = {"Say": unary(self.say), "Count": stream(self.count), "Both": both(self.both), "Sum": up(self.sum),
                    "Fail": unary(self.fail), "Wait": unary(self.wait)}
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self.url = f"http://127.0.0.1:{self.port}"

    def say(self, request, context):
        context.send_initial_metadata((("x-first", "1"),))
        context.set_trailing_metadata((("x-last", "2"), ("x-bytes-bin", b"\x00\xff")))
        return request + b" back " + dict(context.invocation_metadata()).get("x-asked", "").encode()

    def count(self, request, _):
        yield from (b"%d" % i for i in range(int(request)))

    def both(self, requests, _):
        for request in requests:
            yield b"got " + request

    def sum(self, requests, _):
        return b"%d" % sum(len(request) for request in requests)

    def fail(self, _, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now")

    def wait(self, _, context):
        context.add_callback(self.cut.set)
        self.cut.wait(20)
        return b""

    def stop(self):
        self.server.stop(0)


class Pair:
    """Two weirs that speak HTTP/2 to each other and to the origins."""

    def __init__(self, folder, http2=True):
        self.origin, self.grpc = Origin(), Counted()
        self.near, self.far = folder / "near", folder / "far"
        write(self.far, {}), write(self.near, {})
        keygen(self.far, "inbound"), keygen(self.near, "outbound")
        write(self.far, {"relay": {"inbound": {
            "listen": "127.0.0.1:0", "keys": "file:inbound.key",
            "origins": {"api": {"url": self.origin.url}, "rpc": {"url": self.grpc.url, "http2": True}},
            "routes": [{"path": "/test.Echo", "origin": "rpc"}, {"origin": "api"}],
            "allow": {"app": {"key": f"file:{self.near}/outbound.key.pub"}}}}})
        self.inbound = Process(self.far, "serve").start()
        self.middle = Middle(self.inbound.port("inbound"))
        write(self.near, {"relay": {"outbound": {
            "listen": "127.0.0.1:0", "key": "file:outbound.key", "anyone": "dev",
            "peers": {"far": {"url": f"http://127.0.0.1:{self.middle.port}", "http2": http2,
                              "keys": f"file:{self.far}/inbound.key.pub"}}}}})
        self.outbound = Process(self.near, "serve").start()
        self.port = self.outbound.port("outbound")
        settled(self.port)

    def stop(self):
        self.outbound.stop()
        self.inbound.stop()
        self.middle.stop()
        self.grpc.stop()
        self.origin.stop()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    running = Pair(tmp_path_factory.mktemp("http2-relay"))
    yield running
    running.stop()
    for folder in (running.near, running.far):
        weir(folder, "audit", "verify", "state")


def asked(pair, flag, path, *more, data=None):
    arguments = ["-H", "host: api.example", *more] + (["--data-binary", "@-"] if data is not None else [])
    return curl(flag, *arguments, f"http://127.0.0.1:{pair.port}{path}", data=data)


def test_a_request_is_the_same_by_both(pair):
    for path, more, data in (("/echo", (), None), ("/echo", (), b"x" * 300_000), ("/echo?q=1", ("-X", "PUT"), b""),
                             ("/status/204", (), None), ("/status/304", (), None), ("/status/418", (), None),
                             ("/echo", ("-I",), None), ("/trailers", (), None), ("/hints", (), None),
                             ("/echo", ("-X", "DELETE"), None), ("/echo", ("-H", "cookie: a=1; b=2"), None)):
        one, two = (asked(pair, flag, path, *more, data=data) for flag in ("--http1.1", "--http2-prior-knowledge"))
        assert (one[0], two[0]) == ("1.1", "2"), path
        keep = lambda fields: sorted(f for f in fields if f[0] not in ("date", "connection", "transfer-encoding", "x-sum", "link"))
        assert (one[1], keep(one[2]), one[3]) == (two[1], keep(two[2]), two[3]), path
    assert PREFACE in pair.middle.bytes()[0], "the two weirs speak HTTP/2"
    assert b"cookie" not in pair.middle.bytes()[0]


def test_an_answer_that_is_cut_does_not_end(pair):
    connection = Frames(pair.port)
    fields = [(":method", "GET"), (":scheme", "http"), (":authority", "api.example"), (":path", "/cut")]
    connection.headers(1, fields)
    # Where nothing of it went on yet, the relay says so.
    got = connection.answer(1)
    assert got[0] == "reset" or got[0][":status"] == "502", got
    # The same connection goes on.
    connection.headers(3, [*fields[:3], (":path", "/echo")])
    assert connection.answer(3)[1] == b"nothing"
    connection.close()


def test_trailers_come_behind_the_body(pair):
    connection = Frames(pair.port)
    connection.headers(1, [(":method", "GET"), (":scheme", "http"), (":authority", "api.example"), (":path", "/trailers")])
    fields, body, trailers = connection.answer(1)
    assert (fields[":status"], body, trailers) == ("200", b"hello world", {"x-sum": "42"})
    connection.close()


def test_what_the_relay_refuses(pair):
    connection = Frames(pair.port)
    base = [(":method", "GET"), (":scheme", "http"), (":authority", "api.example"), (":path", "/echo")]
    connection.headers(1, [(":method", "CONNECT"), (":authority", "api.example:443")], END_HEADERS)
    assert connection.answer(1)[0][":status"] == "501"
    connection.headers(3, [*base, ("host", "other.example")])
    assert connection.answer(3)[0][":status"] == "400"
    connection.close()


def channel(pair):
    return grpc.insecure_channel(f"127.0.0.1:{pair.port}", options=[("grpc.enable_http_proxy", 0)])


def test_grpc_through_the_pair(pair):
    with channel(pair) as near:
        call = near.unary_unary("/test.Echo/Say")
        answer, told = call.with_call(b"hello", metadata=(("x-asked", "please"),), timeout=20)
        assert answer == b"hello back please"
        assert dict(told.initial_metadata())["x-first"] == "1"
        trailing = dict(told.trailing_metadata())
        assert (trailing["x-last"], trailing["x-bytes-bin"]) == ("2", b"\x00\xff")
        assert call(b"y" * 1_000_000, timeout=20)[:3] == b"yyy"
        counted = list(near.unary_stream("/test.Echo/Count")(b"500", timeout=20))
        assert counted == [b"%d" % i for i in range(500)]
        assert near.stream_unary("/test.Echo/Sum")(iter([b"x" * 1000] * 300), timeout=20) == b"300000"
        with pytest.raises(grpc.RpcError) as failed:
            near.unary_unary("/test.Echo/Fail")(b"", timeout=20)
        assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "not now")
        with pytest.raises(grpc.RpcError) as unknown:
            near.unary_unary("/test.Echo/None")(b"", timeout=20)
        assert unknown.value.code() == grpc.StatusCode.UNIMPLEMENTED
        many = [call.future(b"%d" % i, timeout=20) for i in range(200)]
        assert [one.result() for one in many] == [b"%d back " % i for i in range(200)]


def test_grpc_that_speaks_both_ways_at_once(pair):
    """Each message is sent when the one before was answered."""
    with channel(pair) as near:
        ready, messages = threading.Semaphore(1), [b"one", b"two", b"three"]

        def ask():
            for message in messages:
                assert ready.acquire(timeout=20)
                yield message

        got = []
        for answer in near.stream_stream("/test.Echo/Both")(ask(), timeout=20):
            got.append(answer)
            ready.release()
        assert got == [b"got " + message for message in messages]


def test_grpc_that_is_given_up_is_cut_at_the_origin(pair):
    with channel(pair) as near:
        waiting = near.unary_unary("/test.Echo/Wait").future(b"", timeout=20)
        with pytest.raises(grpc.FutureTimeoutError):
            waiting.result(timeout=0.5)
        waiting.cancel()
        until(pair.grpc.cut.is_set, "the origin sees that nobody waits")


def test_load_without_an_error(pair):
    if not H2LOAD:
        pytest.skip("h2load is not installed")
    done = subprocess.run([H2LOAD, "-n", "3000", "-c", "4", "-m", "16", "-H", ":authority: api.example",
                           f"http://127.0.0.1:{pair.port}/echo"], capture_output=True, text=True, timeout=120)
    assert "3000 succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout, done.stdout


def test_http2_by_mtls(tmp_path):
    origin, authority = Origin(), Authority()
    near, far = tmp_path / "near", tmp_path / "far"
    for place in (near, far):
        place.mkdir()
        (place / "ca.pem").write_bytes(authority.pem)
    server(authority, far, "far", "127.0.0.1", "localhost")
    client(authority, near, "app", "app.example")
    side = {"listen": "127.0.0.1:0", "transport": "mtls", "certificate": "file:far.crt", "certificate_key": "file:far.pem",
            "ca": "file:ca.pem", "origins": {"api": {"url": origin.url}}, "allow": {"app": {"certificate_name": "app.example"}}}
    for is_on in (True, False):
        write(far, {"relay": {"inbound": {**side, "http2": is_on}}})
        with Process(far, "serve") as inbound:
            at = f"https://127.0.0.1:{inbound.port('inbound')}"
            own = ("--http2", "--cacert", far / "ca.pem", *shown(near, "app"), "-H", "host: api.example")
            got = curl(*own, "--data-binary", "@-", f"{at}/echo", data=b"by mtls")
            assert got[:2] == ("2" if is_on else "1.1", 200) and got[3] == b"by mtls"
            peer = {"url": at, "transport": "mtls", "certificate": "file:app.crt", "certificate_key": "file:app.pem",
                    "ca": "file:ca.pem", "http2": True}
            write(near, {"relay": {"outbound": {"listen": "127.0.0.1:0", "anyone": "dev", "peers": {"far": peer}}}})
            with Process(near, "serve") as outbound:
                settled(outbound.port("outbound"))
                assert ask(outbound.port("outbound"), "POST", "/echo", b"both")[2] == b"both"
    origin.stop()
