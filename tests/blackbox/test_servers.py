"""Servers that misbehave, and clients that vanish: each ends in bounded time and memory, with a clear error.

Both kinds of server are tried: a child on standard input and output, and one over HTTP.
"""

import http.client
import json
import socket
import time
from pathlib import Path

import pytest

from gateway import Gateway, Origin, child_server, until

ANSWER_MS = 2000
# Generous: a call waits at most for answer_ms; the rest is a slow machine.
CALL_S_MAX = 15
# The gateway idles at about 9 MB here. One answer may take 8 MiB, a few times over.
PEAK_KB_MAX = 64 << 10

LIMITS = {"answer_ms": ANSWER_MS}


@pytest.fixture(scope="module", params=["child", "web"])
def ground(request, tmp_path_factory):
    """A gateway and a way to a server of either kind; the web server may be ended and is begun again."""
    origin = Origin()
    servers = {"web": {"url": origin.url}, "child": child_server()}
    with Gateway(tmp_path_factory.mktemp(request.param), servers, limits=LIMITS) as gateway:
        yield gateway, request.param, origin
        gateway.verify()
        assert gateway.rss_peak_kb() < PEAK_KB_MAX, f"{gateway.rss_peak_kb()} kB"
    origin.stop()


def outcome(gateway, call):
    """The outcome of a call, once it is recorded."""
    def find():
        return [r for r in gateway.records() if r.get("call") == call and r.get("kind") == "outcome"]
    return until(find, f"an outcome of {call}")[0]


def last_call(gateway, tool):
    calls = [r["call"] for r in gateway.records() if r.get("kind") == "judgement" and r.get("tool") == tool]
    assert calls, f"no judgement of {tool}"
    return calls[-1]


EXPECTED = {
    "die": {"mcp.server_down"},
    "cut": {"mcp.server_down", "mcp.answer_invalid"},
    # A line that is not JSON is no answer to any call of a child; the call ends with its time.
    "garbage": {"mcp.answer_invalid", "mcp.server_slow", "mcp.server_down"},
    "never": {"mcp.server_slow"},
    "huge": {"mcp.answer_too_large"},
}


@pytest.mark.parametrize("tool", sorted(EXPECTED))
def test_a_call_of_a_bad_server_ends(ground, tool):
    gateway, kind, origin = ground
    if kind == "web" and tool == "die":
        return  # It dies for good, and has a test of its own below.
    session = gateway.session(kind)
    before = time.monotonic()
    answer = session.call(tool)
    assert time.monotonic() - before < CALL_S_MAX
    code, text, call = answer.refusal()
    assert code in EXPECTED[tool], (answer.status, answer.body[:500])
    assert call and len(text) > 20, answer.body
    ended = outcome(gateway, call)
    assert ended["end"] in ("failed", "cut", "refused"), ended
    # The next session works: nothing stays broken.
    assert b"after" in gateway.session(kind).call("echo", "after").body


def test_a_web_server_that_dies(tmp_path):
    origin = Origin()
    with Gateway(tmp_path, {"web": {"url": origin.url}}, limits=LIMITS) as gateway:
        answer = gateway.session("web").call("die")
        assert answer.refusal()[0] == "mcp.server_down", answer.body
        origin.process.wait(10)
        again = Origin(origin.port)
        try:
            assert b"back" in gateway.session("web").call("echo", "back").body
        finally:
            again.stop()
            origin.process.stdout.close()


def test_a_flood_ends(ground):
    gateway, kind, _ = ground
    session = gateway.session(kind)
    before = time.monotonic()
    try:
        size = len(session.call("flood").body)
    except (OSError, http.client.HTTPException) as cut:
        # The stream was cut in its middle, which a client sees as a broken body.
        size = len(getattr(cut, "partial", b""))
    # It ends; most of the time is this process's own, which reads it all.
    assert time.monotonic() - before < 180
    assert size < 400 << 20
    call = last_call(gateway, "flood")
    assert outcome(gateway, call)["end"] in ("failed", "cut", "complete", "refused")
    assert b"after" in gateway.session(kind).call("echo", "after").body
    assert gateway.rss_peak_kb() < PEAK_KB_MAX


def test_a_client_that_vanishes(ground):
    gateway, kind, origin = ground
    session = gateway.session(kind)
    body = json.dumps({"jsonrpc": "2.0", "id": 99, "method": "tools/call",
                       "params": {"name": "stream", "arguments": {}, "_meta": {"progressToken": "p"}}})
    headers = gateway.headers("dev", **session.extra)
    lines = [f"POST /mcp/{kind} HTTP/1.1", f"host: 127.0.0.1:{gateway.port}", f"content-length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    connection = socket.create_connection(("127.0.0.1", gateway.port), 30)
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body.encode())
    seen = b""
    while b"notifications/progress" not in seen:
        piece = connection.recv(65536)
        assert piece, seen
        seen += piece
    connection.close()
    call = last_call(gateway, "stream")
    assert outcome(gateway, call)["end"] == "cut"
    if kind == "web":
        until(lambda: origin.seen().get("gone stream"), "the server learns that its client has gone")
    assert b"after" in gateway.session(kind).call("echo", "after").body


def test_a_poisoned_description_is_found(ground):
    gateway, kind, _ = ground
    gateway.session(kind).ask("tools/list", {})
    def found():
        findings = [f for r in gateway.records() for f in r.get("findings", [])]
        return [f for f in findings if "tools" in f["path"]]
    assert until(found, "a finding in a tool's description")


def test_what_a_child_says_on_stderr_is_logged(ground):
    gateway, kind, _ = ground
    if kind == "child":
        gateway.session("child")
        until(lambda: "misbehaving server started" in gateway.logs.text(), "the child's standard error in the log")


def test_children_end_with_the_gateway(tmp_path):
    gateway = Gateway(tmp_path, {"child": child_server()}).start()
    for _ in range(3):
        gateway.session("child")
    children = children_of(gateway.process.pid)
    assert len(children) >= 3
    gateway.stop()
    until(lambda: not any(alive(pid) for pid in children), "the children end")


def children_of(pid):
    pids = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        pids += map(int, (task / "children").read_text().split())
    return pids


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
